package ledger

import (
	"math"

	"github.com/eventmeter/eventmeter"
)

// modelEvidence is what explains the losses of one window.
type modelEvidence struct {
	refused   map[*modelEmission]bool
	suspended []stretch
	failed    eventmeter.Instant // when the last connection failed
	own       stretch            // when there was no room here, and the grace before
	came      eventmeter.Instant // when the newest emission that came was fired
}

// evidence looks through all notices for those that concern a window.
func (m *model) evidence(sub eventmeter.Sub, all []*modelEmission, windows []*modelWindow, k int, copies []modelCopy) modelEvidence {
	w := windows[k]
	out := modelEvidence{refused: map[*modelEmission]bool{}}
	came := func(before int, by eventmeter.Instant) eventmeter.Instant {
		var at eventmeter.Instant
		for _, c := range copies {
			if c.call < before && c.e.fired > w.attaching && c.e.fired <= by {
				at = max(at, c.e.fired)
			}
		}
		for e := range out.refused {
			if e.fired <= by {
				at = max(at, e.fired)
			}
		}
		return at
	}
	for i, c := range m.calls {
		n, ok := c.(eventmeter.Notice)
		if !ok || i > w.to {
			continue
		}
		if n.Kind == eventmeter.Undeliverable && n.Sub.Lane == sub.Lane {
			out.failed = max(out.failed, n.At)
			if n.Own && out.own.to == 0 {
				out.own.from = n.At.Add(-m.opt.DetachGrace)
			}
			if n.Own {
				out.own.to = max(out.own.to, n.At)
			}
		}
		if n.Sub != sub || i < w.begins {
			continue
		}
		if n.Refused {
			for _, e := range all {
				if e.firedCall < i && e.source == n.Stamp.Source && e.seq == n.Stamp.Seq && n.Stamp.Run == m.opt.Run &&
					m.hears(sub, e.source) && e.fired > w.attaching && (i < w.overCall || e.fired <= w.over) {
					out.refused[e] = true
				}
			}
		}
		if !n.Refused && n.Kind == eventmeter.Suspended && i > w.activeCall && i < w.overCall {
			from := n.Since
			if n.Later {
				from = max(from, came(i, n.At))
			}
			for _, s := range out.suspended {
				from = max(from, s.to)
			}
			if from < n.At {
				out.suspended = append(out.suspended, stretch{from, n.At})
			}
		}
	}
	out.came = came(never, math.MaxInt64)
	return out
}

// blame books one loss.
func (v *modelEvidence) blame(f *modelFigures, e *modelEmission, announced, unknown bool) {
	suspended := false
	for _, s := range v.suspended {
		suspended = suspended || e.acked > s.from && e.fired <= s.to
	}
	switch {
	case v.refused[e]:
		f.LostRefused++
	case announced:
		f.LostAnnounced++
	case unknown:
		f.LostOrderUnknown++
	case e.fired > v.came && e.fired < v.failed, e.fired >= v.own.from && e.fired < v.own.to:
		f.LostUndeliverable++
		if suspended {
			f.AlsoSuspended++
		}
	case suspended:
		f.LostSuspended++
	default:
		f.LostSilent++
	}
}

// failures is how many connections to a lane's listener failed.
func (m *model) failures(lane uint16) int64 {
	var n int64
	for _, c := range m.calls {
		if x, ok := c.(eventmeter.Notice); ok && x.Kind == eventmeter.Undeliverable && x.Sub.Lane == lane {
			n++
		}
	}
	return n
}

// bounded puts what exceeds the failed connections where it belongs otherwise.
func bounded(c SubCounts, failed int64) SubCounts {
	for c.LostUndeliverable > failed {
		c.LostUndeliverable--
		if c.AlsoSuspended > 0 {
			c.AlsoSuspended--
			c.LostSuspended++
		} else {
			c.LostSilent++
		}
	}
	c.AlsoSuspended = 0
	return c
}
