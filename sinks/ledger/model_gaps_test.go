package ledger

import (
	"slices"

	"github.com/eventmeter/eventmeter"
)

// records returns the first copies of a source that were newer than all before,
// by call.
func records(copies []modelCopy, source uint16) []modelCopy {
	var out []modelCopy
	for _, c := range copies {
		if c.e.source == source && (len(out) == 0 || c.e.seq > out[len(out)-1].e.seq) {
			out = append(out, c)
		}
	}
	return out
}

// precedes tells whether a is known to have happened before b.
func (m *model) precedes(a, b *modelEmission) bool {
	return a.outcome == eventmeter.Accepted && a.acked < b.fired
}

// inOrder returns the first copies of a source without those of which it was
// known, when they came, that something later had come before them.
func (m *model) inOrder(copies []modelCopy, source uint16) []modelCopy {
	var all, out []modelCopy
	for _, c := range copies {
		if c.e.source != source {
			continue
		}
		if !slices.ContainsFunc(all, func(b modelCopy) bool { return c.e.resolvedCall < c.call && m.precedes(c.e, b.e) }) {
			out = append(out, c)
		}
		all = append(all, c)
	}
	return out
}

// covers tells what an announcement says about a missing emission: nothing, that
// it may be the one that was skipped, or that it is.
func (m *model) covers(a modelNotice, x *modelEmission, copies []modelCopy) (may, sure bool) {
	if a.call < x.firedCall || a.at < x.fired {
		return false, false
	}
	if !a.ordered {
		return true, false
	}
	for _, c := range copies {
		// Something that happened after x had come already. When the firing of x
		// failed is taken for when it happened.
		if c.e.source == x.source && c.call < a.call && x.outcome != eventmeter.Pending && x.acked < c.e.fired {
			return false, false
		}
	}
	var prev, next *modelEmission
	for _, c := range m.inOrder(copies, x.source) {
		if c.call < a.call {
			prev = c.e
		} else if next == nil {
			next = c.e
		}
	}
	if next != nil && m.precedes(next, x) {
		return false, false
	}
	sure = (prev == nil || m.precedes(prev, x)) && (next == nil || m.precedes(x, next))
	if prev != nil && sure {
		for _, c := range copies { // prev turned out to be out of order
			sure = sure && !(c.e.source == x.source && c.call < a.call && m.precedes(prev, c.e))
		}
	}
	return true, sure
}

// lost counts what is missing of one source.
func (m *model) lost(
	f *modelFigures,
	all []*modelEmission,
	w *modelWindow,
	source uint16,
	copies []modelCopy,
	got map[*modelEmission]bool,
	owedTo func(*modelEmission) bool,
	ended bool,
	known *modelEvidence,
) {
	rec := records(copies, source)
	var length int64
	overclaimed := map[int]bool{} // by number of the claim
	defer func() { f.Overclaimed += int64(len(overclaimed)) }()
	for _, e := range all {
		if e.source != source || !owedTo(e) {
			continue
		}
		if got[e] {
			length = 0
			continue
		}
		if w.updated != 0 && e.fired <= w.updated {
			f.Unidentified++
			continue
		}
		if ended && w.seen.Sub(e.fired) <= m.opt.DetachGrace {
			f.Excused++
			continue
		}
		f.Expected++
		if length++; length == 1 {
			f.GapIncidents++
		}
		f.LongestGap = max(f.LongestGap, length)
		var may, sure bool
		for _, a := range m.announcements(w) {
			one, certain := m.covers(a, e, copies)
			may, sure = may || one, sure || certain
		}
		known.blame(f, e, sure, may)
		if sure || may {
			continue
		}
		for i, c := range m.claims(w, source, all) {
			if c == e || m.precedes(e, c) {
				overclaimed[i] = true
				break
			}
		}
	}
	for i, r := range rec {
		from := uint32(0)
		if i > 0 {
			from = rec[i-1].e.seq
		}
		for _, e := range all {
			if e.source == source && e.seq > from && e.seq < r.e.seq && e.measured && w.activeCall < r.call && e.fired > w.active &&
				!(e.resolvedCall < r.call && e.outcome != eventmeter.Accepted) && e.firedCall < r.call {
				f.interval(m, r.at).skipped++
			}
		}
	}
}

// claims returns the emissions up to which a cursor claimed that all of a source
// was delivered, while w was active or ending, those left out that were claimed
// before.
func (m *model) claims(w *modelWindow, source uint16, all []*modelEmission) []*modelEmission {
	sub := m.calls[w.begins].(eventmeter.Transition).Sub
	var out []*modelEmission
	for i, c := range m.calls {
		n, ok := c.(eventmeter.Notice)
		if !ok || n.Sub != sub || n.Kind != eventmeter.Claimed || i <= w.activeCall || i >= w.overCall || i >= w.to ||
			n.Stamp.Run != m.opt.Run ||
			n.Stamp.Source != source {
			continue
		}
		for _, e := range all {
			if e.source == source && e.seq == n.Stamp.Seq && e.firedCall < i && (len(out) == 0 || out[len(out)-1].seq < e.seq) {
				out = append(out, e)
			}
		}
	}
	return out
}

type modelNotice struct {
	call   int
	at     eventmeter.Instant
	before bool
	// ordered: the place of the call says something.
	ordered bool
}

// announcements returns those of w's subscription while it was active or
// ending. The subscription is found by the window's first call.
func (m *model) announcements(w *modelWindow) []modelNotice {
	sub := m.calls[w.begins].(eventmeter.Transition).Sub
	var out []modelNotice
	for i, c := range m.calls {
		if n, ok := c.(eventmeter.Notice); ok && n.Sub == sub && n.Kind == eventmeter.Truncated && !n.Refused && i > w.activeCall &&
			i < w.overCall &&
			i < w.to {
			out = append(out, modelNotice{i, n.At, n.Before, m.opt.Lanes[sub.Lane].Ordered})
		}
	}
	return out
}

// alarms counts the announcements that nothing missing stands behind.
func (m *model) alarms(
	f *modelFigures,
	sub eventmeter.Sub,
	all []*modelEmission,
	w *modelWindow,
	copies []modelCopy,
	got map[*modelEmission]bool,
	until eventmeter.Instant,
	ended bool,
) {
	for _, a := range m.announcements(w) {
		backed := false
		for s := range m.opt.Sources {
			if !m.hears(sub, uint16(s)) {
				continue
			}
			for _, e := range all {
				if int(e.source) != s || got[e] || e.outcome == eventmeter.Refused || e.fired <= w.attaching || ended && e.fired >= until ||
					e.firedCall > w.to {
					continue
				}
				may, _ := m.covers(a, e, copies)
				backed = backed || may
			}
		}
		if !backed && !a.before {
			f.FalseAlarms++
		}
	}
}
