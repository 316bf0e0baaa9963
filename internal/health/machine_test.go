package health

import (
	"math"
	"testing"
	"time"
)

// A core that this process burns and does not own up to must be seen as
// others' use.
func TestBurntCoreIsSeen(t *testing.T) {
	machine := newMachineMeter()
	if machine == nil {
		t.Skip("this system does not tell the CPU time of the whole machine")
	}
	start := time.Now()
	x := 1.0
	for time.Since(start) < 300*time.Millisecond {
		x = math.Sqrt(x + 1)
	}
	if x == 0 {
		t.Error("unreachable; it keeps the loop")
	}
	// Without our own use, the machine's meter counts it as others'.
	if got := machine.others(time.Since(start), 0, nil); got < 0.5 {
		t.Errorf("one core was burnt and %.2f CPUs were seen", got)
	}
}
