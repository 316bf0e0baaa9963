package driver

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/internal/figure"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// Figurer is a Driver with figures of its own system, which the ledger does not have.
type Figurer interface {
	// Figures may be called at any time. What it returns does not change any more. The
	// distributions are shared with other callers: do not change them.
	Figures() Figures
}

// Figures are a system's own figures, by the names that its [figure.Table]
// declares.
type Figures struct {
	Values  map[string]float64
	Timings map[string]ledger.Timing
	Conform conform.Account // nil of most
}

// Tally collects the figures of a lane's own system. Most of them count rare events, so
// one lock is enough. The zero value is ready. It is safe for concurrent use.
type Tally struct {
	mu      sync.Mutex
	values  map[string]float64
	timings map[string]*timing
}

// timing is a distribution, and a copy of it for those that asked since a value was added: it has
// hundreds of kilobytes, and most are asked for more often than they change.
type timing struct {
	ledger.Timing
	shown ledger.Timing // no histogram: there is no copy
}

// The bounds of every timing, those of [ledger.Timing].
const (
	timingLeast = time.Microsecond
	TimingMost  = 10 * time.Minute
)

// Declare adds figures with the value 0, so that thresholds find them even if they are
// never counted.
func (t *Tally) Declare(values ...string) {
	for _, name := range values {
		t.Count(name, 0)
	}
}

// DeclareTiming adds empty distributions.
func (t *Tally) DeclareTiming(names ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range names {
		t.timing(name)
	}
}

// DeclareTable declares all figures of a table, except some.
func (t *Tally) DeclareTable(of *figure.Table, except ...string) {
	for _, f := range of.Figures {
		switch {
		case slices.Contains(except, f.Name):
		case f.Timing:
			t.DeclareTiming(f.Name)
		default:
			t.Declare(f.Name)
		}
	}
}

// Count adds n to a figure.
func (t *Tally) Count(name string, n float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.values == nil {
		t.values = map[string]float64{}
	}
	t.values[name] += n
}

// Took adds a duration to a distribution. One out of bounds is recorded at the bound and
// counted as Below or Above.
func (t *Tally) Took(name string, d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.timing(name)
	w.shown.Histogram = nil
	switch {
	case d < timingLeast:
		d = timingLeast
		w.Below++
	case d > TimingMost:
		d = TimingMost
		w.Above++
	}
	_ = w.Histogram.RecordValue(int64(d)) // within bounds
}

// timing returns a distribution, which it makes if needed. The caller holds the lock.
func (t *Tally) timing(name string) *timing {
	w := t.timings[name]
	if w == nil {
		w = &timing{Timing: ledger.Timing{Histogram: hdrhistogram.New(int64(timingLeast), int64(TimingMost), 3)}}
		if t.timings == nil {
			t.timings = map[string]*timing{}
		}
		t.timings[name] = w
	}
	return w
}

// Figures returns a copy of everything; see [Figurer] for the distributions.
func (t *Tally) Figures() Figures {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := Figures{Values: maps.Clone(t.values), Timings: make(map[string]ledger.Timing, len(t.timings))}
	for name, w := range t.timings {
		if w.shown.Histogram == nil {
			w.shown = ledger.Timing{Histogram: w.Histogram.Clone(), Below: w.Below, Above: w.Above}
		}
		f.Timings[name] = w.shown
	}
	return f
}
