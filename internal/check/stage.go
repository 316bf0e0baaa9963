package check

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/sinks"
)

// atOnce is how many steps run at the same time.
const atOnce = 8

// stage takes the steps beside a run.
type stage struct {
	opts  *Options
	modes []eventmeter.Mode // of the run's lanes
	again bool              // repeat the steps for as long as the stage takes
	found *findings

	rounds int           // complete ones
	done   chan struct{} // closed when the steps need the run no more
}

// beside is the stage's work beside its run.
func (s *stage) beside(ctx context.Context, b run.Beside) {
	defer close(s.done)
	began := time.Now()
	for {
		s.round(ctx, b)
		if ctx.Err() != nil {
			return
		}
		s.rounds++
		left := s.opts.Least - time.Since(began)
		if left <= 0 {
			return
		}
		if !s.again {
			sinks.Sleep(ctx, left)
			return
		}
	}
}

// round takes all steps once.
func (s *stage) round(ctx context.Context, b run.Beside) {
	slots := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i := range Steps {
		step := &Steps[i]
		p := &probe{
			Beside: b,
			caller: b.Endpoint.Caller(b.Clock, new(wire.Traffic)),
			opts:   s.opts,
			step:   step,
			found:  s.found,
			judged: map[conform.ID]bool{},
		}
		if why := s.obstacle(step, &b); why != "" {
			p.skip(why, step.Rows...)
			continue
		}
		slots <- struct{}{}
		all.Go(func() {
			defer crash.Guard()
			defer func() { <-slots }()
			defer p.cleanUp(ctx)
			if ctx.Err() == nil {
				step.do(ctx, p)
			}
			p.skip(overTime, step.Rows...)
		})
	}
	all.Wait()
}

// obstacle says why a step cannot be taken; "" = it can.
func (s *stage) obstacle(step *Step, b *run.Beside) string {
	switch {
	case step.Mode != "" && !slices.Contains(s.modes, step.Mode):
		return "the server does not offer " + b.Event + " by " + string(step.Mode)
	case step.AtRest && s.again:
		return "the step is taken at rest"
	case step.Mode == eventmeter.Webhook && b.Inbox == nil:
		return "no lane has callbacks"
	case step.Hostile && !s.opts.AllowHostile:
		return "a server may take the step for an attack; it needs --allow-hostile"
	case step.Events && !b.Publishing:
		return "needs events that are published meanwhile; say how with --upstream"
	}
	return ""
}
