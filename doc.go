// Package eventmeter contains the types that all packages of the module share: a
// subscription ([Sub]), a published event ([Stamp], [Emission]), what a
// subscription received ([Delivery], [Notice]), its cost ([Call]), and the
// [Recorder] that records them.
//
// It contains types and interfaces only. Package loadgen decides when an event is
// published, loadgen/upstream publishes it, loadgen/driver subscribes to it, and
// package sinks receives it and keeps the ledger.
//
// # One clock
//
// Every instant in this package is an [Instant]: nanoseconds on the monotonic
// clock of one process. Instants of different processes are never compared,
// so no time ever travels in a payload; only a probe id does (see [Stamp]).
package eventmeter
