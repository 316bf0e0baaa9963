package run

import (
	"slices"

	"github.com/eventmeter/eventmeter/internal/figure"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/loadgen/upstream"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks"
)

// FigureTables declare every figure that only some lanes or upstreams have.
var FigureTables = slices.Concat(systems.FigureTables, upstream.FigureTables, figure.Tables{&sinks.ObservedFigures})

// findings warns of violations by the target that a lane's own figures show.
func (p *pass) findings(figures []results.PartFigures, warning func(code, lane, format string, args ...any)) {
	for i, f := range figures {
		if n := f.Values["anonymousAccepted"]; n > 0 {
			warning(
				"anonymous",
				p.lanes[i].Name,
				"the target accepted %.0f webhook subscriptions without a token, where it must answer Forbidden: it sends events to anybody who asks",
				n,
			)
		}
		if n := f.Values["stalled"]; n > 0 {
			warning(
				"stalled",
				p.lanes[i].Name,
				"%.0f streams stopped reading on purpose (events.stallFor), and %.0f deliveries waited for them: the lane's "+
					"latencies include these waits and do not measure the target's speed",
				n,
				f.Values["heldBack"],
			)
		}
	}
}
