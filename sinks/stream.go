package sinks

import (
	"context"
	"io"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
)

// streamBuffer is the memory of an idle open stream, in bytes. A process may have
// thousands of streams, so it is small; larger messages are read in pieces.
const streamBuffer = 2 << 10

// ReadStream reads body to its end. It calls take with each piece as it arrives and
// the instant at which its last byte was read, and calls pulse.Beat if pulse is not
// nil. A piece is only valid until take returns. ReadStream returns nil at the end of
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

// Watch detects dead streams, with one goroutine for all of them. It is safe for
// concurrent use.
type Watch struct {
	clock *eventmeter.Clock
	every time.Duration
	stop  chan struct{}
	done  chan struct{}

	mu     sync.Mutex
	pulses []*Pulse
	// soonest is when the first of them may be too old: a million pulses need not be
	// looked at in every period. Beats put it off, except after a beat that was ahead of
	// its time, so it is an eighth of a limit away at most.
	soonest eventmeter.Instant
}

// Pulse records when a stream last received data. Beat may be called on nil. The zero
// value is not watched. A Pulse must not be copied.
type Pulse struct {
	last  atomic.Int64
	owner Mortal
	limit uint32 // in milliseconds
	place uint32 // in the watch, from 1; 0 = not watched
}

// Mortal is the owner of a [Pulse].
type Mortal interface {
	// Dead is called once, on the watch's goroutine, when the stream has received
	// nothing for longer than its limit. It must not block.
	Dead()
}

// mortal is a Mortal that is a function.
type mortal func()

func (f mortal) Dead() { f() }

// Beat records that the stream received data at that instant.
func (p *Pulse) Beat(at eventmeter.Instant) {
	if p != nil {
		p.last.Store(int64(at))
	}
}

// end is the last instant at which the stream is not dead, if it receives nothing more.
func (p *Pulse) end() eventmeter.Instant {
	return eventmeter.Instant(p.last.Load()).Add(time.Duration(p.limit) * time.Millisecond)
}

// NewWatch starts a watch that checks every stream once per period, so that a dead
// stream is detected at most one period late. Close ends it.
func NewWatch(clock *eventmeter.Clock, every time.Duration) *Watch {
	w := &Watch{clock: clock, every: every, stop: make(chan struct{}), done: make(chan struct{})}
	go w.run()
	return w
}

// Add watches a stream from now on. dead is called once, on the watch's goroutine,
// when the stream has received nothing for longer than limit; the stream is then no
// longer watched. dead must not block.
func (w *Watch) Add(limit time.Duration, dead func()) *Pulse {
	p := &Pulse{}
	w.Start(p, limit, mortal(dead))
	return p
}

// Start is Add for a pulse inside a larger struct. p must not be watched already. limit
// is rounded up to milliseconds.
func (w *Watch) Start(p *Pulse, limit time.Duration, owner Mortal) {
	now := w.clock.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	ms := (limit + time.Millisecond - 1) / time.Millisecond
	p.owner, p.limit = owner, uint32(min(ms, math.MaxUint32))
	p.Beat(now)
	w.pulses = append(w.pulses, p)
	p.place = uint32(len(w.pulses))
	if end := p.end(); len(w.pulses) == 1 || end < w.soonest {
		w.soonest = end
	}
}

// Remove stops watching a stream. When Remove returns, dead is not running and will
// not be called.
func (w *Watch) Remove(p *Pulse) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget(p)
}

// forget removes p from the list; the caller holds the lock.
func (w *Watch) forget(p *Pulse) {
	if p.place == 0 {
		return
	}
	last := len(w.pulses) - 1
	moved := w.pulses[last]
	w.pulses[p.place-1], moved.place = moved, p.place
	w.pulses[last] = nil
	w.pulses = w.pulses[:last]
	p.place, p.owner = 0, nil
}

// Close ends the watch and waits for its goroutine.
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
	if now <= w.soonest {
		return
	}
	w.soonest = math.MaxInt64
	for i := len(w.pulses) - 1; i >= 0; i-- { // from the end: forget moves the last
		p := w.pulses[i]
		if end := p.end(); now <= end {
			w.soonest = min(w.soonest, end, now.Add(time.Duration(p.limit)*time.Millisecond/8))
			continue
		}
		owner := p.owner
		w.forget(p)
		owner.Dead()
	}
}

// Backoff returns the waits between attempts: full jitter below a bound that starts
// at Min and doubles up to Max. It must not be used by two goroutines at once.
type Backoff struct {
	Min, Max time.Duration
	// Rand is the source of the jitter; nil = the process's own.
	Rand *rand.Rand

	bound time.Duration
}

// Next returns the wait before the next attempt: more than 0 and at most the bound.
// If the target asked for a wait, pass it as least: the result is least plus jitter,
// so that clients refused together do not return together.
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

// Reset restarts at Min, after a success.
func (b *Backoff) Reset() { b.bound = 0 }

// Sleep waits for d and returns true, or returns false when ctx is done.
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
