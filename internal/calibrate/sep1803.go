package calibrate

import (
	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/loadgen/driver/sep1803"
)

var calibrateSEP1803 = calibration{
	positioned: func(m *expectedCounts) bool { return m.mode == eventmeter.Push },
	resumes:    func(m *expectedCounts) bool { return m.legacy && m.resourceSettings().Redelivery },
	own:        (*expectedCounts).eventResources,
	unsound:    (*expectedCounts).cutsMissed,
}

// cutsMissed returns why a run says nothing about a lane whose streams, each of one
// subscription, are cut and begin anew, or empty: each must be open again before the
// next event that cuts it.
func (m *expectedCounts) cutsMissed(*run.Outcome) string {
	planned := m.hits(faults.Cut) - m.merged()
	if m.forgetful() && m.resourceSettings().PerSession <= 1 && m.applied.Executed[faults.SEP1803+"."+string(faults.Cut)] < planned {
		return "streams were not open again when the next event was to cut them"
	}
	return ""
}

// resourceSettings returns the settings of a lane of SEP-1803.
func (m *expectedCounts) resourceSettings() *sep1803.Settings {
	if set, ok := m.settings.Settings.(*sep1803.Settings); ok {
		return set
	}
	return sep1803.Defaults(string(m.mode))
}

// eventResources returns the checks of a lane of SEP-1803.
func (m *expectedCounts) eventResources() []Check {
	if m.mode == eventmeter.Push {
		return []Check{m.figure("earlier", 0)}
	}
	return m.callbacks()
}

// callbacks returns the checks of SEP-1803 out of band, including deliveries that
// arrived before their secret was known.
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
