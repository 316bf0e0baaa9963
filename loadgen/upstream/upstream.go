// Package upstream fires emissions: it is the fake of whatever makes events
// happen behind a target. Each kind is a file: [Inject] asks the reference
// target, [HTTP] sends any request; [GitHub], [Slack] and [Stripe] send those
// products' webhooks; [Feed] is polled by the target; [Tool] calls one of its
// tools; [Exec] leaves it to a program; [Replay] fires a recorded trace; and
// [None] fires nothing.
package upstream

import (
	"context"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/eventmeter/eventmeter"
)

// Emission is one event on its way to the target, as the Recorder gets it.
type Emission = eventmeter.Emission

// Upstream sends emissions. It is safe for concurrent use.
type Upstream interface {
	// Fire sends one emission and returns what became of it. The caller announced it
	// and resolves it. Fire ends by itself within the upstream's timeout.
	Fire(ctx context.Context, emission Emission) eventmeter.Outcome
	// Close gives back what the upstream holds. Nothing may be under way.
	Close() error
}

// Preparer is the ability of an Upstream that has something to settle with the
// target before the first emission.
type Preparer interface {
	// Prepare is called once, before any Fire. Its error says that firing would
	// be in vain, and what to change.
	Prepare(ctx context.Context) error
}

// Figurer is the ability of an Upstream to report figures besides outcomes.
type Figurer interface {
	// Figures may be called at any time; it returns a copy.
	Figures() Figures
}

// Recorded is the ability of an Upstream to say what an emission carries, for a
// trace. It must give the same answer as the emission had, apart from times.
type Recorded interface {
	// Content returns the name of the event that the emission stands for, which may
	// be empty, and its payload, a JSON object that the caller owns.
	Content(emission Emission) (event string, payload []byte)
}

// Sourcer is the ability of an Upstream to say which source each emission belongs
// to, where that is not round the sources in turn.
type Sourcer interface {
	// Source is the source of emission n; Sources is how many there must be.
	Source(n uint64) uint16
	Sources() int
}

// Figures are an upstream's own figures, by camel-case names that its section
// in docs/upstreams.md defines, with their units.
type Figures struct {
	Values  map[string]float64
	Timings map[string]Timing
}

// Timing is a distribution of durations in nanoseconds, from 1 µs to 10 minutes
// with three significant digits. What lies outside is in the Histogram at its
// bound, and counted in Below or Above.
type Timing struct {
	Histogram    *hdrhistogram.Histogram
	Below, Above int64
}

const (
	shortest = 1_000           // 1 µs
	longest  = 600_000_000_000 // 10 min
)

func newTiming() Timing { return Timing{Histogram: hdrhistogram.New(shortest, longest, 3)} }

// record adds one duration in nanoseconds. The caller holds whatever lock
// guards t.
func (t *Timing) record(ns int64) {
	switch {
	case ns < shortest:
		t.Below++
		ns = shortest
	case ns > longest:
		t.Above++
		ns = longest
	}
	_ = t.Histogram.RecordValue(ns) // in range now
}

func (t *Timing) copy() Timing {
	c := newTiming()
	c.Histogram.Merge(t.Histogram)
	c.Below, c.Above = t.Below, t.Above
	return c
}

// Explainer is the ability of an Upstream to say why emissions were not accepted.
type Explainer interface {
	// Failures returns the reasons of the first and of the latest emission that was
	// not accepted, each one line, "" if there was none: what was sent where,
	// and what came back. They hold no user, password or query value of a URL.
	// It may be called at any time.
	Failures() (first, latest string)
}

// Ender is the ability of an Upstream to end by itself.
type Ender interface {
	// Ended says how it ended, nil while it has not.
	Ended() error
}

// None fires nothing: the upstream of a run that looks at what comes anyway.
type None struct{}

// Fire implements [Upstream]. It is Refused: there is no target.
func (None) Fire(context.Context, Emission) eventmeter.Outcome { return eventmeter.Refused }

// Close implements [Upstream].
func (None) Close() error { return nil }
