package refserver

import (
	"context"
	"net/http"
	"sync"
)

// requests counts the handlers that run, so that closing can wait for them. A
// plain WaitGroup will not do: requests may begin while somebody waits.
type requests struct {
	mu     sync.Mutex
	count  int
	closed bool
	none   chan struct{} // made by wait, closed when the last handler returned
}

// counted wraps a handler; after wait was called it answers 503.
func (q *requests) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q.mu.Lock()
		if q.closed {
			q.mu.Unlock()
			http.Error(w, "closing", http.StatusServiceUnavailable)
			return
		}
		q.count++
		q.mu.Unlock()
		defer q.leave()
		next.ServeHTTP(w, r)
	})
}

func (q *requests) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.count--
	if q.count == 0 && q.none != nil {
		close(q.none)
		q.none = nil
	}
}

// wait returns when no handler runs, and none will, or when ctx ends.
func (q *requests) wait(ctx context.Context) error {
	q.mu.Lock()
	q.closed = true
	if q.count == 0 {
		q.mu.Unlock()
		return nil
	}
	if q.none == nil {
		q.none = make(chan struct{})
	}
	none := q.none
	q.mu.Unlock()
	select {
	case <-none:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
