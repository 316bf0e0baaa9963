// Package split divides a run among shards: the subscriptions that each opens, and
// the part of the schedule that each publishes. It runs nothing.
package split

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/eventmeter/eventmeter/loadgen"
)

// A Plan divides a profile among shards so that each shard publishes the events that
// its own subscriptions are owed. It is a pure function of the profile and the number
// of shards, so every shard computes the same plan.
//
// Sources that one subscription is owed together go to the same shard, with all
// subscriptions that are owed them. A lane that is owed every source cannot be kept
// together: its subscriptions are divided among the shards, and each is owed only the
// events of its own shard. If the sources are so connected that some shard would have
// none, sources are not divided at all: each shard then publishes every n-th emission
// of every source.
type Plan struct {
	shards int
	// Owner is the shard of each source; nil if emissions are divided one by one.
	Owner []int
	// Subs are the numbers of each lane's subscriptions, by shard and lane,
	// ascending.
	Subs [][][]int
	// pairs counts, for one event of every source, the subscriptions that are owed
	// it; covered counts those in the shard that publishes the event.
	pairs, covered float64
}

// Lane is a lane as a plan needs it.
type Lane struct {
	Subscriptions int
	// Unit is how many neighbouring subscriptions share something, such as a session,
	// and stay together; at least 1.
	Unit int
	// Sources returns the sources that subscription i is owed; nil means all.
	Sources func(i int) []uint16
	// HasNoSources is set if no published event is owed to the lane.
	HasNoSources bool
}

// New makes a plan. lanes must be all lanes of the profile.
func New(lanes []Lane, sources, shards int) *Plan {
	p := &Plan{shards: shards, Subs: make([][][]int, shards)}
	for s := range p.Subs {
		p.Subs[s] = make([][]int, len(lanes))
	}
	g := newGroups(sources)
	weight := make([]int, sources) // subscriptions by the first source they are owed
	for i := range lanes {
		l := &lanes[i]
		for u := range l.units() {
			owed := l.unitOwed(u, sources)
			for _, s := range owed {
				g.join(int(owed[0]), int(s))
			}
			if len(owed) > 0 {
				weight[owed[0]] += l.unitSize(u)
			}
		}
	}
	p.Owner = g.deal(weight, shards)
	for i := range lanes {
		p.share(i, &lanes[i], sources)
	}
	return p
}

// share divides the subscriptions of one lane among the shards.
func (p *Plan) share(at int, l *Lane, sources int) {
	next := 0
	for u := range l.units() {
		owed := l.unitOwed(u, sources)
		shard := next % p.shards
		if p.Owner != nil && len(owed) > 0 {
			shard = p.Owner[owed[0]]
		} else {
			next++
		}
		from := u * l.Unit
		for i := from; i < from+l.unitSize(u); i++ {
			p.Subs[shard][at] = append(p.Subs[shard][at], i)
		}
		p.count(l, shard, owed, l.unitSize(u), sources)
	}
}

// count adds the sources that the subscriptions of a unit are owed to pairs and
// covered.
func (p *Plan) count(l *Lane, shard int, owed []uint16, size, sources int) {
	switch {
	case l.HasNoSources:
	case owed == nil: // everything
		p.pairs += float64(size * sources)
		p.covered += float64(size) * p.fires(shard, sources)
	case p.Owner == nil:
		p.pairs += float64(size * len(owed))
		p.covered += float64(size*len(owed)) / float64(p.shards)
	default:
		p.pairs += float64(size * len(owed))
		p.covered += float64(size * len(owed))
	}
}

// fires returns the number of sources whose events a shard publishes.
func (p *Plan) fires(shard, sources int) float64 {
	if p.Owner == nil {
		return float64(sources) / float64(p.shards)
	}
	n := 0
	for _, o := range p.Owner {
		if o == shard {
			n++
		}
	}
	return float64(n)
}

// Coverage returns the share of (event, subscription) pairs that are published and
// received by the same shard, from 0 to 1.
func (p *Plan) Coverage() float64 {
	if p.pairs == 0 {
		return 1
	}
	return p.covered / p.pairs
}

