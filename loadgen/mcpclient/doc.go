// Package mcpclient is an MCP client for load tests, below all systems that
// deliver events: the target as an [Endpoint], sessions, calls and their errors,
// lists and tools. It speaks HTTP and, to a program, standard input and output.
//
// # Eras
//
// The modern era (2026-07-28) has no sessions: each request says who it is.
// The legacy era (2025-03-26 to 2025-11-25) has one session per principal here,
// made on first use and ended by [Endpoint.Close]. A revision is a spelling of
// the MCP Events draft; what is sent follows it, and every spelling is read.
package mcpclient
