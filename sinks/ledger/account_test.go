package ledger

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
)

// TestAccountReady checks how subscriptions came up.
func TestAccountReady(t *testing.T) {
	t.Parallel()
	l := newTestLedger(t, Options{Lanes: []LaneSpec{{Name: "x", System: "events", Mode: eventmeter.Poll, Subscriptions: 7}}})
	for i, s := range []string{
		"attaching@1 active@3",
		"attaching@1 active@5 detaching@10 detached@11 attaching@20 active@21",
		"attaching@1 failed@2",
		"attaching@1 failed@2 attaching@4 failed@9",
		"attaching@1 detaching@2 detached@3",
		"attaching@1",
		"attaching@1 active@3 failed@7",
	} {
		script(t, l, eventmeter.Sub{Index: uint32(i)}, s)
	}
	live := l.Live().Lanes[0]
	if live.Attaching != 1 || live.Open != 2 || live.Failed != 3 || live.Broken != 1 {
		t.Errorf("live: %+v", live)
	}
	a := l.Account()
	if err := a.Check(); err != nil {
		t.Error(err)
	}
	n := a.Lanes[0]
	r := n.Ready
	if r.Attempts != 9 || r.Failed != 3 || r.Cancelled != 1 || r.Open != 1 || r.Time.Histogram.TotalCount() != 4 {
		t.Errorf("ready: %+v", r)
	}
	if lo, hi := r.Time.Histogram.Min(), r.Time.Histogram.Max(); !about(lo, 1000) || !about(hi, 4000) {
		t.Errorf("ready after %d to %d ns", lo, hi)
	}
	if want := (Reasons{{"no reason", 3}}); !reflect.DeepEqual(r.Reasons, want) {
		t.Errorf("reasons: %v", r.Reasons)
	}
	if want := (Reasons{{"no reason", 1}}); n.Broken != 1 || !reflect.DeepEqual(n.BrokenReasons, want) {
		t.Errorf("broken: %d %v", n.Broken, n.BrokenReasons)
	}
	want := time.Duration(997+5+979+4) * time.Millisecond
	if n.Active != want || n.SubscriptionHours != want.Hours() || n.Windows != 4 {
		t.Errorf("active %v in %d windows, %v hours; want %v in 4", n.Active, n.Windows, n.SubscriptionHours, want)
	}
	if n.Name != "x" || n.System != "events" || n.Mode != eventmeter.Poll || n.Subscriptions != 7 || n.Ordered {
		t.Errorf("lane: %+v", n)
	}
}

// TestAccountEmissions checks the figures of the run itself.
func TestAccountEmissions(t *testing.T) {
	t.Parallel()
	l := newTestLedger(t, Options{})
	script(
		t,
		l,
		eventmeter.Sub{},
		"warm:1@1 ok:1@2 warm:2@1 fire:3@1003 ok:3@1005 fire:4@1004 uncertain:4@1099 fire:5@2005 refused:5@2006 fire:6@2007 "+
			"fire:1.1@2008 ok:1.1@2018",
	)
	l.Dropped(eventmeter.Drop{Intended: ms(2100), Measured: true})
	l.Dropped(eventmeter.Drop{Intended: ms(2100)})
	a := l.Account()
	if err := a.Check(); err != nil {
		t.Error(err)
	}
	if want := (Scheduled{Fired: 5, Accepted: 2, Uncertain: 1, Refused: 1, Pending: 1, Dropped: 1}); a.Measured != want {
		t.Errorf("measured: %+v, want %+v", a.Measured, want)
	}
	if want := (Scheduled{Fired: 2, Accepted: 1, Pending: 1, Dropped: 1}); a.WarmUp != want {
		t.Errorf("warm-up: %+v, want %+v", a.WarmUp, want)
	}
	if h := a.FireLatency.Histogram; h.TotalCount() != 2 || !about(h.Min(), 2000) || !about(h.ValueAtPercentile(100), 10_000) {
		t.Errorf("fire latency: %d samples, %d to %d", h.TotalCount(), h.Min(), h.Max())
	}
	if h := a.FireLag.Histogram; h.TotalCount() != 5 || !about(h.Min(), 1000) || !about(h.ValueAtPercentile(100), 1000) {
		t.Errorf("fire lag: %d samples, %d to %d", h.TotalCount(), h.Min(), h.Max())
	}
	want := []LaneInterval{{Number: 0, FiredWarmUp: 2}, {Number: 1, Fired: 2}, {Number: 2, Fired: 3, Dropped: 1}}
	if got := a.Lanes[0].Series; !reflect.DeepEqual(got, want) {
		t.Errorf("series: %+v", got)
	}
	if live := l.Live(); live.Measured != a.Measured || live.WarmUp != a.WarmUp {
		t.Errorf("live: %+v", live)
	}
}

