//go:build linux

package main

import (
	"bytes"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// errorMeter compares the recorded time of a delivery with the send time that
// the baseline server puts on each frame just before it writes it. Both processes
// read the wall clock of one machine; recorded times are of a monotonic clock,
// whose offset from the wall clock is measured repeatedly. It must be closed.
type errorMeter struct {
	eventmeter.Recorder // does nothing

	clock  *eventmeter.Clock
	offset atomic.Int64 // wall minus monotonic
	paced  atomic.Bool  // the paced phase has begun: deliveries count
	stop   func()       // ends the adjusting
	parts  [64]struct {
		mu     sync.Mutex
		values ledger.Values
	}
}

// newErrorMeter is nil, which measures nothing, where the spec wants none.
func newErrorMeter(s spec, clock *eventmeter.Clock) *errorMeter {
	if !s.Error {
		return nil
	}
	m := &errorMeter{Recorder: eventmeter.Tee(), clock: clock}
	m.adjust()
	m.stop = repeat(50*time.Millisecond, m.adjust)
	return m
}

// begin begins the paced phase.
func (m *errorMeter) begin() {
	if m != nil {
		m.paced.Store(true)
	}
}

func (m *errorMeter) close() {
	if m != nil {
		m.stop()
	}
}

// adjust measures the offset of the clocks: it reads the wall clock between two
// readings of the monotonic clock and keeps the closest pair of several.
func (m *errorMeter) adjust() {
	var best int64
	for i := range 8 {
		a := m.clock.Now()
		w := time.Now().UnixNano()
		b := m.clock.Now()
		if width := int64(b - a); i == 0 || width < best {
			best = width
			m.offset.Store(w - int64(a) - width/2)
		}
	}
}

var sentKey = []byte(`"sent":"`)

const sentDigits = 19

// Observed implements eventmeter.Observer.
func (m *errorMeter) Observed(o eventmeter.Observation) {
	m.observe(int(o.Sub.Index), o.At, o.Message)
}

// observe records the error of a message that a stream received at that time.
func (m *errorMeter) observe(stream int, at eventmeter.Instant, message []byte) {
	sent, ok := sentAt(message)
	if !ok || !m.paced.Load() {
		return
	}
	p := &m.parts[stream%64]
	p.mu.Lock()
	p.values.Add(time.Duration(int64(at) + m.offset.Load() - sent))
	p.mu.Unlock()
}

// sentAt finds the send time, in nanoseconds since 1970.
func sentAt(message []byte) (int64, bool) {
	i := bytes.LastIndex(message, sentKey)
	if i < 0 || len(message) < i+len(sentKey)+sentDigits {
		return 0, false
	}
	var n int64
	for _, c := range message[i+len(sentKey):][:sentDigits] {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, true
}

func (m *errorMeter) report(o *outcome) {
	if m == nil {
		return
	}
	var all ledger.Values
	for i := range m.parts {
		p := &m.parts[i]
		p.mu.Lock()
		all.Merge(&p.values)
		p.mu.Unlock()
	}
	h := all.Timing().Histogram
	o.Values["errorP50"], o.Values["errorP99"] = float64(h.ValueAtQuantile(50))/1e3, float64(h.ValueAtQuantile(99))/1e3
}
