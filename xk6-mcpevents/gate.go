package mcpevents

import (
	"sync"

	"go.k6.io/k6/v2/js/modules"
)

// gate lets goroutines have work done on a VU's event loop. As long as it is
// open it holds one registered callback, so that k6 does not end the iteration.
type gate struct {
	vu   modules.VU
	work func() error // on the loop; an error fails the iteration

	mu      sync.Mutex
	enqueue func(func() error) // nil while work is on its way
	again   bool
	closed  bool
}

// newGate opens a gate; it must be called on the loop.
func newGate(vu modules.VU, work func() error) *gate {
	return &gate{vu: vu, work: work, enqueue: vu.RegisterCallback()}
}

// knock has the work done once more, soon. Any goroutine may call it.
func (g *gate) knock() {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return
	}
	enqueue := g.enqueue
	g.enqueue = nil
	g.again = enqueue == nil
	g.mu.Unlock()
	if enqueue != nil {
		enqueue(g.pass)
	}
}

// pass runs on the loop.
func (g *gate) pass() error {
	for {
		err := g.work()
		g.mu.Lock()
		if g.again && err == nil {
			g.again = false
			g.mu.Unlock()
			continue
		}
		// Also after an error: k6 must not end the iteration before what was
		// measured is sent.
		if !g.closed {
			g.enqueue = g.vu.RegisterCallback()
		}
		g.mu.Unlock()
		return err
	}
}

// close lets the loop go, after the work was done a last time. Any goroutine
// may call it, also more than once.
func (g *gate) close() {
	g.mu.Lock()
	g.closed = true
	enqueue := g.enqueue
	g.enqueue = nil
	g.mu.Unlock()
	if enqueue != nil {
		enqueue(g.work)
	}
}