// TestAccountSkipped checks that measured events count that were fired after the subscription was active and that a
// newer one overtook, in the interval in which the newer one came.
func TestAccountSkipped(t *testing.T) {
	t.Parallel()
	for words, want := range map[string][]LaneInterval{
		"warm:1@3 warm:2@4 got:2@1500":                  {{Number: 0, FiredWarmUp: 2}},
		"fire:1@2 fire:2@2.0000015 warm:3@3 got:3@1500": {{Number: 0, Fired: 2, FiredWarmUp: 1}, {Number: 1, Skipped: 1}},
		"warm:1@3 got:1@4 fire:2@5 warm:3@6 got:3@1500": {{Number: 0, Fired: 1, FiredWarmUp: 2}, {Number: 1, Skipped: 1}},
	} {
		l := newTestLedger(t, Options{})
		script(t, l, eventmeter.Sub{}, up+words)
		if got := l.Account().Lanes[0].Series; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v", words, got)
		}
	}
}

// TestAccountLatency checks both latencies, their bounds, and the interval that
// a sample belongs to.
func TestAccountLatency(t *testing.T) {
	t.Parallel()
	l := newTestLedger(t, Options{Interval: 10 * time.Millisecond})
	// Intended is 1 ms before fired, except where the instant says otherwise.
	script(
		t,
		l,
		eventmeter.Sub{},
		up+"fire:1@5 ok:1@6 got:1@9 fire:2@10 ok:2@10 got:2@10 fire:3@25 got:3@29 fire:4@31 ok:4@31 got:4@3600031 ok:3@3600040",
	)
	a := l.Account()
	if err := a.Check(); err != nil {
		t.Error(err)
	}
	n := a.Lanes[0]
	in, sent := n.Latency.FromIntended, n.Latency.FromSent
	if in.Below != 0 || in.Above != 1 || sent.Below != 1 || sent.Above != 1 {
		t.Errorf("out of range: %d %d %d %d", in.Below, in.Above, sent.Below, sent.Above)
	}
	if got := in.Histogram; got.TotalCount() != 4 || !about(got.Min(), 1000) || !about(got.ValueAtPercentile(50), 5000) ||
		!about(got.ValueAtPercentile(75), 5000) ||
		!about(got.Max(), 600_000_000) {
		t.Errorf("from intended: %v", got.CumulativeDistribution())
	}
	if got := sent.Histogram; got.TotalCount() != 4 || got.Min() != 512 || !about(got.ValueAtPercentile(50), 4000) {
		t.Errorf("from sent: %d %d", got.Min(), got.ValueAtPercentile(50))
	}
	var numbers []int64
	for _, v := range n.Series {
		if v.Delivered > 0 {
			numbers = append(numbers, v.Number)
			if v.FromIntended.TotalCount() != 1 || v.FromSent.TotalCount() != 1 {
				t.Errorf("interval %d: %+v", v.Number, v)
			}
		}
	}
	if want := []int64{0, 1, 2, 360003}; !reflect.DeepEqual(numbers, want) {
		t.Errorf("delivered in intervals %v, want %v", numbers, want)
	}
}

