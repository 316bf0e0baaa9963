package calibrate

import "github.com/eventmeter/eventmeter"

// calibrateEvents is what is special about MCP Events: streams and pollers are
// promised one order.
var calibrateEvents = calibration{
	early:   true,
	ordered: func(m *expectedCounts) bool { return m.mode != eventmeter.Webhook },
}
