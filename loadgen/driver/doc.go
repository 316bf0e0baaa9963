// Package driver has the parts that are common to the clients of all systems that
// deliver events over MCP. A [Driver] subscribes as a client would, receives what the
// target delivers, and reports it to an [eventmeter.Recorder].
//
// A Driver serves one lane: a group of identical subscribers. Lanes share an
// [mcpclient.Endpoint], which has the target's address, the principals and the
// negotiated protocol era. Each system has a package below this one; package systems
// has the table of all.
//
// # What is counted
//
// Every HTTP exchange with the target is one [eventmeter.Call]. Up and Down are the
// bytes of message bodies and of HTTP header fields as text of HTTP/1.1, without header
// compression, TLS records and TCP; [Meter] returns the bytes at the sockets of a lane.
// The Down of a call with cause Events includes the events in the answer, which are also
// in the Bytes of their deliveries. Events on an open stream belong to no call.
// Connections that a lane opened are charged to the lane's next call.
package driver
