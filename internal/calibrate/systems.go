package calibrate

import (
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/eventmeter/eventmeter/internal/run"
)

// figure holds one of a system's own figures to the plan.
func (m *expectedCounts) figure(name string, want int64) Check {
	got, known := m.result.Figures[name]
	c := exactly(name, want, int64(got))
	if !known {
		c.Passed, c.Name = false, name+" (there is no such figure)"
	}
	return c
}

// own are the figures that only the lane's system has.
func (m *expectedCounts) own() []Check {
	switch m.settings.System {
	case faults.SEP975:
		return m.resumable()
	case faults.SEP2549:
		return m.listed()
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
	if m.settings.SEP1803.Early != "refuse" {
		refused = 0
	}
	return []Check{
		m.figure("registrations", open), m.figure("registrationsUnanswered", 0),
		m.figure("beforeSecret", early), m.figure("beforeSecretRefused", refused), m.figure("registrationsRaced", early),
	}
}

// ripe says whether the run says anything about a lane of SEP-975: none of its
// requests may have ended before the measured part began.
func (m *expectedCounts) ripe(o *run.Outcome) bool {
	if m.settings.System != faults.SEP975 {
		return true
	}
	for _, p := range o.Result.Phases {
		if p.Name == "measure" {
			first := o.Result.Phases[0].Start
			return time.Duration(p.Start-first) < m.shortest()
		}
	}
	return false
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

// positioned says that events have no id but the place at which they are
// written, if any: a second copy cannot be recognised by it.
func (m *expectedCounts) positioned() bool {
	return m.settings.System == faults.SEP1803 && m.mode == eventmeter.Push
}

// forgetful says that a stream that is cut does not go on where it was: what
// happens until it is opened again is lost.
func (m *expectedCounts) forgetful() bool {
	return m.positioned() && !(m.legacy && m.settings.SEP1803.Redelivery)
}
