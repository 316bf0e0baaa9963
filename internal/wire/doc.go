// Package wire has the formats of the hot paths: Server-Sent Events, lines,
// JSON-RPC messages, URI templates and webhook signatures. It also counts the bytes
// of connections, and opens listeners. It does not interpret messages.
package wire
