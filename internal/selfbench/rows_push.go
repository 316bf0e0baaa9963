package selfbench

import (
	"context"
	"fmt"
)

func measurePush1(ctx context.Context, r *runner) error {
	const goal, wide = 19_000, 48_000
	n := r.scaled(goal, 1, perStream1)
	plans := []plan{r.push("eventmeter", "eventmeter", "1.1", n), r.push("goroutine and 4 KiB reader", "reader", "1.1", n)}
	if haveEpoll {
		plans = append(plans, r.push("epoll", "epoll", "1.1", n))
	}
	got, err := r.alternate(ctx, r.opts.Repeats, plans...)
	if err != nil {
		return err
	}
	r.complete("streams in one process", "19,000, nothing lost", got[0]...)
	r.compare(got, plans, "4 KiB reader (b)", 6, "at most 6 KiB (stretch 4.5)", 1.25, "at most 1.25 × b (stretch: below b)")
	r.sized(0, got[0][0], goal)

	p := r.push("eventmeter, three processes", "eventmeter", "1.1", r.scaled(wide/3, 3, perStream1))
	p.Pairs = 3
	// Three targets share the processors, too.
	p.Client.Rate = max(0.25, p.Client.Rate/3)
	many, err := r.alternate(ctx, 1, p)
	if err != nil {
		return err
	}
	from := len(r.row.Lines)
	r.complete("streams in three processes", "48,000, nothing lost", many[0]...)
	r.sized(from, many[0][0], wide)
	r.add(Line{What: "memory per stream, three processes", Measured: of(many[0], "KiB", (*figures).memory)})
	r.add(Line{What: "CPU per delivery, three processes", Measured: of(many[0], "µs", (*figures).perDelivery)})
	return nil
}

func measurePush2(ctx context.Context, r *runner) error {
	const goal = 100_000
	n := r.scaled(goal, 1, perStream2)
	plans := []plan{r.push("eventmeter, HTTP/2", "eventmeter", "h2c", n), r.push("raw framer", "framer", "h2c", n)}
	got, err := r.alternate(ctx, r.opts.Repeats, plans...)
	if err != nil {
		return err
	}
	r.complete("streams in one process", "100,000 multiplexed, nothing lost", got[0]...)
	r.compare(got, plans, "framer", 3, "at most 3 KiB", 1.6, "at most 1.6 × a raw framer's")
	r.sized(0, got[0][0], goal)

	// The neutral target writes so fast that a read brings many frames. A server
	// that has a goroutine for each stream is what clients meet.
	real := []plan{r.push("eventmeter, HTTP/2, reference target", "eventmeter", "h2c", r.scaled(10_000, 1, 4*perStream1)), {}}
	real[0].Target = "reference"
	real[1] = real[0]
	real[1].Name, real[1].Client.Role, real[1].Client.Kernel = "raw framer, reference target", "framer", false
	if got, err = r.alternate(ctx, r.opts.Repeats, real...); err != nil {
		return err
	}
	mine, baseline := of(got[0], "µs", (*figures).perDelivery), of(got[1], "µs", (*figures).perDelivery)
	from := len(r.row.Lines)
	r.add(Line{What: "CPU per delivery, reference target, 10,000 streams", Measured: mine, Baseline: &baseline})
	relation := over(mine, baseline, "× framer")
	r.add(Line{What: "CPU per delivery, reference target, in relation", Goal: "at most 1.6 × a raw framer's", Measured: relation, Verdict: atMost(relation, 1.6)})
	r.sized(from, got[0][0], 10_000)

	// A server that gathers what it writes leaves a client hardly any system
	// calls to make, so that all it does else is seen.
	for i := range plans {
		plans[i].Name += ", frames gathered"
		plans[i].Client.Batch = 0
	}
	if got, err = r.alternate(ctx, 1, plans...); err != nil {
		return err
	}
	a, b := of(got[0], "µs", (*figures).perDelivery), of(got[1], "µs", (*figures).perDelivery)
	r.add(Line{What: "CPU per delivery, 64 KiB of frames to a write", Measured: a, Baseline: &b})
	return nil
}

func measureCurve(ctx context.Context, r *runner) error {
	for _, http := range []string{"1.1", "h2c"} {
		var points []Point
		for _, n := range []int{1000, 3000, 10_000, 30_000, 100_000} {
			p := r.push("eventmeter, HTTP/"+map[string]string{"1.1": "1.1", "h2c": "2"}[http], "eventmeter", http, 0)
			kind := uint64(perStream2)
			if http == "1.1" {
				if n > 48_000 { // as many as three processes are asked to have
					continue
				}
				p.Pairs = (n + 18_999) / 19_000
				kind = perStream1
			}
			pairs := max(p.Pairs, 1)
			q := r.push(p.Name, "eventmeter", http, r.scaled(n/pairs, pairs, kind))
			q.Pairs = p.Pairs
			q.Client.Rate = max(0.25, q.Client.Rate/float64(pairs))
			got, err := r.alternate(ctx, 1, q)
			if err != nil {
				return err
			}
			points = append(points, point(q, got[0][0]))
		}
		r.row.Curve = append(r.row.Curve, points...)
		r.linear("streams, "+points[0].Client, points, 2)
	}
	return r.rates(ctx)
}

