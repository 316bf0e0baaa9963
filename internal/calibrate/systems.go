package calibrate

import (
	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/eventmeter/eventmeter/loadgen/driver/sep1803"
)

// own are the figures that only the lane's system has.
func (m *expectedCounts) own() []Check {
	switch m.settings.System {
	case faults.SEP975:
		return m.resumable()
	case faults.SEP2549:
		return m.listed()
	case faults.Updates:
		return m.notified()
	case faults.Smithery:
		return m.triggers()
	case faults.SEP1803:
		if m.mode == eventmeter.Push {
			return []Check{m.figure("earlier", 0)}
		}
		return m.callbacks()
	}
	return nil
}

// resourceSettings are the settings of a lane of SEP-1803.
func (m *expectedCounts) resourceSettings() *sep1803.Settings {
	if set, ok := m.settings.Settings.(*sep1803.Settings); ok {
		return set
	}
	return sep1803.Defaults(string(m.mode))
}

// triggers are the figures of Smithery's: there is no envelope, and an id is new
// only when a subscription was gone.
func (m *expectedCounts) triggers() []Check {
	out := []Check{m.figure("controlEnvelopes", 0)}
	if _, ok := m.spec.Server(faults.TTL, m.mode); !ok {
		out = append(out, m.figure("idsChanged", 0))
	}
	return out
}

// callbacks are the figures of SEP-1803 out of band: what came before its
// secret was known.
func (m *expectedCounts) callbacks() []Check {
	var open, early int64
	for i := range m.settings.Subscriptions {
		if !m.refused(i) {
			open++
		}
	}
	if _, ok := m.spec.Server(faults.Early, m.mode); ok {
		early = open
	}
	refused := early
	if m.resourceSettings().Early != "refuse" {
		refused = 0
	}
	return []Check{
		m.figure("registrations", open), m.figure("registrationsUnanswered", 0),
		m.figure("beforeSecret", early), m.figure("beforeSecretRefused", refused), m.figure("registrationsRaced", early),
	}
}

// merged counts cuts for good that follow another cut with nothing between
// them: the two are one when the stream is not back by then.
func (m *expectedCounts) merged() (n int64) {
	for i := range m.settings.Subscriptions {
		if m.refused(i) {
			continue
		}
		for _, s := range m.heard(i) {
			cut := false
			for _, e := range m.sources[s] {
				switch f, _ := m.spec.Event(m.mode, e.Stamp); {
				case f.Kind == faults.Drop:
				case f.Kind == faults.Cut:
					if cut && !f.Replay {
						n++
					}
					cut = true
				default:
					cut = false
				}
			}
		}
	}
	return n
}
