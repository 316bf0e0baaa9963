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
	got, err := r.measure(ctx, r.opts.Repeats, plans...)
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
	many, err := r.measure(ctx, 1, p)
	if err != nil {
		return err
	}
	from := len(r.row.Lines)
	r.complete("streams in three processes", "48,000, nothing lost", many[0]...)
	r.sized(from, many[0][0], wide)
	r.add(line("memory per stream, three processes", "KiB", many[0], (*figures).memory))
	r.add(line("CPU per delivery, three processes", "µs", many[0], (*figures).perDelivery))
	return nil
}

func measurePush2(ctx context.Context, r *runner) error {
	const goal = 100_000
	n := r.scaled(goal, 1, perStream2)
	plans := []plan{r.push("eventmeter, HTTP/2", "eventmeter", "h2c", n), r.push("raw framer", "framer", "h2c", n)}
	got, err := r.measure(ctx, r.opts.Repeats, plans...)
	if err != nil {
		return err
	}
	r.complete("streams in one process", "100,000 multiplexed, nothing lost", got[0]...)
	r.compare(got, plans, "framer", 3, "at most 3 KiB", 1.6, "at most 1.6 × a raw framer's")
	r.sized(0, got[0][0], goal)

	// The baseline server writes so fast that a read returns many frames. Clients
	// usually meet servers that have a goroutine for each stream.
	mine := r.push("eventmeter, HTTP/2, reference target", "eventmeter", "h2c", r.scaled(10_000, 1, 4*perStream1))
	mine.Target = "reference"
	framer := mine
	framer.Name, framer.Client.Role, framer.Client.Kernel = "raw framer, reference target", "framer", false
	if got, err = r.measure(ctx, r.opts.Repeats, mine, framer); err != nil {
		return err
	}
	from := len(r.row.Lines)
	cpu := line(
		"CPU per delivery, reference target, 10,000 streams",
		"µs",
		got[0],
		(*figures).perDelivery,
	).beside(got[1], (*figures).perDelivery)
	r.add(cpu)
	r.add(
		Line{
			What:     "CPU per delivery, reference target, relative",
			Measured: over(cpu.Measured, *cpu.Baseline, "× framer"),
		}.atMost(
			"at most 1.6 × a raw framer's",
			1.6,
		),
	)
	r.sized(from, got[0][0], 10_000)

	// With a server that collects what it writes, a client makes few system calls,
	// and its own work shows.
	for i := range plans {
		plans[i].Name += ", frames collected"
		plans[i].Client.Batch = 0
	}
	if got, err = r.measure(ctx, 1, plans...); err != nil {
		return err
	}
	r.add(
		line("CPU per delivery, 64 KiB of frames to a write", "µs", got[0], (*figures).perDelivery).beside(got[1], (*figures).perDelivery),
	)
	return nil
}

// compare adds the lines of memory and CPU: got holds the generator, the
// baseline and peers.
func (r *runner) compare(got [][]*figures, plans []plan, baseline string, kib float64, memoryGoal string, share float64, cpuGoal string) {
	memory := func(what string, f func(*figures) float64) Line { return beside(what, "KiB", got, plans, f) }
	r.add(memory("memory per stream", (*figures).memory).atMost(memoryGoal, kib))
	r.add(memory("… after garbage collection", (*figures).settled))
	r.add(memory("… of that, heap in use", (*figures).heap))
	r.add(memory("… of that, stacks", (*figures).stack))
	cpu := beside("CPU per delivery", "µs", got, plans, (*figures).perDelivery)
	r.add(cpu)
	r.add(Line{What: "CPU per delivery, relative", Measured: over(cpu.Measured, *cpu.Baseline, "× "+baseline)}.atMost(cpuGoal, share))
}

// beside is a line of the generator with the baseline and the peers of plans.
func beside(what, unit string, got [][]*figures, plans []plan, f func(*figures) float64) Line {
	l := line(what, unit, got[0], f).beside(got[1], f)
	for i := 2; i < len(got); i++ {
		l = l.peer(plans[i].Name, got[i], f)
	}
	return l
}

func measureCurve(ctx context.Context, r *runner) error {
	for _, http := range []string{"1.1", "h2c"} {
		name, bytes, widest := "eventmeter, HTTP/2", uint64(perStream2), 100_000
		if http == "1.1" {
			name, bytes, widest = "eventmeter, HTTP/1.1", perStream1, 48_000 // three processes
		}
		var points []Point
		for _, n := range []int{1000, 3000, 10_000, 30_000, 100_000} {
			if n > widest {
				continue
			}
			pairs := 1
			if http == "1.1" {
				pairs = (n + 18_999) / 19_000
			}
			p := r.push(name, "eventmeter", http, r.scaled(n/pairs, pairs, bytes))
			p.Pairs = pairs
			p.Client.Rate = max(0.25, p.Client.Rate/float64(pairs))
			got, err := r.measure(ctx, 1, p)
			if err != nil {
				return err
			}
			points = append(points, point(p, got[0][0]))
		}
		r.row.Curve = append(r.row.Curve, points...)
		r.linear("streams, "+name, points, 2)
	}
	return r.rates(ctx)
}

func point(p plan, f *figures) Point {
	return Point{
		Client: p.Name, Streams: int(f.streams()), Processes: len(f.Outcomes), Rate: p.Client.Rate,
		Memory: f.memory(), CPU: f.perDelivery(), Delivered: int64(f.delivered()), Complete: !f.lost(),
	}
}

// rates adds the curve in events per second, with the baseline b at its ends:
// both show what the machine does with more work.
func (r *runner) rates(ctx context.Context) error {
	n := r.scaled(1000, 1, perStream1)
	curve := func(name, role string, rates ...float64) ([]Point, error) {
		var points []Point
		for _, rate := range rates {
			p := r.push(name, role, "1.1", n)
			p.Client.Rate = rate
			got, err := r.measure(ctx, 1, p)
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
	growth := newValue(l.Measured.Unit, []float64{ratio(baseline[1].CPU, baseline[0].CPU)})
	l.Baseline = &growth
	l.Note += fmt.Sprintf(
		"; %s × the 4 KiB reader (b) at %s event/s, %s × at %s",
		number(ratio(mine[0].CPU, baseline[0].CPU)),
		number(mine[0].Rate),
		number(ratio(mine[last].CPU, baseline[1].CPU)),
		number(mine[last].Rate),
	)
	return nil
}

// linearity is the factor by which the cost of a delivery or a stream may grow.
const linearity = 1.25

// linear adds the line that says whether a delivery and a stream cost as much at
// the last point as at point base. Smaller points include what any process
// needs.
func (r *runner) linear(what string, points []Point, base int) {
	last, first := points[len(points)-1], points[min(base, len(points)-1)]
	cpu, memory := ratio(last.CPU, first.CPU), ratio(last.Memory, first.Memory)
	l := Line{What: "growth in " + what, Measured: newValue("× CPU per delivery", []float64{cpu})}.
		goal("linear: the cost of one grows by a quarter at most", cpu <= linearity && memory <= linearity)
	l.Note = fmt.Sprintf("memory per stream %s ×; %s streams at %s events/s against %s at %s", number(memory),
		grouped(int64(last.Streams)), number(last.Rate), grouped(int64(first.Streams)), number(first.Rate))
	for _, p := range points {
		if !p.Complete {
			l.Verdict = notMet
			l.Note += "; something was lost"
			break
		}
	}
	r.add(l)
}
