package shard

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter/internal/health"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/internal/summary"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks"
)

// ErrMerge is wrapped by the errors about shards that do not belong together.
var ErrMerge = errors.New("these cannot be merged")

// Merge adds up the archives of the shards of one run, exactly: accounts are
// merged bucket by bucket (see [sinks.MergeAccounts]), and the result is made
// of them as of one account; thresholds are judged on it. Series are laid over
// each other by when each shard began to fire, to within one interval.
//
// Where shards are missing or ended early, the result is partial and says so;
// that is no error. Shards of different runs, profiles or versions are, and one
// that is there twice: they wrap [ErrMerge] or [results.ErrFormat].
func Merge(dirs []string) (*run.Outcome, error) {
	m, err := mergeDirs(dirs)
	if err != nil {
		return nil, err
	}
	return m.outcome(), nil
}

func mergeDirs(dirs []string) (*merge, error) {
	shards, err := loadShards(dirs)
	if err != nil {
		return nil, err
	}
	return mergeShards(shards)
}

// archived is what one shard left.
type archived struct {
	dir    string
	result *results.Result
	part   *results.Part
}

func loadShards(dirs []string) ([]archived, error) {
	if len(dirs) == 0 {
		return nil, fmt.Errorf("%w: there are none", ErrMerge)
	}
	var all []archived
	for _, dir := range dirs {
		r, err := results.Load(dir)
		if err != nil {
			return nil, err
		}
		p, err := results.LoadPart(dir)
		if err != nil {
			return nil, err
		}
		if err := results.CheckPart(dir, r, p); err != nil {
			return nil, err
		}
		if err := r.CheckSeries(dir); err != nil {
			return nil, err
		}
		all = append(all, archived{dir, r, p})
	}
	slices.SortStableFunc(all, func(a, b archived) int { return cmp.Compare(a.part.Index, b.part.Index) })
	first := all[0]
	for i, s := range all {
		if i > 0 && s.part.Index == all[i-1].part.Index {
			return nil, fmt.Errorf("%w: %s and %s are both shard %d; name it once", ErrMerge, all[i-1].dir, s.dir, s.part.Index)
		}
		for _, x := range []struct{ what, a, b string }{
			{"versions of the program", first.result.Version, s.result.Version},
			{"profiles", first.part.Profile, s.part.Profile},
			{"numbers of shards", fmt.Sprint(first.part.Count), fmt.Sprint(s.part.Count)},
			{"runs", first.part.Run, s.part.Run},
			{"coverage", fmt.Sprint(first.part.Coverage), fmt.Sprint(s.part.Coverage)},
		} {
			if x.a != x.b {
				return nil, fmt.Errorf("%w: %s and %s are of different %s, %.12s and %.12s", ErrMerge, first.dir, s.dir, x.what, x.a, x.b)
			}
		}
	}
	return all, nil
}

func mergeShards(all []archived) (*merge, error) {
	m, err := newMerge(all)
	if err != nil {
		return nil, err
	}
	m.Result.Phases = mergePhases(all, m.shifts)
	passes := 0
	for _, s := range all {
		passes = max(passes, len(s.part.Passes))
	}
	for k := range passes {
		if err := m.mergePass(k); err != nil {
			return nil, err
		}
	}
	m.mergeUpstream()
	m.mergeHealth()
	m.Finish(shortfall(all), "")
	res := m.Result
	res.Finished = time.Time{}
	for _, s := range all {
		if s.result.Finished.After(res.Finished) {
			res.Finished = s.result.Finished
		}
		for _, w := range s.part.Warnings {
			w.Text = fmt.Sprintf("shard %d: %s", s.part.Index, w.Text)
			res.Warnings = append(res.Warnings, w)
		}
	}
	m.warnShards()
	return m, nil
}

// merge is a run that is put together of its shards.
type merge struct {
	*summary.Summary
	all    []archived
	shifts [][]results.Nanos // of each shard and pass, see align
	passes []mergedPass
}

func (m *merge) outcome() *run.Outcome { return &run.Outcome{Result: m.Result, Accounts: m.Accounts} }

