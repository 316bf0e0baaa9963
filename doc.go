// Package eventmeter holds the words that every room of the toolkit shares: who
// was meant ([Sub]), what was fired ([Stamp], [Emission]), what came
// ([Delivery], [Notice]), what it cost ([Call]), and the [Recorder] they are
// all told to.
//
// It contains types and contracts only. The work is done elsewhere: package
// loadgen decides when something is fired, loadgen/upstream fires it,
// loadgen/driver subscribes to it, and package sinks receives it and keeps
// the ledger.
//
// # One clock
//
// Every instant in this package is an [Instant]: nanoseconds on the monotonic
// clock of one process. Instants of different processes are never compared,
// so no time ever travels in a payload; only a probe id does (see [Stamp]).
package eventmeter
