package mcpevents

import (
	"context"
	"sync"
)

// jobs counts work that is under way. Unlike a sync.WaitGroup it can be waited
// for while more is begun, and with a bound.
type jobs struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // closed when n is 0; nil when nobody waits
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

// Go does f in a goroutine of its own.
func (j *jobs) Go(f func()) {
	j.begin()
	go func() {
		defer j.end()
		f()
	}()
}

// wait returns true as soon as nothing is under way, or false when ctx is over.
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
