package driver

import "github.com/eventmeter/eventmeter"

// Phased is a Driver that makes work of its own, beside what the upstream
// fires, and has to know the phases of the run. Its methods are called once
// each, in this order, after the lane was attached.
type Phased interface {
	// Begin says when the measured part begins and when firing stops. Work
	// that is over before measure enters no figure.
	Begin(measure, until eventmeter.Instant)
	// Drain has nothing new begun. What is under way goes on.
	Drain()
	// Pending is how much is under way. It may be called at any time.
	Pending() int64
}
