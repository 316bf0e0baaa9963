package health

import (
	"slices"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/results"
)

func TestBottlenecks(t *testing.T) {
	ms := func(n int64) results.Quantiles {
		return results.Quantiles{Count: 1, P99: results.Nanos(n * 1e6), Max: results.Nanos(n * 1e6)}
	}
	for name, tt := range map[string]struct {
		in   results.Generator
		want string
	}{
		"idle": {results.Generator{}, ""},
		"busy, fine": {results.Generator{DroppedEvents: 0.01, TimerLag: ms(50), ReadDelay: ms(100), GCPauses: ms(100),
			Others: 0.5, Process: results.Process{CPUShare: 1.7}}, ""},
		"drops": {results.Generator{DroppedEvents: 0.011}, "1.1 % of the events were due while all 64 workers waited " +
			"for the upstream's answers, and were dropped (limit 1 %); the upstream answered within 40.0ms at the 99th " +
			"percentile: raise upstream.workers, or lower the rate"},
		"timers":     {results.Generator{TimerLag: ms(51)}, "timers woke"},
		"cpu":        {results.Generator{Process: results.Process{CPUShare: 1.71}}, "the generator used 1.71 of 2 CPUs"},
		"others":     {results.Generator{Others: 0.51}, "other processes used 0.51 of 2 CPUs"},
		"read delay": {results.Generator{ReadDelay: ms(101)}, "to read what had arrived"},
		"gc":         {results.Generator{GCPauses: ms(101)}, "garbage collector"},
	} {
		symptoms, busy := Bottlenecks(tt.in, 2, Sending{Workers: 64, Answer: ms(40), Lag: ms(100)})
		if used := name == "cpu" || name == "others"; used && len(symptoms) > 0 || !used && len(busy) > 0 {
			t.Errorf("%s: symptoms %q, busy %q", name, symptoms, busy)
		}
		got := slices.Concat(symptoms, busy)
		if tt.want == "" && len(got) != 0 || tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A generator that is late with its emissions is named as such: a lack of workers
// drops emissions and delays none.
func TestBottlenecksOfSending(t *testing.T) {
	ms := func(n int64) results.Quantiles {
		return results.Quantiles{Count: 1, P99: results.Nanos(n * 1e6)}
	}
	for name, tt := range map[string]struct {
		dropped float64
		s       Sending
		want    string
	}{
		"fine": {0.01, Sending{Workers: 8, Burst: 500, Lag: ms(100)}, ""},
		"late": {0, Sending{Workers: 8, Lag: ms(101)}, "events were sent 101ms after they were due, at the 99th " +
			"percentile (limit 100ms): the machine is too busy for this rate, or for bursts of this size"},
		"large burst": {0.5, Sending{Workers: 8, Burst: 500, Answer: ms(3)}, "50.0 % of the events were due while all 8 " +
			"workers waited for the upstream's answers, and were dropped (limit 1 %); a burst of 500 needs upstream.workers: 500"},
		"small burst": {0.5, Sending{Workers: 8, Burst: 8, Answer: ms(3)}, "50.0 % of the events were due while all 8 " +
			"workers waited for the upstream's answers, and were dropped (limit 1 %); the upstream answered within 3.00ms at " +
			"the 99th percentile: raise upstream.workers, or lower the rate"},
	} {
		got, _ := Bottlenecks(results.Generator{DroppedEvents: tt.dropped}, 2, tt.s)
		if strings.Join(got, "|") != tt.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
