package calibrate

import "github.com/eventmeter/eventmeter/internal/refserver/faults"

var calibrateSmithery = calibration{own: (*expectedCounts).triggers}

// triggers returns the checks of Smithery's variant: there is no envelope, and a
// subscription has a new id only if it was gone.
func (m *expectedCounts) triggers() []Check {
	out := []Check{m.figure("controlEnvelopes", 0)}
	if _, ok := m.spec.Server(faults.TTL, m.mode); !ok {
		out = append(out, m.figure("idsChanged", 0))
	}
	return out
}
