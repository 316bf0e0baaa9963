package loadgen

import (
	"context"
	"sync"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
)

// DefaultWorkers is how many emissions may be under way at once.
const DefaultWorkers = 64

// LoopOptions say how a [Loop] sends.
type LoopOptions struct {
	// Fire sends one emission and returns what became of it. It is called by up to
	// Workers goroutines at once. It must end by itself: its context carries
	// the values of the loop's but not its cancellation, so that the outcome of
	// what has left is known even when a run is broken off.
	Fire func(ctx context.Context, emission Emission) eventmeter.Outcome
	// Workers bounds the emissions under way; 0 means [DefaultWorkers].
	Workers int
}

// Loop fires f's emissions, each at its time, until they are over or ctx is, waits
// for those under way, and returns f's figures. An emission that is due while all
// workers are busy waits for one of them for f's tolerance and is then dropped;
// it is never sent later than that.
//
// The pacing goroutine is the caller's. Workers are started when they are
// needed and end with the loop.
func Loop(ctx context.Context, f *Firing, o LoopOptions) Stats {
	if o.Workers <= 0 {
		o.Workers = DefaultWorkers
	}
	p := &pool{
		f:     f,
		fire:  o.Fire,
		ctx:   context.WithoutCancel(ctx),
		busy:  make(chan struct{}, o.Workers),
		queue: make(chan due, o.Workers),
	}
	for n := uint64(0); ; n++ {
		d, ok := f.wait(ctx, n)
		if !ok {
			break
		}
		if f.admit(ctx, d, p.busy) {
			p.send(d)
		}
	}
	close(p.queue)
	p.wg.Wait()
	return f.Stats()
}

// pool is the workers of one loop.
type pool struct {
	f    *Firing
	fire func(context.Context, Emission) eventmeter.Outcome
	ctx  context.Context
	wg   sync.WaitGroup

	// busy holds a token for every emission that was handed over and is not done;
	// its capacity is the bound. queue is as long, so it never blocks.
	busy  chan struct{}
	queue chan due

	started int // workers; used by the pacing goroutine only
}

// send hands an emission over whose worker is reserved. Tokens are only given back
// by others, so when there are at least as many workers as tokens now, each
// emission that is not done has a worker.
func (p *pool) send(d due) {
	if p.started < len(p.busy) {
		p.started++
		p.wg.Go(crash.Guarded(p.work))
	}
	p.queue <- d
}

func (p *pool) work() {
	for d := range p.queue {
		emission := p.f.stamp(d)
		p.f.Resolve(emission, p.fire(p.ctx, emission))
		<-p.busy
	}
}
