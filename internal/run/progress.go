package run

import (
	"sync"
	"time"

	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/sinks"
)

// Progress is a look at a run on its way.
type Progress struct {
	// Phase is attach, warm-up, measure, drain or detach; Lane is set when
	// lanes take turns.
	Phase, Lane string
	// Elapsed and Limit are of the phase. It may end before its limit.
	Elapsed, Limit time.Duration
	Live           sinks.Live
	// Trouble says that the target does not answer; "" if it does.
	Trouble string
}

const progressEvery = 200 * time.Millisecond

// progress tells [Options.Progress] how a pass is doing.
type progress struct {
	done chan struct{}
	wg   sync.WaitGroup
}

func startProgress(p *pass) *progress {
	g := &progress{done: make(chan struct{})}
	if p.opts.Progress == nil {
		return g
	}
	g.wg.Go(func() {
		defer crash.Guard()
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-g.done:
				return
			case <-tick.C:
				name, elapsed, limit := p.current()
				now := Progress{Phase: name, Elapsed: elapsed, Limit: limit, Live: p.ledger.Live()}
				if p.profile.Phases.Order == "turns" {
					now.Lane = p.lanes[0].Name
				}
				if t := p.trouble.Load(); t != nil {
					now.Trouble = *t
				}
				p.opts.Progress(now)
			}
		}
	})
	return g
}

func (g *progress) stop() {
	close(g.done)
	g.wg.Wait()
}
