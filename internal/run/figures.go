package run

import (
	"slices"

	"github.com/eventmeter/eventmeter/internal/figure"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/loadgen/upstream"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks"
)

// FigureTables declare every figure that only some lanes, or an upstream, have.
var FigureTables = slices.Concat(systems.FigureTables, upstream.FigureTables, figure.Tables{&sinks.ObservedFigures})

// findings warns of what the target must not do, where a lane's own figures say it.
func (p *pass) findings(figures []results.PartFigures, warning func(code, lane, format string, args ...any)) {
	for i, f := range figures {
		if n := f.Values["anonymousAccepted"]; n > 0 {
			warning("anonymous", p.lanes[i].Name, "the target accepted %.0f webhook subscriptions without a token, where Forbidden is due: it sends events to whoever asks", n)
		}
	}
}
