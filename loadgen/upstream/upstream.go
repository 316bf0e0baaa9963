// Package upstream publishes emissions. It takes the place of the system that causes
// events behind a target. Each kind is a file: [Inject] posts to the reference
// server; [HTTP] sends any request; [GitHub], [Slack] and [Stripe] send the
// webhooks of those products; [Feed] is polled by the target; [Tool] calls one of
// its tools; [Exec] runs a program; [Replay] publishes a recorded trace; and [None]
// publishes nothing.
package upstream

import (
	"context"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/eventmeter/eventmeter"
)

// Emission is one event that is being published.
type Emission = eventmeter.Emission

// Payload appends the payload of an emission, a JSON object without line breaks that holds the
// probe, to dst and returns it. Many goroutines call it at once.
type Payload func(dst []byte, source int, seq uint32, probe string) []byte

func (p Payload) append(dst []byte, e Emission) []byte {
	return p(dst, int(e.Source), e.Seq, e.Stamp.String())
}

// Text returns the text of an emission that holds the probe. Many goroutines call it at once.
type Text func(source int, seq uint32, probe string) string

func (t Text) of(e Emission) string { return t(int(e.Source), e.Seq, e.Stamp.String()) }

// Upstream sends emissions. It is safe for concurrent use.
type Upstream interface {
	// Fire sends one emission and returns its outcome, within the upstream's
	// timeout. The caller records both.
	Fire(ctx context.Context, emission Emission) eventmeter.Outcome
	// Close releases what the upstream holds. No Fire may be in flight.
	Close() error
}

// Preparer is the optional ability of an Upstream to prepare the target before the
// first emission.
type Preparer interface {
	// Prepare is called once, before any Fire. An error means that the target would
	// accept no emission, and says what to change.
	Prepare(ctx context.Context) error
}

// Figurer is the optional ability of an Upstream to report figures besides outcomes.
type Figurer interface {
	// Figures may be called at any time; it returns a copy.
	Figures() Figures
}

// Recorded is the optional ability of an Upstream to return the content of an
// emission for a trace. Apart from times it equals what was sent.
type Recorded interface {
	// Content returns the name of the emission's event, which may be empty, and its
	// payload, a JSON object that the caller owns.
	Content(emission Emission) (event string, payload []byte)
}

// Sourcer is the optional ability of an Upstream to determine the source of each
// emission. Without it, emissions go to the sources in turn.
type Sourcer interface {
	// Source returns the source of emission n.
	Source(n uint64) uint16
	// Sources returns the number of sources.
	Sources() int
}

// Figures are an upstream's own figures, by camel-case names that its section
// in docs/upstreams.md defines, with their units.
type Figures struct {
	Values  map[string]float64
	Timings map[string]Timing
}

// Timing is a distribution of durations in nanoseconds, from 1 µs to 10 minutes
// with three significant digits. A value outside this range is recorded at its
// limit and counted in Below or Above.
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

// Explainer is the optional ability of an Upstream to explain why emissions were
// not accepted.
type Explainer interface {
	// Failures describes the first and the latest emission that was not accepted, in
	// one line each: the request and the response; "" = there is none. The text has
	// no user, password or query value of a URL. Failures may be called at any time.
	Failures() (first, latest string)
}

// Ender is the optional ability of an Upstream to end by itself.
type Ender interface {
	// Ended returns how the upstream ended, nil while it runs.
	Ended() error
}

// None publishes nothing: the upstream of a run that observes a target's own
// events.
type None struct{}

// Fire implements [Upstream]. It returns Refused: there is nothing to send to.
func (None) Fire(context.Context, Emission) eventmeter.Outcome { return eventmeter.Refused }

// Close implements [Upstream].
func (None) Close() error { return nil }
