package run

import (
	"context"
	"time"

	"github.com/eventmeter/eventmeter/internal/capacity"
)

// Backlog is the number of owed and undelivered events during the measured phase.
type Backlog struct {
	// Readings are taken in the last two thirds of the measured phase.
	Readings []capacity.Reading
	Most     int64 // largest reading
	// Achieved is the number of copies of events received per second.
	Achieved float64
	// Undrained is the number of deliveries still owed at the end of the drain.
	Undrained int64
}

// readBacklog reads the backlog during the measured phase. The returned function
// stops it and waits.
func (p *pass) readBacklog(ctx context.Context) func() {
	if p.backlog == nil {
		return func() {}
	}
	return during(ctx, p.readBacklogUntil)
}

// readBacklogUntil reads the backlog from the end of the warm-up until the end of the
// measured phase.
func (p *pass) readBacklogUntil(ctx context.Context) {
	ph := p.profile.Phases
	from := p.firing.Start().Add(ph.Warmup)
	if p.pause(ctx, from.Sub(p.clock.Now())) != nil {
		return
	}
	first, began := p.messages(), p.clock.Now()
	defer func() {
		if took := p.clock.Now().Sub(began).Seconds(); took > 0 {
			p.backlog.Achieved = float64(p.messages()-first) / took
		}
	}()
	tick := time.NewTicker(min(max(ph.Measure/60, 25*time.Millisecond), time.Second))
	defer tick.Stop()
	// Deliveries owed from the warm-up are not in these readings, so the readings
	// rise at first even if the backlog does not.
	settled := from.Add(ph.Measure / 3)
	for now := began; now < from.Add(ph.Measure); now = p.clock.Now() {
		n := p.ledger.Outstanding()
		p.backlog.Most = max(p.backlog.Most, n)
		if at := p.clock.Now(); at >= settled {
			p.backlog.Readings = append(p.backlog.Readings, capacity.Reading{At: time.Duration(at), Outstanding: float64(n)})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// messages counts all copies of all events received so far.
func (p *pass) messages() (n int64) {
	for _, l := range p.ledger.Live().Lanes {
		n += l.EventMessages
	}
	return n
}
