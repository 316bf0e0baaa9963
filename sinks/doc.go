// Package sinks has the instrumented receivers, one per transport and independent of
// protocols: an event stream, a poll loop and a webhook listener. They record to the
// ledger, which keeps account of who was owed which emission and what came of it.
package sinks
