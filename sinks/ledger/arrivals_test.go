package ledger

import (
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
)

func TestArrivals(t *testing.T) {
	l := attached(t, 3)
	s := shoot(l, 1)
	for i, d := range []eventmeter.Delivery{
		{Kernel: true, Waited: 2 * time.Millisecond, Shared: true},
		{Kernel: true, Waited: 8 * time.Millisecond},
		{Shared: true},
		{Sub: eventmeter.Sub{Index: 1}, Probed: true, Stamp: eventmeter.Stamp{Run: 99}, Kernel: true}, // of another run
	} {
		if i < 3 {
			d.Sub, d.Stamp, d.Probed = eventmeter.Sub{Index: uint32(i)}, s, true
		}
		d.At = ms(5)
		l.Delivered(d)
	}
	a := l.Account().Lanes[0].Arrivals
	if a.Kernel != 3 || a.Shared != 2 || a.Waited.Histogram.TotalCount() != 3 || a.Waited.Below != 1 {
		t.Errorf("%+v", a)
	}
	if m := time.Duration(a.Waited.Histogram.Max()); m < 8*time.Millisecond || m > 8100*time.Microsecond {
		t.Errorf("waited %v at most", m)
	}
}
