package sep975

import (
	"math"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/driver"
)

// tally has the counts and samples of one request.
type tally struct {
	counts  map[string]int64
	samples []sample
}

type sample struct {
	name string
	took time.Duration
}

func (y *tally) add(name string, n int64) {
	if y.counts == nil {
		y.counts = make(map[string]int64)
	}
	y.counts[name] += n
}

func (y *tally) sample(name string, took time.Duration) {
	y.samples = append(y.samples, sample{name, took})
}

// account adds up the requests of a lane. Every message that a request owes is delivered,
// lost or excused: the delivered ones, counted on arrival, and the missing ones, counted at
// the end, must add up to those expected.
type account struct {
	clock *eventmeter.Clock

	mu             sync.Mutex
	measure, until eventmeter.Instant
	tally          driver.Tally
	balance        int64 // requests whose messages do not add up
	// fits is true if the tool is of the kind that the lane needs: a request brought progress, a log
	// message or its note. unfit is what other completed requests lack: lost if the tool fits.
	fits  bool
	unfit int64

	// held is how many requests are without a connection now; area is their
	// number over time, within the measured part.
	held, most int64
	area       float64 // requests × ns
	last       eventmeter.Instant
}

func newAccount(clock *eventmeter.Clock) *account {
	a := &account{clock: clock, last: clock.Now()}
	a.measure = a.last
	a.tally.DeclareTable(&FigureTable)
	return a
}

// begin sets the measured part.
func (a *account) begin(measure, until eventmeter.Instant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.measure, a.until = measure, until
	a.last, a.area, a.most = measure, 0, 0
}

// hold adds n to the number of requests without a connection.
func (a *account) hold(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.holdAt(a.clock.Now(), n)
}

// holdAt is hold at an instant, which must not be before that of an earlier call. The
// caller holds the lock.
func (a *account) holdAt(now eventmeter.Instant, n int64) {
	a.advance(now)
	a.held += n
	if now >= a.measure && (a.until == 0 || now <= a.until) {
		a.most = max(a.most, a.held)
	}
}

// advance adds the time since the last call to area. The caller holds the lock.
func (a *account) advance(now eventmeter.Instant) {
	if a.until != 0 {
		now = min(now, a.until)
	}
	if now <= a.last {
		return
	}
	a.area += float64(a.held) * float64(now.Sub(a.last))
	a.last = now
	a.most = max(a.most, a.held) // held may not have changed in the measured part
}

// commit adds a request that has ended, unless it ended before the measured part. It reports
// whether the tool fits, as far as is known.
func (a *account) commit(t *task, outcome string) (fits bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	expected := int64(len(t.progress)+len(t.logs)) + 1
	missing := expected
	for _, seen := range [][]uint16{t.progress, t.logs} {
		for _, link := range seen {
			if link != 0 {
				missing--
			}
		}
	}
	if t.result {
		missing--
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fits = a.fits || t.fits
	if a.clock.Now() < a.measure {
		return a.fits
	}
	for name, n := range t.tally.counts {
		a.tally.Count(name, float64(n))
	}
	for _, s := range t.tally.samples {
		a.tally.Took(s.name, s.took)
	}
	if expected != t.tally.counts["messagesDelivered"]+missing {
		a.balance++
	}
	a.tally.Count("requestsBegun", 1)
	a.tally.Count(outcome, 1)
	a.tally.Count("messagesExpected", float64(expected))
	switch {
	case outcome == outExpired, outcome == outOverslept, outcome == outAbandoned:
		a.tally.Count("messagesExcused", float64(missing))
	case outcome == outCompleted && !t.fits:
		a.unfit += missing
	default:
		a.tally.Count("messagesLost", float64(missing))
	}
	return a.fits
}

func (a *account) figures() driver.Figures {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Now()
	a.advance(now)
	f := a.tally.Figures()
	v := f.Values
	if a.fits {
		v["messagesLost"] += float64(a.unfit)
	} else {
		v["messagesExcused"] += float64(a.unfit)
	}
	off := func(whole string, parts ...string) float64 {
		n := v[whole]
		for _, p := range parts {
			n -= v[p]
		}
		return math.Abs(n)
	}
	v["unbalanced"] = float64(a.balance) +
		off("messagesExpected", "messagesDelivered", "messagesLost", "messagesExcused") +
		off("requestsBegun", outCompleted, outExpired, outOverslept, outFailed, outUnfinished, outAbandoned) +
		off("doubles", "doublesOneRefused", "doublesBothAnswered", "doublesBothRefused", "doublesUntold", "doublesInterrupted")
	v["detachedMax"] = float64(a.most)
	if span := a.last.Sub(a.measure); span > 0 {
		v["detachedMean"] = a.area / float64(span)
	}
	if n := v["requestsBegun"]; n > 0 {
		v["statusBytesPerRequest"] = v["statusBytes"] / n
	}
	return f
}
