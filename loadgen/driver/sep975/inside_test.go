package sep975

import (
	"slices"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/driver"
)

// TestDetachedGauge follows how many requests are held over time.
func TestDetachedGauge(t *testing.T) {
	const s = eventmeter.Instant(time.Second)
	for _, c := range []struct {
		name           string
		measure, until eventmeter.Instant
		changes        []struct {
			at eventmeter.Instant
			n  int64
		}
		end  eventmeter.Instant
		most int64
		mean float64
	}{
		{"nothing", 10 * s, 20 * s, nil, 30 * s, 0, 0},
		{"before", 10 * s, 20 * s, []struct {
			at eventmeter.Instant
			n  int64
		}{{2 * s, 3}, {9 * s, -3}}, 30 * s, 0, 0},
		{"all along", 10 * s, 20 * s, []struct {
			at eventmeter.Instant
			n  int64
		}{{2 * s, 3}, {25 * s, -3}}, 30 * s, 3, 3},
		{"two in turn", 10 * s, 20 * s, []struct {
			at eventmeter.Instant
			n  int64
		}{{11 * s, 1}, {12 * s, 1}, {13 * s, -1}, {15 * s, -1}}, 30 * s, 2, (1*1 + 1*2 + 2*1) / 10.0},
		{"after", 10 * s, 20 * s, []struct {
			at eventmeter.Instant
			n  int64
		}{{19 * s, 1}, {21 * s, 5}, {22 * s, -6}}, 30 * s, 1, 0.1},
		{"still going on", 10 * s, 20 * s, []struct {
			at eventmeter.Instant
			n  int64
		}{{12 * s, 2}}, 14 * s, 2, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAccount(eventmeter.NewClock())
			a.last = 0
			a.begin(c.measure, c.until)
			a.mu.Lock()
			defer a.mu.Unlock()
			for _, x := range c.changes {
				a.holdAt(x.at, x.n)
			}
			a.advance(c.end)
			if mean := a.area / float64(a.last.Sub(a.measure)); a.most != c.most || a.last > a.measure && mean != c.mean {
				t.Errorf("most %d, mean %v", a.most, mean)
			}
		})
	}
}

// TestAccount975 commits requests of every outcome.
func TestAccount975(t *testing.T) {
	a := newAccount(eventmeter.NewClock())
	d := &lane{}
	request := func(outcome string, progress, logs []uint16, result bool) {
		t := &task{d: d, progress: progress, logs: logs, result: result, fits: slices.Max(progress) > 0}
		for _, seen := range [][]uint16{progress, logs, {0}} {
			for _, link := range seen {
				if link != 0 {
					t.tally.add("messagesDelivered", 1)
				}
			}
		}
		if result {
			t.tally.add("messagesDelivered", 1)
			t.tally.sample("request", time.Second)
		}
		a.commit(t, outcome)
	}
	request(outCompleted, []uint16{1, 2, 2}, []uint16{2}, true)
	request(outCompleted, []uint16{1, 0, 2}, []uint16{2}, true)
	request(outFailed, []uint16{1, 0, 0}, []uint16{0}, false)
	request(outUnfinished, []uint16{1, 1, 0}, []uint16{1}, false)
	request(outExpired, []uint16{1, 0, 0}, []uint16{0}, false)
	request(outOverslept, []uint16{0, 0, 0}, []uint16{1}, false)
	request(outAbandoned, []uint16{0, 0, 0}, []uint16{0}, false)
	request(outCompleted, []uint16{0, 0, 0}, []uint16{0}, true) // lost: the tool fits elsewhere
	a.begin(a.clock.Now()+eventmeter.Instant(time.Hour), 0)
	request(outCompleted, []uint16{1, 1, 1}, []uint16{1}, true) // before the measured part
	f := a.figures()
	for name, want := range map[string]float64{
		"requestsBegun": 8, outCompleted: 3, outFailed: 1, outUnfinished: 1, outExpired: 1, outOverslept: 1, outAbandoned: 1,
		"messagesExpected": 40, "messagesDelivered": 16, "messagesLost": 1 + 4 + 2 + 4, "messagesExcused": 4 + 4 + 5, "unbalanced": 0,
	} {
		if f.Values[name] != want {
			t.Errorf("%s is %v, want %v", name, f.Values[name], want)
		}
	}
	if n := f.Timings["request"].Histogram.TotalCount(); n != 3 {
		t.Errorf("%d requests were timed", n)
	}
	// A message that was counted and is not marked is a fault of the account.
	a.begin(a.clock.Now(), 0)
	bad := &task{d: d, progress: []uint16{0}}
	bad.tally.add("messagesDelivered", 1)
	a.commit(bad, outCompleted)
	if a.figures().Values["unbalanced"] == 0 {
		t.Error("an account that is off was not seen")
	}
}

func TestDrawIsRepeatable(t *testing.T) {
	d := &lane{}
	d.Opts = driver.Options{Seed: 7, Lane: 1}
	other := &lane{}
	other.Opts = driver.Options{Seed: 8, Lane: 1}
	low, differ := 0, 0
	for i := range 10_000 {
		v := d.draw(i, 3, "cut")
		if v < 0 || v >= 1 || v != d.draw(i, 3, "cut") {
			t.Fatalf("draw %d is %v", i, v)
		}
		if v < 0.25 {
			low++
		}
		if v != other.draw(i, 3, "cut") {
			differ++
		}
	}
	if low < 2300 || low > 2700 || differ < 9990 {
		t.Errorf("%d of 10000 below 0.25, %d differ with the seed", low, differ)
	}
}
