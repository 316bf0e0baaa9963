package calibrate

import (
	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/eventmeter/eventmeter/loadgen/driver/events"
)

// calibrateEvents is what is special about MCP Events: streams and pollers are
// promised one order, and subscriptions without a token are refused.
var calibrateEvents = calibration{
	early:   true,
	ordered: func(m *expectedCounts) bool { return m.mode != eventmeter.Webhook },
	refuses: turnsAway,
	own:     anonymous,
}

// isAnonymous reports whether the lane's subscriptions have no token.
func isAnonymous(m *expectedCounts) bool {
	set, ok := m.settings.Settings.(*events.Settings)
	return ok && set.Anonymous
}

// turnsAway reports whether the target refuses the lane's subscriptions because
// they have no token.
func turnsAway(m *expectedCounts) bool {
	_, admitted := m.spec.Server(faults.Anonymous, m.mode)
	return isAnonymous(m) && !admitted
}

// anonymous are the figures of subscriptions without a token.
func anonymous(m *expectedCounts) []Check {
	if !isAnonymous(m) {
		return nil
	}
	refused, accepted := int64(m.settings.Subscriptions), int64(0)
	if !turnsAway(m) {
		refused, accepted = accepted, refused
	}
	return []Check{m.figure("anonymousRefused", refused), m.figure("anonymousAccepted", accepted)}
}
