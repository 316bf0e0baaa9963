package selfbench

import (
	"context"
	"time"
)

// fewAllocations is what counts as none: firing an event allocates, and so
// does whatever the runtime does meanwhile.
const fewAllocations = 0.05

func measureAllocations(ctx context.Context, r *runner) error {
	n1, n2 := r.scaled(19_000, 1, perStream1), r.scaled(100_000, 1, perStream2)
	floods := r.floods()
	for _, one := range []struct {
		what, note string
		baseline   *plan
		plan       plan
	}{
		{what: "push over HTTP/1.1", plan: r.push("eventmeter", "eventmeter", "1.1", n1)},
		{what: "push over HTTP/2", plan: r.push("eventmeter, HTTP/2", "eventmeter", "h2c", n2)},
		{what: "poll, on top of the polls", plan: r.pollers()},
		{what: "webhook", note: "the baseline is net/http's own: a handler that reads and answers 200", plan: floods[0], baseline: &floods[1]},
	} {
		got, err := r.alternate(ctx, 1, one.plan)
		if err != nil {
			return err
		}
		l := Line{What: one.what, Goal: "none (at most 0.05 measured)", Measured: of(got[0], "", (*figures).allocations), Note: one.note}
		l.Verdict = atMost(l.Measured, fewAllocations)
		if one.baseline != nil {
			baseline, err := r.alternate(ctx, 1, *one.baseline)
			if err != nil {
				return err
			}
			own := of(baseline[0], "", (*figures).allocations)
			r.add(Line{What: l.What, Baseline: &own, Measured: l.Measured, Note: l.Note})
			l.What, l.Note = l.What+", on top of the baseline", ""
			l.Measured = newValue("", []float64{max(0, l.Measured.Median-own.Median)})
			l.Verdict = atMost(l.Measured, fewAllocations)
		}
		r.add(l)
	}
	return nil
}

func measureOperations(ctx context.Context, r *runner) error {
	p := plan{Name: "operations", Client: spec{Role: "micro", Paced: r.lasting(time.Second, 20*time.Millisecond), Patience: r.patience()}}
	got, err := r.alternate(ctx, r.opts.Repeats, p)
	if err != nil {
		return err
	}
	value := of(got[0], "ns", func(f *figures) float64 { return f.Micro.Record })
	r.add(Line{What: "recording a value", Goal: "at most 15 ns", Measured: value, Verdict: atMost(value, 15)})
	r.add(Line{What: "Ledger.Delivered, in order", Measured: of(got[0], "ns", func(f *figures) float64 { return f.Micro.Delivered })})
	r.add(Line{What: "finding the probe id in a message", Measured: of(got[0], "ns", func(f *figures) float64 { return f.Micro.FindStamp })})
	allocs := of(got[0], "", func(f *figures) float64 { return float64(f.Micro.RecordAllocs + f.Micro.DeliveredAllocs) })
	r.add(Line{What: "allocations of the first two", Goal: "none", Measured: allocs, Verdict: atMost(allocs, 0)})
	return nil
}

func measureLedger(ctx context.Context, r *runner) error {
	with := r.push("eventmeter", "eventmeter", "1.1", r.scaled(10_000, 1, perStream1))
	without := with
	without.Name, without.Client.Count = "eventmeter, counting only", true
	got, err := r.alternate(ctx, r.opts.Repeats, with, without)
	if err != nil {
		return err
	}
	a, b := of(got[0], "µs", (*figures).perDelivery), of(got[1], "µs", (*figures).perDelivery)
	r.add(Line{What: "CPU per delivery", Measured: a, Peers: []Peer{{"a recorder that only counts", b}}})
	shares := over(b, a, "").Runs
	for i, s := range shares {
		shares[i] = 100 * (1 - s)
	}
	r.add(Line{What: "the ledger's share", Goal: "shown", Measured: newValue("%", shares), Verdict: met})
	ma, mb := of(got[0], "KiB", (*figures).memory), of(got[1], "KiB", (*figures).memory)
	r.add(Line{What: "memory per stream", Measured: ma, Peers: []Peer{{"a recorder that only counts", mb}}})
	return nil
}

func measurePeer(ctx context.Context, r *runner) error {
	const goal = 1000
	n := r.scaled(goal, 1, perSession)
	mine := r.push("eventmeter", "eventmeter", "1.1", n)
	sdk := r.push("Go SDK", "sdk", "1.1", n)
	sdk.Target = "sdkserver"
	mine.Client.Rate, sdk.Client.Rate = 5, 5
	got, err := r.alternate(ctx, r.opts.Repeats, mine, sdk)
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
		a, b := of(got[0], one.unit, one.f), of(got[1], one.unit, one.f)
		r.add(Line{What: one.what, Measured: a, Peers: []Peer{{"Go SDK", b}}})
		relation := over(a, b, "× the SDK's")
		r.add(Line{What: one.what + ", in relation", Goal: one.goal, Measured: relation, Verdict: atMost(relation, one.share)})
	}
	r.sized(0, got[0][0], goal)
	r.add(Line{What: "memory per stream after garbage collection", Measured: of(got[0], "KiB", (*figures).settled), Peers: []Peer{{"Go SDK", of(got[1], "KiB", (*figures).settled)}}})
	r.add(Line{What: "allocations per delivery", Measured: of(got[0], "", (*figures).allocations), Peers: []Peer{{"Go SDK", of(got[1], "", (*figures).allocations)}}})
	for _, f := range got[1] {
		if f.lost() {
			r.row.Notes = append(r.row.Notes, "The SDK's client did not receive everything in time.")
			break
		}
	}
	return nil
}
