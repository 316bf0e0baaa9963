package run

import (
	"slices"

	"github.com/eventmeter/eventmeter/internal/figure"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/loadgen/upstream"
	"github.com/eventmeter/eventmeter/sinks"
)

// FigureTables declare every figure that only some lanes, or an upstream, have.
var FigureTables = slices.Concat(systems.FigureTables, upstream.FigureTables, figure.Tables{&sinks.ObservedFigures})
