package refserver

import (
	"context"
	"sync"

	"github.com/eventmeter/eventmeter/internal/crash"
)

// pool is the goroutines that post webhook messages. A subscription H that has
// something to send lies in its queue, as often as it may have attempts in
// flight; there is no goroutine for a subscription or a delivery.
type pool[H any] struct {
	post func(H)
	most int

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
	p := &pool[H]{post: post, most: most}
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
	case p.running < p.most:
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

// close stops the senders; attempts in flight end when the context of their
// requests does.
func (p *pool[H]) close(cancel context.CancelFunc) {
	p.mu.Lock()
	p.closed = true
	p.more.Broadcast()
	p.mu.Unlock()
	cancel()
	p.wg.Wait()
}
