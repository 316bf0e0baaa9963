package mcpevents

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/grafana/sobek"
	"go.k6.io/k6/v2/js/modules"
)

// instance is the module in one VU. It is only used on the VU's event loop.
type instance struct {
	vu      modules.VU
	hub     *hub
	metrics *metricSet
	now     *iteration // the latest; nil before the first call of one
}

// iteration is one iteration of a VU, or its setup() or teardown().
type iteration struct {
	ctx   context.Context
	calls atomic.Int64 // asynchronous ones that the script waits for
}

// iteration returns the current iteration; it must be called on the event loop.
func (m *instance) iteration() *iteration {
	if ctx := m.vu.Context(); m.now == nil || m.now.ctx != ctx {
		m.now = &iteration{ctx: ctx}
	}
	return m.now
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
// js/promises, it is rejected with an Error, which has a message and a code for scripts.
func (m *instance) promised() (p *sobek.Promise, resolve func(any), reject func(error)) {
	p, fulfil, refuse := m.vu.Runtime().NewPromise()
	callback := m.vu.RegisterCallback()
	during := m.iteration()
	during.calls.Add(1)
	settle := func(f func() error) {
		callback(func() error {
			if during.ctx.Err() == nil { // a call that was interrupted stays one
				during.calls.Add(-1)
			}
			return f()
		})
	}
	resolve = func(v any) { settle(func() error { return fulfil(v) }) }
	reject = func(err error) { settle(func() error { return refuse(m.thrown(err, codeFailed)) }) }
	return p, resolve, reject
}

// wakeup lets goroutines run work on a VU's event loop. While it is held it has a
// registered callback, so that k6 does not end the iteration; otherwise nothing is run.
type wakeup struct {
	vu   modules.VU
	work func() error // on the loop; an error fails the iteration

	mu        sync.Mutex
	enqueue   func(func() error) // nil while work is scheduled, or the wakeup is not held
	scheduled bool               // work is to be run, or running
	again     bool
	held      bool
	closed    bool
}

// hold keeps the iteration from ending; it must be called on the loop.
func (w *wakeup) hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held || w.closed {
		return
	}
	w.held = true
	if !w.scheduled {
		w.enqueue = w.vu.RegisterCallback()
	}
}

// release lets the iteration end; it must be called on the loop.
func (w *wakeup) release() {
	w.mu.Lock()
	enqueue := w.enqueue
	w.held, w.enqueue = false, nil
	w.mu.Unlock()
	if enqueue != nil {
		enqueue(func() error { return nil })
	}
}

// wake schedules the work once more, if the wakeup is held. Any goroutine may call it.
func (w *wakeup) wake() {
	w.mu.Lock()
	if w.closed || !w.held {
		w.mu.Unlock()
		return
	}
	if w.scheduled {
		w.again = true
		w.mu.Unlock()
		return
	}
	enqueue := w.enqueue
	w.enqueue, w.scheduled = nil, true
	w.mu.Unlock()
	enqueue(w.run)
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
		w.scheduled = false
		// Also after an error: k6 must not end the iteration before the
		// measurements are sent.
		if w.held && !w.closed {
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
