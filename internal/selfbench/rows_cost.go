package selfbench

import (
	"context"
	"fmt"
	"time"
)

// fewAllocations is what counts as none: publishing an event allocates, and so
// does the Go runtime.
const fewAllocations = 0.05

func measureAllocations(ctx context.Context, r *runner) error {
	n1, n2 := r.scaled(19_000, 1, perStream1), r.scaled(100_000, 1, perStream2)
	floods := r.floods()
	const goal = "none (at most 0.05 measured)"
	for _, one := range []struct {
		what string
		plan plan
	}{
		{"push over HTTP/1.1", r.push("eventmeter", "eventmeter", "1.1", n1)},
		{"push over HTTP/2", r.push("eventmeter, HTTP/2", "eventmeter", "h2c", n2)},
		{"poll, on top of the polls", r.pollers()},
	} {
		got, err := r.measure(ctx, 1, one.plan)
		if err != nil {
			return err
		}
		r.add(line(one.what, "", got[0], (*figures).allocations).atMost(goal, fewAllocations))
	}
	got, err := r.measure(ctx, 1, floods...)
	if err != nil {
		return err
	}
	l := line("webhook", "", got[0], (*figures).allocations).beside(got[1], (*figures).allocations)
	l.Note = "the baseline is net/http with a handler that reads and answers 200"
	r.add(l)
	more := newValue("", []float64{max(0, l.Measured.Median-l.Baseline.Median)})
	r.add(Line{What: "webhook, on top of the baseline", Measured: more}.atMost(goal, fewAllocations))
	return nil
}

func measureOperations(ctx context.Context, r *runner) error {
	p := plan{Name: "operations", Client: spec{Role: "micro", Paced: r.lasting(time.Second, 20*time.Millisecond), Timeout: r.timeout()}}
	got, err := r.measure(ctx, r.opts.Repeats, p)
	if err != nil {
		return err
	}
	runs := got[0]
	r.add(line("recording a value", "ns", runs, func(f *figures) float64 { return f.Micro.Record }).atMost("at most 15 ns", 15))
	r.add(line("Ledger.Delivered, in order", "ns", runs, func(f *figures) float64 { return f.Micro.Delivered }))
	r.add(line("finding the probe id in a message", "ns", runs, func(f *figures) float64 { return f.Micro.FindStamp }))
	r.add(
		line(
			"allocations of the first two",
			"",
			runs,
			func(f *figures) float64 { return float64(f.Micro.RecordAllocs + f.Micro.DeliveredAllocs) },
		).atMost("none", 0),
	)
	return nil
}

func measureLedger(ctx context.Context, r *runner) error {
	with := r.push("eventmeter", "eventmeter", "1.1", r.scaled(10_000, 1, perStream1))
	without := with
	without.Name, without.Client.Count = "eventmeter, counting only", true
	got, err := r.measure(ctx, r.opts.Repeats, with, without)
	if err != nil {
		return err
	}
	const counting = "a recorder that only counts"
	cpu := line("CPU per delivery", "µs", got[0], (*figures).perDelivery).peer(counting, got[1], (*figures).perDelivery)
	r.add(cpu)
	share := relative(cpu.Peers[0].Value, cpu.Measured, "%", func(x float64) float64 { return 100 * (1 - x) })
	r.add(Line{What: "the ledger's share", Measured: share}.goal("shown", true))
	r.add(line("memory per stream", "KiB", got[0], (*figures).memory).peer(counting, got[1], (*figures).memory))
	return nil
}

// judgingShare is by how many percent judging may raise the CPU per delivery.
const judgingShare = 3

func measureJudging(ctx context.Context, r *runner) error {
	with := r.push("eventmeter", "eventmeter", "1.1", r.scaled(10_000, 1, perStream1))
	without := with
	without.Name, without.Client.Unjudged = "eventmeter, nothing judged", true
	// The difference is smaller than the noise of a run: the median of many is judged.
	got, err := r.measure(ctx, min(5*r.opts.Repeats, 15), with, without)
	if err != nil {
		return err
	}
	cpu := line("CPU per delivery", "µs", got[0], (*figures).perDelivery).peer("nothing judged", got[1], (*figures).perDelivery)
	r.add(cpu)
	more := relative(cpu.Measured, cpu.Peers[0].Value, "%", func(x float64) float64 { return 100 * (x - 1) })
	r.add(Line{What: "what judging adds", Measured: more}.atMost("at most 3 %", judgingShare))
	rows := line("rows judged per delivery", "", got[0], (*figures).judged).peer("nothing judged", got[1], (*figures).judged)
	var broken int64
	for _, f := range got[0] {
		broken += f.broken()
	}
	rows.Note = fmt.Sprintf("%s messages broke a row", grouped(broken))
	r.add(rows.goal("some, and no message breaks one", rows.Measured.Low > 0 && broken == 0 && rows.Peers[0].High == 0))
	return nil
}

func measurePeer(ctx context.Context, r *runner) error {
	const goal, peer = 1000, "Go SDK"
	n := r.scaled(goal, 1, perSession)
	mine := r.push("eventmeter", "eventmeter", "1.1", n)
	sdk := r.push(peer, "sdk", "1.1", n)
	sdk.Target = "sdkserver"
	mine.Client.Rate, sdk.Client.Rate = 5, 5
	got, err := r.measure(ctx, r.opts.Repeats, mine, sdk)
	if err != nil {
		return err
	}
	for _, one := range []struct {
		what, unit, goal string
		share            float64
		f                func(*figures) float64
	}{
		{"memory per stream", "KiB", "at most 1/12 of the SDK's", 1.0 / 12, (*figures).memory},
		{"CPU per delivery", "µs", "at most 1/8 of the SDK's", 1.0 / 8, (*figures).perDelivery},
	} {
		l := line(one.what, one.unit, got[0], one.f).peer(peer, got[1], one.f)
		r.add(l)
		r.add(Line{What: one.what + ", relative", Measured: over(l.Measured, l.Peers[0].Value, "× the SDK's")}.atMost(one.goal, one.share))
	}
	r.sized(0, got[0][0], goal)
	r.add(line("memory per stream after garbage collection", "KiB", got[0], (*figures).settled).peer(peer, got[1], (*figures).settled))
	r.add(line("allocations per delivery", "", got[0], (*figures).allocations).peer(peer, got[1], (*figures).allocations))
	for _, f := range got[1] {
		if f.lost() {
			r.row.Notes = append(r.row.Notes, "The SDK's client did not receive everything in time.")
			break
		}
	}
	return nil
}
