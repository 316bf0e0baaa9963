package selfbench

import (
	"context"
	"fmt"
	"time"
)

func measurePoll(ctx context.Context, r *runner) error {
	got, err := r.measure(ctx, 1, r.pollers())
	if err != nil {
		return err
	}
	runs := got[0]
	r.complete("pollers", "10,000, nothing lost", runs...)
	r.sized(0, runs[0], 10_000)
	r.add(line("memory per poller", "KiB", runs, (*figures).memory))
	r.add(line("polls per second", "/s", runs, (*figures).callRate))
	r.add(line("CPU per poll that brings nothing", "µs", runs, (*figures).perCall))
	r.add(line("CPU per delivery, on top of that", "µs", runs, (*figures).perDelivery))
	r.failures(runs)
	return nil
}

func measureWebhook(ctx context.Context, r *runner) error {
	got, err := r.measure(ctx, 1, r.hooks())
	if err != nil {
		return err
	}
	runs := got[0]
	r.complete("webhook subscriptions", "10,000 with refresh, nothing lost", runs...)
	r.add(line("refreshes", "", runs, (*figures).refreshes).atLeast("each subscription, repeatedly", runs[0].streams()))
	r.sized(0, runs[0], 10_000)
	r.add(line("memory per subscription", "KiB", runs, (*figures).memory))
	if runs[0].idleCalls() > 0 {
		r.add(line("CPU per refresh", "µs", runs, (*figures).perCall))
	}
	r.add(line("CPU per delivery, on top of that", "µs", runs, (*figures).perDelivery))
	r.failures(runs)
	return nil
}

// failures adds the line of failed calls.
func (r *runner) failures(runs []*figures) {
	r.add(line("failed calls", "", runs, (*figures).failures).atMost("none", 0))
}

func measureDeliveries(ctx context.Context, r *runner) error {
	got, err := r.measure(ctx, r.opts.Repeats, r.floods()...)
	if err != nil {
		return err
	}
	mine, plain := got[0], got[1]
	rate := line("deliveries received per second", "/s", mine, (*figures).throughput).beside(plain, (*figures).throughput)
	for _, f := range mine {
		if failed := f.Targets[0].Failed; f.lost() || failed > 0 {
			rate = rate.goal("nothing lost", false)
			rate.Note = fmt.Sprintf("%s of %s arrived; %d failed", grouped(int64(f.delivered())), grouped(int64(f.expected())), failed)
		}
	}
	r.add(rate)
	share := relative(rate.Measured, *rate.Baseline, "%", func(x float64) float64 { return 100 * x })
	r.add(Line{What: "… of what a handler that only reads and answers 200 receives", Measured: share}.atLeast("at least 60 %", 60))
	r.add(line("CPU per delivery", "µs", mine, (*figures).perDelivery).beside(plain, (*figures).perDelivery))
	return nil
}

func (r *runner) pollers() plan {
	every := r.lasting(5*time.Second, shortest)
	return plan{Name: "eventmeter, pollers", Target: "reference", Client: spec{
		Role: "eventmeter", Mode: "poll", HTTP: "1.1", Streams: r.scaled(10_000, 1, 4*perStream1), PollEvery: every, Rate: 2,
		Idle: 2 * every, Paced: r.lasting(20*time.Second, 2*shortest), Timeout: r.timeout() + 2*every,
	}}
}

func (r *runner) hooks() plan {
	ttl := r.lasting(30*time.Second, 3*time.Second) // shorter ones are over before a busy machine refreshes them
	return plan{Name: "eventmeter, webhook subscriptions", Target: "reference", Client: spec{
		Role: "eventmeter", Mode: "webhook", HTTP: "1.1", Streams: r.scaled(10_000, 1, 4*perStream1), TTL: ttl,
		// Refreshes come at seven tenths of the lifetime, which the idle phase must reach.
		Rate: max(0.2, min(5, 2000/(10_000*r.opts.Scale))), Idle: 9 * ttl / 10, Paced: r.lasting(30*time.Second, 2*shortest),
		Timeout: r.timeout() * 2,
	}}
}

// floods are the generator and a plain handler, both fed by the same sender.
func (r *runner) floods() []plan {
	s := spec{
		Role: "eventmeter", Mode: "webhook", HTTP: "1.1", Streams: 100, Flood: true,
		Idle: r.lasting(3*time.Second, shortest/3), Paced: r.lasting(10*time.Second, shortest), Timeout: r.timeout(),
	}
	plain := s
	plain.Role = "plain"
	return []plan{
		{Name: "eventmeter, deliveries", Target: "sender", Client: s},
		{Name: "handler that answers 200", Target: "sender", Client: plain},
	}
}
