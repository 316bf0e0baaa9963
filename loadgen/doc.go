// Package loadgen decides when something happens: when an emission is due
// ([Schedule]), that it is fired then and not later ([Firing], [Loop]), and how
// fast subscriptions come and go ([Attach], [Churn]).
//
// # Open loop
//
// The schedule is a pure function of the emission number. It knows nothing of
// answers, so a slow target cannot slow the generator down: an emission for which no
// worker is free is dropped and counted, and the next one is fired at its own
// time. Latency is later taken from the intended instant, so that waiting
// inside the generator is never mistaken for speed of the target.
package loadgen