// newMerge returns a merge with nothing in it yet.
func newMerge(all []archived) (*merge, error) {
	first := all[0]
	p := new(profiles.Profile)
	if err := json.Unmarshal(first.result.Profile, p); err != nil {
		return nil, fmt.Errorf("%w: %s: the profile: %w", results.ErrFormat, first.dir, err)
	}
	thresholds, err := results.ParseThresholds(p.Thresholds)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", results.ErrFormat, first.dir, err)
	}
	for _, s := range all {
		for _, l := range s.result.Lanes {
			if !slices.ContainsFunc(p.Lanes, func(of profiles.Lane) bool { return of.Name == l.Name }) {
				return nil, fmt.Errorf("%w: %s: lanes: there is a lane %s that the profile of %s does not have", results.ErrFormat, s.dir, l.Name, first.dir)
			}
		}
	}
	res := *first.result
	res.Run, res.Coverage = first.part.Run, first.part.Coverage
	res.Partial, res.Reason, res.Checkpoint, res.Part = false, "", false, nil
	res.Upstream = results.Upstream{Kind: res.Upstream.Kind, Sources: res.Upstream.Sources}
	res.Lanes, res.Warnings, res.Thresholds = []results.Lane{}, []results.Warning{}, nil
	res.Generator, res.Target.Process = results.Generator{}, nil
	for _, s := range all {
		if s.result.Started.Before(res.Started) {
			res.Started = s.result.Started
		}
	}
	return &merge{
		Summary: summary.New(summary.Options{Profile: p, Thresholds: thresholds, Result: &res}),
		all:     all, shifts: align(all),
	}, nil
}

// mergePass adds up pass k of all shards that had one.
func (m *merge) mergePass(k int) error {
	var accounts []sinks.Account
	var intervals []int64
	var own [][]results.PartFigures
	var in results.Generator
	var target *results.Process
	for i, s := range m.all {
		if k >= len(s.part.Passes) {
			continue
		}
		p := &s.part.Passes[k]
		width := int64(p.Account.Interval)
		if width <= 0 || len(p.Figures) != len(p.Account.Lanes) {
			return fmt.Errorf("%w: %s: its accounts are not whole", results.ErrFormat, s.dir)
		}
		accounts = append(accounts, p.Account)
		intervals = append(intervals, int64(p.Began+m.shifts[i][k])/width-int64(p.Began)/width)
		own = append(own, p.Figures)
		in = health.Beside(in, p.Generator)
		target = health.Larger(target, p.Target)
	}
	merged, err := sinks.MergeAccounts(accounts, sinks.MergeOptions{Shift: intervals})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMerge, err)
	}
	figures := make([]results.PartFigures, len(merged.Lanes))
	for i := range figures {
		parts := make([]results.PartFigures, len(own))
		for j := range own {
			parts[j] = own[j][i]
		}
		var atMost []string
		figures[i], atMost = mergeFigures(parts)
		if len(atMost) > 0 {
			m.Warn("shard-figures", merged.Lanes[i].Name, "%s cannot be added up: what stands there is of the shard that had most", strings.Join(atMost, ", "))
		}
	}
	m.Add(merged, figures, in, target)
	m.passes = append(m.passes, mergedPass{figures, in, target})
	return nil
}

// mergeUpstream adds up what the upstreams saw besides.
func (m *merge) mergeUpstream() {
	var parts []results.PartFigures
	for _, s := range m.all {
		parts = append(parts, s.part.Upstream)
	}
	sum, _ := mergeFigures(parts)
	m.SetUpstream(sum)
}

// shortfall says what is missing of the run; nil if nothing is.
func shortfall(all []archived) error {
	var texts []string
	if missing := missingShards(all); len(missing) > 0 {
		what, are := "shards", "are"
		if len(missing) == 1 {
			what, are = "shard", "is"
		}
		texts = append(texts, fmt.Sprintf("%s %s of %d %s missing", what, enumerate(missing), all[0].part.Count, are))
	}
	for _, s := range all {
		if s.result.Partial {
			texts = append(texts, fmt.Sprintf("shard %d ended early: %s", s.part.Index, s.result.Reason))
		}
	}
	if texts == nil {
		return nil
	}
	return errors.New(strings.Join(texts, "; "))
}

func missingShards(all []archived) []int {
	var out []int
	for i := range all[0].part.Count {
		if !slices.ContainsFunc(all, func(s archived) bool { return s.part.Index == i }) {
			out = append(out, i)
		}
	}
	return out
}

func enumerate(ns []int) string {
	texts := make([]string, len(ns))
	for i, n := range ns {
		texts[i] = fmt.Sprint(n)
	}
	if n := len(texts); n > 1 {
		return strings.Join(texts[:n-1], ", ") + " and " + texts[n-1]
	}
	return texts[0]
}
