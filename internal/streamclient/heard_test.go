package streamclient

import (
	"sync"
	"sync/atomic"
	"testing"
)

// heard is a sink that keeps what it is told.
type heard struct {
	mu     sync.Mutex
	heads  []Head
	body   []byte
	end    error
	ended  chan struct{}
	more   chan struct{} // signalled at every call
	refuse error         // returned by Piece
	busy   atomic.Bool
}

func newHeard() *heard {
	return &heard{ended: make(chan struct{}), more: make(chan struct{}, 1)}
}

func (h *heard) enter() func() {
	if h.busy.Swap(true) {
		panic("two goroutines in one sink")
	}
	h.mu.Lock()
	if h.end != nil {
		panic("told of more after the end")
	}
	return func() {
		h.mu.Unlock()
		h.busy.Store(false)
		select {
		case h.more <- struct{}{}:
		default:
		}
	}
}

func (h *heard) Opened(head Head, _ Arrival) error {
	defer h.enter()()
	h.heads = append(h.heads, head)
	return nil
}

func (h *heard) Piece(b []byte, at Arrival) error {
	defer h.enter()()
	h.body = append(h.body, b...)
	return h.refuse
}

func (h *heard) Closed(err error) {
	defer h.enter()()
	h.end = err
	close(h.ended)
}

// until waits for a state.
func (h *heard) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for {
		h.mu.Lock()
		done, end := ok(), h.end
		h.mu.Unlock()
		if done {
			return
		}
		if end != nil {
			t.Fatalf("ended with %v before %s", end, what)
		}
		select {
		case <-h.more:
		case <-h.ended:
		}
	}
}

func (h *heard) opened(t *testing.T) {
	t.Helper()
	h.until(t, "it was opened", func() bool { return len(h.heads) > 0 })
}

func (h *heard) over() error {
	<-h.ended
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.end
}
