// Package target is the embedded reference server: an MCP server that delivers
// events by poll, push and webhook as the MCP Events draft describes, so that
// the toolkit can be run, tested and calibrated against something whose every
// event is known.
//
// It is met as any server is met: over real HTTP/1.1, HTTP/2 and TLS, with
// bearer tokens and signed callbacks. It shares no protocol code with the
// client side of the toolkit, so that a mistake made on one side cannot cancel
// out on the other.
//
// # Parts
//
// The broker (topics, bounded buffers, cursors, fan-out) knows nothing of HTTP.
// The face (HTTP, JSON-RPC, both protocol eras) stands in front of the official
// Go SDK's handler: it answers events/* itself and hands everything else on.
// The deliverer posts signed webhooks. The admin listener, on a port of its
// own, injects events and shows counters.
//
// # Event types
//
//	chat.message  arguments {channel?}  data {channel, text, …}
//	ticket.moved  arguments {board?}    data {board, …}
//	tick          no arguments          data of any shape
//
// An argument that is given filters: an event matches when its data holds the
// same string under the same name.
package refserver
