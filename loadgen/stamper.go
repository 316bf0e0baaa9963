package loadgen

import (
	"sync"

	"github.com/eventmeter/eventmeter"
)

// Emission is one event that is being published.
type Emission = eventmeter.Emission

// maxSources is how many sources an [eventmeter.Stamp] can distinguish.
const maxSources = 1 << 16

// Stamper makes the stamps of a run. The sequence numbers and the Fired instants of
// each source increase together. A Stamper is safe for concurrent use. Several
// firings may use it one after the other: sequence numbers continue.
type Stamper struct {
	clock    *eventmeter.Clock
	recorder eventmeter.Recorder
	run      uint32
	sources  []source
	assign   func(n uint64) uint16 // nil = the sources in turn
}

type source struct {
	mu  sync.Mutex
	seq uint32
	_   [48]byte // a cache line of its own: different workers publish different sources
}

// NewStamper returns a Stamper for the given number of sources (1 to
// 65536; other values are clamped) that reports every stamp to recorder. Emission
// n belongs to source n modulo their number, unless [Stamper.Assign] says otherwise.
func NewStamper(clock *eventmeter.Clock, recorder eventmeter.Recorder, run uint32, sources int) *Stamper {
	sources = min(max(sources, 1), maxSources)
	return &Stamper{clock: clock, recorder: recorder, run: run, sources: make([]source, sources)}
}

// Assign makes emission n belong to source of(n) modulo the number of sources
// instead. of must be a pure function. Assign must be called before the first stamp.
func (s *Stamper) Assign(of func(n uint64) uint16) { s.assign = of }

// source returns the number of the source that emission n belongs to.
func (s *Stamper) source(n uint64) uint16 {
	if s.assign != nil {
		n = uint64(s.assign(n))
	}
	return uint16(n % uint64(len(s.sources)))
}

// Stamp stamps emission n, reads the clock, and calls Recorder.Fired. The caller
// must send the emission at once and resolve it exactly once.
func (s *Stamper) Stamp(n uint64, intended eventmeter.Instant, measured bool) Emission {
	i := s.source(n)
	src := &s.sources[i]
	src.mu.Lock()
	defer src.mu.Unlock()
	src.seq++
	emission := Emission{
		Stamp:    eventmeter.Stamp{Run: s.run, Source: i, Seq: src.seq},
		Number:   n,
		Intended: intended,
		Fired:    s.clock.Now(),
		Measured: measured,
	}
	// Inside the lock, so that the recorder gets a source's emissions in order.
	s.recorder.Fired(emission)
	return emission
}
