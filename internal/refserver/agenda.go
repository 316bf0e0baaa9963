package refserver

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter/internal/crash"
)

// agenda runs short functions at their time, on one goroutine: the ends of
// subscriptions and the retries of deliveries, of which there may be a hundred
// thousand. Items are never removed; a function checks itself whether it is
// still wanted.
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

// at schedules do for that time or soon after. do must not block.
func (a *agenda) at(when time.Time, do func()) {
	a.mu.Lock()
	heap.Push(&a.items, dueItem{when, do})
	first := a.items[0].at.Equal(when)
	a.mu.Unlock()
	if first {
		signal(a.earlier)
	}
}

// run runs the functions until ctx ends.
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

// work runs what is due and returns the time until the next item.
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

// signal puts a token into a channel of capacity one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// pool is the goroutines that post webhook messages. A subscription H with
// something to send stands in the queue as often as it may have attempts in
// flight. No subscription or delivery has a goroutine of its own.
type pool[H any] struct {
	post func(H)
	size int

	mu      sync.Mutex
	more    sync.Cond
	queue   []H // a ring
	start   int
	count   int
	idle    int
	running int
	closed  bool
	wg      sync.WaitGroup
}

func newPool[H any](most int, post func(H)) *pool[H] {
	p := &pool[H]{post: post, size: most}
	p.more.L = &p.mu
	return p
}

// push queues one attempt of h. It does not block.
func (p *pool[H]) push(h H) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	if p.count == len(p.queue) {
		grown := make([]H, max(16, 2*len(p.queue)))
		for i := range p.count {
			grown[i] = p.queue[(p.start+i)&(len(p.queue)-1)]
		}
		p.queue, p.start = grown, 0
	}
	p.queue[(p.start+p.count)&(len(p.queue)-1)] = h
	p.count++
	switch {
	case p.idle > 0:
		p.more.Signal()
	case p.running < p.size:
		p.running++
		p.wg.Go(crash.Guarded(p.work))
	}
}

func (p *pool[H]) work() {
	for {
		p.mu.Lock()
		p.idle++
		for p.count == 0 && !p.closed {
			p.more.Wait()
		}
		p.idle--
		if p.closed {
			p.mu.Unlock()
			return
		}
		h := p.queue[p.start]
		clear(p.queue[p.start : p.start+1])
		p.start = (p.start + 1) & (len(p.queue) - 1)
		p.count--
		p.mu.Unlock()
		p.post(h)
	}
}

// close stops the senders. Attempts in flight end with the context of their
// requests.
func (p *pool[H]) close(cancel context.CancelFunc) {
	p.mu.Lock()
	p.closed = true
	p.more.Broadcast()
	p.mu.Unlock()
	cancel()
	p.wg.Wait()
}
