package sinks

import (
	"slices"

	"github.com/mcpload/mcpload"
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

// lost counts what is missing of one source.
func (m *model) lost(f *modelFigures, all []*modelEmission, w *modelWindow, source uint16, copies []modelCopy, got map[*modelEmission]bool, owedTo func(*modelEmission) bool, ended bool, known *modelEvidence) {
	rec := records(copies, source)
	var length int64
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
		after, before := w.begins, w.to
		for _, r := range rec {
			if r.e.seq < e.seq {
				after = r.call
			} else {
				before = r.call
				break
			}
		}
		known.blame(f, e, slices.ContainsFunc(m.announcements(w), func(a modelNotice) bool { return a.call > after && a.call < before }))
	}
	for i, r := range rec {
		from := uint32(0)
		if i > 0 {
			from = rec[i-1].e.seq
		}
		for _, e := range all {
			if e.source == source && e.seq > from && e.seq < r.e.seq && e.measured && w.activeCall < r.call && e.fired > w.active &&
				!(e.resolvedCall < r.call && e.outcome != mcpload.Accepted) && e.firedCall < r.call {
				f.interval(m, r.at).skipped++
			}
		}
	}
}

type modelNotice struct{ call int }

// announcements returns those of w's subscription while it was active or
// ending. The subscription is found by the window's first call.
func (m *model) announcements(w *modelWindow) []modelNotice {
	sub := m.calls[w.begins].(mcpload.Transition).Sub
	var out []modelNotice
	for i, c := range m.calls {
		if n, ok := c.(mcpload.Notice); ok && n.Sub == sub && n.Kind == mcpload.Truncated && !n.Refused && i > w.activeCall && i < w.overCall && i < w.to {
			out = append(out, modelNotice{i})
		}
	}
	return out
}

// alarms counts the announcements that nothing missing stands behind.
func (m *model) alarms(f *modelFigures, sub mcpload.Sub, all []*modelEmission, w *modelWindow, copies []modelCopy, got map[*modelEmission]bool, until mcpload.Instant, ended bool) {
	for _, a := range m.announcements(w) {
		backed := false
		for s := range m.opt.Sources {
			if !m.hears(sub, uint16(s)) {
				continue
			}
			low, high := uint32(0), ^uint32(0)
			for _, r := range records(copies, uint16(s)) {
				if r.call < a.call {
					low = r.e.seq
				} else {
					high = r.e.seq
					break
				}
			}
			for _, e := range all {
				if int(e.source) == s && e.seq > low && e.seq < high && !got[e] && e.outcome != mcpload.Refused &&
					e.fired > w.attaching && (!ended || e.fired < until) && e.firedCall < w.to {
					backed = true
				}
			}
		}
		if !backed {
			f.FalseAlarms++
		}
	}
}