// TestAccountTraffic checks calls, notices and event traffic.
func TestAccountTraffic(t *testing.T) {
	t.Parallel()
	l := newTestLedger(t, Options{})
	l.Called(
		eventmeter.Call{
			Cause:       eventmeter.EmptyPoll,
			Requests:    1,
			Up:          10,
			Down:        20,
			Connections: 1,
			Took:        3 * time.Millisecond,
			Method:      "events/poll",
		},
	)
	l.Called(eventmeter.Call{Cause: eventmeter.EmptyPoll, Requests: 1, Up: 10, Method: "events/poll", Failure: "timeout"})
	l.Called(eventmeter.Call{Cause: eventmeter.Refresh, Requests: 1, Method: "events/subscribe", Failure: "http 429"})
	l.Called(eventmeter.Call{Cause: eventmeter.Refresh, Requests: 1, Method: "events/subscribe", Failure: "http 429"})
	l.Called(eventmeter.Call{Cause: eventmeter.Heartbeat, Down: 5})
	for kind := eventmeter.Reconnected; kind <= eventmeter.Oversized; kind++ {
		for range kind {
			l.Noticed(eventmeter.Notice{Kind: kind, Detail: "as told"})
		}
	}
	script(t, l, eventmeter.Sub{}, up+"unprobed@3 warm:1@4 got:1@5")
	a := l.Account()
	n := a.Lanes[0]
	poll := n.Traffic[eventmeter.EmptyPoll]
	if h := poll.Took.Histogram; h == nil || h.TotalCount() != 1 || !about(h.Max(), 3000) {
		t.Errorf("took: %v", h.CumulativeDistribution())
	}
	poll.Took = Timing{}
	if want := (Traffic{Calls: 2, Requests: 2, Up: 20, Down: 20, Connections: 1, Failures: 1}); poll != want {
		t.Errorf("empty polls: %+v", poll)
	}
	if want := (Traffic{Calls: 1, Down: 5}); n.Traffic[eventmeter.Heartbeat] != want {
		t.Errorf("heartbeats: %+v", n.Traffic[eventmeter.Heartbeat])
	}
	if want := (Reasons{{"events/subscribe http 429", 2}, {"events/poll timeout", 1}}); !reflect.DeepEqual(n.Failures, want) {
		t.Errorf("failures: %v", n.Failures)
	}
	if want := (Reasons{{"as told", 7}}); !reflect.DeepEqual(n.MalformedBy, want) {
		t.Errorf("malformed: %v", n.MalformedBy)
	}
	if want := (Reasons{{"as told", 11}}); !reflect.DeepEqual(n.OversizedBy, want) {
		t.Errorf("oversized: %v", n.OversizedBy)
	}
	got := []int64{
		n.Reconnects,
		n.Terminated,
		n.TransientErrors,
		n.DeadStreams,
		n.Rejected,
		n.Malformed,
		n.Oversized,
		n.EventMessages,
		n.EventBytes,
	}
	if want := []int64{2, 3, 4, 5, 6, 7, 11, 2, 200}; !reflect.DeepEqual(got, want) {
		t.Errorf("notices and messages: %v, want %v", got, want)
	}
	live := l.Live().Lanes[0]
	got = []int64{
		live.Reconnects,
		live.Terminated,
		live.TransientErrors,
		live.DeadStreams,
		live.Rejected,
		live.Malformed,
		live.Oversized,
		live.EventMessages,
		live.EventBytes,
		live.CallFailures,
	}
	if want := []int64{2, 3, 4, 5, 6, 7, 11, 2, 200, 3}; !reflect.DeepEqual(got, want) {
		t.Errorf("live: %v, want %v", got, want)
	}
}

