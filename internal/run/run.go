// Package run takes a profile through its phases (attach, warm-up, measure, drain,
// detach) and returns the result. Here the schedule, the upstream, the drivers, the
// ledger and the target meet.
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
// When the run ended early, Outcome is partial, and the error says why; it
// wraps [ErrProfile], [ErrTarget], [context.Canceled] or [ErrStopped]. Outcome
// is nil if nothing was measured. A nil error means that the run is whole;
// whether it met its thresholds, and whether the generator was the bottleneck,
// is in the result.
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

// UntilStop gives a context that is also cancelled by stop, until opened is
// called, which says whether it was. Nothing has been measured by then that would
// have to be drained. release must be called when nothing uses the context any
// more.
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

// passes runs all lanes together or one after the other, and finishes the
// result.
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
	part := r.part() // with the warnings so far: those about figures are for the merged ones
	r.endTokens()
	r.finish(err)
	return &Outcome{Result: r.Result, Accounts: r.Accounts, Traced: r.entries, TraceErr: r.traceErr, Part: part, Subscriptions: r.subs, Backlog: r.backlog}, err
}

// finish fills in what is known only at the end.
func (r *run) finish(err error) {
	r.SetUpstream(r.upstreamFigures())
	r.warnEnded()
	r.Result.Target.Stdio = r.stdioFigures()
	r.Result.Target.Tokens = r.tokenFigures()
	r.warnStamps()
	r.Finish(err, r.firstFailure())
}
