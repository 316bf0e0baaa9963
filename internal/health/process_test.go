package health

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/results"
)

// TestMeterResolution: the CPU time of a process is known as exactly as the system
// knows it, and the result says how exactly.
func TestMeterResolution(t *testing.T) {
	m := newMeter(onlyProcess(os.Getpid()))
	if m == nil {
		t.Fatal("this process cannot be read")
	}
	want := 10 * time.Millisecond
	if runtime.GOOS == "linux" {
		want = time.Microsecond
	}
	before := m.last
	for m.last == before { // until it has used something
		m.sample()
	}
	p := m.finish(time.Second)
	if p.Resolution != results.Nanos(want) || p.CPU <= 0 || p.Memory <= 0 {
		t.Errorf("%+v", p)
	}
}
