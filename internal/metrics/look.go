package metrics

import (
	"maps"
	"slices"
	"time"

	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/internal/figure"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// Look is a snapshot of a pass. It belongs to the caller, and is sent between
// processes as JSON.
type Look struct {
	Detail ledger.Live
	// Phases are those that were begun, in their order.
	Phases []Phase
	// Bursts is how many bursts of the schedule were due, and Burst when the
	// last of them was.
	Bursts int64
	Burst  time.Time
	// Own are the figures that only the systems of the lanes have, in the order
	// of the lanes; it may be nil. Upstream are those of the upstream.
	Own      []Figures
	Upstream Figures
	Health   Health
}

// Phase is one phase of a pass. End is zero while it lasts. Lane is set where
// lanes take turns.
type Phase struct {
	Name, Lane string
	Start, End time.Time
}

// Figures are what only one system or upstream has, by the names in the result.
type Figures struct {
	Values  map[string]float64
	Timings map[string]ledger.Distribution
	Conform conform.Account `json:",omitempty"` // what was seen of the rows of conformance; nil of most
}

// FiguresOf makes figures of counts and timings.
func FiguresOf(values map[string]float64, timings map[string]ledger.Timing) Figures {
	out := Figures{Values: values, Timings: make(map[string]ledger.Distribution, len(timings))}
	for name, t := range timings {
		out.Timings[name] = t.Distribution()
	}
	return out
}

// Health is the health of the generator and its target.
type Health struct {
	// Generator and Target are processes as they are now.
	Generator, Target Usage
	// Goroutines of the generator.
	Goroutines int64
	// Measured is false until firing begins; then the rest is known.
	Measured bool
	// Used is the CPU time, in seconds, that the generator took since firing
	// began, and the target where it can be read. Most is the largest resident
	// memory, in bytes.
	Used map[string]float64
	Most map[string]int64
	// Others is the CPU time of all other processes of the machine since then,
	// over wall time.
	Others float64
	// ReadDelay, TimerLag and GCPauses are as in the result.
	ReadDelay, TimerLag, GCPauses ledger.Distribution
}

// Usage is what a process has used. CPU is in seconds since it started, Memory
// its resident bytes. OK is false when it cannot be read.
type Usage struct {
	CPU    float64
	Memory int64
	OK     bool
}

// The processes of a run, as the label process has them.
const (
	Generator = "generator"
	Target    = "target"
)

// Add adds the look of another shard at the same pass. The phase is that of the
// shard that is furthest behind. The tables say what figures of systems and
// upstreams are together; of a peak the largest is shown.
func (l *Look) Add(m *Look, by figure.Tables) {
	l.Detail.Add(&m.Detail)
	if len(m.Phases) < len(l.Phases) {
		l.Phases = m.Phases
	}
	l.Bursts = max(l.Bursts, m.Bursts)
	if m.Burst.After(l.Burst) {
		l.Burst = m.Burst
	}
	for i := range min(len(l.Own), len(m.Own)) {
		l.Own[i] = l.Own[i].plus(m.Own[i], by)
	}
	l.Upstream = l.Upstream.plus(m.Upstream, by)
	l.Health.add(&m.Health)
}

// plus returns both together; it shares nothing that is written with f or g.
func (f Figures) plus(g Figures, by figure.Tables) Figures {
	out := Figures{Timings: maps.Clone(f.Timings), Conform: f.Conform.Plus(g.Conform)}
	for name, d := range g.Timings {
		if out.Timings == nil {
			out.Timings = map[string]ledger.Distribution{}
		}
		out.Timings[name] = out.Timings[name].Plus(d)
	}
	out.Values, _ = by.Merge(
		func(timing string, percent float64) float64 { return out.Timings[timing].Percentile(percent) },
		f.Values,
		g.Values,
	)
	return out
}

func (h *Health) add(m *Health) {
	h.Generator = h.Generator.plus(m.Generator)
	if !h.Target.OK {
		h.Target = m.Target // it is one process, which both have seen
	}
	h.Goroutines += m.Goroutines
	h.Measured = h.Measured || m.Measured
	used, most := map[string]float64{}, map[string]int64{}
	for _, from := range []*Health{h, m} {
		for name, v := range from.Used {
			if name == Generator {
				used[name] += v
			} else {
				used[name] = max(used[name], v)
			}
		}
		for name, v := range from.Most {
			if name == Generator {
				most[name] += v
			} else {
				most[name] = max(most[name], v)
			}
		}
	}
	h.Used, h.Most = used, most
	h.Others = max(h.Others, m.Others)
	h.ReadDelay, h.TimerLag, h.GCPauses = h.ReadDelay.Plus(m.ReadDelay), h.TimerLag.Plus(m.TimerLag), h.GCPauses.Plus(m.GCPauses)
}

func (u Usage) plus(v Usage) Usage {
	return Usage{CPU: u.CPU + v.CPU, Memory: u.Memory + v.Memory, OK: u.OK || v.OK}
}

// Clone returns a look that [Look.Add] may change.
func (l *Look) Clone() Look {
	out := *l
	out.Detail.Lanes = slices.Clone(l.Detail.Lanes)
	out.Own = slices.Clone(l.Own)
	return out
}

// Run names what is measured.
type Run struct {
	// ID is the run's unique name in its result, of bounded length.
	// Name is the name that a person gave it, or "".
	ID, Name, Profile, Version, Upstream, Schedule string
	// Fleet is the name that all shards of a run have in common, and ID where
	// there are none. Shard is the index of this one, "" without.
	Fleet, Shard string
	Started      time.Time
}

// PhaseDone is the phase of a run that is over.
const PhaseDone = "done"
