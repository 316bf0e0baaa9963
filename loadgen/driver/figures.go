package driver

import (
	"github.com/eventmeter/eventmeter/internal/figure"
	"github.com/eventmeter/eventmeter/sinks"
)

// Figurer is a Driver with figures of its own: what its system has and the
// common ledger does not know of.
type Figurer interface {
	// Figures may be called at any time; it returns a copy.
	Figures() Figures
}

// Figures are a system's own figures, by the names that its [figure.Table]
// declares.
type Figures struct {
	Values  map[string]float64
	Timings map[string]sinks.Timing
}

// FigureTables are the figures of all systems. A figure stands here and where it
// is counted: whoever merges, archives or shows figures asks the tables.
var FigureTables = figure.Tables{&eventsFigures, &sep1803Figures, &sep975Figures, &sep2549Figures}
