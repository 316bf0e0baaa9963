// Package loadgen decides when an emission is due ([Schedule]), publishes it then
// and not later ([Firing], [Loop]), and opens and churns subscriptions ([Attach],
// [Churn]).
//
// # Open loop
//
// The schedule is a pure function of the emission number. It does not depend on
// responses, so a slow target cannot slow the generator down: an emission for
// which no worker is free is dropped and counted, and the next one is published at
// its own time. Latency is measured from the scheduled time, so that it includes
// waiting inside the generator.
package loadgen
