package shard

import (
	"math"
	"strconv"
	"sync"

	"github.com/eventmeter/eventmeter/internal/metrics"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/results"
)

// shownTogether shows a run of several processes as one by adding up their snapshots.
// Its methods do nothing on nil.
type shownTogether struct {
	followed *metrics.Following

	mu     sync.Mutex
	looks  [][]metrics.Look // the last of each shard, by pass
	up     []bool
	passes []*metrics.Pass
}

// add stores the snapshots of a shard.
func (t *shownTogether) add(shard int, looks []metrics.Look) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.looks[shard], t.up[shard] = looks, true
	for n := len(t.passes); n < len(looks); n++ {
		t.passes = append(t.passes, t.followed.Pass(func() metrics.Look { return t.together(n) }))
	}
}

// down records that a shard has ended.
func (t *shownTogether) down(shard int) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.up[shard] = false
}

// together returns one snapshot of pass n of all shards.
func (t *shownTogether) together(n int) metrics.Look {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sum(n)
}

func (t *shownTogether) sum(n int) (out metrics.Look) {
	first := true
	for _, looks := range t.looks {
		switch {
		case n >= len(looks):
		case first:
			first = false
			out = looks[n].Clone()
		default:
			out.Add(&looks[n], run.FigureTables)
		}
	}
	return out
}

func (t *shownTogether) shards() []metrics.Shard {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]metrics.Shard, len(t.looks))
	for i, looks := range t.looks {
		out[i] = metrics.ShardOf(strconv.Itoa(i), t.up[i], looks)
	}
	return out
}

// finish shows the final figures of the merge. With a nil merge the last snapshots
// stay.
func (t *shownTogether) finish(merged *merge) {
	if t == nil {
		return
	}
	t.mu.Lock()
	passes := t.passes
	t.mu.Unlock()
	for n, p := range passes {
		if merged == nil || n >= len(merged.passes) {
			p.Settle(nil)
			continue
		}
		l, m := t.together(n), merged.passes[n]
		l.Detail, l.Own = merged.Accounts[n].Live(), nil
		for _, f := range m.own {
			l.Own = append(l.Own, metrics.FiguresOf(f.Values, f.Timings))
		}
		shown := l.Health.Used
		l.Health.Used, l.Health.Most = map[string]float64{}, map[string]int64{}
		for name, process := range map[string]*results.Process{metrics.Generator: &m.generator.Process, metrics.Target: m.target} {
			if process == nil {
				continue
			}
			cpu := process.CPU.Duration().Seconds()
			if math.Abs(cpu-shown[name]) < 1e-6 {
				cpu = shown[name] // the rounded result may be a nanosecond lower, and a counter must not fall
			}
			l.Health.Used[name], l.Health.Most[name] = cpu, process.Memory
		}
		p.Settle(&l)
	}
	if merged == nil {
		t.followed.Finish(nil, metrics.Figures{})
	} else {
		t.followed.Finish(merged.Result, merged.Upstream)
	}
}