func point(p plan, f *figures) Point {
	return Point{
		Client: p.Name, Streams: int(f.streams()), Processes: len(f.Outcomes), Rate: p.Client.Rate,
		Memory: f.memory(), CPU: f.perDelivery(), Delivered: int64(f.delivered()), Complete: !f.lost(),
	}
}

// linearity is by how much the cost of one may grow.
const linearity = 1.25

// compare adds the lines of memory and CPU: got holds the generator, the baseline,
// and peers.
func (r *runner) compare(got [][]*figures, plans []plan, baseline string, kib float64, memoryGoal string, share float64, cpuGoal string) {
	line := func(what, unit string, f func(*figures) float64) Line {
		l := Line{What: what, Measured: of(got[0], unit, f), Baseline: ptr(of(got[1], unit, f))}
		for i := 2; i < len(got); i++ {
			l.Peers = append(l.Peers, Peer{plans[i].Name, of(got[i], unit, f)})
		}
		return l
	}
	memory := line("memory per stream", "KiB", (*figures).memory)
	memory.Goal, memory.Verdict = memoryGoal, atMost(memory.Measured, kib)
	r.add(memory)
	r.add(line("… after garbage collection", "KiB", (*figures).settled))
	r.add(line("… of that, heap in use", "KiB", (*figures).heap))
	r.add(line("… of that, stacks", "KiB", (*figures).stack))
	cpu := line("CPU per delivery", "µs", (*figures).perDelivery)
	relation := over(cpu.Measured, *cpu.Baseline, "× "+baseline)
	r.add(cpu)
	r.add(Line{What: "CPU per delivery, in relation", Goal: cpuGoal, Measured: relation, Verdict: atMost(relation, share)})
}

// rates adds the curve in events per second, and that of the baseline b at its
// ends: what the machine does with more work is in both.
func (r *runner) rates(ctx context.Context) error {
	n := r.scaled(1000, 1, perStream1)
	curve := func(name, role string, rates ...float64) ([]Point, error) {
		var points []Point
		for _, rate := range rates {
			p := r.push(name, role, "1.1", n)
			p.Client.Rate = rate
			got, err := r.alternate(ctx, 1, p)
			if err != nil {
				return nil, err
			}
			points = append(points, point(p, got[0][0]))
		}
		r.row.Curve = append(r.row.Curve, points...)
		return points, nil
	}
	mine, err := curve("eventmeter, HTTP/1.1, events", "eventmeter", 1, 3, 10, 30)
	if err != nil {
		return err
	}
	baseline, err := curve("4 KiB reader (b), events", "reader", 1, 30)
	if err != nil {
		return err
	}
	r.linear("events per second", mine, 0)
	l := &r.row.Lines[len(r.row.Lines)-1]
	last := len(mine) - 1
	l.Baseline = ptr(newValue(l.Measured.Unit, []float64{ratio(baseline[1].CPU, baseline[0].CPU)}))
	l.Note += fmt.Sprintf("; %s × the 4 KiB reader (b) at %s event/s, %s × at %s", number(ratio(mine[0].CPU, baseline[0].CPU)), number(mine[0].Rate),
		number(ratio(mine[last].CPU, baseline[1].CPU)), number(mine[last].Rate))
	return nil
}

// linear adds the line that says whether the last point costs as much, for one
// delivery and stream, as the one that it is compared with: smaller ones carry
// what a process takes at all.
func (r *runner) linear(what string, points []Point, base int) {
	last, first := points[len(points)-1], points[min(base, len(points)-1)]
	cpu, memory := ratio(last.CPU, first.CPU), ratio(last.Memory, first.Memory)
	l := Line{
		What: "growth in " + what, Goal: "linear: the cost of one grows by a quarter at most",
		Measured: newValue("× CPU per delivery", []float64{cpu}), Verdict: verdict(cpu <= linearity && memory <= linearity),
		Note: fmt.Sprintf("memory per stream %s ×; %s streams at %s events/s against %s at %s", number(memory),
			grouped(int64(last.Streams)), number(last.Rate), grouped(int64(first.Streams)), number(first.Rate)),
	}
	for _, p := range points {
		if !p.Complete {
			l.Verdict = notMet
			l.Note += "; something was lost"
			break
		}
	}
	r.add(l)
}
