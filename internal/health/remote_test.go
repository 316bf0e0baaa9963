package health

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/dialguard"
)

const metricsText = `# HELP process_cpu_seconds_total Total user and system CPU time spent in seconds.
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total %g
# TYPE process_resident_memory_bytes gauge
process_resident_memory_bytes{worker="a"} 1e+06
process_resident_memory_bytes{worker="b"} 2.5e+06
`

func TestProcessOf(t *testing.T) {
	parse := func(text string) (cpu float64, memory int64, err error) {
		all, err := families(strings.NewReader(text))
		if err != nil {
			return 0, 0, err
		}
		return processOf(all)
	}
	cpu, memory, err := parse(fmt.Sprintf(metricsText, 1.5))
	if err != nil || cpu != 1.5 || memory != 3_500_000 {
		t.Errorf("%v, %v, %v", cpu, memory, err)
	}
	for text, want := range map[string]string{
		"":                                "there is no process_cpu_seconds_total",
		"process_cpu_seconds_total 1\n":   "process_resident_memory_bytes",
		"<html>no metrics</html>\n":       "not the Prometheus text format",
		"process_cpu_seconds_total one\n": "not the Prometheus text format",
	} {
		if _, _, err := parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestRemoteMeter(t *testing.T) {
	var cpu atomic.Int64
	var gone atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if gone.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, metricsText, float64(cpu.Add(1)))
	}))
	defer server.Close()
	m, err := newRemoteMeter(NewMetrics(server.URL, nil))
	if err != nil {
		t.Fatal(err)
	}
	cpu.Store(9)
	if p := m.finish(10 * time.Second); p == nil || p.CPU != 9e9 || p.CPUShare != 0.9 || p.Memory != 3_500_000 {
		t.Errorf("%+v", p)
	}
	cpu.Store(-1) // it began anew
	if p := m.finish(time.Second); p != nil {
		t.Errorf("%+v of another process", p)
	}
	gone.Store(true)
	if p := m.finish(time.Second); p != nil {
		t.Errorf("%+v of nothing", p)
	}
	if _, err := newRemoteMeter(NewMetrics(server.URL, nil)); !errors.Is(err, ErrMetrics) || !strings.Contains(err.Error(), "503") {
		t.Errorf("%v", err)
	}
}

// TestScrapeStays: the address of the metrics was held to the rule for hosts,
// and where it redirects to, or a proxy, was not.
func TestScrapeStays(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer elsewhere.Close()
	server := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusFound))
	defer server.Close()
	if _, err := newRemoteMeter(NewMetrics(server.URL, nil)); !errors.Is(err, ErrMetrics) || !strings.Contains(err.Error(), "302") {
		t.Errorf("%v", err)
	}
	if (*dialguard.Guard)(nil).Client().Transport.(*http.Transport).Proxy != nil {
		t.Error("it would ask a proxy of the environment")
	}
}

// TestReadingsAreShared: two who follow the same target do not ask it twice.
func TestReadingsAreShared(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, metricsText, float64(asked.Add(1)))
	}))
	defer server.Close()
	m := NewMetrics(server.URL, nil)
	for range 3 {
		if got := m.gauges(); got["memory"] != 3.5e6 {
			t.Errorf("%v", got)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("the target was asked %d times for three readings at once", n)
	}
	if _, err := m.read(0); err != nil || asked.Load() != 2 {
		t.Errorf("asked %d times, %v; want a new reading", asked.Load(), err)
	}
	if NewMetrics("", nil) != nil {
		t.Error("there is no URL")
	}
}
