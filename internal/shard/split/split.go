// Package split shares a run out among shards: which subscriptions each opens, and
// which part of the schedule it publishes. It runs nothing.
package split

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/eventmeter/eventmeter/loadgen"
)

// Plan shares a profile out among shards, so that each fires what its own
// subscriptions hear. It is a pure function of the profile and the number of
// shards: every shard works it out for itself and comes to the same.
//
// Sources that one subscription hears belong together, and go to one shard with
// all the subscriptions that hear them. A lane that hears everything cannot be
// kept together; its subscriptions are dealt out, and each is owed only what
// its own shard fires. Where the sources hang together so much that some shard
// would have none, they are not dealt out at all: each shard then fires every
// n-th emission of every source.
type Plan struct {
	shards int
	// Owner is the shard of each source; nil where emissions are dealt out one by
	// one.
	Owner []int
	// Subs are the numbers of each lane's subscriptions, by shard and lane, in
	// rising order.
	Subs [][][]int
	// pairs and covered count, for one event of every source, who hears it, and
	// who hears it in the shard that fires it.
	pairs, covered float64
}

// Lane is what a plan needs to know of a lane.
type Lane struct {
	Subscriptions int
	// Unit is how many neighbouring subscriptions share something, such as a
	// session, and so stay together; at least 1.
	Unit int
	// Sources are what a subscription hears; nil means everything.
	Sources func(i int) []uint16
	// HasNoSources: nothing that is published is expected at the lane.
	HasNoSources bool
}

// New makes a plan. It needs the whole profile's lanes.
func New(lanes []Lane, sources, shards int) *Plan {
	p := &Plan{shards: shards, Subs: make([][][]int, shards)}
	for s := range p.Subs {
		p.Subs[s] = make([][]int, len(lanes))
	}
	g := newGroups(sources)
	weight := make([]int, sources) // subscriptions by the first source they hear
	for i := range lanes {
		l := &lanes[i]
		for u := range l.units() {
			heard := l.unitHears(u, sources)
			for _, s := range heard {
				g.join(int(heard[0]), int(s))
			}
			if len(heard) > 0 {
				weight[heard[0]] += l.unitSize(u)
			}
		}
	}
	p.Owner = g.deal(weight, shards)
	for i := range lanes {
		p.share(i, &lanes[i], sources)
	}
	return p
}

// share deals out the subscriptions of one lane.
func (p *Plan) share(at int, l *Lane, sources int) {
	next := 0
	for u := range l.units() {
		heard := l.unitHears(u, sources)
		shard := next % p.shards
		if p.Owner != nil && len(heard) > 0 {
			shard = p.Owner[heard[0]]
		} else {
			next++
		}
		from := u * l.Unit
		for i := from; i < from+l.unitSize(u); i++ {
			p.Subs[shard][at] = append(p.Subs[shard][at], i)
		}
		p.count(l, shard, heard, l.unitSize(u), sources)
	}
}

// count adds what the subscriptions of a unit hear to pairs and covered.
func (p *Plan) count(l *Lane, shard int, heard []uint16, size, sources int) {
	switch {
	case l.HasNoSources:
	case heard == nil: // everything
		p.pairs += float64(size * sources)
		p.covered += float64(size) * p.fires(shard, sources)
	case p.Owner == nil:
		p.pairs += float64(size * len(heard))
		p.covered += float64(size*len(heard)) / float64(p.shards)
	default:
		p.pairs += float64(size * len(heard))
		p.covered += float64(size * len(heard))
	}
}

// fires is how many sources' events a shard fires.
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

// Coverage is the share of the pairs of event and subscription that some shard
// can measure, 0 to 1.
func (p *Plan) Coverage() float64 {
	if p.pairs == 0 {
		return 1
	}
	return p.covered / p.pairs
}

// Hears cuts what a subscription hears down to what its own shard fires; nil
// means everything.
func (p *Plan) Hears(shard int, heard []uint16) []uint16 {
	if p.Owner == nil {
		return heard
	}
	out := []uint16{}
	if heard == nil {
		for s, o := range p.Owner {
			if o == shard {
				out = append(out, uint16(s))
			}
		}
		return out
	}
	for _, s := range heard {
		if p.Owner[s] == shard {
			out = append(out, s)
		}
	}
	return out
}

// HearsAll tells whether what all shards publish reaches a subscription that hears
// these sources.
func (p *Plan) HearsAll(heard []uint16) bool {
	return p.Owner != nil && whole(heard, len(p.Owner)) == nil
}

// Part is the shard's part of the schedule. sourceOf gives the source of a
// emission and repeats after cycle emissions.
func (p *Plan) Part(whole loadgen.Schedule, shard, cycle int, sourceOf func(n int) uint16) loadgen.Part {
	if p.Owner == nil {
		return loadgen.SplitEmissions(whole, p.shards, func(n int) int { return n }, shard)
	}
	return loadgen.SplitEmissions(whole, cycle, func(n int) int { return p.Owner[sourceOf(n)] }, shard)
}

// Check refuses a number of shards that leaves one without anything to do.
func (p *Plan) Check() error {
	for s := range p.Subs {
		n := 0
		for _, list := range p.Subs[s] {
			n += len(list)
		}
		if n == 0 {
			return fmt.Errorf("shard %d of %d would have no subscription; use fewer shards, or have more subscriptions or sources", s, p.shards)
		}
	}
	return nil
}

func (l *Lane) units() int { return (l.Subscriptions + l.Unit - 1) / l.Unit }

func (l *Lane) unitSize(u int) int { return min(l.Unit, l.Subscriptions-u*l.Unit) }

// unitHears is what the subscriptions of a unit hear together; nil is
// everything, an empty list nothing.
func (l *Lane) unitHears(u, sources int) []uint16 {
	if l.Unit == 1 {
		return whole(l.Sources(u), sources)
	}
	out := []uint16{}
	for i := range l.unitSize(u) {
		heard := whole(l.Sources(u*l.Unit+i), sources)
		if heard == nil {
			return nil
		}
		out = append(out, heard...)
	}
	slices.Sort(out)
	return whole(slices.Compact(out), sources)
}

// whole turns a list of all sources into nil.
func whole(heard []uint16, sources int) []uint16 {
	if len(heard) == sources && sources > 1 {
		return nil
	}
	return heard
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

// deal gives every group to a shard, the heaviest first, each to the shard that
// has least; nil where there are fewer groups than shards.
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