// TestLiveHoles checks what is known to be missing, and what is outstanding.
func TestLiveHoles(t *testing.T) {
	t.Parallel()
	l := newTestLedger(t, Options{})
	check := func(when string, holes, outstanding int64) {
		t.Helper()
		if got := l.Live().Lanes[0].Holes; got != holes {
			t.Errorf("%s: %d holes, want %d", when, got, holes)
		}
		if got := l.Outstanding(); got != outstanding {
			t.Errorf("%s: %d outstanding, want %d", when, got, outstanding)
		}
	}
	script(
		t,
		l,
		eventmeter.Sub{},
		"fire:1@0.5 ok:1@0.6 "+up+"fire:2@3 ok:2@3 fire:3@4 ok:3@4 fire:4@5 refused:4@5 fire:5@6 ok:5@6 fire:6@7",
	)
	check("fired", 0, 3)
	script(t, l, eventmeter.Sub{}, "got:5@8")
	check("newest came", 2, 2)
	script(t, l, eventmeter.Sub{}, "got:3@9")
	check("one filled", 1, 1)
	script(t, l, eventmeter.Sub{}, "detaching@10 detached@11")
	check("ended", 1, 0)
	script(t, l, eventmeter.Sub{}, "ok:6@12 attaching@13 active@14")
	check("opened again", 2, 0) // 6 is lost now as well
	live := l.Live().Lanes[0]
	if q := live.Whole; q.Count != 2 || live.Recent != q || !about(int64(q.P50), 3000) || !about(int64(q.Max), 6000) {
		t.Errorf("quantiles: %+v", q)
	}
}

func TestOpenFor(t *testing.T) {
	for interval, want := range map[time.Duration]int{
		time.Millisecond: 2000, 300 * time.Millisecond: 7, 400 * time.Millisecond: 5, time.Minute: 3,
	} {
		if got := openFor(interval); got != want {
			t.Errorf("%d intervals of %v are open, want %d", got, interval, want)
		}
	}
}

// TestRecentIntervals checks that short intervals are recent for as long as wide ones.
func TestRecentIntervals(t *testing.T) {
	t.Parallel()
	l := newTestLedger(t, Options{Interval: 100 * time.Millisecond})
	script(t, l, eventmeter.Sub{}, up)
	for i := 1; i <= 9; i++ {
		script(t, l, eventmeter.Sub{}, fmt.Sprintf("fire:%d@%d00 ok:%d@%d01 got:%d@%d02", i, i, i, i, i, i))
	}
	if live := l.Live().Lanes[0]; live.Recent.Count != 9 || live.Whole.Count != 9 || live.Undecided != 0 {
		t.Errorf("%d recent of %d, %d undecided", live.Recent.Count, live.Whole.Count, live.Undecided)
	}
}

// TestAccountExamples checks that findings are kept, sorted and bounded.
func TestAccountExamples(t *testing.T) {
	t.Parallel()
	l := newTestLedger(t, Options{Examples: 2})
	for i := range uint32(3) {
		script(t, l, eventmeter.Sub{Index: i}, up)
	}
	script(t, l, eventmeter.Sub{}, "fire:1@3 ok:1@3 fire:2@4 ok:2@4 fire:3@5 ok:3@5 got:3@6 got:2@7 got:2/9@8 foreign:1@9 got:2@9 got:2@10")
	script(t, l, eventmeter.Sub{Index: 1}, "truncated@6 got:3@8")
	want := []Example{
		{Kind: ExampleLostSilent, From: 1, To: 1, At: ms(3), Detail: "1 lost"},
		{Kind: ExampleLostSilent, Sub: eventmeter.Sub{Index: 2}, From: 1, To: 3, At: ms(3), Detail: "3 lost"},
		{Kind: ExampleLostAnnounced, Sub: eventmeter.Sub{Index: 1}, From: 1, To: 2, At: ms(3), Detail: "2 lost"},
		{Kind: ExampleDuplicate, From: 2, To: 2, EventID: 9, At: ms(8), Bytes: 100, Detail: "same emission"},
		{Kind: ExampleDuplicate, From: 2, To: 2, EventID: 1002, At: ms(9), Bytes: 100, Detail: "same event"},
		{Kind: ExampleUnexpected, From: 1, To: 1, EventID: 1001, At: ms(9), Bytes: 100, Detail: "foreign run"},
		{Kind: ExampleOutOfOrder, From: 2, To: 2, EventID: 1002, At: ms(7)},
	}
	if got := l.Account().Lanes[0].Examples; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}

