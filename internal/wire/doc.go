// Package wire holds what the hot paths read and write as bytes: Server-Sent
// Events, JSON-RPC messages, webhook signatures, and counted connections.
//
// Nothing in here knows what the messages mean; it imports nothing of ours.
package wire
