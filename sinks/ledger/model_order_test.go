package ledger

import (
	"maps"
	"slices"

	"github.com/eventmeter/eventmeter"
)

// modelOrder is the common order of a set of sources: its events, of which the
// first base are of an order that ended.
type modelOrder struct {
	events []*modelEmission
	base   int
}

// place is the place of an event, from 1; 0 = none.
func (o *modelOrder) place(e *modelEmission) int { return slices.Index(o.events, e) + 1 }

// orderConflicts counts, from the whole history, the first copies that contradict
// the order of the lane's events.
func (m *model) orderConflicts(lane uint16) (n int64) {
	windows := map[uint32]int{}
	orders := map[uint16]*modelOrder{}
	// unplaced are the streams' first events that came without a place, with what
	// came after; waiting counts the latter that had none, either.
	type wait struct {
		e       *modelEmission
		since   *modelEmission
		waiting int
	}
	unplaced := map[uint32]*wait{}
	together := m.together(lane)
	newest := map[uint32]*modelEmission{} // of each stream, by place
	for _, c := range m.firstCopies(lane) {
		sub := c.sub.Index
		if windows[sub] != c.window {
			windows[sub] = c.window
			delete(unplaced, sub)
			delete(newest, sub)
		}
		key := together[c.e.source]
		if orders[key] == nil {
			orders[key] = &modelOrder{}
		}
		o := orders[key]
		if w := unplaced[sub]; w != nil && o.place(w.e) > 0 {
			if p := o.place(w.since); p > o.base && p < o.place(w.e) {
				n++
			}
			if o.place(w.e) > o.place(newest[sub]) {
				newest[sub] = w.e
			}
			delete(unplaced, sub)
		}
		switch {
		case o.place(c.e) > 0 && o.place(c.e) < o.place(newest[sub]):
			if c.e.measured && o.place(c.e) > o.base {
				n++
			}
		case o.place(c.e) == 0 && o.place(newest[sub]) == len(o.events):
			o.events = append(o.events, c.e)
			fallthrough
		case o.place(c.e) > 0:
			newest[sub] = c.e
			if w := unplaced[sub]; w != nil {
				w.waiting = 0
				if w.since == nil && c.e.measured {
					w.since = c.e
				}
			}
		case unplaced[sub] == nil:
			unplaced[sub] = &wait{e: c.e}
		default:
			if unplaced[sub].waiting++; unplaced[sub].waiting == orderPatience {
				o.base = len(o.events)
				o.events = append(o.events, c.e)
				newest[sub] = c.e
				delete(unplaced, sub)
			}
		}
	}
	return n
}

// modelFirst is a first copy in a window of a subscription.
type modelFirst struct {
	modelCopy
	sub    eventmeter.Sub
	window int
}

// firstCopies are the first copies of a lane in the order in which they came.
func (m *model) firstCopies(lane uint16) (list []modelFirst) {
	all := m.emissions()
	for index := range m.opt.Lanes[lane].Subscriptions {
		sub := eventmeter.Sub{Lane: lane, Index: uint32(index)}
		windows := m.windows(sub)
		copies := make([][]modelCopy, len(windows))
		every := make([]map[*modelEmission][]int, len(windows))
		for i := range every {
			every[i] = map[*modelEmission][]int{}
		}
		f := modelFigures{intervals: map[int64]*intervalCounts{}}
		for i, c := range m.calls {
			if d, ok := c.(eventmeter.Delivery); ok && d.Sub == sub {
				m.copy(&f, i, d, all, windows, copies, every)
			}
		}
		for k, w := range copies {
			for _, c := range w {
				list = append(list, modelFirst{c, sub, k})
			}
		}
	}
	slices.SortFunc(list, func(a, b modelFirst) int { return a.call - b.call })
	return list
}

// together names for each source the lowest of those that it shares streams with,
// directly or through others.
func (m *model) together(lane uint16) map[uint16]uint16 {
	of := map[uint16]uint16{}
	for s := range m.opt.Sources {
		of[uint16(s)] = uint16(s)
	}
	for changed := true; changed; {
		changed = false
		for index := range m.opt.Lanes[lane].Subscriptions {
			lowest := uint16(m.opt.Sources)
			for _, s := range slices.Sorted(maps.Keys(of)) {
				if m.hears(eventmeter.Sub{Lane: lane, Index: uint32(index)}, s) {
					lowest = min(lowest, of[s])
				}
			}
			for s := range of {
				if m.hears(eventmeter.Sub{Lane: lane, Index: uint32(index)}, s) && of[s] != lowest {
					of[s], changed = lowest, true
				}
			}
		}
	}
	return of
}
