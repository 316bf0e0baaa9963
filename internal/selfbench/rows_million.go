package selfbench

import (
	"context"
	"time"
)

// millionEvents is the number of events that go to each of a million streams, and
// millionRate the deliveries per second, which leave room on two processors.
const (
	millionEvents = 10
	millionRate   = 200_000
)

// million is the plan of the row of that name: n streams, and some events to all of
// them. The target writes 64 KiB of frames at once, so that its share is small.
func (r *runner) million(n int) plan {
	p := r.push("eventmeter, HTTP/2", "eventmeter", "h2c", n)
	p.Client.Batch = 0
	p.Client.Rate = min(5, millionRate/float64(n))
	p.Client.Paced = time.Duration(millionEvents / p.Client.Rate * float64(time.Second))
	p.Client.Timeout = max(p.Client.Timeout, time.Duration(5*r.opts.Scale*float64(time.Minute)))
	return p
}

// measureMillion opens a million streams once, however often comparisons are repeated.
func measureMillion(ctx context.Context, r *runner) error {
	const goal = 1_000_000
	p := r.million(r.scaled(goal, 1, perMillion))
	got, err := r.measure(ctx, 1, p)
	if err != nil {
		return err
	}
	f := got[0]
	r.complete("streams in one process", "1,000,000 multiplexed, nothing lost", f...)
	r.add(line("deliveries", "", f, (*figures).delivered).goal("10,000,000", f[0].delivered() >= millionEvents*f[0].streams()))
	r.add(line("memory per stream", "KiB", f, (*figures).memory))
	r.add(line("… after garbage collection", "KiB", f, (*figures).settled).atMost("at most 1 KiB", 1))
	r.add(line("… of that, heap in use", "KiB", f, (*figures).heap))
	r.add(line("… of that, stacks", "KiB", f, (*figures).stack))
	r.add(line("CPU per delivery", "µs", f, (*figures).perDelivery))
	r.add(line("streams opened per second", "/s", f, (*figures).openRate))
	r.add(line("CPU to open a stream", "µs", f, (*figures).openCPU))
	r.add(line("the target: memory per stream", "KiB", f, (*figures).targetMemory))
	r.add(line("the target: CPU per delivery", "µs", f, (*figures).targetPerDelivery))
	r.add(line("the target: CPU to open a stream", "µs", f, (*figures).targetCPU))
	r.sized(0, f[0], goal)
	return nil
}
