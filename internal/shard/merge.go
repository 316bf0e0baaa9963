package shard

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter/internal/health"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/internal/summary"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// Merge adds up the archives of the shards of one run, exactly: accounts are merged
// bucket by bucket (see [ledger.MergeAccounts]), the result is computed from the
// merged account, and the thresholds are judged on it. Time series are aligned at the
// instants at which the shards began to publish, to within one interval.
//
// If shards are missing or ended early, the result is partial and says so; that is
// not an error. Shards of different runs, profiles or versions are an error, and so
// is a shard that is given twice. Errors wrap [ErrMerge] or [results.ErrFormat].
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
	failure := ""
	for _, s := range all {
		failure = cmp.Or(failure, s.part.UpstreamFailure)
	}
	m.Finish(shortfall(all), failure)
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

// newMerge returns an empty merge.
func newMerge(all []archived) (*merge, error) {
	first := all[0]
	p, err := profiles.FromJSON(first.result.Profile, systems.Table)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: the profile: %w", results.ErrFormat, first.dir, err)
	}
	thresholds, err := results.ParseThresholds(p.Thresholds)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", results.ErrFormat, first.dir, err)
	}
	for _, s := range all {
		for _, l := range s.result.Lanes {
			if !slices.ContainsFunc(p.Lanes, func(of profiles.Lane) bool { return of.Name == l.Name }) {
				return nil, fmt.Errorf(
					"%w: %s: lanes: there is a lane %s that the profile of %s does not have",
					results.ErrFormat,
					s.dir,
					l.Name,
					first.dir,
				)
			}
		}
	}
	res := *first.result
	res.Run, res.Coverage = first.part.Run, first.part.Coverage
	res.Partial, res.Reason, res.Checkpoint, res.Part = false, "", false, nil
	res.Upstream = results.Upstream{Kind: res.Upstream.Kind, Sources: res.Upstream.Sources}
	res.Lanes, res.Warnings, res.Thresholds = []results.Lane{}, []results.Warning{}, nil
	res.Generator, res.Target.Process = results.Generator{}, nil
	res.Target.Tokens, res.Conformance = nil, nil
	for _, s := range all {
		res.Target.Tokens = res.Target.Tokens.Add(s.result.Target.Tokens)
		if s.result.Started.Before(res.Started) {
			res.Started = s.result.Started
		}
	}
	return &merge{
		Summary: summary.New(summary.Options{Profile: p, Thresholds: thresholds, Result: &res}),
		all:     all, shifts: align(all),
	}, nil
}

// mergePass adds up pass k of all shards that have it.
func (m *merge) mergePass(k int) error {
	var accounts []ledger.Account
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
	merged, err := ledger.MergeAccounts(accounts, ledger.MergeOptions{Shift: intervals})
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
			m.Warn(
				"shard-figures",
				merged.Lanes[i].Name,
				"%s cannot be added up: the value is the largest of the shards",
				strings.Join(atMost, ", "),
			)
		}
	}
	m.Add(merged, figures, in, target)
	m.passes = append(m.passes, mergedPass{figures, in, target})
	return nil
}

// mergeUpstream adds up the figures that only the upstreams have.
func (m *merge) mergeUpstream() {
	var parts []results.PartFigures
	for _, s := range m.all {
		parts = append(parts, s.part.Upstream)
	}
	sum, _ := mergeFigures(parts)
	m.SetUpstream(sum)
}

// shortfall returns an error that names the missing parts of the run, or nil.
func shortfall(all []archived) error {
	var texts, missing []string
	for _, i := range missingShards(all) {
		missing = append(missing, fmt.Sprint(i))
	}
	if len(missing) > 0 {
		what, are := "shards", "are"
		if len(missing) == 1 {
			what, are = "shard", "is"
		}
		texts = append(texts, fmt.Sprintf("%s %s of %d %s missing", what, strings.Join(missing, ", "), all[0].part.Count, are))
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
