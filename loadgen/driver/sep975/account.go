package sep975

import (
	"maps"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// The figures of a lane that are counted directly. Each is in the result even if it is 0.
var (
	counts = []string{
		"requestsBegun", outCompleted, outExpired, outOverslept, outFailed, outUnfinished, outAbandoned,
		"messagesExpected", "messagesDelivered", "messagesLost", "messagesExcused",
		"messagesRepeated", "messagesRepeatedOnOneConnection", "messagesOutOfOrder", "messagesUnexpected", "resultsWrong", "bytesRepeated",
		"cuts", "hangUps", "breaks", "resumes", "policiesMissing", "policiesEarly", "policiesLeaked",
		"statusPolls", "statusBytes", "statusFailed", "wrongTried", "wrongAccepted", "wrongUnclear",
		"doubles", "doublesOneRefused", "doublesBothAnswered", "doublesBothRefused", "doublesUntold", "doublesInterrupted",
	}
	timings = []string{"policy", "resumeToFirst", "resumeToResult", "resumeToEnd", "status", "request"}
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
	counts         map[string]int64
	timings        map[string]*ledger.Timing
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
	a := &account{clock: clock, counts: make(map[string]int64), timings: make(map[string]*ledger.Timing)}
	for _, name := range timings {
		a.timings[name] = &ledger.Timing{Histogram: hdrhistogram.New(int64(time.Microsecond), int64(10*time.Minute), 3)}
	}
	a.last = clock.Now()
	a.measure = a.last
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
		a.counts[name] += n
	}
	for _, s := range t.tally.samples {
		record(a.timings[s.name], s.took)
	}
	if expected != t.tally.counts["messagesDelivered"]+missing {
		a.balance++
	}
	a.counts["requestsBegun"]++
	a.counts[outcome]++
	a.counts["messagesExpected"] += expected
	switch {
	case outcome == outExpired, outcome == outOverslept, outcome == outAbandoned:
		a.counts["messagesExcused"] += missing
	case outcome == outCompleted && !t.fits:
		a.unfit += missing
	default:
		a.counts["messagesLost"] += missing
	}
	return a.fits
}

func record(t *ledger.Timing, took time.Duration) {
	v := int64(took)
	switch low, high := t.Histogram.LowestTrackableValue(), t.Histogram.HighestTrackableValue(); {
	case v < low:
		v = low
		t.Below++
	case v > high:
		v = high
		t.Above++
	}
	_ = t.Histogram.RecordValue(v) // within its range now
}

func (a *account) figures() driver.Figures {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Now()
	a.advance(now)
	f := driver.Figures{Values: make(map[string]float64), Timings: make(map[string]ledger.Timing)}
	c := maps.Clone(a.counts)
	if a.fits {
		c["messagesLost"] += a.unfit
	} else {
		c["messagesExcused"] += a.unfit
	}
	off := func(whole string, parts ...string) int64 {
		n := c[whole]
		for _, p := range parts {
			n -= c[p]
		}
		return max(n, -n)
	}
	for _, name := range counts {
		f.Values[name] = float64(c[name])
	}
	f.Values["unbalanced"] = float64(a.balance +
		off("messagesExpected", "messagesDelivered", "messagesLost", "messagesExcused") +
		off("requestsBegun", outCompleted, outExpired, outOverslept, outFailed, outUnfinished, outAbandoned) +
		off("doubles", "doublesOneRefused", "doublesBothAnswered", "doublesBothRefused", "doublesUntold", "doublesInterrupted"))
	f.Values["detachedMax"] = float64(a.most)
	f.Values["detachedMean"] = 0
	if span := a.last.Sub(a.measure); span > 0 {
		f.Values["detachedMean"] = a.area / float64(span)
	}
	f.Values["statusBytesPerRequest"] = 0
	if n := c["requestsBegun"]; n > 0 {
		f.Values["statusBytesPerRequest"] = float64(c["statusBytes"]) / float64(n)
	}
	for name, t := range a.timings {
		f.Timings[name] = ledger.Timing{Histogram: hdrhistogram.Import(t.Histogram.Export()), Below: t.Below, Above: t.Above}
	}
	return f
}
