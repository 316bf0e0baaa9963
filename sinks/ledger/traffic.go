package ledger

import (
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
)

// traffic adds up the calls of one cause of one lane.
type traffic struct {
	mu   sync.Mutex
	sum  Traffic
	took timing
	// within is the part of sum that lies in the measured window.
	within   Traffic
	measured bounds
}

func (t *traffic) add(c *eventmeter.Call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sum.count(c)
	if t.measured.has(c.At) {
		t.within.count(c)
	}
	if c.Took > 0 {
		t.took.add(c.Took)
	}
}

// count adds a call, without Took.
func (t *Traffic) count(c *eventmeter.Call) {
	t.Calls++
	t.Requests += int64(c.Requests)
	t.Up += c.Up
	t.Down += c.Down
	t.Connections += int64(c.Connections)
	if c.Failure != "" {
		t.Failures++
	}
}

// export returns all traffic, and the part of it that lies in the measured
// window.
func (t *traffic) export() (all, within Traffic) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all = t.sum
	if t.took.n > 0 {
		all.Took = t.took.export()
	}
	return all, t.within
}

const (
	// keepReasons bounds the distinct texts kept; later ones count as
	// otherReasons. Texts come from targets.
	keepReasons  = 100
	reasonLen    = 200
	otherReasons = "other"
)

// reasons counts short texts.
type reasons struct {
	mu     sync.Mutex
	counts map[string]int64
}

func (r *reasons) add(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts == nil {
		r.counts = make(map[string]int64)
	}
	text = strings.ToValidUTF8(text[:min(len(text), reasonLen)], "")
	if _, ok := r.counts[text]; !ok {
		if len(r.counts) >= keepReasons {
			text = otherReasons
		} else {
			// The caller's string may be part of a large message.
			text = strings.Clone(text)
		}
	}
	r.counts[text]++
}

// export returns the texts, most frequent first, then by text.
func (r *reasons) export() Reasons {
	r.mu.Lock()
	defer r.mu.Unlock()
	return reasonsOf(r.counts)
}

// answered spells a status that this side answered.
func answered(status int) string { return "http " + strconv.Itoa(status) }

// bounds are a measured window: from is in it, to is not.
type bounds struct{ from, to eventmeter.Instant }

// always is the window of a ledger without a call of Measure.
var always = bounds{to: math.MaxInt64}

func (b bounds) has(at eventmeter.Instant) bool { return b.from <= at && at < b.to }

// overlap is how much of the time from active to ending lies within.
func (b bounds) overlap(active, ending eventmeter.Instant) time.Duration {
	return max(min(ending, b.to).Sub(max(active, b.from)), 0)
}
