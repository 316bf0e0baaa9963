package driver

import (
	"maps"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/eventmeter/eventmeter/sinks"
)

// tally collects the figures that only a lane's own system has. Most of them
// are of rare happenings, so one lock serves all. It is safe for concurrent
// use.
type tally struct {
	mu      sync.Mutex
	values  map[string]float64
	timings map[string]*sinks.Timing
}

// The bounds of every timing, those of [sinks.Timing].
const (
	timingLeast = time.Microsecond
	timingMost  = 10 * time.Minute
)

// declare makes figures exist that may stay zero, so that thresholds find them.
func (t *tally) declare(values ...string) {
	for _, name := range values {
		t.count(name, 0)
	}
}

// declareTiming does the same for distributions.
func (t *tally) declareTiming(names ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range names {
		t.timing(name)
	}
}

// count adds n to a figure.
func (t *tally) count(name string, n float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.values == nil {
		t.values = map[string]float64{}
	}
	t.values[name] += n
}

// took adds a sample to a distribution.
func (t *tally) took(name string, d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.timing(name)
	switch {
	case d < timingLeast:
		d = timingLeast
		w.Below++
	case d > timingMost:
		d = timingMost
		w.Above++
	}
	_ = w.Histogram.RecordValue(int64(d)) // within bounds
}

// timing finds or makes a distribution; the caller holds the lock.
func (t *tally) timing(name string) *sinks.Timing {
	w := t.timings[name]
	if w == nil {
		w = &sinks.Timing{Histogram: hdrhistogram.New(int64(timingLeast), int64(timingMost), 3)}
		if t.timings == nil {
			t.timings = map[string]*sinks.Timing{}
		}
		t.timings[name] = w
	}
	return w
}

// figures returns a copy of everything.
func (t *tally) figures() Figures {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := Figures{Values: maps.Clone(t.values), Timings: make(map[string]sinks.Timing, len(t.timings))}
	for name, w := range t.timings {
		f.Timings[name] = sinks.Timing{Histogram: hdrhistogram.Import(w.Histogram.Export()), Below: w.Below, Above: w.Above}
	}
	return f
}
