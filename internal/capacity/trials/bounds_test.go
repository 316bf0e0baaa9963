package trials

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
)

// TestMetricBounds: a load fails by a metric of the target's process.
func TestMetricBounds(t *testing.T) {
	within := func(o run.Options) (*run.Outcome, error) { // 1 MiB for each event per second
		m := meets(o, 0)
		m.Result.Target.Process.Memory = int64(rateOf(o)) << 20
		return m, nil
	}
	c, err := find(t, within, "capacity.slo.metrics=['process_resident_memory_bytes <= 200MiB']")
	if err != nil || c.Outcome != "found" || c.Maximum.Load > 201 || c.Maximum.Load < 180 || len(c.Maximum.Limits) != 1 ||
		!strings.Contains(c.Maximum.Limits[0], "process_resident_memory_bytes is 2.") ||
		!strings.Contains(c.Maximum.Limits[0], "limit 200MiB") {
		t.Errorf("%v, %+v", err, c.Maximum)
	}
	if got := c.Steps[0].Metrics["process_resident_memory_bytes <= 200MiB"]; got != 10<<20 {
		t.Errorf("judged %v", got)
	}
	c, err = find(t, func(o run.Options) (*run.Outcome, error) {
		m := meets(o, 0)
		m.Result.Target.Process = nil
		return m, nil
	}, "capacity.slo.metrics=['rate(process_cpu_seconds_total) < 1']")
	if err != nil || c.Outcome != "generator" || c.Maximum.Load != 0 {
		t.Errorf("a metric that is not read must not pass: %v, %s, %+v", err, c.Outcome, c.Maximum)
	}
	for bad, want := range map[string]string{
		"[x < 1]": "give --target-metrics", "[fast]": "want METRIC OP VALUE",
		"['process_resident_memory_bytes < 1', 'process_resident_memory_bytes < 1']": "is there twice",
	} {
		if _, err := tryBounds(t, bad, ""); !errors.Is(err, run.ErrProfile) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func tryBounds(t *testing.T, bounds, url string) (*finder, error) {
	t.Helper()
	p, err := profiles.Load("capacity", []string{"capacity.slo.metrics=" + bounds}, systems.Table)
	if err != nil {
		t.Fatal(err)
	}
	return newFinder(t.Context(), Options{Options: run.Options{Profile: p, TargetMetrics: url}})
}

// TestRemoteMetrics: a bound on any metric is judged by what is read while the step
// publishes; one that the target does not have is refused before any load.
func TestRemoteMetrics(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("# TYPE queue gauge\nqueue{of=\"a\"} 3\nqueue{of=\"b\"} 4\n"))
	}))
	defer server.Close()
	if _, err := tryBounds(
		t,
		"[nothing < 1]",
		server.URL,
	); !errors.Is(err, run.ErrProfile) ||
		!strings.Contains(err.Error(), "has no such metric") {
		t.Error(err)
	}
	s, err := tryBounds(t, "[queue < 7, queue < 8]", server.URL)
	if err != nil {
		t.Fatal(err)
	}
	o := s.opts.Options
	read := s.sample(&o)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // one reading
	o.Beside(ctx, run.Beside{})
	if got := read.judged(nil); len(got) != 2 || got["queue < 7"] != 7 {
		t.Errorf("%v", got)
	}
}

// TestSamples has hand-computed readings.
func TestSamples(t *testing.T) {
	var bounds []results.MetricBound
	for _, text := range []string{"a < 5", "a > 1", "rate(b) < 3", "c < 1"} {
		b, err := results.ParseMetricBound(text)
		if err != nil {
			t.Fatal(err)
		}
		bounds = append(bounds, b)
	}
	s := &samples{bounds: bounds, remote: true, low: map[string]float64{}, high: map[string]float64{}}
	at := time.Unix(100, 0)
	s.add(at, map[string]float64{"a": 2, "b": 10})
	s.add(at.Add(time.Second), map[string]float64{"a": 6, "b": 12})
	s.add(at.Add(4*time.Second), map[string]float64{"a": 0.5, "b": 20})
	got := s.judged(nil)
	want := map[string]float64{"a < 5": 6, "a > 1": 0.5, "rate(b) < 3": 2.5}
	if len(got) != len(want) {
		t.Errorf("%v", got)
	}
	for name, v := range want {
		if got[name] != v {
			t.Errorf("%s: %v, want %v", name, got[name], v)
		}
	}
}
