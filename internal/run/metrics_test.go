package run

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/runtest"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
)

// TestImplausibleMetrics: values of the target's metrics that no process can have are left out,
// and the result can be read.
func TestImplausibleMetrics(t *testing.T) {
	for _, metric := range []string{
		"go_goroutines 1e19", "go_goroutines NaN", "process_open_fds +Inf", "app_sessions -1e300", "process_threads 1e308",
		"go_memstats_heap_inuse_bytes 1e16",
	} {
		t.Run(metric, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				name, value, _ := strings.Cut(metric, " ")
				fmt.Fprintf(w, "process_cpu_seconds_total 1\nprocess_resident_memory_bytes 1e6\n# TYPE %s gauge\n%s %s\n", name, name, value)
			}))
			p, err := profiles.Parse("test", []byte(`name: test
target: {embedded: {}, tokens: [t]}
lanes: [{name: push, mode: push, subscriptions: 1, event: chat.message}]
upstream: {payload: {text: "{{.Probe}}"}}
schedule: {rate: 20/s}
phases: {warmup: 100ms, measure: 1500ms, drain: 5s, cooldown: 1500ms}
`), nil, systems.Table)
			must(t, err)
			r := runs(t, Options{Profile: p, Embedded: runtest.InProcess, TargetMetrics: server.URL}).Result
			server.Close()
			var text bytes.Buffer
			if err := json.NewEncoder(&text).Encode(r); err != nil {
				t.Fatalf("%s: %v", metric, err)
			}
			if _, err := results.Read(&text); err != nil {
				t.Errorf("%s: %v", metric, err)
			}
			if name, _, _ := strings.Cut(metric, " "); !warned(r, "target-metrics", name) {
				t.Errorf("%s: %+v", metric, r.Warnings)
			}
		})
	}
}
