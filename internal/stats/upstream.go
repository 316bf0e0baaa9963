package stats

import (
	"maps"
	"slices"

	"github.com/eventmeter/eventmeter/results"
)

// shownUpstream lists the own figures of the upstreams of both sides.
func shownUpstream(a, b *Side) []Shown {
	units := map[string]string{}
	values := [2]map[string][]float64{{}, {}}
	for i, s := range []*Side{a, b} {
		for k := range s.Runs {
			u := &s.Runs[k].Result.Upstream
			for name, v := range u.Figures {
				units[name] = ""
				values[i][name] = append(values[i][name], v)
			}
			for name, q := range u.Timings {
				if q.Count == 0 {
					continue
				}
				for suffix, v := range map[string]results.Nanos{".p50": q.P50, ".p99": q.P99} {
					units[name+suffix] = "ns"
					values[i][name+suffix] = append(values[i][name+suffix], float64(v))
				}
			}
		}
	}
	var out []Shown
	for _, name := range slices.Sorted(maps.Keys(units)) {
		out = append(out, Shown{Figure: name, Unit: units[name], A: middle(values[0][name]), B: middle(values[1][name])})
	}
	return out
}

// middle is the median, or nil without values.
func middle(v []float64) *float64 {
	if len(v) == 0 {
		return nil
	}
	return number(median(slices.Sorted(slices.Values(v))))
}
