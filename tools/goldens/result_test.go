package goldens

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/internal/figure"
	"github.com/eventmeter/eventmeter/internal/summary"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/loadgen/upstream"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// measured is a case that was played.
type measured struct {
	result  *results.Result
	account ledger.Account
	part    *results.Part // of a shard
}

// newLedger makes the ledger of a case, with the bounds of every profile of the cases.
func (c *madeUp) newLedger(t *testing.T, clock *eventmeter.Clock) *ledger.Ledger {
	t.Helper()
	o := ledger.Options{
		Clock: clock, Run: c.history.run, Sources: sources, LateAfter: 300 * time.Millisecond, DetachGrace: time.Second,
		Interval: time.Second, Examples: 4,
	}
	for _, g := range c.history.groups {
		o.Lanes = append(o.Lanes, ledger.LaneSpec{
			Name: g.name, System: g.system, Mode: g.mode, Subscriptions: g.subscriptions, Owed: g.owed, Replay: g.replay,
			Ordered: g.mode != eventmeter.Webhook,
		})
	}
	if c.shard > 0 {
		o.Sibling = func(run uint32) bool { return run == runID || run == runID+1 }
	}
	l, err := ledger.New(o)
	must(t, err)
	l.Measure(eventmeter.Instant(measureFrom), eventmeter.Instant(measureUntil))
	return l
}

// measure plays a case in fake time, and computes its result as a run does.
func (c *madeUp) measure(t *testing.T) (out measured) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		clock := eventmeter.NewClock()
		l := c.newLedger(t, clock)
		end := detached
		if c.ended != "" {
			end = 3200 * time.Millisecond
		}
		c.history.play(l, clock, end)
		out.account = l.Account()
		if err := out.account.Check(); err != nil {
			t.Error(err)
		}
		c.summarise(t, clock, &out)
	})
	return out
}

// summarise computes the result from the account.
func (c *madeUp) summarise(t *testing.T, clock *eventmeter.Clock, out *measured) {
	t.Helper()
	p, err := profiles.Parse(c.name, []byte(c.profile), nil, systems.Table)
	must(t, err)
	thresholds, err := results.ParseThresholds(p.Thresholds)
	must(t, err)
	text, err := json.Marshal(p)
	must(t, err)
	res := &results.Result{
		Schema: results.Schema, Version: "v0.0.0-golden", Run: fmt.Sprintf("%08x", c.history.run), Name: "golden",
		Started: clock.Time(1).UTC().Truncate(time.Millisecond), Profile: text, Phases: c.phases(), Lanes: []results.Lane{},
		Warnings: []results.Warning{},
		Upstream: results.Upstream{Kind: p.Upstream.Kind, Sources: p.Upstream.Sources},
		Target: results.Target{
			URL: p.Target.URL, Era: "modern", Protocol: "2026-07-28", Name: "target", Version: "1.2.3",
			Process: &results.Process{CPU: 700e6, CPUShare: 0.14, Memory: 40 << 20, Resolution: 1000},
		},
		Host: results.Host{OS: "linux", Arch: "amd64", CPU: "a processor", CPUs: 4, Memory: 8 << 30, Go: "go1.26", Files: 1 << 16},
	}
	if c.shard > 0 {
		res.Run += fmt.Sprintf("-%d", c.shard-1)
		res.Part = &results.PartOf{Index: c.shard - 1, Count: 2}
	}
	s := summary.New(summary.Options{Profile: p, Thresholds: thresholds, Part: c.shard > 0, Result: res})
	own := make([]results.PartFigures, len(out.account.Lanes))
	for i := range own {
		own[i] = c.ownFigures(i, &out.account.Lanes[i])
	}
	generator, process := c.generator(), *res.Target.Process
	s.Add(out.account, own, generator, &process)
	var published results.PartFigures
	if c.figures {
		published = figuresOf(upstream.FigureTables, "", 100)
	}
	s.SetUpstream(published)
	var failed error
	if c.ended != "" {
		failed = errors.New(c.ended)
	}
	s.Finish(failed, "")
	out.result = s.Result
	if c.shard > 0 {
		out.part = &results.Part{
			Schema: results.PartSchema, Index: c.shard - 1, Count: 2, Run: "00000060", Profile: "0123", Machine: "machine",
			Coverage: 0.5, Upstream: published,
			Passes: []results.PartPass{{
				Account: out.account, Began: results.Nanos(warmUpFrom), BeganAt: clock.Time(eventmeter.Instant(warmUpFrom)).UTC(),
				Figures: own, Generator: generator, Target: &process,
			}},
		}
	}
}

