package mcpevents

import (
	"context"
	"sync"

	"github.com/grafana/sobek"
	"go.k6.io/k6/v2/js/modules"
)

// instance is the module in one VU. It is only used on the VU's event loop.
type instance struct {
	vu      modules.VU
	hub     *hub
	metrics *metricSet
}

// origin is the VU with its current tags; it must be called on the event loop.
func (m *instance) origin() *origin {
	state := m.vu.State()
	now := state.Tags.GetCurrentValues()
	return &origin{&m.hub.life, state, now.Tags, now.Metadata}
}

// until calls done when the iteration is over, or, in the init context, when
// the test is.
func (m *instance) until(done func(context.Context)) {
	life := &m.hub.life
	if m.vu.State() == nil {
		life.atEnd(done)
		return
	}
	life.work.begin()
	context.AfterFunc(m.vu.Context(), func() {
		defer life.work.end()
		done(life.over)
	})
}

// promised makes a promise and the functions that settle it. One of the two
// must be called, once, from any goroutine. Unlike the promises of k6's
// js/promises, it is rejected with an Error, which has a message for scripts.
func (m *instance) promised() (p *sobek.Promise, resolve func(any), reject func(error)) {
	p, fulfil, refuse := m.vu.Runtime().NewPromise()
	callback := m.vu.RegisterCallback()
	resolve = func(v any) { callback(func() error { return fulfil(v) }) }
	reject = func(err error) { callback(func() error { return refuse(m.vu.Runtime().NewGoError(err)) }) }
	return p, resolve, reject
}

// wakeup lets goroutines run work on a VU's event loop. While it is open it holds a
// registered callback, so that k6 does not end the iteration.
type wakeup struct {
	vu   modules.VU
	work func() error // on the loop; an error fails the iteration

	mu      sync.Mutex
	enqueue func(func() error) // nil while work is scheduled
	again   bool
	closed  bool
}

// newWakeup opens a wakeup; it must be called on the loop.
func newWakeup(vu modules.VU, work func() error) *wakeup {
	return &wakeup{vu: vu, work: work, enqueue: vu.RegisterCallback()}
}

// wake schedules the work once more. Any goroutine may call it.
func (w *wakeup) wake() {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return
	}
	enqueue := w.enqueue
	w.enqueue = nil
	w.again = enqueue == nil
	w.mu.Unlock()
	if enqueue != nil {
		enqueue(w.run)
	}
}

// run does the work on the loop.
func (w *wakeup) run() error {
	for {
		err := w.work()
		w.mu.Lock()
		if w.again && err == nil {
			w.again = false
			w.mu.Unlock()
			continue
		}
		// Also after an error: k6 must not end the iteration before the
		// measurements are sent.
		if !w.closed {
			w.enqueue = w.vu.RegisterCallback()
		}
		w.mu.Unlock()
		return err
	}
}

// close releases the loop after the work has run a last time. Any goroutine may call
// it, more than once if needed.
func (w *wakeup) close() {
	w.mu.Lock()
	w.closed = true
	enqueue := w.enqueue
	w.enqueue = nil
	w.mu.Unlock()
	if enqueue != nil {
		enqueue(w.work)
	}
}
