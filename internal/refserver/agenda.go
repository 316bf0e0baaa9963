package refserver

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// agenda runs short functions at their time, on one goroutine: the ends of
// subscriptions and the retries of deliveries, of which there may be a hundred
// thousand. Nothing is ever taken off it; a function finds out for itself that
// it is no longer wanted.
type agenda struct {
	mu      sync.Mutex
	items   dueHeap
	earlier chan struct{}
}

type dueItem struct {
	at time.Time
	do func()
}

func newAgenda() *agenda { return &agenda{earlier: make(chan struct{}, 1)} }

// at has do called at that time or soon after. do must not block.
func (a *agenda) at(when time.Time, do func()) {
	a.mu.Lock()
	heap.Push(&a.items, dueItem{when, do})
	first := a.items[0].at.Equal(when)
	a.mu.Unlock()
	if first {
		nudge(a.earlier)
	}
}

// run works until ctx ends.
func (a *agenda) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(a.work())
		select {
		case <-timer.C:
		case <-a.earlier:
		case <-ctx.Done():
			return
		}
	}
}

// work does what is due and returns the time until the next item.
func (a *agenda) work() time.Duration {
	for {
		a.mu.Lock()
		if len(a.items) == 0 {
			a.mu.Unlock()
			return time.Hour
		}
		if wait := time.Until(a.items[0].at); wait > 0 {
			a.mu.Unlock()
			return wait
		}
		item := heap.Pop(&a.items).(dueItem)
		a.mu.Unlock()
		item.do()
	}
}

type dueHeap []dueItem

// Len implements [heap.Interface].
func (h dueHeap) Len() int { return len(h) }

// Less implements [heap.Interface].
func (h dueHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }

// Swap implements [heap.Interface].
func (h dueHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements [heap.Interface].
func (h *dueHeap) Push(x any) { *h = append(*h, x.(dueItem)) }

// Pop implements [heap.Interface].
func (h *dueHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = dueItem{}
	*h = old[:len(old)-1]
	return last
}
