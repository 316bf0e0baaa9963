package requests

import (
	"errors"
	"testing"

	vegeta "github.com/tsenart/vegeta/v12/lib"
)

// A worker of the attacker that is given its turn just before the lane is drained asks
// for its request after it, when nothing was pending: it must not begin.
func TestNoRequestBeginsAfterTheDrain(t *testing.T) {
	d := &lane{attacker: vegeta.NewAttacker()}
	d.Life = t.Context()
	if err := d.target(&vegeta.Target{}); err != nil || d.Pending() != 1 {
		t.Errorf("before: %v, %d pending", err, d.Pending())
	}
	d.Drain()
	if err := d.target(&vegeta.Target{}); !errors.Is(err, vegeta.ErrNoTargets) {
		t.Errorf("a request began after the drain: %v", err)
	}
}
