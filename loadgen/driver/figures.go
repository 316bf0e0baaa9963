package driver

import "github.com/eventmeter/eventmeter/sinks"

// Figurer is a Driver with figures of its own: what its system has and the
// common ledger does not know of.
type Figurer interface {
	// Figures may be called at any time; it returns a copy.
	Figures() Figures
}

// Figures are a system's own figures, by camel-case names that its page in
// docs/ defines, with their units.
type Figures struct {
	Values  map[string]float64
	Timings map[string]sinks.Timing
}
