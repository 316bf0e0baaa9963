package main

import (
	"fmt"
	"maps"
	"slices"
	"sort"
)

// figures reads the rows of a result.
func (r *run) figures(result map[string]any, samples []any) ([]map[string]any, error) {
	env := maps.Clone(r.env)
	env["result"] = result
	lanes := map[string]any{}
	var first any
	all, _ := result["lanes"].([]any) // a search has none
	for i, l := range all {
		lane, ok := l.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("lane %d is no object", i)
		}
		lanes[fmt.Sprint(lane["name"])] = lane
		if i == 0 {
			first = lane
		}
	}
	env["lanes"], env["lane"] = lanes, first
	env["phase"], env["seconds"] = phases(result)
	if samples != nil {
		env["samples"], env["sample"] = samples, sampleOf(samples)
	}
	names := r.of.Lanes
	if len(names) == 0 {
		names = []string{""}
	}
	var rows []map[string]any
	for _, name := range names {
		row, of := map[string]any{}, maps.Clone(env)
		if name != "" {
			row["lane"], of["lane"] = name, lanes[name]
		}
		all := r.of.Figures
		if samples != nil {
			all = slices.Concat(all, r.of.Sampled)
		}
		for _, f := range all {
			key := fmt.Sprint(f.Key)
			v, err := valueOf(f.Value, of)
			if err != nil {
				return nil, fmt.Errorf("figure %s: %w", key, err)
			}
			row[key], of[key] = v, v
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// phases returns phase(name), the begin and end of a phase, and seconds(name, …), how long phases took
// together, both in seconds.
func phases(result map[string]any) (phase, seconds func(...any) (any, error)) {
	ends := map[any][2]float64{}
	all, _ := result["phases"].([]any) // a search has none
	for _, p := range all {
		if p, ok := p.(map[string]any); ok {
			begin, _ := number(p["start"])
			end, _ := number(p["end"])
			ends[p["name"]] = [2]float64{begin / 1e9, end / 1e9}
		}
	}
	phase = func(args ...any) (any, error) {
		if len(args) != 1 {
			return nil, fmt.Errorf("phase wants a name")
		}
		p, ok := ends[args[0]]
		if !ok {
			return nil, fmt.Errorf("the run has no phase %v", args[0])
		}
		return map[string]any{"begin": p[0], "end": p[1]}, nil
	}
	seconds = func(args ...any) (any, error) {
		sum := 0.0
		for _, a := range args {
			sum += ends[a][1] - ends[a][0]
		}
		return sum, nil
	}
	return phase, seconds
}

// sampleOf returns sample(counter, t): what a counter was at a time, interpolated between samples.
func sampleOf(samples []any) func(...any) (any, error) {
	value := func(i int, name any) (at, v float64) {
		s, _ := samples[i].(map[string]any)
		at, _ = number(s["t"])
		v, _ = number(s[fmt.Sprint(name)])
		return at, v
	}
	return func(args ...any) (any, error) {
		if len(args) != 2 || len(samples) == 0 {
			return nil, fmt.Errorf("sample wants a counter, a time and samples")
		}
		t, ok := number(args[1])
		if !ok {
			return nil, fmt.Errorf("sample wants a time, not %v", args[1])
		}
		i := sort.Search(len(samples), func(i int) bool { at, _ := value(i, args[0]); return at >= t })
		if i == 0 || i == len(samples) {
			_, v := value(min(i, len(samples)-1), args[0])
			return v, nil
		}
		from, a := value(i-1, args[0])
		to, b := value(i, args[0])
		return a + (t-from)/(to-from)*(b-a), nil
	}
}