func (c *madeUp) phases() []results.Phase {
	at := func(d time.Duration) results.Nanos { return results.Nanos(d) }
	if c.ended != "" {
		return []results.Phase{
			{Name: "attach", End: at(attached)},
			{Name: "warm-up", Start: at(warmUpFrom), End: at(measureFrom)},
			{Name: "measure", Start: at(measureFrom), End: at(3100 * time.Millisecond)},
		}
	}
	return []results.Phase{
		{Name: "attach", End: at(attached)},
		{Name: "warm-up", Start: at(warmUpFrom), End: at(measureFrom)},
		{Name: "measure", Start: at(measureFrom), End: at(measureUntil)},
		{Name: "drain", Start: at(measureUntil), End: at(drained)},
		{Name: "detach", Start: at(drained), End: at(detached)},
	}
}

// generator is the health of a generator, of a sound one or of one that was the
// bottleneck.
func (c *madeUp) generator() results.Generator {
	delay := timing(uint64(7), 500, 30*time.Microsecond)
	lag := timing(uint64(8), 500, 100*time.Microsecond)
	if c.bottleneck {
		delay = timing(uint64(7), 500, 30*time.Millisecond)
		lag = timing(uint64(8), 500, 80*time.Millisecond)
	}
	return results.Generator{
		Process: results.Process{CPU: 1200e6, CPUShare: 0.24, Memory: 60 << 20, Resolution: 1000},
		Others:  0.1, Goroutines: 40,
		ReadDelay: results.Summarise(delay), TimerLag: results.Summarise(lag),
		GCPauses: results.Summarise(timing(9, 20, 50*time.Microsecond)),
	}
}

// timing draws n durations about a mean.
func timing(seed uint64, n int, mean time.Duration) ledger.Timing {
	rng := rand.New(rand.NewPCG(seed, 2))
	h := hdrhistogram.New(1000, int64(10*time.Minute), 3)
	for range n {
		_ = h.RecordValue(max(1000, int64(float64(mean)*(0.5+rng.ExpFloat64()/2)))) // it is in the range
	}
	return ledger.Timing{Histogram: h}
}

// ownFigures are the figures of a lane that its system alone has.
func (c *madeUp) ownFigures(lane int, a *ledger.LaneAccount) results.PartFigures {
	var out results.PartFigures
	if c.figures && (lane == 0 || a.System != "events") { // the figures of one lane of MCP Events are enough
		out = figuresOf(systems.FigureTables, a.System, lane)
	}
	if a.System == "events" {
		out.Conform = c.conformance(9)
	}
	return out
}

// figuresOf gives every figure of the tables a value, different in each lane. A system
// takes the tables of its lanes alone.
func figuresOf(tables figure.Tables, system string, lane int) results.PartFigures {
	out := results.PartFigures{Values: map[string]float64{}, Timings: map[string]ledger.Timing{}}
	for _, table := range tables {
		of := system == ""
		for _, name := range table.Systems {
			of = of || name == system
		}
		if !of {
			continue
		}
		for i, f := range table.Figures {
			if f.Timing {
				out.Timings[f.Name] = timing(uint64(lane*1000+i), 20+i, time.Duration(1+i)*time.Millisecond)
			} else {
				out.Values[f.Name] = float64(1 + lane + i)
			}
		}
	}
	return out
}

// conformance is what a lane saw of every so many rows: in a sound run all of them
// held.
func (c *madeUp) conformance(every int) conform.Account {
	out := conform.Account{}
	for i := 0; i < len(conform.Rows); i += every {
		row := conform.Count{Seen: int64(10 + i)}
		switch {
		case c.broken && i%5 == 2:
			continue // not seen
		case c.broken && i%7 == 4:
			row.Broken = int64(1 + i%3)
			row.First = &conform.Example{Subscription: 1, At: eventmeter.Instant(2 * time.Second), Message: `{"what":"broke it"}`}
		}
		out[conform.Rows[i].Name] = row
	}
	return out
}

// archive writes the archive of a case.
func (m *measured) archive(t *testing.T, dir ...string) {
	t.Helper()
	to := filepath.Join(dir...)
	must(t, results.Save(to, m.result, []ledger.Account{m.account}))
	if m.part != nil {
		must(t, results.SavePart(to, m.part))
	}
}
