package mcpevents

import (
	"context"
	"sync"
)

// jobs counts running work. Unlike with a sync.WaitGroup, a caller can wait while
// more work begins, and give up.
type jobs struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // closed when n is 0; nil without a waiter
}

// begin counts one job; end must be called once for it.
func (j *jobs) begin() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.n++
}

func (j *jobs) end() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.n--; j.n == 0 && j.idle != nil {
		close(j.idle)
		j.idle = nil
	}
}

// Go runs f in a goroutine.
func (j *jobs) Go(f func()) {
	j.begin()
	go func() {
		defer j.end()
		f()
	}()
}

// wait returns true as soon as no work is running, or false when ctx is over.
func (j *jobs) wait(ctx context.Context) bool {
	j.mu.Lock()
	if j.n == 0 {
		j.mu.Unlock()
		return true
	}
	if j.idle == nil {
		j.idle = make(chan struct{})
	}
	idle := j.idle
	j.mu.Unlock()
	select {
	case <-idle:
		return true
	case <-ctx.Done():
		return false
	}
}
