package stats

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"slices"

	"github.com/eventmeter/eventmeter/results"
)

// HistorySchema is the version of the JSON form of a [History].
const HistorySchema = "eventmeter.history/1"

// LeastLevel is how many runs a level lasts at least: fewer cannot be told from outliers.
const LeastLevel = manyRuns

// LeastHistory is how many runs a history needs: with fewer, no change can be told
// from chance.
const LeastHistory = 2 * LeastLevel

// HistoryOptions tune a history. The zero value is ready to use.
type HistoryOptions struct {
	// Alpha is how often a figure of runs that are all alike is said to have changed.
	// 0 means 0.0005: a history has many figures.
	Alpha float64
	// MinEffect is the smallest relative change that matters. 0 means 0.03, negative
	// means none.
	MinEffect float64
}

// History is the figures of several runs in the order of their start, and the runs
// with which a figure changed. It depends only on the runs and the options.
type History struct {
	Schema    string       `json:"schema"`
	Runs      []HistoryRun `json:"runs"`
	Alpha     float64      `json:"alpha"`
	MinEffect float64      `json:"minEffect"`
	// Run holds the figures of the whole run, Lanes those of each lane that is in
	// LeastHistory runs or more.
	Run      []FigureHistory   `json:"run"`
	Lanes    []LaneHistory     `json:"lanes"`
	Warnings []results.Warning `json:"warnings"`
}

// HistoryRun names a run and what it measured.
type HistoryRun struct {
	RunInfo
	// Target and TargetVersion are what the server said of itself.
	Target        string `json:"target,omitempty"`
	TargetVersion string `json:"targetVersion,omitempty"`
	// Differs is what differs from the run before and may explain a change: keys of
	// the profile, the machine, the negotiated protocol.
	Differs []string `json:"differs,omitempty"`
}

// LaneHistory is the figures of one lane.
type LaneHistory struct {
	Name    string          `json:"name"`
	System  string          `json:"system"`
	Mode    string          `json:"mode"`
	Figures []FigureHistory `json:"figures"`
}

// FigureHistory is one figure in each run.
type FigureHistory struct {
	Figure string `json:"figure"`
	Per    string `json:"per,omitempty"`
	Unit   string `json:"unit"`
	// Values are in the order of the runs. Null: not measured.
	Values []*float64 `json:"values"`
	// Changes are in the order of the runs, and empty if the figure did not change.
	Changes []LevelChange `json:"changes"`
	// Reason says why the figure was not searched for changes.
	Reason string `json:"reason,omitempty"`
}

// LevelChange is a change of a figure that lasted.
type LevelChange struct {
	// At is the index of the first run with the new level. With a confidence of 95 % it is
	// Earliest to Latest.
	At       int `json:"at"`
	Earliest int `json:"earliest"`
	Latest   int `json:"latest"`
	// Before and After are the medians of the runs between the changes beside this one.
	Before float64 `json:"before"`
	After  float64 `json:"after"`
	// Effect is After/Before-1, or After-Before where Absolute is set because Before
	// is 0. Low and High bound its 95 % confidence interval; null is without bound.
	Effect   float64  `json:"effect"`
	Absolute bool     `json:"absolute,omitempty"`
	Low      *float64 `json:"low"`
	High     *float64 `json:"high"`
	Finding  Finding  `json:"finding"` // better or worse
}

// NewHistory searches the figures of runs, which it sorts by their start, for changes.
// Partial runs are left out, with a warning. Errors wrap [ErrCompare].
func NewHistory(s *Side, opts HistoryOptions) (*History, error) {
	if opts.Alpha == 0 {
		opts.Alpha = 0.0005
	}
	switch {
	case opts.MinEffect == 0:
		opts.MinEffect = 0.03
	case opts.MinEffect < 0:
		opts.MinEffect = 0
	}
	h := &History{
		Schema:    HistorySchema,
		Alpha:     opts.Alpha,
		MinEffect: opts.MinEffect,
		Run:       []FigureHistory{},
		Lanes:     []LaneHistory{},
		Warnings:  []results.Warning{},
	}
	var runs []Run
	for _, r := range s.Runs {
		if r.Result.Partial {
			h.warn("partial", "run %s ended early and is left out: %s", r.Result.Run, r.Result.Reason)
			continue
		}
		runs = append(runs, r)
	}
	if len(runs) < LeastHistory {
		return nil, fmt.Errorf(
			"%w: a history needs %d complete runs and has %d; compare two runs or two groups instead",
			ErrCompare,
			LeastHistory,
			len(runs),
		)
	}
	for i := range runs {
		h.Runs = append(h.Runs, historyRun(runs, i))
		if g := runs[i].Result.Generator; g.Bottleneck {
			h.warn("bottleneck", "in run %s the generator was the bottleneck", runs[i].Result.Run)
		}
	}
	for _, f := range runFigures {
		h.Run = append(h.Run, h.figure(runs, "", f))
	}
	for _, l := range commonLanes(runs) {
		lane := LaneHistory{Name: l.Name, System: l.System, Mode: l.Mode, Figures: []FigureHistory{}}
		for _, f := range laneFigures {
			lane.Figures = append(lane.Figures, h.figure(runs, l.Name, f))
		}
		h.Lanes = append(h.Lanes, lane)
	}
	if len(h.Lanes) == 0 {
		return nil, fmt.Errorf("%w: no lane is in %d of the runs; name runs of the same profile", ErrCompare, LeastHistory)
	}
	return h, nil
}

func (h *History) warn(code, format string, args ...any) {
	h.Warnings = append(h.Warnings, results.Warning{Code: code, Text: fmt.Sprintf(format, args...)})
}

