// Package driver is what the client sides of all systems that deliver events over
// MCP have in common. A [Driver] subscribes as a client would, receives what the
// target delivers, and reports everything that it sees to an
// [eventmeter.Recorder].
//
// A Driver serves one lane: a group of identical subscribers. Lanes share an
// [mcpclient.Endpoint], which knows where the target is, who calls it and which
// protocol era was negotiated. Each system has a package of its own below this
// one; package systems knows them all.
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
package driver
