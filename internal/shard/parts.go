package shard

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/internal/summary"
	"github.com/eventmeter/eventmeter/results"
)

// ErrMerge is wrapped by errors about shards that do not belong together.
var ErrMerge = errors.New("these cannot be merged")

// archived is the archive of one shard.
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
			{"names", first.result.Name, s.result.Name},
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

// merge is a run put together from its shards.
type merge struct {
	*summary.Summary
	all    []archived
	shifts [][]results.Nanos // of each shard and pass, see align
	passes []mergedPass
}

func (m *merge) outcome() *run.Outcome { return &run.Outcome{Result: m.Result, Accounts: m.Accounts} }

// mergedPass holds the figures of one pass of merged shards that metrics show beside
// its account.
type mergedPass struct {
	own       []results.PartFigures
	generator results.Generator
	target    *results.Process
}

func missingShards(all []archived) (out []int) {
	for i := range all[0].part.Count {
		if !slices.ContainsFunc(all, func(s archived) bool { return s.part.Index == i }) {
			out = append(out, i)
		}
	}
	return out
}
