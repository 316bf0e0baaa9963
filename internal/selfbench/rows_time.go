package selfbench

import (
	"context"
	"fmt"
	"time"
)

// spread is a plan with the same deliveries, spread evenly: each event goes to
// one of up to a hundred groups of streams, and there are as many more events.
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
	even := spread(burst)
	got, err := r.measure(ctx, r.opts.Repeats, even, spread(baseline), burst, baseline, alone, kernel)
	if err != nil {
		return err
	}
	r.complete("streams, events spread", "nothing lost", got[0]...)
	r.portable(
		"",
		got[0],
		got[1],
		fmt.Sprintf("each event goes to one of %d groups of streams, %s events a second", even.Client.Groups, number(even.Client.Rate)),
	)
	l := &r.row.Lines[len(r.row.Lines)-1]
	*l = l.atMost("at most 6 ms", 6000)
	r.portable(
		", each event to all streams at once",
		got[2],
		got[3],
		"as many writes as streams at once, 5 times a second, on the processors that the client needs",
	)
	r.portable(", the same, target on one processor", got[4], nil, "so that one is left to the client")
	times := got[5]
	one := line("deliveries with the kernel's time", "%", times, (*figures).kernelTimed)
	one.Note = "each event to all streams at once, here and below"
	r.add(one)
	r.add(line("error, kernel's times, p50", "µs", times, (*figures).errorP50).atMost("at most 10 µs", 10))
	r.add(line("error, kernel's times, p99", "µs", times, (*figures).errorP99).atMost("at most 50 µs", 50))
	one = line("deliveries that shared a read, kernel's times", "%", times, (*figures).sharedRead).goal("flagged", true)
	one.Note = "each is flagged where it is recorded"
	r.add(one)
	r.sized(0, got[0][0], 10_000)
	return nil
}

func measureSustained(ctx context.Context, r *runner) error {
	got, err := r.measure(ctx, 1, r.timed(true, 60*time.Second), r.timed(false, 60*time.Second))
	if err != nil {
		return err
	}
	r.complete("10,000 streams × 5 events/s for a minute", "nothing lost", got[0][0], got[1][0])
	for i, name := range []string{"default (kernel's times)", "portable"} {
		l := line("error, p99, "+name, "µs", got[i], (*figures).errorP99)
		r.add(l.goal("under 25 ms", l.Measured.Median < 25_000))
	}
	r.add(line("deliveries per second", "/s", got[0], (*figures).throughput))
	r.add(line("CPU per delivery", "µs", got[0], (*figures).perDelivery))
	r.sized(0, got[0][0], 10_000)
	return nil
}

func measureOpening(ctx context.Context, r *runner) error {
	n1, n2 := r.scaled(19_000, 1, perStream1), r.scaled(100_000, 1, perStream2)
	plans := []plan{
		r.push("eventmeter", "eventmeter", "1.1", n1), r.push("goroutine and 4 KiB reader", "reader", "1.1", n1),
		r.push("eventmeter, HTTP/2", "eventmeter", "h2c", n2), r.push("raw framer", "framer", "h2c", n2),
	}
	got, err := r.measure(ctx, r.opts.Repeats, plans...)
	if err != nil {
		return err
	}
	for i, name := range []string{"HTTP/1.1", "HTTP/2"} {
		mine, baseline := got[2*i], got[2*i+1]
		l := line("streams opened per second, "+name, "/s", mine, (*figures).openRate).beside(baseline, (*figures).openRate)
		l.Note = fmt.Sprintf("the target used %s of CPU for each", of(mine, "µs", (*figures).targetCPU))
		r.add(l.atLeast("at least 5,000 where the target keeps up", 5000))
		r.add(
			line("CPU for each, "+name, "µs", mine, (*figures).openCPU).beside(baseline, (*figures).openCPU).atMost("at most 100 µs", 100),
		)
	}
	return nil
}

// timed is a plan of streams that measures the error of times.
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
// returns, beside a baseline's. The first line has the note.
func (r *runner) portable(how string, mine, baseline []*figures, note string) {
	for i, f := range []func(*figures) float64{(*figures).errorP50, (*figures).errorP99} {
		l := line("error, portable, "+[]string{"p50", "p99"}[i]+how, "µs", mine, f)
		if baseline != nil {
			l = l.beside(baseline, f)
		}
		if i == 0 {
			l.Note = note
		}
		r.add(l)
	}
}