// Owed reduces the sources that a subscription is owed to those that its own shard
// publishes; nil means all.
func (p *Plan) Owed(shard int, owed []uint16) []uint16 {
	if p.Owner == nil {
		return owed
	}
	out := []uint16{}
	if owed == nil {
		for s, o := range p.Owner {
			if o == shard {
				out = append(out, uint16(s))
			}
		}
		return out
	}
	for _, s := range owed {
		if p.Owner[s] == shard {
			out = append(out, s)
		}
	}
	return out
}

// OwedAll reports whether events of all shards reach a subscription that is owed
// these sources.
func (p *Plan) OwedAll(owed []uint16) bool {
	return p.Owner != nil && whole(owed, len(p.Owner)) == nil
}

// Part returns the shard's part of the schedule. sourceOf returns the source of an
// emission and repeats after cycle emissions.
func (p *Plan) Part(whole loadgen.Schedule, shard, cycle int, sourceOf func(n int) uint16) loadgen.Part {
	if p.Owner == nil {
		return loadgen.SplitEmissions(whole, p.shards, func(n int) int { return n }, shard)
	}
	return loadgen.SplitEmissions(whole, cycle, func(n int) int { return p.Owner[sourceOf(n)] }, shard)
}

// Check returns an error if a shard would have nothing to do.
func (p *Plan) Check() error {
	for s := range p.Subs {
		n := 0
		for _, list := range p.Subs[s] {
			n += len(list)
		}
		if n == 0 {
			return fmt.Errorf(
				"shard %d of %d would have no subscription; use fewer shards, or have more subscriptions or sources",
				s,
				p.shards,
			)
		}
	}
	return nil
}

func (l *Lane) units() int { return (l.Subscriptions + l.Unit - 1) / l.Unit }

func (l *Lane) unitSize(u int) int { return min(l.Unit, l.Subscriptions-u*l.Unit) }

// unitOwed returns the sources that the subscriptions of a unit are owed together;
// nil = all, an empty list = none.
func (l *Lane) unitOwed(u, sources int) []uint16 {
	if l.Unit == 1 {
		return whole(l.Sources(u), sources)
	}
	out := []uint16{}
	for i := range l.unitSize(u) {
		owed := whole(l.Sources(u*l.Unit+i), sources)
		if owed == nil {
			return nil
		}
		out = append(out, owed...)
	}
	slices.Sort(out)
	return whole(slices.Compact(out), sources)
}

// whole returns nil for a list of all sources, and other lists unchanged.
func whole(owed []uint16, sources int) []uint16 {
	if len(owed) == sources && sources > 1 {
		return nil
	}
	return owed
}

// groups is a forest of sources that belong together.
type groups []int

func newGroups(n int) groups {
	g := make(groups, n)
	for i := range g {
		g[i] = i
	}
	return g
}

func (g groups) root(i int) int {
	for g[i] != i {
		g[i] = g[g[i]]
		i = g[i]
	}
	return i
}

func (g groups) join(a, b int) { g[max(g.root(a), g.root(b))] = min(g.root(a), g.root(b)) }

// deal assigns every group to a shard, the heaviest first, each to the shard with the
// least weight. It returns nil if there are fewer groups than shards.
func (g groups) deal(weight []int, shards int) []int {
	type group struct{ first, subs, sources int }
	byRoot := map[int]*group{}
	var all []*group
	for s := range g {
		r := g.root(s)
		if byRoot[r] == nil {
			byRoot[r] = &group{first: r}
			all = append(all, byRoot[r])
		}
		byRoot[r].subs += weight[s]
		byRoot[r].sources++
	}
	if len(all) < shards {
		return nil
	}
	slices.SortFunc(all, func(a, b *group) int {
		return cmp.Or(cmp.Compare(b.subs, a.subs), cmp.Compare(b.sources, a.sources), cmp.Compare(a.first, b.first))
	})
	type load struct{ subs, sources int }
	loads := make([]load, shards)
	to := map[int]int{}
	for _, x := range all {
		least := 0
		for i, l := range loads {
			if cmp.Or(cmp.Compare(l.subs, loads[least].subs), cmp.Compare(l.sources, loads[least].sources)) < 0 {
				least = i
			}
		}
		to[x.first] = least
		loads[least].subs += x.subs
		loads[least].sources += x.sources
	}
	owner := make([]int, len(g))
	for s := range owner {
		owner[s] = to[g.root(s)]
	}
	return owner
}