// TestLedgerMisuse checks that calls that make no sense are counted and change
// nothing else.
func TestLedgerMisuse(t *testing.T) {
	t.Parallel()
	l := newTestLedger(t, Options{})
	e := eventmeter.Emission{Stamp: eventmeter.Stamp{Run: testRun, Seq: 1}, Fired: 1, Intended: 1}
	for _, change := range []func(*eventmeter.Emission){
		func(e *eventmeter.Emission) { e.Run++ }, func(e *eventmeter.Emission) { e.Source = 2 },
		func(e *eventmeter.Emission) { e.Seq = 2 }, func(e *eventmeter.Emission) { e.Seq = 0 },
	} {
		bad := e
		change(&bad)
		l.Fired(bad)
	}
	l.Fired(e)
	s := e.Stamp
	l.Resolved(s, eventmeter.Pending, 2)
	l.Resolved(s, 9, 2)
	l.Resolved(eventmeter.Stamp{Run: testRun + 1, Seq: 1}, eventmeter.Accepted, 2)
	l.Resolved(eventmeter.Stamp{Run: testRun, Seq: 2}, eventmeter.Accepted, 2)
	l.Resolved(s, eventmeter.Accepted, 2)
	l.Resolved(s, eventmeter.Refused, 3)
	l.Delivered(eventmeter.Delivery{Sub: eventmeter.Sub{Lane: 1}})
	l.Delivered(eventmeter.Delivery{Sub: eventmeter.Sub{Index: 4}})
	l.Noticed(eventmeter.Notice{Sub: eventmeter.Sub{Lane: 1}})
	l.Noticed(eventmeter.Notice{Sub: eventmeter.Sub{Index: 4}, Kind: eventmeter.Truncated})
	l.Changed(eventmeter.Transition{Sub: eventmeter.Sub{Index: 4}, To: eventmeter.Attaching})
	l.Called(eventmeter.Call{Lane: 3})
	l.Called(eventmeter.Call{Cause: 99})
	for i, words := range []string{
		"active@1 active@2", "detaching@1 detached@2 failed@3 failed@4",
		"attaching@1 attaching@2 active@3 detaching@4 detaching@5 active@5 detached@6 detached@7", "attaching@1 active@2 attaching@3 failed@4",
	} {
		script(t, l, eventmeter.Sub{Index: uint32(i)}, words)
	}
	a := l.Account()
	if want := (Misuse{Fired: 4, Resolved: 5, Subscription: 7, Transition: 2 + 4 + 4 + 1}); a.Misuse != want {
		t.Errorf("got %+v, want %+v", a.Misuse, want)
	}
	if err := a.Check(); !errors.Is(err, ErrUnbalanced) || !strings.Contains(err.Error(), "misused") {
		t.Errorf("Check: %v", err)
	}
	a.Misuse = Misuse{}
	if err := a.Check(); err != nil {
		t.Error(err)
	}
	if a.WarmUp != (Scheduled{Fired: 1, Accepted: 1}) {
		t.Errorf("events: %+v", a.WarmUp)
	}
}

