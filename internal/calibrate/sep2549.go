package calibrate

import (
	"time"

	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/eventmeter/eventmeter/loadgen/driver/sep2549"
)

var calibrateSEP2549 = calibration{source: (*expectedCounts).changes, inOrder: true, own: (*expectedCounts).listed}

// listSettings are the settings of a lane that uses lists.
func (m *expectedCounts) listSettings() *sep2549.Settings {
	if set, ok := m.settings.Settings.(*sep2549.Settings); ok {
		return set
	}
	return sep2549.Defaults(string(m.mode))
}

// lifetime is what results say about how long they may be kept.
func (m *expectedCounts) lifetime() time.Duration {
	if f, ok := m.spec.Server(faults.ListTTL, m.mode); ok {
		return max(time.Duration(f.Ms)*time.Millisecond, 0)
	}
	return m.lists.TTL
}

// forGood is a lifetime within which nobody looks again during a run.
const forGood = time.Minute

// changes is what the changes of one source come to for a client that uses a
// list. A change is learned of with the first look at the list after a later
// change of its source was applied, or itself: with every use where nothing may
// be kept, after a while where it may for a while, and else after a change that
// was notified.
func (m *expectedCounts) changes(p *planned, source int) {
	list := m.sources[source]
	// The newest change that is in the list, and the newest that was notified.
	applied, notified := -1, -1
	for i, e := range list {
		f, _ := m.spec.Event(m.mode, e.Stamp)
		if f.Kind != faults.Stale {
			applied = i
		}
		if f.Kind != faults.Drop {
			notified = i
		}
	}
	learned := applied
	if m.lifetime() > forGood {
		switch {
		case !m.listSettings().Notifications || notified < 0:
			learned = -1
		case notified < applied:
			// Whether a look that an earlier change caused still found it is a
			// matter of time.
			p.lossy = true
		}
	}
	var missing missingRun
	for i, e := range list {
		switch {
		case i > learned:
			missing.add(e, false)
		case e.Measured:
			p.delivered++
		}
		if e.Measured {
			p.expected++
		}
	}
	missing.close(p)
}

// listed are the figures of a lane of SEP-2549.
func (m *expectedCounts) listed() []Check {
	clients := int64(m.settings.Subscriptions)
	var all planned
	for i := range m.settings.Subscriptions {
		all.plus(m.subscription(i))
	}
	out := []Check{
		m.figure("changesOwed", all.expected),
		m.figure("usesFailed", 0), m.figure("fetchesFailed", 0), m.figure("regressed", 0), m.figure("cursorFailures", 0),
		m.figure("otherChangesNotified", 0), m.figure("listenReconnects", 0), m.figure("unbalanced", 0),
		m.figure("ttlMs", m.lifetime().Milliseconds()),
		m.figure("privatePages", m.applied.Executed[faults.SEP2549+"."+string(faults.Scope)]),
	}
	if !all.lossy {
		seen := m.result.Figures["changesSeen"] + m.result.Figures["changesSuperseded"]
		out = append(out, m.figure("changesNeverSeen", all.lostSilent), exactly("changesSeen + changesSuperseded", all.delivered, int64(seen)))
	}
	if m.listSettings().Notifications {
		notified := exactly("changesNotified", clients*m.notifications(), int64(m.result.Figures["changesNotified"]))
		if len(m.spec) == 0 {
			// Without faults, changes that come faster than a stream takes them
			// are notified once.
			notified.Passed = notified.Got <= clients*m.notifications()
		}
		out = append(out, notified)
	} else {
		out = append(out, m.figure("changesNotified", 0))
	}
	if m.lifetime() == 0 {
		out = append(out, m.figure("fetchesAvoided", 0))
	} else {
		out = append(out, atLeast("fetchesAvoided", clients, int64(m.result.Figures["fetchesAvoided"])))
	}
	for _, f := range m.spec {
		if f.Kind == faults.Delay && m.listSettings().Notifications {
			out = append(out, atLeast("invalidation.max, ms", f.Fixed.Milliseconds()-1, millis(m.result.Timings["invalidation"].Max)))
		}
	}
	return out
}

// notifications is how many notifications each stream gets, those of the warm-up
// included.
func (m *expectedCounts) notifications() (n int64) {
	for _, list := range m.sources {
		for _, e := range list {
			switch f, _ := m.spec.Event(m.mode, e.Stamp); f.Kind {
			case faults.Drop:
			case faults.Duplicate:
				n += 2
			default:
				n++
			}
		}
	}
	return n
}
