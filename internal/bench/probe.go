package bench

import (
	"context"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/capacity"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/results"
)

// stepProbe sees in a step of a capacity search what the result does not say:
// how the backlog moved while it was measured.
type stepProbe struct {
	readings  []capacity.Reading
	most      int64   // of what was owed and not delivered
	achieved  float64 // copies received per second
	messages  int64   // copies received in the whole step, warm-up included
	undrained int64   // owed and not delivered when the drain was over
}

// startProbe reads the backlog while the pass measures; the returned function
// ends that and waits.
func (p *pass) startProbe(ctx context.Context) func() {
	pr := p.opts.probe
	if pr == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer crash.Guard()
		p.probe(ctx, pr)
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// probe reads from the end of the warm-up until the end of the measured part.
func (p *pass) probe(ctx context.Context, pr *stepProbe) {
	ph := p.profile.Phases
	from := p.firing.Start().Add(ph.Warmup)
	if p.pause(ctx, from.Sub(p.clock.Now())) != nil {
		return
	}
	first, began := p.messages(), p.clock.Now()
	tick := time.NewTicker(min(max(ph.Measure/60, 25*time.Millisecond), time.Second))
	defer tick.Stop()
	// What is owed of the warm-up is not in these readings, so they rise at
	// first even where the backlog does not.
	settled := from.Add(ph.Measure / 3)
	for now := began; now < from.Add(ph.Measure); now = p.clock.Now() {
		n := p.ledger.Outstanding()
		pr.most = max(pr.most, n)
		if at := p.clock.Now(); at >= settled {
			pr.readings = append(pr.readings, capacity.Reading{At: time.Duration(at), Outstanding: float64(n)})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			pr.achieve(p.messages()-first, p.clock.Now(), began)
			return
		}
	}
	pr.achieve(p.messages()-first, p.clock.Now(), began)
}

func (pr *stepProbe) achieve(n int64, now, began eventmeter.Instant) {
	if took := now.Sub(began).Seconds(); took > 0 {
		pr.achieved = float64(n) / took
	}
}

// messages counts all copies of all events that came so far.
func (p *pass) messages() (n int64) {
	for _, l := range p.ledger.Live().Lanes {
		n += l.EventMessages
	}
	return n
}

// drained notes what is left when the drain is over.
func (p *pass) drained() {
	if pr := p.opts.probe; pr != nil {
		pr.undrained, pr.messages = p.ledger.Outstanding(), p.messages()
	}
}

// fill puts what the probe saw into a step that has the figures of the result;
// period is that of the schedule, measured the length of the step.
func (pr *stepProbe) fill(s *results.CapacityStep, period time.Duration) {
	s.Achieved, s.Undrained, s.Backlog.Most = pr.achieved, pr.undrained, pr.most
	if growth, off, ok := capacity.Growth(pr.readings, period); ok {
		s.Backlog.Growth, s.Backlog.Error = growth, off
		if s.Offered > 0 {
			s.Backlog.Share = growth / s.Offered
		}
	}
}
