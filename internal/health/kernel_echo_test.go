package health

import (
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/streamclient"
)

func TestKernelEcho(t *testing.T) {
	e, err := openKernelEcho(echoEvery(0))
	if err != nil {
		t.Fatal(err)
	}
	if !streamclient.Stamps(streamclient.Options{}) {
		if h := e.close(); h.TotalCount() != 0 {
			t.Errorf("%d times of a kernel that gives none", h.TotalCount())
		}
		return
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for late := time.After(time.Minute); e.timed.Load() < 3; {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%d delays in a minute", e.timed.Load())
		}
	}
	h := e.close()
	if h.TotalCount() != e.timed.Load() || h.TotalCount() < 3 {
		t.Errorf("%d delays in the histogram, of %d", h.TotalCount(), e.timed.Load())
	}
	// A clock that is reckoned wrongly is off by far more than a write takes.
	if n := e.early.Load(); n > 0 || h.Max() > int64(time.Minute) {
		t.Errorf("%d of %d arrived before they were written; the longest took %d ns", n, h.TotalCount(), h.Max())
	}
	var none *kernelEcho
	if none.close() != nil {
		t.Error("an echo that was not opened has delays")
	}
}
