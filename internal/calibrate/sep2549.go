package calibrate

import (
	"time"

	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/eventmeter/eventmeter/loadgen/driver/sep2549"
)

var calibrateSEP2549 = calibration{source: (*expectedCounts).changes, inOrder: true, own: (*expectedCounts).listed}

// listSettings returns the settings of a lane that uses lists.
func (m *expectedCounts) listSettings() *sep2549.Settings {
	if set, ok := m.settings.Settings.(*sep2549.Settings); ok {
		return set
	}
	return sep2549.Defaults(string(m.mode))
}

// lifetime returns the time to live that results carry.
func (m *expectedCounts) lifetime() time.Duration {
	if f, ok := m.spec.Server(faults.ListTTL, m.mode); ok {
		return max(time.Duration(f.Ms)*time.Millisecond, 0)
	}
	if m.lists.NoHints {
		return 0
	}
	return m.lists.TTL
}

// forGood is a time to live within which no client fetches again during a run.
const forGood = time.Minute

// changes adds the expected counts for the changes of one source at clients that use
// a list. A client learns of a change with the first fetch after that change, or a
// later one of its source, was applied: with every use if nothing may be kept, after
// the time to live if there is one, and otherwise after a notified change.
func (m *expectedCounts) changes(p *planned, source int) {
	list := m.sources[source]
	// The newest change in the list, and the newest notified change.
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
			// Whether a fetch that an earlier change caused still found this one
			// depends on timing.
			p.lossy = true
		}
	}
	p.upTo(list, learned)
}

// listed returns the checks of a lane of SEP-2549.
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
	}
	fetches := int64(m.result.Figures["fetches"])
	if m.lists.NoHints {
		out = append(out, m.pages("privatePages", fetches), m.pages("ttlMissing", fetches))
	} else {
		out = append(out, m.pages("privatePages", m.otherScope(faults.Scope)+m.otherScope(faults.MixScope)), m.figure("ttlMissing", 0))
	}
	if !all.lossy {
		seen := m.result.Figures["changesSeen"] + m.result.Figures["changesSuperseded"]
		out = append(
			out,
			m.figure("changesNeverSeen", all.lostSilent),
			exactly("changesSeen + changesSuperseded", all.delivered, int64(seen)),
		)
	}
	if _, ok := m.spec.Server(faults.MixScope, m.mode); ok {
		// Without a time to live every use reads each page, unless the use is
		// abandoned.
		reads := m.otherScope(faults.MixScope) - int64(m.result.Figures["usesAbandoned"])
		out = append(out, atLeast("scopesMixed", reads, int64(m.result.Figures["scopesMixed"])))
	} else {
		out = append(out, m.figure("scopesMixed", 0))
	}
	if m.listSettings().Notifications {
		notified := exactly("changesNotified", clients*m.notifications(), int64(m.result.Figures["changesNotified"]))
		if len(m.spec) == 0 {
			// Without faults, changes that follow each other faster than a stream
			// writes are notified once.
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

// pages holds a figure to the number of pages that were asked for or sent. What is on
// its way when a client ends is read by nobody: a page for each use that was given up,
// at most.
func (m *expectedCounts) pages(name string, sent int64) Check {
	unread := sent - int64(m.result.Figures[name])
	return m.figure(name, sent-min(max(unread, 0), int64(m.result.Figures["usesAbandoned"])))
}

// otherScope is how many pages the target sent with the other scope, by its own
// count.
func (m *expectedCounts) otherScope(kind faults.Kind) int64 {
	return m.applied.Executed[faults.SEP2549+"."+string(kind)]
}

// notifications returns how many notifications each stream receives, warm-up
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
