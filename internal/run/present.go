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
	// askAfter is how long an emission must have waited for its answer, or nothing
	// must have been accepted after a failure, before the target is asked whether it
	// is there. With askFor it makes less than two seconds.
	askAfter = 700 * time.Millisecond
	// askFor is how long the target has to answer.
	askFor = time.Second
	// lostAfter is how long emissions must have failed, with none accepted, before
	// the target counts as gone.
	lostAfter = 2 * time.Second
	// lostEmissions is how many emissions must have failed by then if the target
	// still answers.
	lostEmissions = 3
	// returnWithin is how long a target that refuses connections has to come back at
	// the end of publishing and of the drain, because it may be restarting.
	returnWithin = 2 * time.Second
	// answerWithin is how long a target that takes connections has to answer then. One
	// that is overloaded, or shares a busy machine, is slow and not gone: what is missing
	// is a loss to be counted.
	answerWithin = 10 * time.Second
)

// errSilent says that the target neither answered nor refused a connection.
var errSilent = errors.New("it does not answer")

// ask asks the target whether it is there. It returns errSilent if no answer came in
// time.
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

// stillThere returns an error if the target is gone: missing events then say nothing
// about its delivery. A target that does not answer counts as gone only if
// somethingMissing.
func (p *pass) stillThere(ctx context.Context, somethingMissing bool) error {
	const again = 200 * time.Millisecond
	end := time.Now().Add(returnWithin)
	for {
		err := p.ask(ctx, answerWithin)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			return nil
		case errors.Is(err, errSilent):
			if !somethingMissing {
				return nil
			}
			return fmt.Errorf("%w: %w within %v", ErrTarget, err, answerWithin)
		case time.Now().After(end):
			return fmt.Errorf("%w: it is gone: %w", ErrTarget, err)
		}
		if err := p.pause(ctx, again); err != nil {
			return err
		}
	}
}

// accepting follows whether emissions are accepted. Its fields belong to one
// goroutine until that goroutine has ended.
type accepting struct {
	p     *pass
	last  loadgen.Counts // counts when an emission was last accepted, or none had failed
	since time.Time      // of last
	asked time.Time      // when the target was asked last
	lost  error          // its answer; nil if it is there

	silent time.Time // when the target stopped answering; zero if it answers

	cancel context.CancelCauseFunc
	ended  chan struct{} // closed when the watch is over
}

// check looks at the outcomes of the emissions so far, and returns an error if the
// target is gone.
func (a *accepting) check(ctx context.Context, s loadgen.Counts, now time.Time) error {
	failed := s.Refused + s.Uncertain - a.last.Refused - a.last.Uncertain
	pending := s.Fired - min(s.Fired, s.Accepted+s.Refused+s.Uncertain) // the counters are not read at one instant
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
			text := fmt.Sprintf("the target does not answer (for %v so far): %v", time.Since(a.since).Round(100*time.Millisecond), a.lost)
			a.p.trouble.Store(&text)
		}
	}
	if trouble < lostAfter {
		return nil
	}
	switch {
	case failed >= lostEmissions:
		return fmt.Errorf(
			"%w: every event of the last %v failed (%d refused, %d uncertain)%s",
			ErrTarget,
			lostAfter,
			s.Refused,
			s.Uncertain,
			a.p.lastFailure(),
		)
	case failed > 0 && a.lost != nil:
		return fmt.Errorf(
			"%w: no event of the last %v was accepted (%d failed, %d are not answered): %w",
			ErrTarget,
			trouble.Round(100*time.Millisecond),
			failed,
			pending,
			a.lost,
		)
	}
	return nil
}

// answered records that the target is there, and warns if it did not answer before.
func (a *accepting) answered(now time.Time) {
	if a.silent.IsZero() {
		return
	}
	start := a.p.clock.Now().Sub(a.p.firing.Start()) - now.Sub(a.silent)
	a.p.Warn(
		"target-silent",
		"",
		"from %s after publishing began, the target answered nothing for about %s",
		results.Nanos(start),
		results.Nanos(now.Sub(a.silent)),
	)
	a.silent = time.Time{}
	a.p.trouble.Store(nil)
}

// watchTarget returns a context that ends when the target is gone: a target does not
// come back during a measurement, and the figures so far are worth keeping. The
// caller must end the watch.
func (p *pass) watchTarget(ctx context.Context) (context.Context, *accepting) {
	ctx, cancel := context.WithCancelCause(ctx)
	a := &accepting{p: p, last: p.firing.Counts(), since: time.Now(), cancel: cancel, ended: make(chan struct{})}
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
			if err := a.check(ctx, p.firing.Counts(), time.Now()); err != nil {
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

// whole ends the watch when every emission is resolved. It returns an error if
// nothing was accepted in the last seconds of publishing, or at all, or if the target
// is gone.
func (a *accepting) whole(ctx context.Context) error {
	a.end()
	s, now := a.p.firing.Counts(), time.Now()
	a.answered(now)
	failed := s.Refused + s.Uncertain - a.last.Refused - a.last.Uncertain
	span := now.Sub(a.since)
	switch {
	case s.Fired > 0 && s.Accepted == 0:
		return fmt.Errorf(
			"%w: none of %d events was accepted (%d refused, %d uncertain)%s",
			ErrTarget,
			s.Fired,
			s.Refused,
			s.Uncertain,
			a.p.lastFailure(),
		)
	case s.Accepted == a.last.Accepted && failed >= lostEmissions && span >= time.Second:
		return fmt.Errorf(
			"%w: no event of the last %v of publishing was accepted (%d failed)%s",
			ErrTarget,
			span.Round(100*time.Millisecond),
			failed,
			a.p.lastFailure(),
		)
	}
	return a.p.stillThere(ctx, s.Accepted == a.last.Accepted && failed > 0)
}
