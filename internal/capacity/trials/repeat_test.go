package trials

import (
	"testing"

	"github.com/eventmeter/eventmeter/internal/run"
)

// TestCapacityOfAProgram: a program is started anew for each step, so what an
// overload left in it is gone, and nothing has to come round.
func TestCapacityOfAProgram(t *testing.T) {
	c, err := find(t, func(o run.Options) (*run.Outcome, error) {
		if rateOf(o) <= 100 {
			return meets(o, 0), nil
		}
		out := meets(o, 5)
		out.Backlog.Undrained = 5
		return out, nil
	}, "capacity.idle=0", "target={command: server}", "upstream.admin=http://127.0.0.1:2")
	if err != nil || c.Outcome != "found" {
		t.Fatalf("%v, %+v", err, c.Maximum)
	}
	for _, s := range c.Steps {
		if s.Purpose == purposeRecover {
			t.Errorf("step %d was to recover", s.Number)
		}
	}
}
