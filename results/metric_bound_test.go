package results_test

import (
	"errors"
	"testing"

	"github.com/eventmeter/eventmeter/results"
)

func TestMetricBound(t *testing.T) {
	for _, tt := range []struct {
		text   string
		at     float64
		broken string
		metric string
		rate   bool
	}{
		{"process_resident_memory_bytes < 2KiB", 2048, "process_resident_memory_bytes is 2048, limit 2KiB",
			"process_resident_memory_bytes", false},
		{" process_resident_memory_bytes<2KiB ", 2047, "", "process_resident_memory_bytes", false},
		{"rate(process_cpu_seconds_total) <= 1.5", 1.5, "", "process_cpu_seconds_total", true},
		{"rate(process_cpu_seconds_total) <= 1.5", 1.75, "rate(process_cpu_seconds_total) is 1.75, limit 1.5", "process_cpu_seconds_total", true},
		{"cache:hits >= 90%", 0.5, "cache:hits is 0.5, limit 90%", "cache:hits", false},
	} {
		b, err := results.ParseMetricBound(tt.text)
		if err != nil || b.Metric != tt.metric || b.Rate != tt.rate || b.Broken(tt.at) != tt.broken {
			t.Errorf("%q: %+v, %v, %q", tt.text, b, err, b.Broken(tt.at))
		}
	}
	for _, bad := range []string{"", "x", "x <", "x < fast", "rate(x < 1", "x) < 1", "a b < 1", "x < NaN", `x{a="b"} < 1`} {
		if _, err := results.ParseMetricBound(bad); !errors.Is(err, results.ErrThreshold) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestUpperBounds(t *testing.T) {
	for op, want := range map[string]bool{"<": true, "<=": true, "==": true, ">": false, ">=": false} {
		b, err := results.ParseMetricBound("x " + op + " 5")
		if err != nil || b.Upper() != want {
			t.Errorf("%s: %v, %v", op, b.Upper(), err)
		}
	}
}
