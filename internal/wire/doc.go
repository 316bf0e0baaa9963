// Package wire reads and writes what the hot paths exchange: Server-Sent Events,
// JSON-RPC messages, webhook signatures, and counted connections. It does not
// interpret messages.
package wire
