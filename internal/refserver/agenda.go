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

// queue is a queue of values in a ring.
type queue[T any] struct {
	ring  []T // its length is a power of two
	start int
	count int
}

// slot is the place of the i-th value.
func (r *queue[T]) slot(i int) *T { return &r.ring[(r.start+i)&(len(r.ring)-1)] }

func (r *queue[T]) push(v T) {
	if r.count == len(r.ring) {
		grown := make([]T, max(4, 2*r.count))
		for i := range r.count {
			grown[i] = *r.slot(i)
		}
		r.ring, r.start = grown, 0
	}
	r.count++
	*r.slot(r.count - 1) = v
}

func (r *queue[T]) pop() (v T) {
	v, *r.slot(0) = *r.slot(0), v
	r.start = (r.start + 1) & (len(r.ring) - 1)
	r.count--
	return v
}

// pool is the goroutines that post webhook messages. A subscription with
// something to send stands in the queue as often as it may have attempts in
// flight. No subscription or delivery has a goroutine of its own.
type pool struct {
	post func(*hook)
	size int

	mu      sync.Mutex
	more    sync.Cond
	queue   queue[*hook]
	idle    int // senders that wait and have not been woken
	running int
	closed  bool
	wg      sync.WaitGroup
}

func newPool(most int, post func(*hook)) *pool {
	p := &pool{post: post, size: most}
	p.more.L = &p.mu
	return p
}

// push queues one attempt of h. It does not block.
func (p *pool) push(h *hook) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.queue.push(h)
	switch {
	case p.idle > 0:
		p.idle-- // a second push before it wakes up must not count on it
		p.more.Signal()
	case p.running < p.size:
		p.running++
		p.wg.Go(crash.Guarded(p.work))
	}
}

func (p *pool) work() {
	for {
		p.mu.Lock()
		for p.queue.count == 0 && !p.closed {
			p.idle++
			p.more.Wait()
		}
		if p.closed {
			p.mu.Unlock()
			return
		}
		h := p.queue.pop()
		p.mu.Unlock()
		p.post(h)
	}
}

// close stops the senders. Attempts in flight end with the context of their
// requests.
func (p *pool) close(cancel context.CancelFunc) {
	p.mu.Lock()
	p.closed = true
	p.more.Broadcast()
	p.mu.Unlock()
	cancel()
	p.wg.Wait()
}

// hostBound bounds the attempts in flight at each host and port of callbacks. A subscription
// that finds its host full waits there, and occupies no sender. The zero value bounds nothing.
// It is safe for concurrent use once most is set.
type hostBound struct {
	most int // attempts at a host; 0 = no bound

	mu    sync.Mutex
	hosts map[string]*hostLoad // of hosts with attempts in flight
}

// hostLoad is what goes on at a host.
type hostLoad struct {
	inFlight int
	waiting  []*hook // in the order in which they came
}

// enter reports whether h may begin an attempt at a host now; the caller then calls leave when
// it has ended. Otherwise h waits until a call of leave returns it.
func (b *hostBound) enter(host string, h *hook) bool {
	if b.most == 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	at := b.hosts[host]
	if at == nil {
		if b.hosts == nil {
			b.hosts = map[string]*hostLoad{}
		}
		at = &hostLoad{}
		b.hosts[host] = at
	}
	if at.inFlight >= b.most {
		at.waiting = append(at.waiting, h)
		return false
	}
	at.inFlight++
	return true
}

// leave ends an attempt at a host. If others wait there, it returns the one that has waited
// longest, which the caller queues again.
func (b *hostBound) leave(host string) (next *hook) {
	if b.most == 0 {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	at := b.hosts[host]
	at.inFlight--
	if len(at.waiting) == 0 {
		if at.inFlight == 0 {
			delete(b.hosts, host)
		}
		return nil
	}
	next = at.waiting[0]
	clear(at.waiting[:1])
	at.waiting = at.waiting[1:]
	return next
}