// commonLanes returns the lanes that are in enough runs, each as it was last.
func commonLanes(runs []Run) []*results.Lane {
	var out []*results.Lane
	in := map[string]int{}
	for i := range runs {
		for k := range runs[i].Result.Lanes {
			l := &runs[i].Result.Lanes[k]
			if in[l.Name]++; in[l.Name] == LeastHistory {
				out = append(out, l)
			}
		}
	}
	return out
}

func historyRun(runs []Run, i int) HistoryRun {
	r := runs[i].Result
	out := HistoryRun{RunInfo: runs[i].info(), Target: r.Target.Name, TargetVersion: r.Target.Version}
	if i == 0 {
		return out
	}
	was := runs[i-1].Result
	if keys := profileDiff(was.Profile, r.Profile, false); len(keys) > 0 {
		out.Differs = append(out.Differs, "profile: "+someKeys(keys))
	}
	if d := hostDiff(was.Host, r.Host); d != "" {
		out.Differs = append(out.Differs, d)
	}
	if was.Version != r.Version {
		out.Differs = append(out.Differs, "eventmeter "+was.Version+" and "+r.Version)
	}
	if x, y := was.Target, r.Target; x.Name != y.Name || x.Version != y.Version {
		out.Differs = append(out.Differs, fmt.Sprintf("target %s %s and %s %s", x.Name, x.Version, y.Name, y.Version))
	}
	if x, y := was.Target, r.Target; x.Era != y.Era || x.Protocol != y.Protocol {
		out.Differs = append(out.Differs, fmt.Sprintf("protocol %s %s and %s %s", x.Era, x.Protocol, y.Era, y.Protocol))
	}
	return out
}

// figure reads a figure of all runs and searches it for changes.
func (h *History) figure(runs []Run, lane string, f compared) FigureHistory {
	out := FigureHistory{Figure: f.path, Per: f.per, Unit: f.unit, Values: make([]*float64, len(runs)), Changes: []LevelChange{}}
	var values []float64
	var counts []tallied
	var at []int // the run of each value
	thin := 0
	for i := range runs {
		v, t, ok := f.value(&runs[i], lane)
		if !ok {
			continue
		}
		out.Values[i] = &v
		if l := runs[i].lane(lane); f.tag != "" && float64(summaryOf(l, f.tag).Count)*(1-quantilesCompared[f.rank]) < leastTail-1e-6 {
			thin++
		}
		values, counts, at = append(values, v), append(counts, t), append(at, i)
	}
	switch {
	case len(values) < LeastHistory:
		out.Reason = fmt.Sprintf("%d runs have it; %d are needed", len(values), LeastHistory)
		return out
	case thin > 0:
		out.Reason = fmt.Sprintf("%d of %d runs have fewer than %d samples beyond this quantile", thin, len(values), leastTail)
		return out
	}
	found := levelChanges(values, h.Alpha, seedOf(runs, lane, f.path))
	for i, s := range found {
		from, to := 0, len(values)
		if i > 0 {
			from = found[i-1].at
		}
		if i+1 < len(found) {
			to = found[i+1].at
		}
		var e estimate
		if f.count != nil {
			e = countEstimate(counts[from:s.at], counts[s.at:to], h.Alpha)
		} else {
			e = runEstimate(values[from:s.at], values[s.at:to], false)
		}
		if !e.absolute && math.Abs(e.effect) < h.MinEffect || e.effect == 0 {
			continue
		}
		c := LevelChange{
			At:       at[s.at],
			Earliest: at[s.earliest],
			Latest:   at[s.latest],
			Before:   e.a,
			After:    e.b,
			Effect:   e.effect,
			Absolute: e.absolute,
			Low:      number(e.low),
			High:     number(e.high),
			Finding:  Worse,
		}
		if e.effect < 0 {
			c.Finding = Better
		}
		out.Changes = append(out.Changes, c)
	}
	return out
}

// value reads a figure of a run; ok is false where the run has none. The count is that
// of figures that are counted.
func (f *compared) value(r *Run, lane string) (v float64, t tallied, ok bool) {
	if lane != "" && r.lane(lane) == nil {
		return 0, t, false
	}
	switch {
	case f.tag != "":
		q := summaryOf(r.lane(lane), f.tag)
		return valuesOf(q)[f.rank], t, q.Has(f.quantile())
	case f.count != nil:
		if r.lane(lane).ReceivedNothing() {
			return 0, t, false
		}
		t = f.count(r.lane(lane))
		return t.count / t.whole, t, t.whole > 0
	}
	v, ok = f.measured(r, lane)
	return v, t, ok
}

// seedOf makes the search of a figure depend on nothing but the runs.
func seedOf(runs []Run, lane, figure string) uint64 {
	hash := fnv.New64a()
	for i := range runs {
		fmt.Fprintf(hash, "%s %s\n", runs[i].Result.Run, runs[i].Result.Started.UTC())
	}
	fmt.Fprintf(hash, "%s %s\n", lane, figure)
	return hash.Sum64()
}

// Changed returns the indexes, ascending, of the runs with which a figure changed.
func (h *History) Changed() []int {
	var out []int
	for _, of := range h.figures() {
		for _, f := range of {
			for _, c := range f.Changes {
				out = append(out, c.At)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (h *History) figures() [][]FigureHistory {
	out := [][]FigureHistory{h.Run}
	for i := range h.Lanes {
		out = append(out, h.Lanes[i].Figures)
	}
	return out
}

// MedianOf returns the median of values, which it does not change; 0 if there are none.
func MedianOf(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	return median(slices.Sorted(slices.Values(values)))
}

// Write writes h as indented JSON with a final newline.
func (h *History) Write(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(h); err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	return nil
}
