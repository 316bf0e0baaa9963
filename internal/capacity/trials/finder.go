package trials

import (
	"context"

	"github.com/eventmeter/eventmeter/internal/capacity"
	"github.com/eventmeter/eventmeter/internal/embedded"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/metrics"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
)

// Options are the options of a search. Profile must have a capacity section.
type Options struct {
	// Options apply to every step. Record is not used.
	run.Options
	// Source is the built-in profile or the file that Profile was read from.
	Source string
	// Archive, if not nil, writes the archive of a step; dir is relative to that of
	// the search.
	Archive func(dir string, o *run.Outcome) error
	// Checkpoint, if not nil, is called after every step with the search so far,
	// which is partial. An error becomes a warning.
	Checkpoint func(*results.Capacity) error
	// OnStep, if not nil, is called after every step.
	OnStep func(results.CapacityStep)
}

// The purposes and the verdicts of steps, as in the result.
const (
	purposeBracket = "bracket"
	purposeBisect  = "bisect"
	purposeConfirm = "confirm"
	purposeRetry   = "retry"
	purposeRecover = "recover"
	purposeIdle    = "idle"
	purposeCost    = "cost"

	verdictPassed  = string(capacity.Passed)
	verdictFailed  = string(capacity.Failed)
	verdictUnclear = string(capacity.Unclear)
	verdictAside   = "aside"
)

// finder is a search in progress.
type finder struct {
	opts   Options
	p      *profiles.Profile
	search *capacity.Search
	keep   *embedded.Keep
	bounds []results.MetricBound
	higher error        // why the search tries no higher load than its highest
	held   []*costSteps // of each lane
	failed error        // why a step of the cost sheet ended the search
	out    *results.Capacity
	shown  *metrics.Search // nil without metrics
	// secrets are hidden in each step before the step is shown; nil = there are none.
	secrets *errtext.Secrets

	checkpointFailed bool
	idleTarget       bool // what was taken for the target was idle in a step, so no step knows what it uses
	// run is [run.Run], except in tests.
	run func(context.Context, run.Options) (*run.Outcome, error)
}

// stepPlan describes the next step.
type stepPlan struct {
	load    float64
	purpose string
	lane    string // the only lane; "" = all
	idle    bool   // nothing is fired, for capacity.idle
	held    int    // subscriptions of the lane; 0 = as the load has
}
