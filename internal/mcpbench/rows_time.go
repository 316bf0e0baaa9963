package mcpbench

import (
	"context"
	"fmt"
	"time"
)

func micros(d func(*figures) time.Duration) func(*figures) float64 {
	return func(f *figures) float64 { return float64(d(f)) / 1e3 }
}

func errorP50(f *figures) time.Duration { return f.Outcomes[0].Error.P50 }
func errorP99(f *figures) time.Duration { return f.Outcomes[0].Error.P99 }

// sharedRead is the share of deliveries, in per cent, that were read together
// with others and may have come earlier than their time says.
func sharedRead(f *figures) float64 {
	o := f.Outcomes[0]
	return 100 * ratio(float64(o.Shared), float64(o.Copies))
}

func kernelTimed(f *figures) float64 {
	o := f.Outcomes[0]
	return 100 * ratio(float64(o.Kernel), float64(o.Copies))
}

// timed is a plan of streams whose times are compared with those of sending.
func (r *runner) timed(kernel bool, paced time.Duration) plan {
	name := "portable times"
	if kernel {
		name = "kernel's times"
	}
	p := r.push(name, "mcpload", "1.1", r.scaled(10_000, 1, perStream1))
	p.Client.Kernel, p.Client.Error, p.Client.Rate = kernel, true, 5
	p.Client.Paced = r.lasting(paced, shortest)
	return p
}

func measureError(ctx context.Context, r *runner) error {
	alone := r.timed(false, 12*time.Second)
	alone.Name, alone.TargetCPUs = "portable times, target on one processor", 1
	got, err := r.alternate(ctx, r.opts.Repeats, alone, r.timed(false, 12*time.Second), r.timed(true, 12*time.Second))
	if err != nil {
		return err
	}
	portable, kernel := got[1], got[2]
	p50, p99 := micros(errorP50), micros(errorP99)
	r.add(Line{What: "error, portable, p50", Measured: of(got[0], "µs", p50)})
	l := Line{What: "error, portable, p99", Goal: "at most 6 ms", Measured: of(got[0], "µs", p99), Note: "the target writes from one processor, so that one is left to the client"}
	l.Verdict = atMost(l.Measured, 6000)
	r.add(l)
	r.add(Line{What: "error, portable, p50, while the target uses all processors", Measured: of(portable, "µs", p50)})
	r.add(Line{What: "error, portable, p99, while the target uses all processors", Measured: of(portable, "µs", p99)})
	r.add(Line{What: "deliveries with the kernel's time", Measured: of(kernel, "%", kernelTimed)})
	l = Line{What: "error, kernel's times, p50", Goal: "at most 10 µs", Measured: of(kernel, "µs", p50)}
	l.Verdict = atMost(l.Measured, 10)
	r.add(l)
	l = Line{What: "error, kernel's times, p99", Goal: "at most 50 µs", Measured: of(kernel, "µs", p99)}
	l.Verdict = atMost(l.Measured, 50)
	r.add(l)
	r.add(Line{What: "deliveries that shared a read, kernel's times", Goal: "flagged", Measured: of(kernel, "%", sharedRead), Verdict: met, Note: "each is flagged where it is recorded"})
	r.sized(0, portable[0], 10_000)
	return nil
}

func measureSustained(ctx context.Context, r *runner) error {
	got, err := r.alternate(ctx, 1, r.timed(true, 60*time.Second), r.timed(false, 60*time.Second))
	if err != nil {
		return err
	}
	r.complete("10,000 streams × 5 events/s for a minute", "nothing lost", got[0][0], got[1][0])
	for i, name := range []string{"as it comes (kernel's times)", "portable"} {
		l := Line{What: "error, p99, " + name, Goal: "under 25 ms", Measured: of(got[i], "µs", micros(errorP99))}
		l.Verdict = verdict(l.Measured.Median < 25_000)
		r.add(l)
	}
	r.add(Line{What: "deliveries per second", Measured: of(got[0], "/s", (*figures).throughput)})
	r.add(Line{What: "CPU per delivery", Measured: of(got[0], "µs", (*figures).perDelivery)})
	r.sized(0, got[0][0], 10_000)
	return nil
}

func measureOpening(ctx context.Context, r *runner) error {
	n1, n2 := r.scaled(19_000, 1, perStream1), r.scaled(100_000, 1, perStream2)
	plans := []plan{
		r.push("mcpload", "mcpload", "1.1", n1), r.push("goroutine and 4 KiB reader", "reader", "1.1", n1),
		r.push("mcpload, HTTP/2", "mcpload", "h2c", n2), r.push("raw framer", "framer", "h2c", n2),
	}
	got, err := r.alternate(ctx, r.opts.Repeats, plans...)
	if err != nil {
		return err
	}
	for i, name := range []string{"HTTP/1.1", "HTTP/2"} {
		mine, floor := got[2*i], got[2*i+1]
		l := Line{
			What: "streams opened per second, " + name, Goal: "at least 5,000 where the target keeps up",
			Measured: of(mine, "/s", (*figures).openRate), Floor: ptr(of(floor, "/s", (*figures).openRate)),
		}
		l.Verdict = atLeast(l.Measured, 5000)
		target := of(mine, "µs", func(f *figures) float64 { return ratio(float64(f.TargetOpening)/1e3, f.streams()) })
		l.Note = fmt.Sprintf("the target took %s of CPU for each", target)
		r.add(l)
		l = Line{
			What: "CPU for each, " + name, Goal: "at most 100 µs",
			Measured: of(mine, "µs", (*figures).openCPU), Floor: ptr(of(floor, "µs", (*figures).openCPU)),
		}
		l.Verdict = atMost(l.Measured, 100)
		r.add(l)
	}
	return nil
}
