package calibrate

import "github.com/eventmeter/eventmeter/internal/refserver/faults"

var calibrateSmithery = calibration{own: (*expectedCounts).triggers}

// triggers are the figures of Smithery's: there is no envelope, and an id is new
// only when a subscription was gone.
func (m *expectedCounts) triggers() []Check {
	out := []Check{m.figure("controlEnvelopes", 0)}
	if _, ok := m.spec.Server(faults.TTL, m.mode); !ok {
		out = append(out, m.figure("idsChanged", 0))
	}
	return out
}
