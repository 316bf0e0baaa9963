package run

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/results"
)

// A checkpoint is the result of a run in progress, marked as such. It is written
// every few seconds, so that a run that is killed leaves more than an empty
// directory. See [Options.Checkpoint].
const (
	checkpointFirst = 2 * time.Second
	checkpointEvery = 5 * time.Second
	// checkpointShare bounds the cost of checkpoints to 1 % of a processor: the pause
	// after a checkpoint is at least this many times as long as writing it took.
	checkpointShare = 100
)

// errCheckpoint is the reason why the result in a checkpoint is partial.
var errCheckpoint = errors.New("this is a checkpoint, written while the run went on: the run was killed, or is not over")

// checkpoints writes checkpoints of the pass until the returned function is called,
// which waits for the last one.
func (p *pass) checkpoints() (stop func()) {
	if p.opts.Checkpoint == nil {
		return func() {}
	}
	return during(context.Background(), func(ctx context.Context) {
		next := time.NewTimer(checkpointFirst)
		defer next.Stop()
		failed := false
		for {
			select {
			case <-ctx.Done():
				return
			case <-next.C:
			}
			began := time.Now()
			if err := p.opts.Checkpoint(p.checkpoint()); err != nil && !failed {
				failed = true
				p.Warn("checkpoint", "", "a checkpoint could not be written, so less is left if the run is killed: %v", err)
			}
			next.Reset(max(checkpointEvery, checkpointShare*time.Since(began)))
		}
	})
}

// during starts work, and returns a function that cancels it and waits for it.
func during(ctx context.Context, work func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(crash.Guarded(func() { work(ctx) }))
	return func() {
		cancel()
		wg.Wait()
	}
}

// checkpoint returns the outcome so far.
func (p *pass) checkpoint() *Outcome {
	account := p.ledger.Snapshot(p.opts.Shard != nil)
	p.wholeNames(&account)
	m := account.Measured
	in, process := p.watch.SoFar(results.ShareOf(m.Dropped, m.Fired+m.Dropped))
	c := p.copied()
	own := p.driverFigures()
	p.observed(own, p.clock.Now(), c.Warn)
	p.findings(own, c.Warn)
	if p.opts.Shard != nil {
		c.partPasses = append(c.partPasses, p.partPass(account, own, in, process))
	}
	c.Add(account, own, in, process)
	part := c.part()
	c.Result.Checkpoint = true
	c.finish(errCheckpoint)
	return &Outcome{Result: c.Result, Part: part}
}

// copied returns a copy of the run with a result of its own, in which the current
// phase ends now.
func (p *pass) copied() *run {
	r := p.run
	p.phaseMu.Lock()
	s := r.Snapshot()
	if p.phase != "" {
		s.Result.Phases = append(s.Result.Phases, p.phaseUntil(p.clock.Now()))
	}
	p.phaseMu.Unlock()
	return &run{
		Summary: s, opts: r.opts, profile: r.profile, clock: r.clock, id: r.id, lanes: r.lanes, target: r.target,
		plan: r.plan, common: r.common, partPasses: slices.Clone(r.partPasses),
	}
}
