package updates_test

import (
	"testing"

	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/driver/updates"
)

// TestConnections: a client that never reads needs no connection beside its stream.
func TestConnections(t *testing.T) {
	for identify, want := range map[string]int{updates.IdentifyNone: 1, updates.IdentifyRead: 2, "": 2} {
		if got := updates.Connections(&driver.Options{Settings: &updates.Settings{Identify: identify}}); got != want {
			t.Errorf("identify %q: %d connections, want %d", identify, got, want)
		}
	}
	if got := updates.Connections(&driver.Options{}); got != 2 {
		t.Errorf("%d connections by default, want 2", got)
	}
}
