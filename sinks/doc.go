// Package sinks holds the instrumented receivers, by transport and blind to
// protocols (an event stream, a poll loop, a webhook listener), and the ledger
// that they write to: who was owed which emission, and what came of it.
package sinks
