package goldens

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/metrics"
	internalrun "github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/loadgen/upstream"
)

// The text of /metrics in the middle of the faulty run, and after its end.
func TestMetrics(t *testing.T) {
	for _, x := range []struct {
		name string
		at   time.Duration
	}{{"running", 3500 * time.Millisecond}, {"done", detached}} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { golden(t, "metrics/"+x.name+".txt", faulty().scraped(t, x.at)) })
		})
	}
}

// scraped returns the metrics of a case at a moment of its run.
func (c *madeUp) scraped(t *testing.T, at time.Duration) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	collector, err := metrics.New(registry, metrics.Options{Figures: internalrun.FigureTables})
	must(t, err)
	clock := eventmeter.NewClock()
	l := c.newLedger(t, clock)
	began := clock.Time(1).UTC().Truncate(time.Millisecond)
	f := collector.Begin(metrics.Run{
		ID: "00000060", Name: "golden", Profile: c.name, Version: "v0.0.0-golden", Upstream: "inject", Schedule: "constant",
		Fleet: "00000060", Started: began,
	})
	look := metrics.Look{Phases: []metrics.Phase{
		{Name: "warm-up", Start: began.Add(warmUpFrom), End: began.Add(measureFrom)},
		{Name: "measure", Start: began.Add(measureFrom)},
	}}
	own := figuresOf(upstream.FigureTables, "", 100)
	look.Upstream = metrics.FiguresOf(own.Values, own.Timings)
	look.Health = metrics.Health{
		Generator: metrics.Usage{CPU: 1.2, Memory: 60 << 20, OK: true}, Target: metrics.Usage{CPU: 0.7, Memory: 40 << 20, OK: true},
		Goroutines: 40, Measured: true, Used: map[string]float64{metrics.Generator: 1.1, metrics.Target: 0.6},
		Most: map[string]int64{metrics.Generator: 61 << 20, metrics.Target: 41 << 20}, Others: 0.1,
		ReadDelay: timing(7, 500, 30*time.Microsecond).Distribution(), TimerLag: timing(8, 500, 100*time.Microsecond).Distribution(),
		GCPauses: timing(9, 20, 50*time.Microsecond).Distribution(),
	}
	for i, g := range c.history.groups[:1] { // enough to see every figure
		figures := figuresOf(systems.FigureTables, g.system, i)
		shown := metrics.FiguresOf(figures.Values, figures.Timings)
		shown.Conform = c.conformance(9)
		look.Own = append(look.Own, shown)
	}
	pass := f.Pass(func() metrics.Look {
		now := look.Clone()
		now.Detail = l.Detail()
		return now
	})
	c.history.play(l, clock, at)
	if at == detached {
		m := measured{account: l.Account()}
		c.summarise(t, clock, &m)
		last := look.Clone()
		last.Detail = m.account.Live()
		pass.Settle(&last)
		f.Finish(m.result, last.Upstream)
	}
	text := gathered(t, registry)
	if at != detached { // the other file describes the metrics
		text = regexp.MustCompile(`(?m)^# .*\n`).ReplaceAllString(text, "")
	}
	return text
}

// gathered is what a scrape gets as text. Of a histogram only the count and the sum are
// kept, because its buckets follow from the latencies in the other files; series of 0 are
// counted.
func gathered(t *testing.T, from prometheus.Gatherer) string {
	t.Helper()
	families, err := from.Gather()
	must(t, err)
	var out bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&out, f); err != nil {
			t.Fatal(err)
		}
	}
	var kept strings.Builder
	for line := range strings.Lines(out.String()) {
		if name, _, _ := strings.Cut(line, "{"); !strings.HasSuffix(name, "_bucket") || strings.Contains(line, `le="+Inf"`) {
			kept.WriteString(strings.Replace(line, `run="00000060",`, "", 1))
		}
	}
	last := ""
	return shorter(kept.String(), func(line string) bool {
		name, _, _ := strings.Cut(line, "{")
		same := name == last
		last = name
		return same && strings.HasSuffix(line, " 0\n")
	})
}

// The names of all figures of systems and upstreams, with what is declared of them.
func TestFigureNames(t *testing.T) {
	var out strings.Builder
	for _, table := range internalrun.FigureTables {
		fmt.Fprintf(&out, "%s (%s)\n", table.Name, cmp.Or(strings.Join(table.Systems, ", "), "upstream or observer"))
		for _, f := range table.Figures {
			line := []string{f.Name, cmp.Or(f.Unit, "count")}
			if f.Timing {
				line = append(line, "timing")
			}
			if f.Metric != nil {
				line = append(line, f.Metric.Name, f.Metric.Label, f.Metric.Value)
			}
			fmt.Fprintf(&out, "  %s\n", strings.Join(slices.DeleteFunc(line, func(s string) bool { return s == "" }), " "))
		}
	}
	golden(t, "figures.txt", out.String())
}
