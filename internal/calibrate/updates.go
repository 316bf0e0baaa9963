package calibrate

import (
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
)

var calibrateUpdates = calibration{source: (*expectedCounts).updates, own: (*expectedCounts).notified}

// updates adds the expected counts for the changes of one source at a client that
// reads the resource when it is notified. The client learns of each change with the
// first notification of it or of a later change.
func (m *expectedCounts) updates(p *planned, source int) {
	list := m.sources[source]
	learned := -1
	for i, e := range list {
		if f, _ := m.spec.Event(m.mode, e.Stamp); f.Kind != faults.Drop {
			learned = i
		}
	}
	if learned < len(list)-1 && learned >= 0 {
		// Whether the last read still found changes that were not notified depends on
		// timing.
		p.lossy = true
	}
	p.upTo(list, learned)
}

// notified returns the checks of a lane of system updates.
func (m *expectedCounts) notified() []Check {
	var open, notifications int64
	for i := range m.settings.Subscriptions {
		if m.refused(i) {
			continue
		}
		open++
		for _, s := range m.owed(i) {
			for _, e := range m.sources[s] {
				switch f, _ := m.spec.Event(m.mode, e.Stamp); f.Kind {
				case faults.Drop:
				case faults.Duplicate:
					notifications += 2
				default:
					notifications++
				}
			}
		}
	}
	got := int64(m.result.Figures["notifications"])
	sent := exactly("notifications", notifications, got)
	if _, ok := m.spec.Server(faults.Forget, m.mode); ok || len(m.spec) == 0 {
		// Without faults, changes that follow each other faster than a stream writes
		// are notified once; without a stream there is no notification.
		sent.Passed = got <= notifications && got > 0
	}
	out := []Check{
		sent, m.figure("readsFailed", 0), m.figure("unrouted", 0), m.figure("updatesObserved", 0),
		m.figure("refused", int64(m.settings.Subscriptions)-open+m.askedAgain()),
	}
	var forgotten int64
	if _, ok := m.spec.Server(faults.Forget, m.mode); ok && m.legacy {
		forgotten = open
		out[1] = atLeast("readsFailed", 0, int64(m.result.Figures["readsFailed"])) // a read may have revealed the fault
	}
	out = append(out, m.figure("sessionsForgotten", forgotten))
	for _, f := range m.spec {
		if f.Kind == faults.Delay {
			out = append(out, atLeast("updateLatency.max, ms", f.Fixed.Milliseconds()-1, millis(m.result.Timings["updateLatency"].Max)))
		}
	}
	return out
}
