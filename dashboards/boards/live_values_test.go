package boards

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/promtest"
	"github.com/eventmeter/eventmeter/results"
)

// checkValues holds the main panels of the comparison, of the one run and of the
// one laid over it, to what result.json says.
func checkValues(t *testing.T, s *promtest.Server, w window, one, other string) {
	t.Helper()
	d := strict(t, "compare.json")
	a, b := load(t, one), load(t, other)
	values, _ := settle(t, s, &d, w, map[string]string{"run": a.Run, "other": b.Run})
	ask := func(title, ref string) []promtest.Sample {
		for _, p := range panels(&d) {
			if *p.Title != title {
				continue
			}
			for _, q := range expressions(t, p) {
				if *q.RefId == ref {
					return s.Query(t, fill(t, q.Expr, values), w.to)
				}
			}
		}
		t.Fatalf("there is no %s %s", title, ref)
		return nil
	}
	whole := map[string]bool{one: fromTheBeginning(t, s, w, a), other: fromTheBeginning(t, s, w, b)}
	for title, panel := range mainPanels {
		for _, ref := range slices.Sorted(maps.Keys(panel)) {
			got := ask(title, ref)
			for dir, r := range map[string]*results.Result{one: a, other: b} {
				if panel[ref].rank && !whole[dir] {
					t.Logf("%s %s is not compared: Prometheus came late to run %s", title, ref, r.Run)
					continue
				}
				if !panel[ref].both && (r == b) != panel[ref].other {
					continue
				}
				for i := range r.Lanes {
					v := find(t, got, r, &r.Lanes[i], panel[ref].both)
					panel[ref].want(t, title+" "+ref, dir, &r.Lanes[i], v)
				}
			}
		}
	}
	checkConformance(t, ask("Which rows", "A"), a, b)
	checkCPU(t, ask("Target CPU per event received, all modes", "A"), a)
}

// fromTheBeginning tells whether Prometheus saw every lane of a run before
// anything was counted. What it did not see, the growth of a histogram lacks.
func fromTheBeginning(t *testing.T, s *promtest.Server, w window, r *results.Result) bool {
	t.Helper()
	expr := fmt.Sprintf(
		`min_over_time(histogram_count(eventmeter_latency_from_intended_seconds{run=%q})[%s:250ms]) == 0`,
		r.Run,
		w.seconds(),
	)
	return len(s.Query(t, expr, w.to)) == len(r.Lanes)
}

// find is the sample of a lane, which is the only one of its mode.
func find(t *testing.T, all []promtest.Sample, r *results.Result, l *results.Lane, byRun bool) float64 {
	t.Helper()
	for _, s := range all {
		if s.Labels["mode"] == l.Mode && (!byRun || s.Labels["run"] == r.Run) {
			return s.Value
		}
	}
	t.Errorf("no value for %s of run %s in %v", l.Mode, r.Run, all)
	return math.NaN()
}

// shown is a query whose values are known: of both runs, of the one, or of the
// other.
type shown struct {
	both, other bool
	rank        bool // it is what came between the first scrape and the last
	want        func(t *testing.T, where, dir string, l *results.Lane, got float64)
}

func exact(of func(*results.Lane) float64) func(*testing.T, string, string, *results.Lane, float64) {
	return func(t *testing.T, where, _ string, l *results.Lane, got float64) {
		t.Helper()
		if want := of(l); math.Abs(got-want) > 1e-6*math.Max(1, math.Abs(want)) {
			t.Errorf("%s, %s: %v, and the result has %v", where, l.Name, got, want)
		}
	}
}

