package selfbench

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

// spread has the same deliveries come evenly: each event goes to one group of
// streams, of a hundred, and there are as many more events.
func spread(p plan) plan {
	p.Client.Groups = max(1, min(100, p.Client.Streams/10))
	p.Client.Rate *= float64(p.Client.Groups)
	p.Name += ", spread"
	return p
}

func measureError(ctx context.Context, r *runner) error {
	const paced = 8 * time.Second
	burst, kernel := r.timed(false, paced), r.timed(true, paced)
	baseline := burst
	baseline.Name, baseline.Client.Role = "goroutine and 4 KiB reader", "reader"
	alone := burst
	alone.Name, alone.TargetCPUs = "portable times, target on one processor", 1
	got, err := r.alternate(ctx, r.opts.Repeats, spread(burst), spread(baseline), burst, baseline, alone, kernel)
	if err != nil {
		return err
	}
	r.complete("streams, events spread", "nothing lost", got[0]...)
	r.portable("", got[0], got[1], fmt.Sprintf("each event goes to one of %d groups of streams, %s events a second", spread(burst).Client.Groups, number(spread(burst).Client.Rate)))
	l := &r.row.Lines[len(r.row.Lines)-1]
	l.Goal, l.Verdict = "at most 6 ms", atMost(l.Measured, 6000)
	r.portable(", each event to all streams at once", got[2], got[3], "as many writes as streams at once, 5 times a second, on the processors that the client needs")
	r.portable(", the same, target on one processor", got[4], nil, "so that one is left to the client")
	p50, p99, times := micros(errorP50), micros(errorP99), got[5]
	r.add(Line{What: "deliveries with the kernel's time", Measured: of(times, "%", kernelTimed), Note: "each event to all streams at once, here and below"})
	one := Line{What: "error, kernel's times, p50", Goal: "at most 10 µs", Measured: of(times, "µs", p50)}
	one.Verdict = atMost(one.Measured, 10)
	r.add(one)
	one = Line{What: "error, kernel's times, p99", Goal: "at most 50 µs", Measured: of(times, "µs", p99)}
	one.Verdict = atMost(one.Measured, 50)
	r.add(one)
	r.add(Line{What: "deliveries that shared a read, kernel's times", Goal: "flagged", Measured: of(times, "%", sharedRead), Verdict: met, Note: "each is flagged where it is recorded"})
	r.sized(0, got[0][0], 10_000)
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
		r.push("eventmeter", "eventmeter", "1.1", n1), r.push("goroutine and 4 KiB reader", "reader", "1.1", n1),
		r.push("eventmeter, HTTP/2", "eventmeter", "h2c", n2), r.push("raw framer", "framer", "h2c", n2),
	}
	got, err := r.alternate(ctx, r.opts.Repeats, plans...)
	if err != nil {
		return err
	}
	for i, name := range []string{"HTTP/1.1", "HTTP/2"} {
		mine, baseline := got[2*i], got[2*i+1]
		l := Line{
			What: "streams opened per second, " + name, Goal: "at least 5,000 where the target keeps up",
			Measured: of(mine, "/s", (*figures).openRate), Baseline: ptr(of(baseline, "/s", (*figures).openRate)),
		}
		l.Verdict = atLeast(l.Measured, 5000)
		target := of(mine, "µs", func(f *figures) float64 { return ratio(float64(f.TargetOpening)/1e3, f.streams()) })
		l.Note = fmt.Sprintf("the target took %s of CPU for each", target)
		r.add(l)
		l = Line{
			What: "CPU for each, " + name, Goal: "at most 100 µs",
			Measured: of(mine, "µs", (*figures).openCPU), Baseline: ptr(of(baseline, "µs", (*figures).openCPU)),
		}
		l.Verdict = atMost(l.Measured, 100)
		r.add(l)
	}
	return nil
}

// timed is a plan of streams whose times are compared with those of sending.
func (r *runner) timed(kernel bool, paced time.Duration) plan {
	name := "portable times"
	if kernel {
		name = "kernel's times"
	}
	p := r.push(name, "eventmeter", "1.1", r.scaled(10_000, 1, perStream1))
	p.Client.Kernel, p.Client.Error, p.Client.Rate = kernel, true, 5
	p.Client.Paced = r.lasting(paced, shortest)
	return p
}

// portable adds the lines of the error of times that are taken when a read
// returns, beside a baseline's.
func (r *runner) portable(how string, mine, baseline []*figures, note string) {
	for _, q := range []struct {
		name string
		of   func(*figures) float64
	}{{"p50", micros(errorP50)}, {"p99", micros(errorP99)}} {
		l := Line{What: "error, portable, " + q.name + how, Measured: of(mine, "µs", q.of), Note: note}
		note = "" // it is said once
		if baseline != nil {
			l.Baseline = ptr(of(baseline, "µs", q.of))
		}
		r.add(l)
	}
}
