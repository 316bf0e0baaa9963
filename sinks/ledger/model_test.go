package ledger

import (
	"cmp"
	"slices"

	"github.com/eventmeter/eventmeter"
)

// model is a ledger that anybody can check: it keeps every call and works every
// figure out from the whole history, by the definitions and with no regard to
// cost.
type model struct {
	opt   Options
	calls []any // what the recorder was told, in order
}

func (m *model) Fired(e eventmeter.Emission) { m.calls = append(m.calls, e) }
func (m *model) Resolved(s eventmeter.Stamp, o eventmeter.Outcome, at eventmeter.Instant) {
	m.calls = append(m.calls, modelResolved{s, o, at})
}
func (m *model) Dropped(d eventmeter.Drop)       { m.calls = append(m.calls, d) }
func (m *model) Delivered(d eventmeter.Delivery) { m.calls = append(m.calls, d) }
func (m *model) Noticed(n eventmeter.Notice)     { m.calls = append(m.calls, n) }
func (m *model) Changed(t eventmeter.Transition) { m.calls = append(m.calls, t) }
func (m *model) Called(c eventmeter.Call)        { m.calls = append(m.calls, c) }

type modelResolved struct {
	stamp   eventmeter.Stamp
	outcome eventmeter.Outcome
	at      eventmeter.Instant
}

const never = int(^uint(0) >> 1) // a place behind the last call

// modelEmission is what finally became of an emission, and at which calls.
type modelEmission struct {
	source          uint16
	seq             uint32
	intended, fired eventmeter.Instant
	acked           eventmeter.Instant
	outcome         eventmeter.Outcome
	measured        bool
	firedCall       int
	resolvedCall    int
}

func (m *model) emissions() []*modelEmission {
	var list []*modelEmission
	newest := map[uint16]eventmeter.Instant{}
	for i, c := range m.calls {
		switch c := c.(type) {
		case eventmeter.Emission:
			newest[c.Source] = max(newest[c.Source], c.Fired)
			list = append(
				list,
				&modelEmission{
					source:       c.Source,
					seq:          c.Seq,
					intended:     c.Intended,
					fired:        newest[c.Source],
					measured:     c.Measured,
					firedCall:    i,
					resolvedCall: never,
				},
			)
		case modelResolved:
			for _, e := range list {
				if e.source == c.stamp.Source && e.seq == c.stamp.Seq {
					e.outcome, e.acked, e.resolvedCall = c.outcome, max(c.at, e.fired), i
				}
			}
		}
	}
	return list
}

// modelWindow is one window of one subscription.
type modelWindow struct {
	attaching, active, ending, over           eventmeter.Instant
	seen                                      eventmeter.Instant // what was fired later could not have been received
	begins, activeCall, endCall, overCall, to int                // calls; to is that of the next window
	failed                                    bool
	updated                                   eventmeter.Instant // of its newest update without a payload; 0 = none
}

func (m *model) windows(sub eventmeter.Sub) []*modelWindow {
	var list []*modelWindow
	var w *modelWindow
	for i, c := range m.calls {
		t, ok := c.(eventmeter.Transition)
		if !ok || t.Sub != sub {
			continue
		}
		switch t.To {
		case eventmeter.Attaching:
			if w != nil {
				w.to = i
			}
			w = &modelWindow{attaching: t.At, begins: i, activeCall: never, endCall: never, overCall: never, to: never}
			list = append(list, w)
		case eventmeter.Active:
			w.active, w.activeCall = t.At, i
		case eventmeter.Detaching:
			w.ending, w.seen, w.endCall = t.At, seenBy(t), i
		case eventmeter.Detached, eventmeter.Failed:
			if w.endCall == never {
				w.ending, w.seen, w.endCall = t.At, seenBy(t), i
				w.failed = t.To == eventmeter.Failed
			}
			w.over, w.overCall = t.At, i
		}
	}
	return list
}

// seenBy is until when the subscription that t ends could have received what was
// fired.
func seenBy(t eventmeter.Transition) eventmeter.Instant {
	if t.Seen == 0 || t.Seen > t.At {
		return t.At
	}
	return t.Seen
}

// modelCopy is a first copy of an emission in a window.
type modelCopy struct {
	e    *modelEmission
	call int
	at   eventmeter.Instant
}

// modelFigures are the figures of one subscription.
type modelFigures struct {
	SubCounts
	delivered []modelCopy
	intervals map[int64]*intervalCounts
}

func (f *modelFigures) interval(m *model, at eventmeter.Instant) *intervalCounts {
	k := int64(at) / int64(m.opt.Interval)
	if f.intervals[k] == nil {
		f.intervals[k] = &intervalCounts{}
	}
	return f.intervals[k]
}

func (m *model) hears(sub eventmeter.Sub, source uint16) bool {
	spec := m.opt.Lanes[sub.Lane]
	if spec.Owed == nil {
		return true
	}
	list := spec.Owed(int(sub.Index))
	return list == nil || slices.Contains(list, source)
}

// figures works out everything about one subscription.
func (m *model) figures(sub eventmeter.Sub, now eventmeter.Instant) modelFigures {
	f := modelFigures{intervals: map[int64]*intervalCounts{}}
	all, windows := m.emissions(), m.windows(sub)
	copies := make([][]modelCopy, len(windows))             // first copies, of all kinds
	every := make([]map[*modelEmission][]int, len(windows)) // calls of all copies
	for i := range every {
		every[i] = map[*modelEmission][]int{}
	}
	for i, c := range m.calls {
		switch c := c.(type) {
		case eventmeter.Notice:
			if c.Sub == sub && c.Kind == eventmeter.Truncated {
				f.Announcements++
			}
		case eventmeter.Delivery:
			if c.Sub != sub {
				continue
			}
			m.copy(&f, i, c, all, windows, copies, every)
		}
	}
	for k, w := range windows {
		m.window(&f, sub, all, w, copies[k], m.evidence(sub, all, windows, k, copies[k]), now)
	}
	return f
}

