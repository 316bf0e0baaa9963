// Package run takes a profile through its phases (attach, warm-up, measure, drain,
// detach, cool-down) and returns the result. It connects the schedule, the upstream, the
// drivers, the ledger and the target.
package run

import (
	"context"
	"errors"

	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/metrics"
)

// Run runs the profile.
//
// If the run ended early, Outcome is partial and the error says why; it wraps
// [ErrProfile], [ErrTarget], [context.Canceled] or [ErrStopped]. Outcome is nil if
// nothing was measured. A nil error means that the run is complete; the result says
// whether it met its thresholds and whether the generator was the bottleneck.
func Run(ctx context.Context, opts Options) (*Outcome, error) {
	secrets := SecretsOf(opts.Profile)
	if save := opts.Checkpoint; save != nil {
		opts.Checkpoint = func(o *Outcome) error {
			scrubOutcome(o, secrets)
			return save(o)
		}
	}
	out, err := doRun(ctx, opts, secrets)
	return out, secrets.ScrubError(err)
}

func scrubOutcome(o *Outcome, secrets *errtext.Secrets) {
	secrets.ScrubAll(o.Result)
	if o.Part != nil {
		secrets.ScrubAll(o.Part)
	}
}

func doRun(ctx context.Context, opts Options, secrets *errtext.Secrets) (*Outcome, error) {
	opening, opened, release := UntilStop(ctx, opts.Stop)
	defer release()
	r, err := newRun(opening, opts)
	if err == nil {
		defer r.close()
		err = r.open(opening)
	}
	if stopped := opened(); stopped && err != nil {
		if r != nil {
			r.hurried = true
		}
		return nil, ErrStopped // whatever error the stop caused
	}
	if err != nil {
		return nil, err
	}
	r.follow()
	out, err := r.passes(ctx)
	if out == nil {
		r.hurried = errors.Is(err, ErrStopped)
		r.followed.Finish(nil, metrics.Figures{})
	} else {
		scrubOutcome(out, secrets) // before metrics read it
		r.followed.Finish(out.Result, r.Upstream)
	}
	return out, err
}

// UntilStop returns a context that stop also cancels, until opened is called; opened
// reports whether stop did. Before that nothing has been measured, so there is
// nothing to drain. Call release when nothing uses the context any more.
func UntilStop(ctx context.Context, stop <-chan struct{}) (opening context.Context, opened func() bool, release func()) {
	opening, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	stopped := make(chan bool, 1)
	go func() {
		defer crash.Guard()
		select {
		case <-stop:
			cancel(ErrStopped)
			stopped <- true
		case <-done:
			stopped <- false
		}
	}()
	return opening, func() bool {
		close(done)
		return <-stopped
	}, func() { cancel(nil) }
}

// passes runs all lanes together or one after the other, and finishes the result.
func (r *run) passes(ctx context.Context) (*Outcome, error) {
	var err error
	if r.profile.Phases.Order == "turns" {
		for _, l := range r.lanes {
			if err = r.pass(ctx, []*lane{l}); err != nil {
				break
			}
		}
	} else {
		err = r.pass(ctx, r.lanes)
	}
	if len(r.Accounts) == 0 {
		return nil, err
	}
	part := r.part() // before warnings about figures are added: a merge makes its own
	r.endTokens()
	r.finish(err)
	return &Outcome{
		Result:        r.Result,
		Accounts:      r.Accounts,
		Traced:        r.entries,
		TraceErr:      r.traceErr,
		Part:          part,
		Subscriptions: r.subs,
		Judged:        r.Judged,
		Backlog:       r.backlog,
	}, err
}

// finish sets the parts of the result that are known only at the end.
func (r *run) finish(err error) {
	r.SetUpstream(r.upstreamFigures())
	r.warnEnded()
	r.Result.Target.Stdio = r.stdioFigures()
	r.Result.Target.Tokens = r.tokenFigures()
	r.warnStamps()
	r.Finish(err, r.firstFailure())
}
