package run

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/driver"
)

// settle is how long a drain continues after the last owed event has arrived, so that
// a duplicate right behind it is counted.
const settle = 500 * time.Millisecond

// drain waits until nothing is owed any more and no copy is to be expected, or until the drain timeout is over and
// every poller with owed events has polled once more, and every stream that waits to be opened again has asked once
// more, for at most [driver.Patience]. What a stream has missed then has the time that it takes, as long as it comes.
// After an error drain still waits if the target is there, because deliveries in flight may count.
func (p *pass) drain(ctx context.Context, failed error) error {
	timeout, patience := p.profile.Phases.Drain, p.opts.patience
	if patience == 0 {
		patience = driver.Patience
	}
	gone := errors.Is(failed, ErrTarget) || ctx.Err() != nil
	if gone {
		timeout = 0
	}
	if failed != nil {
		patience = 0
	}
	p.enter("drain", timeout)
	p.drainOwn()
	// An event published at the very end has the whole drain timeout before the poll
	// that decides whether it is lost. An event accepted after that still gets a poll
	// of its own.
	end := p.clock.Now().Add(timeout)
	accepted, since := p.acceptedSoFar(), end
	var quietSince time.Time
	var least, came = int64(math.MaxInt64), end // of what is owed, and when it last became less
	var waited eventmeter.Instant               // when a lane was last behind; 0 = none was
	for {
		now := p.clock.Now()
		if owed := p.ledger.Outstanding(); owed < least {
			least, came = owed, now
		}
		if n := p.acceptedSoFar(); n != accepted {
			accepted, since = n, max(since, now)
		}
		if p.ledger.Outstanding()+p.pendingOwn() > 0 || p.unsettled(now.Add(-timeout)) {
			quietSince = time.Time{}
		} else if quietSince.IsZero() {
			quietSince = time.Now()
		} else if time.Since(quietSince) >= settle {
			return nil
		}
		if now >= end {
			behind, late := p.lanesBehind(since, came), now >= end.Add(patience)
			if len(behind) > 0 && late && !gone {
				p.warnDrainCut(behind, now.Sub(end))
			}
			if len(behind) > 0 {
				waited = now
			}
			if late || len(behind) == 0 && (waited == 0 || now.Sub(max(waited, came)) >= settle) {
				return nil
			}
			p.mayTake(timeout + patience)
		}
		if err := p.pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// lookAgain makes lanes that were owed events and received none read once more what they subscribed
// to.
func (p *pass) lookAgain() {
	live := p.ledger.Live()
	for i, d := range p.drivers {
		if d, ok := d.(driver.Looker); ok && live.Lanes[i].Delivered == 0 && p.ledger.OutstandingOf(uint16(i)) > 0 {
			d.Look()
		}
	}
}

// unsettled reports whether a target may deliver again what arrived already, because it
// gave up waiting for an answer after since. When it will is not known here, so that the
// drain then takes its whole timeout.
func (p *pass) unsettled(since eventmeter.Instant) bool {
	for _, d := range p.drivers {
		if in := inboxOf(d); in != nil && in.Receiver.Unsettled(since) {
			return true
		}
	}
	return false
}

// acceptedSoFar returns how many emissions the upstream has accepted.
func (p *pass) acceptedSoFar() uint64 {
	if p.firing == nil {
		return 0
	}
	return p.firing.Counts().Accepted
}

// laneBehind is a lane that is owed events and has pollers, or streams that were lost,
// which have not asked for them since an instant.
type laneBehind struct {
	lane         string
	polls        bool
	behind, open int
	owed         int64
}

// lanesBehind returns the lanes that are owed events and have not asked for them since an
// instant. Streams have to ask again after events came: one that is lost again may get more.
func (p *pass) lanesBehind(since, came eventmeter.Instant) (all []laneBehind) {
	for i, d := range p.drivers {
		d, ok := d.(driver.Asker)
		if !ok {
			continue
		}
		polls, from := p.lanes[i].Mode == string(eventmeter.Poll), since
		if !polls {
			from = max(since, came)
		}
		behind, open := d.Behind(from)
		if behind == 0 {
			continue
		}
		if owed := p.ledger.OutstandingOf(uint16(i)); owed > 0 {
			all = append(all, laneBehind{p.lanes[i].Name, polls, behind, open, owed})
		}
	}
	return all
}

// warnDrainCut warns about the figures that are unknown because the drain was cut.
func (p *pass) warnDrainCut(all []laneBehind, after time.Duration) {
	for _, l := range all {
		who, wait := "streams were lost and not open again", "before a stream is opened again (retry, Retry-After, push.backoff)"
		if l.polls {
			who, wait = "pollers had not polled to the end since", "between two polls (timings.pollInterval)"
		}
		p.Warn(
			"drain-cut",
			l.lane,
			"the drain was cut %v after phases.drain (%v): %d of %d %s, and %d deliveries of the lane were owed. Events that "+
				"nobody asked for are excused, not lost: raise phases.drain above the wait %s",
			after.Round(time.Millisecond),
			p.profile.Phases.Drain,
			l.behind,
			l.open,
			who,
			l.owed,
			wait,
		)
	}
}
