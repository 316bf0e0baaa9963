package stats

import (
	"testing"

	"github.com/eventmeter/eventmeter/results"
)

func TestShownUpstream(t *testing.T) {
	run := func(served float64, lag results.Nanos) Run {
		u := results.Upstream{
			Figures: map[string]float64{"served": served},
			Timings: map[string]results.Quantiles{"lag": {Count: 1, P50: lag, P99: 2 * lag}, "none": {}},
		}
		return Run{Result: &results.Result{Upstream: u}}
	}
	got := shownUpstream(&Side{Runs: []Run{run(3, 10), run(1, 30), run(2, 20)}}, &Side{Runs: []Run{{Result: &results.Result{}}}})
	want := map[string]float64{"served": 2, "lag.p50": 20, "lag.p99": 40}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for _, f := range got {
		if f.A == nil || *f.A != want[f.Figure] || f.B != nil || (f.Unit == "ns") != (f.Figure != "served") {
			t.Errorf("%+v", f)
		}
	}
	if v := middle([]float64{4, 1, 3, 2}); *v != 2.5 {
		t.Errorf("the median of four is %v", *v)
	}
}
