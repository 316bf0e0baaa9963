// Package driver is the client side of the systems that deliver events over
// MCP: it subscribes as a client would, receives what the target delivers, and
// tells a [eventmeter.Recorder] everything that it sees.
//
// A [Driver] serves one lane, that is one group of equal subscriptions. Lanes
// share an [Endpoint], which knows where the target is, who calls it and which
// protocol era was negotiated.
//
// # What is counted
//
// Every HTTP exchange with the target is one [eventmeter.Call]. Up and Down hold
// message bodies and HTTP header fields in their HTTP/1.1 spelling (header
// compression, TLS records and TCP are not seen); [Meter] gives the bytes that
// really passed the sockets of a lane. The Down of a call with cause Events
// includes the events that it carried, which are also in the Bytes of their
// deliveries; events on an open stream belong to no call. Connections that a
// lane opened are charged to the lane's next call.
//
// # Eras and revisions
//
// The modern era (2026-07-28) has no sessions: each request says who it is.
// The legacy era (2025-03-26 to 2025-11-25) has one session per principal here,
// made on first use and ended by [Endpoint.Close]. A revision is a spelling of
// the MCP Events draft; what is sent follows it, and every spelling is read.
package driver
