package sinks

import (
	"context"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
)

// streamBuffer is what one open stream holds while it waits. It is the price
// of a stream that is paid thousands of times; messages that do not fit come
// in pieces.
const streamBuffer = 2 << 10

// ReadStream reads body to its end, handing on each piece as it arrives with
// the time at which its last byte was read, and beating pulse if there is one.
// The piece is only valid until take returns. It returns nil at the end of
// body, or the first error of body or take.
func ReadStream(body io.Reader, clock *eventmeter.Clock, pulse *Pulse, take func(piece []byte, at eventmeter.Instant) error) error {
	buf := make([]byte, streamBuffer)
	for {
		n, err := body.Read(buf)
		at := clock.Now()
		if n > 0 {
			pulse.Beat(at)
			if terr := take(buf[:n], at); terr != nil {
				return terr
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Watch finds streams that have gone silent, with one goroutine for all of
// them. It is safe for concurrent use.
type Watch struct {
	clock *eventmeter.Clock
	every time.Duration
	stop  chan struct{}
	done  chan struct{}

	mu     sync.Mutex
	pulses []*Pulse
}

// Pulse is when one stream was last heard. A nil Pulse may be beaten. The zero
// value is not watched; it must not be copied.
type Pulse struct {
	last  atomic.Int64
	limit time.Duration
	dead  func()
	place int // in the watch, from 1; 0 = not watched
}

// Beat notes that the stream was heard at that instant.
func (p *Pulse) Beat(at eventmeter.Instant) {
	if p != nil {
		p.last.Store(int64(at))
	}
}

// NewWatch starts a watch that looks at every stream once per period: a
// silence is found that much late at most. Close ends it.
func NewWatch(clock *eventmeter.Clock, every time.Duration) *Watch {
	w := &Watch{clock: clock, every: every, stop: make(chan struct{}), done: make(chan struct{})}
	go w.run()
	return w
}

// Add watches a stream that counts as heard now. dead is called once, on the
// watch's goroutine, when it was silent for longer than limit; it must not
// block. The stream is no longer watched then.
func (w *Watch) Add(limit time.Duration, dead func()) *Pulse {
	p := &Pulse{}
	w.Start(p, limit, dead)
	return p
}

// Start is Add for a pulse that lies in a larger struct, and is not watched.
func (w *Watch) Start(p *Pulse, limit time.Duration, dead func()) {
	now := w.clock.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	p.limit, p.dead = limit, dead
	p.Beat(now)
	w.pulses = append(w.pulses, p)
	p.place = len(w.pulses)
}

// Remove stops watching. When it returns, dead is not running, and will not be
// called.
func (w *Watch) Remove(p *Pulse) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget(p)
}

// forget takes p off the list; the caller holds the lock.
func (w *Watch) forget(p *Pulse) {
	if p.place == 0 {
		return
	}
	last := len(w.pulses) - 1
	moved := w.pulses[last]
	w.pulses[p.place-1], moved.place = moved, p.place
	w.pulses[last] = nil
	w.pulses = w.pulses[:last]
	p.place, p.dead = 0, nil
}

// Close ends the watch and waits for it.
func (w *Watch) Close() {
	close(w.stop)
	<-w.done
}

func (w *Watch) run() {
	defer crash.Guard()
	defer close(w.done)
	t := time.NewTicker(w.every)
	defer t.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-t.C:
		}
		w.look(w.clock.Now())
	}
}

func (w *Watch) look(now eventmeter.Instant) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := len(w.pulses) - 1; i >= 0; i-- { // from the end: forget moves the last
		p := w.pulses[i]
		if now.Sub(eventmeter.Instant(p.last.Load())) > p.limit {
			dead := p.dead
			w.forget(p)
			dead()
		}
	}
}

// Backoff gives the waits between attempts: full jitter over a bound that
// starts at Min and doubles up to Max. It must not be used by two goroutines
// at once.
type Backoff struct {
	Min, Max time.Duration
	// Rand is the source of the jitter; nil = the process's own.
	Rand *rand.Rand

	bound time.Duration
}

// Next returns the wait before the next attempt: more than 0, at most the
// bound. If the target asked for a wait, pass it as least: the answer is at
// least that, with the jitter on top, so that those who were sent away
// together do not come back together.
func (b *Backoff) Next(least time.Duration) time.Duration {
	switch {
	case b.bound == 0:
		b.bound = max(b.Min, time.Millisecond)
	default:
		b.bound *= 2
	}
	b.bound = min(b.bound, max(b.Max, b.Min, time.Millisecond))
	var share float64
	if b.Rand != nil {
		share = b.Rand.Float64()
	} else {
		share = rand.Float64()
	}
	return max(least, 0) + time.Duration(share*float64(b.bound)) + 1
}

// Reset starts anew, after a success.
func (b *Backoff) Reset() { b.bound = 0 }

// Sleep waits for d, or until ctx is over, and then returns false.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
