package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/loadgen"
	"github.com/eventmeter/eventmeter/results"
)

const (
	// askAfter is how long an emission must have waited for its answer, or nothing must
	// have been accepted since one failed, until the target is asked whether it is
	// there. With askFor that is less than two seconds.
	askAfter = 700 * time.Millisecond
	// askFor is how long the target has to answer then.
	askFor = time.Second
	// lostAfter is how long nothing at all must have been accepted, with emissions
	// failing, until the target counts as gone.
	lostAfter = 2 * time.Second
	// lostEmissions is how many must have failed by then, where the target still
	// answers.
	lostEmissions = 3
	// returnWithin is how long a target that refuses connections has to come back
	// at the end of publishing and of the drain: it may be starting again.
	returnWithin = 2 * time.Second
)

// errSilent says that the target neither answered nor refused.
var errSilent = errors.New("it does not answer")

// ask asks the target whether it is there. The error is errSilent where nothing
// came in time.
func (p *pass) ask(ctx context.Context, within time.Duration) error {
	if c := p.target.child; c != nil {
		select {
		case <-c.Exited():
			return fmt.Errorf("the embedded target ended: %w", c.Err())
		default:
		}
	}
	asking, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	err := p.target.plain.Present(asking)
	switch {
	case err == nil, ctx.Err() != nil:
		return nil
	case asking.Err() != nil:
		return errSilent
	}
	return err
}

// stillThere makes sure that the target has not gone: what is missing then says
// nothing about its delivery. One that does not answer counts as gone if
// somethingMissing.
func (p *pass) stillThere(ctx context.Context, somethingMissing bool) error {
	const again = 200 * time.Millisecond
	end := time.Now().Add(returnWithin)
	for {
		err := p.ask(ctx, returnWithin)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			return nil
		case errors.Is(err, errSilent):
			if !somethingMissing {
				return nil
			}
			return fmt.Errorf("%w: %w within %v", ErrTarget, err, returnWithin)
		case time.Now().After(end):
			return fmt.Errorf("%w: it is gone: %w", ErrTarget, err)
		}
		if err := p.pause(ctx, again); err != nil {
			return err
		}
	}
}

// accepting follows whether emissions are accepted. Its state belongs to one
// goroutine until that has ended.
type accepting struct {
	p     *pass
	last  loadgen.Stats // when one was accepted last, or nothing was wrong
	since time.Time     // of last
	asked time.Time     // when the target was asked last
	lost  error         // its answer: nil if it is there

	silent time.Time // since when it has not answered; zero if it does

	cancel context.CancelCauseFunc
	ended  chan struct{} // closed when the watch is over
}

// check takes note of what became of the emissions, and returns why the target is
// gone.
func (a *accepting) check(ctx context.Context, s loadgen.Stats, now time.Time) error {
	failed := s.Refused + s.Uncertain - a.last.Refused - a.last.Uncertain
	pending := s.Fired - min(s.Fired, s.Accepted+s.Refused+s.Uncertain) // they are not counted in one moment
	if s.Accepted > a.last.Accepted || failed == 0 && pending == 0 {
		a.answered(now)
		a.last, a.since, a.lost, a.asked = s, now, nil, time.Time{}
		return nil
	}
	trouble := now.Sub(a.since)
	if trouble >= askAfter && now.Sub(a.asked) >= askFor {
		a.lost, a.asked = a.p.ask(ctx, askFor), now
		if ctx.Err() != nil {
			return nil
		}
		if a.lost == nil {
			a.answered(now)
		} else if a.silent.IsZero() {
			a.silent = a.since
			text := fmt.Sprintf("the target does not answer, for %v by now: %v", time.Since(a.since).Round(100*time.Millisecond), a.lost)
			a.p.trouble.Store(&text)
		}
	}
	if trouble < lostAfter {
		return nil
	}
	switch {
	case failed >= lostEmissions:
		return fmt.Errorf("%w: every event of the last %v failed (%d refused, %d uncertain)%s", ErrTarget, lostAfter, s.Refused, s.Uncertain, a.p.lastFailure())
	case failed > 0 && a.lost != nil:
		return fmt.Errorf("%w: no event of the last %v was accepted (%d failed, %d are not answered): %w", ErrTarget, trouble.Round(100*time.Millisecond), failed, pending, a.lost)
	}
	return nil
}

// answered notes that the target is there, and warns if it was not.
func (a *accepting) answered(now time.Time) {
	if a.silent.IsZero() {
		return
	}
	start := a.p.clock.Now().Sub(a.p.firing.Start()) - now.Sub(a.silent)
	a.p.Warn("target-silent", "", "from %s after publishing began, the target answered nothing for about %s", results.FormatNanos(results.Nanos(start)), results.FormatNanos(results.Nanos(now.Sub(a.silent))))
	a.silent = time.Time{}
	a.p.trouble.Store(nil)
}

// watchTarget ends the returned context when the target is gone: it will not
// come back in the middle of a measurement, and the figures so far are worth
// keeping. The caller must end the watch.
func (p *pass) watchTarget(ctx context.Context) (context.Context, *accepting) {
	ctx, cancel := context.WithCancelCause(ctx)
	a := &accepting{p: p, last: p.firing.Stats(), since: time.Now(), cancel: cancel, ended: make(chan struct{})}
	p.watchers.Go(func() {
		defer crash.Guard()
		defer close(a.ended)
		tick := time.NewTicker(lostAfter / 10)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := a.check(ctx, p.firing.Stats(), time.Now()); err != nil {
				cancel(err)
				return
			}
		}
	})
	return ctx, a
}

// end ends the watch and waits for it.
func (a *accepting) end() {
	a.cancel(nil)
	<-a.ended
}

// whole ends the watch when every emission is resolved. An error says that nothing
// was accepted in the last seconds of publishing, or at all, or that the target is
// gone.
func (a *accepting) whole(ctx context.Context) error {
	a.end()
	s, now := a.p.firing.Stats(), time.Now()
	a.answered(now)
	failed := s.Refused + s.Uncertain - a.last.Refused - a.last.Uncertain
	span := now.Sub(a.since)
	switch {
	case s.Fired > 0 && s.Accepted == 0:
		return fmt.Errorf("%w: none of %d events was accepted (%d refused, %d uncertain)%s", ErrTarget, s.Fired, s.Refused, s.Uncertain, a.p.lastFailure())
	case s.Accepted == a.last.Accepted && failed >= lostEmissions && span >= time.Second:
		return fmt.Errorf("%w: no event of the last %v of publishing was accepted (%d failed)%s", ErrTarget, span.Round(100*time.Millisecond), failed, a.p.lastFailure())
	}
	return a.p.stillThere(ctx, s.Accepted == a.last.Accepted && failed > 0)
}