// TestAccountCheck checks that every figure Check looks at is looked at.
func TestAccountCheck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		damage func(n *LaneAccount)
		want   string
	}{
		{func(n *LaneAccount) { n.Expected++ }, "expected against delivered and all that is lost: 2, want 1"},
		{func(n *LaneAccount) { n.Delivered++; n.Expected++ }, "delivered in intervals: 1, want 2"},
		{func(n *LaneAccount) { n.Sums.OutOfOrder++ }, "subscriptions add up to {Expected:1 Delivered:1"},
		{func(n *LaneAccount) { n.Sums.Expected++; n.SubCounts.Expected++ }, "sum of expected against its parts: 2, want 1"},
		{func(n *LaneAccount) { _ = n.Latency.FromIntended.Histogram.RecordValue(1) }, "scheduled → received, samples: 2, want 1"},
		{func(n *LaneAccount) { _ = n.Latency.FromSent.Histogram.RecordValue(1) }, "published → received, samples: 2, want 1"},
		{func(n *LaneAccount) { n.Latency.FromIntended.Histogram = nil }, "scheduled → received, samples: 0, want 1"},
		{func(n *LaneAccount) { n.Ready.Failed++ }, "attempts to subscribe: 1, want 2"},
		{func(n *LaneAccount) { n.Ready.Attempts++ }, "attempts to subscribe: 2, want 1"},
		{func(n *LaneAccount) { n.Series[0].Delivered++ }, "delivered in intervals: 2, want 1"},
		{func(n *LaneAccount) { n.Series[0].Late++ }, "late in intervals: 1, want 0"},
		{func(n *LaneAccount) { n.Series[0].OutOfOrder++ }, "out of order in intervals: 1, want 0"},
		{func(n *LaneAccount) { n.Series[0].Duplicates++ }, "duplicates in intervals: 2, want 1"},
		{func(n *LaneAccount) { n.Series[0].Unexpected++ }, "unexpected in intervals: 1, want 0"},
		{func(n *LaneAccount) { _ = n.Series[0].FromIntended.RecordValue(1) }, "samples from intended in intervals: 2, want 1"},
		{func(n *LaneAccount) { _ = n.Series[0].FromSent.RecordValue(1) }, "samples from sent in intervals: 2, want 1"},
		{func(n *LaneAccount) { n.LostUndeliverable, n.Undeliverable = 3, 2 }, "undeliverable: 3, but only 2 connections failed"},
		{func(n *LaneAccount) { n.Measured.EventMessages = 9 }, "events within the measured window: 9, there are 2 in all"},
		{func(n *LaneAccount) { n.Measured.EventBytes = -1 }, "event bytes within the measured window: -1, there are 200 in all"},
		{func(n *LaneAccount) { n.Measured.Received = 7 }, "events received within the measured window: 7, there are 1 in all"},
		{func(n *LaneAccount) { n.Measured.Active++ }, "active time within the measured window: 998000001, there are 998000000 in all"},
		{func(n *LaneAccount) { n.Received = 3 }, "events received, of all copies: 3, there are 2 in all"},
	} {
		checkDamaged(t, func(a *Account) { c.damage(&a.Lanes[0]) }, "lane push: "+c.want)
	}
	checkDamaged(t, func(a *Account) { a.Measured = Scheduled{Fired: 9, Accepted: 1, Uncertain: 2, Refused: 3, Pending: 4} },
		"measured events: 9 fired, but 1 accepted, 2 uncertain, 3 refused, 4 pending")
	checkDamaged(t, func(a *Account) { a.WarmUp.Fired++ }, "warm-up events: 1 fired, but 0 accepted")
}

// checkDamaged checks an account of one delivery and its duplicate, as it is and with a figure that was changed.
func checkDamaged(t *testing.T, damage func(a *Account), want string) {
	t.Helper()
	l := newTestLedger(t, Options{})
	script(t, l, eventmeter.Sub{}, up+"fire:1@3 ok:1@4 got:1@5 got:1@6")
	a := l.Account()
	if err := a.Check(); err != nil {
		t.Fatal(err)
	}
	damage(&a)
	if err := a.Check(); !errors.Is(err, ErrUnbalanced) || !strings.HasPrefix(err.Error(), ErrUnbalanced.Error()+": ") ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestNewLedgerErrors checks the options that are refused.
func TestNewLedgerErrors(t *testing.T) {
	t.Parallel()
	for name, opt := range map[string]Options{
		"0 sources": {},
		"negative":  {Sources: 1, LateAfter: -1},
		"at most":   {Sources: 1, Lanes: make([]LaneSpec, 65537)},
		"-1 subscr": {Sources: 1, Lanes: []LaneSpec{{Subscriptions: -1}}},
		`ledger: lane "a": subscription 0 is owed source 1: there are 1, from 0`: {
			Sources: 1,
			Lanes:   []LaneSpec{{Name: "a", Subscriptions: 1, Owed: func(int) []uint16 { return []uint16{1} }}},
		},
	} {
		if _, err := New(opt); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	l, err := New(Options{Sources: 1, Examples: -1})
	if err != nil || l.opt.Interval != time.Second || l.opt.Examples != 0 {
		t.Errorf("defaults: %+v, %v", l.opt, err)
	}
}

// about says whether v nanoseconds lie in the bucket of the given microseconds:
// three significant digits, and never finer than 512 ns.
func about(v, micros int64) bool {
	off := v - 1000*micros
	return max(off, -off) <= max(512, micros)
}
