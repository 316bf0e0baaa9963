// Package mcpclient is an MCP client for load tests, below all systems that
// deliver events: the target as an [Endpoint], sessions, calls and their errors,
// lists and tools. It speaks HTTP and, to a program, standard input and output.
//
// # Eras
//
// The modern era (2026-07-28) has no sessions: each request identifies its client.
// In the legacy era (2025-03-26 to 2025-11-25) each principal has one session, which
// is opened on first use and ended by [Endpoint.Close].
//
// A [Revision] is a spelling of the MCP Events draft. Messages are sent in the
// revision of the endpoint, and accepted in every revision.
package mcpclient