// oversized are the messages of a lane that were given up because of their size, and
// how many there are of each reason, the most frequent first.
func (m *model) oversized(lane uint16) (n int64, by []Reason) {
	for _, c := range m.calls {
		x, ok := c.(eventmeter.Notice)
		if !ok || x.Kind != eventmeter.Oversized || x.Sub.Lane != lane {
			continue
		}
		n++
		at := slices.IndexFunc(by, func(r Reason) bool { return r.Text == x.Detail })
		if at < 0 {
			at = len(by)
			by = append(by, Reason{Text: x.Detail})
		}
		by[at].Count++
	}
	slices.SortFunc(by, func(a, b Reason) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Text, b.Text)) })
	return n, by
}

// copy deals with one copy: it is unexpected, a duplicate or a first one.
func (m *model) copy(
	f *modelFigures,
	i int,
	d eventmeter.Delivery,
	all []*modelEmission,
	windows []*modelWindow,
	copies [][]modelCopy,
	every []map[*modelEmission][]int,
) {
	if !d.Probed {
		f.Unprobed++
		for _, w := range windows {
			if d.Update && w.begins < i && i < w.overCall && i < w.to {
				w.updated = max(w.updated, d.At)
			}
		}
		return
	}
	if d.Stamp.Run != m.opt.Run {
		f.Unexpected.ForeignRun++
		f.interval(m, d.At).unexpected++
		return
	}
	var e *modelEmission
	for _, x := range all {
		if x.source == d.Stamp.Source && x.seq == d.Stamp.Seq && x.firedCall < i {
			e = x
		}
	}
	if e == nil {
		f.Unexpected.NeverFired++
		f.interval(m, d.At).unexpected++
		return
	}
	in := -1
	for k, w := range windows {
		if w.begins < i {
			in = k
		}
	}
	if in < 0 || !m.hears(d.Sub, e.source) || windows[in].overCall < i && e.fired > windows[in].over {
		if e.measured {
			if in >= 0 && m.hears(d.Sub, e.source) {
				f.Unexpected.AfterEnd++
			} else {
				f.Unexpected.NotSubscribed++
			}
			f.interval(m, d.At).unexpected++
		}
		return
	}
	before := every[in][e]
	every[in][e] = append(every[in][e], i)
	if len(before) == 0 {
		copies[in] = append(copies[in], modelCopy{e, i, d.At})
		return
	}
	if e.measured {
		m.duplicate(f, d, before)
	}
}

// duplicate deals with a second or later copy; before are the calls of those
// before it.
func (m *model) duplicate(f *modelFigures, d eventmeter.Delivery, before []int) {
	f.interval(m, d.At).duplicates++
	// One redelivery was asked for by every refusal before, and each copy in
	// between answered one.
	open, sameID := 0, false
	for n, j := range before {
		b := m.calls[j].(eventmeter.Delivery)
		if n > 0 && open > 0 {
			open--
		}
		if b.Refused {
			open++
		}
		sameID = sameID || b.EventID == d.EventID && d.EventID != 0
	}
	switch {
	case open > 0:
		f.Duplicates.Requested++
	case sameID:
		f.Duplicates.SameEvent++
	default:
		f.Duplicates.SameEmission++
	}
}

// window works out what came of one window.
func (m *model) window(
	f *modelFigures,
	sub eventmeter.Sub,
	all []*modelEmission,
	w *modelWindow,
	copies []modelCopy,
	known modelEvidence,
	now eventmeter.Instant,
) {
	until := w.ending
	for _, c := range copies {
		if c.call < w.endCall {
			until = max(until, c.e.fired+1)
		}
	}
	ended := w.endCall != never
	if w.activeCall != never {
		f.Windows++
		if ended {
			f.Active += w.ending.Sub(w.active)
		} else {
			f.Active += now.Sub(w.active)
		}
	}
	owedTo := func(e *modelEmission) bool {
		return w.activeCall != never && m.hears(sub, e.source) && e.firedCall < w.to && e.measured && e.outcome == eventmeter.Accepted &&
			e.fired > w.active && (!ended || e.fired < until)
	}
	got := map[*modelEmission]bool{}
	for n, c := range copies {
		got[c.e] = true
		m.first(f, w, c, copies[:n], owedTo(c.e))
	}
	for s := range m.opt.Sources {
		if m.hears(sub, uint16(s)) {
			m.lost(f, all, w, uint16(s), copies, got, owedTo, ended, &known)
		}
	}
	m.alarms(f, sub, all, w, copies, got, until, ended)
}

// first counts one first copy.
func (m *model) first(f *modelFigures, w *modelWindow, c modelCopy, before []modelCopy, owed bool) {
	e := c.e
	if !e.measured {
		return
	}
	switch {
	case owed:
		f.Delivered++
		f.Expected++
		f.delivered = append(f.delivered, c)
		v := f.interval(m, c.at)
		v.delivered++
		if m.opt.LateAfter > 0 && c.at.Sub(e.intended) > m.opt.LateAfter {
			f.Late++
			v.late++
		}
		for _, b := range before {
			if b.e.source == e.source && b.e.fired > e.acked {
				f.OutOfOrder++
				v.outOfOrder++
				break
			}
		}
	case e.outcome == eventmeter.Pending:
		f.Undecided++
	case e.outcome != eventmeter.Accepted:
		f.Recovered++
	case e.acked <= w.attaching:
		f.Unexpected.Stale++
		f.interval(m, c.at).unexpected++
	default:
		f.InFlight++
	}
}
