package shard

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/figure"
	"github.com/eventmeter/eventmeter/internal/metrics"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/internal/summary"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks/ledger"
	"github.com/prometheus/client_golang/prometheus"
)

// Here the made-up figures of a made-up driver are declared …
var madeUpFigures = figure.Table{Name: "made-up", Systems: []string{"events"}, Figures: []figure.Figure{
	{Name: "sneezes", Help: "sneezes of the target", Metric: &figure.Metric{Name: "eventmeter_made_up_sneezes_total", Help: "Sneezes."}},
	{Name: "sneezesPerVisit", Rule: figure.Ratio("sneezes", "visits"), Help: "sneezes over visits"},
	{Name: "visits", Help: "visits"},
	{Name: "loudest", Rule: figure.Peak, Help: "the loudest sneeze"},
	{
		Name:   "sneeze",
		Unit:   "ns",
		Timing: true,
		Help:   "how long one took",
		Metric: &figure.Metric{Name: "eventmeter_made_up_sneeze_seconds"},
	},
}}

// madeUp is a made-up driver, …
type madeUp struct {
	sneezes, visits, loudest float64
	took                     ledger.Values
}

// … and here they are counted. That is all there is to do for a new figure.
func (m *madeUp) sneeze(loud float64, took time.Duration) {
	m.sneezes++
	m.loudest = max(m.loudest, loud)
	m.took.Add(took)
}

func (m *madeUp) Figures() driver.Figures {
	return driver.Figures{
		Values: map[string]float64{
			"sneezes":         m.sneezes,
			"visits":          m.visits,
			"loudest":         m.loudest,
			"sneezesPerVisit": m.sneezes / m.visits,
		},
		Timings: map[string]ledger.Timing{"sneeze": m.took.Timing()},
	}
}

var _ driver.Figurer = (*madeUp)(nil)

// TestMadeUpFigure: what a driver declares and counts is merged by its rule, and
// is in the result, in the live view and in the metrics, with nothing else
// changed.
func TestMadeUpFigure(t *testing.T) {
	before := run.FigureTables
	run.FigureTables = append(slices.Clone(before), &madeUpFigures)
	t.Cleanup(func() { run.FigureTables = before })
	if err := run.FigureTables.Check(); err != nil {
		t.Fatal(err)
	}
	one, two := &madeUp{visits: 2}, &madeUp{visits: 8}
	one.sneeze(7, time.Second)
	for range 4 {
		two.sneeze(3, 2*time.Second)
	}
	want := map[string]float64{"sneezes": 5, "visits": 10, "loudest": 7, "sneezesPerVisit": 0.5}

	// Shards leave archives, which are merged into a result.
	var parts []results.PartFigures
	for _, d := range []driver.Figurer{one, two} {
		f := d.Figures()
		text, err := json.Marshal(results.PartFigures{Values: f.Values, Timings: f.Timings})
		if err != nil {
			t.Fatal(err)
		}
		var read results.PartFigures
		if err := json.Unmarshal(text, &read); err != nil {
			t.Fatal(err)
		}
		parts = append(parts, read)
	}
	sum, peaks := mergeFigures(parts)
	if !maps.Equal(sum.Values, want) || !slices.Equal(peaks, []string{"loudest"}) {
		t.Errorf("merged: %v, peaks %v, want %v", sum.Values, peaks, want)
	}
	book, err := ledger.New(ledger.Options{
		Clock: eventmeter.NewClock(), Sources: 1, Interval: time.Second,
		Lanes: []ledger.LaneSpec{{Name: "a", System: "events", Mode: eventmeter.Push, Subscriptions: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	whole := summary.New(summary.Options{Profile: &profiles.Profile{}, Result: &results.Result{}})
	whole.Add(book.Account(), []results.PartFigures{sum}, results.Generator{}, nil)
	text, err := json.Marshal(whole.Result)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"sneezes":5`, `"sneezesPerVisit":0.5`, `"sneeze":{"count":5`} {
		if !strings.Contains(string(text), part) {
			t.Errorf("result.json lacks %s", part)
		}
	}

	// Shards send looks, which are added for displays and scrapes.
	look := func(d driver.Figurer) metrics.Look {
		text, err := json.Marshal(metrics.Look{
			Detail: ledger.Live{Lanes: []ledger.LiveLane{{Name: "a", System: "events", Mode: eventmeter.Push}}},
			Own:    []metrics.Figures{metrics.FiguresOf(d.Figures().Values, d.Figures().Timings)},
		})
		if err != nil {
			t.Fatal(err)
		}
		var read metrics.Look
		if err := json.Unmarshal(text, &read); err != nil {
			t.Fatal(err)
		}
		return read
	}
	live, other := look(one), look(two)
	live.Add(&other, run.FigureTables)
	if got := live.Own[0]; !maps.Equal(got.Values, want) || got.Timings["sneeze"].Count != 5 {
		t.Errorf("live: %+v, want %v", got, want)
	}
	r := prometheus.NewPedanticRegistry()
	c, err := metrics.New(r, metrics.Options{Figures: run.FigureTables})
	if err != nil {
		t.Fatal(err)
	}
	c.Begin(metrics.Run{ID: "7"}).Pass(func() metrics.Look { return live })
	shown := map[string]float64{}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				if l.GetName() == "figure" {
					name += " " + l.GetValue()
				}
			}
			shown[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	for name, v := range map[string]float64{
		"eventmeter_figure sneezes": 5, "eventmeter_figure sneezesPerVisit": 0.5, "eventmeter_figure_seconds sneeze": 5,
		"eventmeter_made_up_sneezes_total": 5, "eventmeter_made_up_sneeze_seconds": 5,
	} {
		if got, ok := shown[name]; !ok || got != v {
			t.Errorf("%s is %v (there: %v), want %v", name, got, ok, v)
		}
	}
}
