package selfbench

import (
	"context"
	"fmt"
	"time"
)

func measurePoll(ctx context.Context, r *runner) error {
	got, err := r.alternate(ctx, 1, r.pollers())
	if err != nil {
		return err
	}
	r.complete("pollers", "10,000, nothing lost", got[0]...)
	r.sized(0, got[0][0], 10_000)
	r.add(Line{What: "memory per poller", Measured: of(got[0], "KiB", (*figures).memory)})
	r.add(Line{What: "polls per second", Measured: of(got[0], "/s", func(f *figures) float64 {
		return ratio(f.sum(func(o *outcome) float64 { return float64(o.IdleCalls) }), f.Outcomes[0].IdleTook.Seconds())
	})})
	r.add(Line{What: "CPU per poll that brings nothing", Measured: of(got[0], "µs", (*figures).perCall)})
	r.add(Line{What: "CPU per delivery, on top of that", Measured: of(got[0], "µs", (*figures).perDelivery)})
	r.add(r.failures(got[0][0]))
	return nil
}

func measureWebhook(ctx context.Context, r *runner) error {
	got, err := r.alternate(ctx, 1, r.hooks())
	if err != nil {
		return err
	}
	f := got[0][0]
	r.complete("webhook subscriptions", "10,000 with refresh, nothing lost", f)
	refreshes := f.sum(func(o *outcome) float64 { return float64(o.Refreshes) })
	r.add(Line{What: "refreshes", Goal: "each subscription, again and again", Measured: newValue("", []float64{refreshes}), Verdict: verdict(refreshes >= f.streams())})
	r.sized(0, f, 10_000)
	r.add(Line{What: "memory per subscription", Measured: of(got[0], "KiB", (*figures).memory)})
	if f.sum(func(o *outcome) float64 { return float64(o.IdleCalls) }) > 0 {
		r.add(Line{What: "CPU per refresh", Measured: of(got[0], "µs", (*figures).perCall)})
	}
	r.add(Line{What: "CPU per delivery, on top of that", Measured: of(got[0], "µs", (*figures).perDelivery)})
	r.add(r.failures(f))
	return nil
}

func measureDeliveries(ctx context.Context, r *runner) error {
	got, err := r.alternate(ctx, r.opts.Repeats, r.floods()...)
	if err != nil {
		return err
	}
	rate, baseline := of(got[0], "/s", (*figures).throughput), of(got[1], "/s", (*figures).throughput)
	l := Line{What: "deliveries taken per second", Measured: rate, Baseline: &baseline}
	for _, f := range got[0] {
		if t := f.Targets[0]; f.lost() || t.Failed > 0 {
			l.Goal, l.Verdict = "nothing lost", notMet
			l.Note = fmt.Sprintf("%s of %s came; %d failed", grouped(int64(f.delivered())), grouped(int64(f.expected())), t.Failed)
		}
	}
	r.add(l)
	share := over(rate, baseline, "")
	share = newValue("%", scale(share.Runs, 100))
	r.add(Line{What: "… of what a handler that only reads and answers 200 takes", Goal: "at least 60 %", Measured: share, Verdict: atLeast(share, 60)})
	r.add(Line{What: "CPU per delivery", Measured: of(got[0], "µs", (*figures).perDelivery), Baseline: ptr(of(got[1], "µs", (*figures).perDelivery))})
	return nil
}

func scale(all []float64, by float64) []float64 {
	out := make([]float64, len(all))
	for i, v := range all {
		out[i] = v * by
	}
	return out
}

func (r *runner) pollers() plan {
	every := r.lasting(5*time.Second, shortest)
	return plan{Name: "eventmeter, pollers", Target: "reference", Client: spec{
		Role: "eventmeter", Mode: "poll", HTTP: "1.1", Streams: r.scaled(10_000, 1, 4*perStream1), PollEvery: every, Rate: 2,
		Idle: 2 * every, Paced: r.lasting(20*time.Second, 2*shortest), Patience: r.patience() + 2*every,
	}}
}

// failures is the line of calls that failed.
func (r *runner) failures(f *figures) Line {
	n := f.sum(func(o *outcome) float64 { return float64(o.Failures) })
	return Line{What: "calls that failed", Goal: "none", Measured: newValue("", []float64{n}), Verdict: verdict(n == 0)}
}

func (r *runner) hooks() plan {
	return plan{Name: "eventmeter, webhook subscriptions", Target: "reference", Client: spec{
		Role: "eventmeter", Mode: "webhook", HTTP: "1.1", Streams: r.scaled(10_000, 1, 4*perStream1), TTL: r.lasting(30*time.Second, 2*shortest),
		// They are refreshed at seven tenths of their life: the idle phase has to reach there.
		Rate: max(0.2, min(5, 2000/(10_000*r.opts.Scale))), Idle: r.lasting(27*time.Second, 2*shortest), Paced: r.lasting(30*time.Second, 2*shortest),
		Patience: r.patience() * 2,
	}}
}

// floods are the generator and a plain handler, fed by the same sender.
func (r *runner) floods() []plan {
	s := spec{
		Role: "eventmeter", Mode: "webhook", HTTP: "1.1", Streams: 100, Flood: true,
		Idle: r.lasting(3*time.Second, shortest/3), Paced: r.lasting(10*time.Second, shortest), Patience: r.patience(),
	}
	plain := s
	plain.Role = "plain"
	return []plan{{Name: "eventmeter, deliveries", Target: "sender", Client: s}, {Name: "handler that answers 200", Target: "sender", Client: plain}}
}
