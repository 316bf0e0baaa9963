package summary

import (
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/results"
)

// TestIdle: processes are idle where the most that they can have used is less than any server
// needs for what the lanes received.
func TestIdle(t *testing.T) {
	streams := func(n int64) results.Lane { return results.Lane{Received: n} }
	responses := func(events, responses int64) results.Lane {
		l := results.Lane{Received: events}
		l.Overhead.Causes = map[string]results.Traffic{"events": {Requests: responses}}
		return l
	}
	for name, tt := range map[string]struct {
		cpu, resolution time.Duration
		lanes           []results.Lane
		want            bool
	}{
		"works":                      {300 * time.Microsecond, time.Microsecond, []results.Lane{streams(300)}, false},
		"idles":                      {298 * time.Microsecond, time.Microsecond, []results.Lane{streams(300)}, true},
		"just not seen":              {299 * time.Microsecond, time.Microsecond, []results.Lane{streams(300)}, false},
		"too few messages":           {0, time.Microsecond, []results.Lane{streams(199)}, false},
		"few in each lane":           {0, time.Microsecond, []results.Lane{streams(100), streams(100)}, true},
		"many events in responses":   {time.Millisecond, time.Microsecond, []results.Lane{responses(100_000, 500)}, false},
		"idles while polled":         {0, time.Microsecond, []results.Lane{responses(100_000, 500)}, true},
		"callbacks that were resent": {298 * time.Microsecond, time.Microsecond, []results.Lane{responses(300, 900)}, true},
		"coarse":                     {0, 10 * time.Millisecond, []results.Lane{streams(10_000)}, false},
		"coarse, many":               {0, 10 * time.Millisecond, []results.Lane{streams(10_001)}, true},
	} {
		p := &results.Process{CPU: results.Nanos(tt.cpu), Resolution: results.Nanos(tt.resolution)}
		if got := idle(p, tt.lanes); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if idle(nil, []results.Lane{streams(300)}) {
		t.Error("a process that is not known is not idle")
	}
}