var mainPanels = map[string]map[string]shown{
	"Side by side": {
		"A": {both: true, want: exact(func(l *results.Lane) float64 { return float64(l.Expected) })},
		"B": {both: true, want: exact(func(l *results.Lane) float64 { return float64(l.Delivered) })},
		"C": {both: true, want: exact(func(l *results.Lane) float64 { return float64(l.LostSilent) })},
		"D": {both: true, want: exact(func(l *results.Lane) float64 { return float64(l.LostAnnounced) })},
		"E": {both: true, want: exact(func(l *results.Lane) float64 { return float64(l.LostOrderUnknown) })},
		"F": {both: true, want: exact(func(l *results.Lane) float64 { return float64(l.Gaps.Incidents) })},
		"G": {
			both: true,
			want: exact(func(l *results.Lane) float64 { return float64(l.Duplicates.SameEvent + l.Duplicates.SameEmission) }),
		},
		"H": {both: true, rank: true, want: quantile(0.5)},
		"I": {both: true, rank: true, want: quantile(0.9)},
		"J": {both: true, rank: true, want: quantile(0.99)},
		"K": {both: true, want: exact(func(l *results.Lane) float64 { return l.Overhead.PerDelivered.Requests })},
	},
	"Duplicates per delivered event": {
		"A": {want: exact(func(l *results.Lane) float64 { return l.Duplicates.Rate })},
		"B": {other: true, want: exact(func(l *results.Lane) float64 { return l.Duplicates.Rate })},
	},
	"Gaps per million expected": {"B": {other: true, want: exact(func(l *results.Lane) float64 { return l.Gaps.PerMillion })}},
	"Share lost": {"B": {other: true, want: exact(func(l *results.Lane) float64 {
		return float64(l.Lost()) / float64(l.Expected)
	})}},
	"Running requests per subscription-hour": {
		"A": {want: exact(func(l *results.Lane) float64 { return l.Overhead.PerSubscriptionHour.Requests })},
		"B": {other: true, want: exact(func(l *results.Lane) float64 { return l.Overhead.PerSubscriptionHour.Requests })},
	},
	"Running requests per delivered event": {"A": {want: exact(func(l *results.Lane) float64 { return l.Overhead.PerDelivered.Requests })}},
	"Running bytes per delivered event": {
		"A": {want: exact(func(l *results.Lane) float64 { return l.Overhead.PerDelivered.Bytes })},
		"B": {other: true, want: exact(func(l *results.Lane) float64 { return l.Overhead.PerDelivered.Bytes })},
	},
	"All bytes per delivered event": {"A": {want: exact(func(l *results.Lane) float64 { return l.Overhead.TotalPerDelivered.Bytes })}},
	"Target CPU per event received, by mode": {"A": {want: exact(func(l *results.Lane) float64 {
		return l.Process.CPU.Duration().Seconds() / float64(l.Received)
	})}},
}

// bucketError is how far a quantile of a native histogram may be off: the width
// of a bucket, and half a thousandth of the ledger's own.
var bucketError = math.Pow(2, 1.0/16) * 1.002

// quantile holds a quantile to the histogram that the run left in its archive.
// It is a value of the sample of its rank or of a neighbour: the two count ranks
// in their own ways.
func quantile(q float64) func(*testing.T, string, string, *results.Lane, float64) {
	return func(t *testing.T, where, dir string, l *results.Lane, got float64) {
		t.Helper()
		log, err := results.LoadLog(dir, l.Name)
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("%s: no log of %s", where, l.Name)
			}
			t.Fatal(err)
		}
		counts := map[results.Nanos]int64{}
		var n int64
		for _, interval := range log.Intervals {
			if interval.Tag != results.TagIntended {
				continue
			}
			for _, b := range interval.Buckets {
				counts[b.Value] += b.Count
				n += b.Count
			}
		}
		at := func(rank float64) float64 {
			var sum int64
			for _, v := range slices.Sorted(maps.Keys(counts)) {
				if sum += counts[v]; float64(sum) >= rank {
					return v.Duration().Seconds()
				}
			}
			return l.Latency.FromIntended.Max.Duration().Seconds()
		}
		if n != l.Delivered || n == 0 {
			t.Fatalf("%s: %d samples in the log of %s, and %d were delivered", where, n, l.Name, l.Delivered)
		}
		rank := q * float64(n)
		if low, high := at(rank-1)/bucketError, at(rank+1)*bucketError; got < low || got > high {
			t.Errorf("%s, %s: p%v is %v s, and the run's own histogram has it from %v to %v", where, l.Name, 100*q, got, low, high)
		}
	}
}

// checkConformance holds the broken rows of both runs to their results. The faults
// break one, and the other run none.
func checkConformance(t *testing.T, got []promtest.Sample, clean, faulty *results.Result) {
	t.Helper()
	want := map[[2]string]float64{}
	for _, r := range []*results.Result{clean, faulty} {
		for _, row := range r.Conformance.Rows {
			if row.Broken > 0 {
				want[[2]string{r.Run, row.Row}] = float64(row.Broken)
			}
		}
	}
	if clean.Conformance.Broken != 0 || faulty.Conformance.Must == 0 {
		t.Errorf("%d rows are broken without faults, and %d that quote a MUST with them", clean.Conformance.Broken, faulty.Conformance.Must)
	}
	found := map[[2]string]float64{}
	for _, s := range got {
		found[[2]string{s.Labels["run"], s.Labels["row"]}] = s.Value
	}
	if !maps.Equal(found, want) {
		t.Errorf("broken rows are %v, and the results have %v", found, want)
	}
}

// checkCPU holds the CPU time of the target to the result.
func checkCPU(t *testing.T, got []promtest.Sample, r *results.Result) {
	t.Helper()
	var received int64
	for i := range r.Lanes {
		received += r.Lanes[i].Received
	}
	if r.Target.Process == nil || len(got) != 1 {
		t.Fatalf("target %v, answer %v", r.Target.Process, got)
	}
	want := r.Target.Process.CPU.Duration() / time.Duration(received)
	if math.Abs(got[0].Value-want.Seconds()) > 0.01*want.Seconds() {
		t.Errorf("the target took %v s an event, and the result has %v", got[0].Value, want)
	}
}
