package events

import (
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/driver"
)

// herdBin is the width of the intervals in which returning streams are counted.
const herdBin = 100 * time.Millisecond

// herd follows the return of streams that were cut together. The zero value follows
// nothing.
type herd struct {
	mu   sync.Mutex
	from eventmeter.Instant // when the streams may return; 0 = they were not cut yet
	bin  int64              // since from
	now  int                // streams that returned in bin
	peak int                // largest value of now
}

// cutAll cuts all streams of the lane.
func (d *lane) cutAll() {
	runs := d.Attached()
	d.herd.mu.Lock()
	d.herd.from = d.Clock.Now().Add(d.set.CutFor)
	d.herd.mu.Unlock()
	for _, r := range runs {
		r.stream.GiveUp(driver.ErrCut)
	}
}

// returned counts a stream that is about to be opened again.
func (d *lane) returned() {
	if d.herd.add(d.Clock.Now()) {
		d.tally.Count("reopenedPeak", 1)
	}
}

// add counts a stream, and reports whether the peak has grown by it.
func (h *herd) add(at eventmeter.Instant) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.from == 0 || at < h.from {
		return false
	}
	if bin := int64(at.Sub(h.from) / herdBin); bin != h.bin {
		h.bin, h.now = bin, 0
	}
	if h.now++; h.now <= h.peak {
		return false
	}
	h.peak = h.now
	return true
}

// caughtUp reports a missed event that was received at that instant.
func (d *lane) caughtUp(at eventmeter.Instant) {
	if d.set.CutAt <= 0 {
		return
	}
	d.herd.mu.Lock()
	from := d.herd.from
	d.herd.mu.Unlock()
	if from != 0 {
		d.tally.Took("catchUp", at.Sub(from))
	}
}
