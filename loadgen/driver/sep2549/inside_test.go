package sep2549

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// One client, ten uses a second, a time to live of a second: the copy is
// fetched by the first use after it, eleven uses after the one before.
func TestListTimeToLive(t *testing.T) {
	s := &scriptedLists{ttl: time.Second}
	f := bubble(t, 1, Settings{Cache: true, Use: 10}, s, func(d *lane, _ func()) { time.Sleep(11*time.Second + 50*time.Millisecond) })
	for i := 2; i < len(s.asked); i++ {
		if gap := s.asked[i] - s.asked[i-1]; gap < time.Second || gap > 1100*time.Millisecond {
			t.Errorf("fetched %v after the one before", gap)
		}
	}
	v := f.Values
	if n := v["fetchesExpired"]; n != 10 && n != 11 {
		t.Errorf("%v fetches", n)
	}
	if v["uses"] != v["usesServed"] || v["uses"] < 110 || v["uses"] > 111 || v["usesMissed"] != 0 {
		t.Errorf("uses %v, served %v, missed %v", v["uses"], v["usesServed"], v["usesMissed"])
	}
	expect(t, f, map[string]float64{"fetchesFirst": 1, "ttlMs": 1000, "changesOwed": 0, "fetchesFailed": 0})
}

// A list whose entries come in another order each time is counted; one that keeps its order
// is not.
func TestListOrder(t *testing.T) {
	for _, random := range []bool{false, true} {
		f := bubble(t, 1, Settings{Cache: true, Use: 10}, &scriptedLists{ttl: time.Second, random: random}, func(_ *lane, change func()) {
			change()
			time.Sleep(11*time.Second + 50*time.Millisecond)
		})
		want := 0.0
		if random {
			want = f.Values["fetchesExpired"]
		}
		if got, ok := f.Values["reordered"]; got != want || !ok {
			t.Errorf("random %t: reordered %v, want %v (%v)", random, got, want, f.Values)
		}
	}
}

// With jitter a copy goes early, never late.
func TestListJitter(t *testing.T) {
	s := &scriptedLists{ttl: time.Second}
	bubble(t, 1, Settings{Cache: true, Use: 1000, Jitter: 0.5}, s, func(*lane, func()) { time.Sleep(30 * time.Second) })
	early := 0
	for i := 2; i < len(s.asked); i++ {
		gap := s.asked[i] - s.asked[i-1]
		if gap < 500*time.Millisecond || gap > 1002*time.Millisecond {
			t.Errorf("fetched %v after the one before", gap)
		}
		if gap < 900*time.Millisecond {
			early++
		}
	}
	if early == 0 {
		t.Error("jitter has no effect")
	}
}

// A client learns of a change when its copy is replaced; of those in between
// it learns that they were.
func TestListStaleness(t *testing.T) {
	s := &scriptedLists{ttl: 10 * time.Second}
	f := bubble(t, 1, Settings{Cache: true, Use: 10}, s, func(_ *lane, change func()) {
		time.Sleep(2 * time.Second)
		change()
		time.Sleep(3 * time.Second)
		change()
		time.Sleep(6 * time.Second) // the copy is replaced a little after 10 s
		change()
		time.Sleep(time.Second)
	})
	expect(t, f, map[string]float64{"changesOwed": 3, "changesSeen": 1, "changesSuperseded": 1, "changesNeverSeen": 1, "fetchesExpired": 1})
	h := f.Timings["staleness"].Histogram
	if low, high := time.Duration(
		h.Min(),
	), time.Duration(
		h.Max(),
	); h.TotalCount() != 2 || low < 4900*time.Millisecond || low > 5200*time.Millisecond || high < 7900*time.Millisecond ||
		high > 8200*time.Millisecond {
		t.Errorf("staleness %d times, %v to %v", h.TotalCount(), low, high)
	}
}

// A notification makes a copy stale at once; it is fetched with the next use,
// and once, though two changes came.
func TestListNotification(t *testing.T) {
	s := &scriptedLists{ttl: time.Hour}
	f := bubble(t, 1, Settings{Cache: true, Use: 1, Notifications: true}, s, func(_ *lane, change func()) {
		time.Sleep(5 * time.Second)
		change()
		time.Sleep(20 * time.Millisecond) // the target's read delay
		s.tell <- "notifications/tools/list_changed"
		change()
		s.tell <- "notifications/prompts/list_changed"
		time.Sleep(5 * time.Second)
	})
	expect(t, f, map[string]float64{
		"changesOwed":          2,
		"changesSeen":          1,
		"changesSuperseded":    1,
		"fetchesChanged":       1,
		"fetchesExpired":       0,
		"changesNotified":      1,
		"otherChangesNotified": 1,
	})
	if h := f.Timings["invalidation"].Histogram; h.TotalCount() < 1 || time.Duration(h.Max()) < 19*time.Millisecond ||
		time.Duration(h.Max()) > 21*time.Millisecond {
		t.Errorf("invalidation %d times, at most %v", h.TotalCount(), time.Duration(h.Max()))
	}
	if h := f.Timings["staleness"].Histogram; time.Duration(h.Max()) > 1100*time.Millisecond {
		t.Errorf("staleness %v", time.Duration(h.Max()))
	}
}

// A copy is stale from the moment that the kernel received the notification, not
// from when this program read it.
func TestListNotificationByTheKernelsClock(t *testing.T) {
	s := &scriptedLists{ttl: time.Hour, waited: 15 * time.Millisecond}
	f := bubble(t, 1, Settings{Use: 1, Notifications: true}, s, func(_ *lane, change func()) {
		time.Sleep(5 * time.Second)
		change()
		time.Sleep(20 * time.Millisecond)
		s.tell <- "notifications/tools/list_changed"
		time.Sleep(5 * time.Second)
	})
	if h := f.Timings["invalidation"].Histogram; h.TotalCount() != 1 || time.Duration(h.Max()) < 4*time.Millisecond ||
		time.Duration(h.Max()) > 6*time.Millisecond {
		t.Errorf("invalidation %d times, at most %v", h.TotalCount(), time.Duration(h.Max()))
	}
}

// A notification that comes while the answer is on its way makes it stale: it
// may be older than the change.
func TestListNotificationDuringFetch(t *testing.T) {
	s := &scriptedLists{ttl: time.Hour, took: 400 * time.Millisecond}
	f := bubble(t, 1, Settings{Cache: true, Use: 1, Notifications: true}, s, func(_ *lane, change func()) {
		s.tell <- "notifications/tools/list_changed"
		for n := 0; n < 2; { // wait for the fetch that follows
			time.Sleep(10 * time.Millisecond)
			s.set(func() { n = len(s.asked) })
		}
		change()
		s.tell <- "notifications/tools/list_changed"
		time.Sleep(5 * time.Second)
	})
	expect(t, f, map[string]float64{"changesOwed": 1, "changesSeen": 1, "fetchesChanged": 2})
}

// When fetching fails, the stale copy is used, if that is wished.
func TestListStaleOnError(t *testing.T) {
	for _, on := range []bool{true, false} {
		s := &scriptedLists{ttl: time.Second}
		f := bubble(t, 1, Settings{Cache: true, Use: 1, StaleOnError: on}, s, func(*lane, func()) {
			time.Sleep(3500 * time.Millisecond)
			s.set(func() { s.broken = true })
			time.Sleep(4 * time.Second)
			s.set(func() { s.broken = false })
			time.Sleep(3 * time.Second)
		})
		v := f.Values
		if v["fetchesFailed"] < 3 || on != (v["servedStale"] == v["fetchesFailed"]) || on != (v["usesFailed"] == 0) {
			t.Errorf("stale on error %t: %v", on, v)
		}
	}
}

// A slow target makes clients miss uses, not make them late.
func TestListSlowTarget(t *testing.T) {
	s := &scriptedLists{ttl: 0, took: 350 * time.Millisecond}
	f := bubble(t, 1, Settings{Cache: true, Use: 10}, s, func(*lane, func()) { time.Sleep(40 * time.Second) })
	v := f.Values
	if v["uses"]+v["usesMissed"] < 398 || v["uses"]+v["usesMissed"] > 402 || v["uses"] > 102 || v["uses"] < 98 {
		t.Errorf("uses %v, missed %v", v["uses"], v["usesMissed"])
	}
	expect(t, f, map[string]float64{"fetchesAvoided": 0, "fetchesExpired": 0})
}

// In the background copies are replaced before they are stale, at different
// times, and only while somebody uses them.
func TestListBackground(t *testing.T) {
	s := &scriptedLists{ttl: 10 * time.Second}
	f := bubble(t, 4, Settings{Cache: true, Use: 2, Background: true, Jitter: 0.5}, s, func(*lane, func()) { time.Sleep(60 * time.Second) })
	expect(t, f, map[string]float64{"fetchesFirst": 4, "fetchesExpired": 0, "fetchesChanged": 0})
	if n := f.Values["fetchesBackground"]; n < 4*6 || n > 4*12 {
		t.Errorf("%v background refreshes in six lives of four copies", n)
	}
	idle := bubble(
		t,
		1,
		Settings{Cache: true, Use: 0.01, Background: true, Jitter: 0.5},
		&scriptedLists{ttl: time.Second},
		func(*lane, func()) { time.Sleep(30 * time.Second) },
	)
	if n := idle.Values["fetchesBackground"]; n > 1 {
		t.Errorf("%v refreshes of a copy that nobody used", n)
	}
}

// Copies that came together go together: without jitter all clients fetch
// within one use of each other, and sharing makes one fetch of them.
func TestListHerd(t *testing.T) {
	const clients = 40
	run := func(set Settings) driver.Figures {
		set.Use = 20
		return bubble(t, clients, set, &scriptedLists{ttl: 5 * time.Second}, func(*lane, func()) { time.Sleep(31 * time.Second) })
	}
	plain, spread, shared := run(Settings{Cache: true}), run(Settings{Cache: true, Jitter: 0.9}), run(Settings{Cache: true, Shared: true})
	if a, b := plain.Values["herdExpired"], spread.Values["herdExpired"]; a < 2*b {
		t.Errorf("herd factor %v without jitter, %v with", a, b)
	}
	if n := plain.Values["fetchesExpired"]; n < 6*clients-clients || n > 6*clients {
		t.Errorf("%v fetches", n)
	}
	expect(t, shared, map[string]float64{"fetchesFirst": 1})
	if n := shared.Values["fetchesExpired"]; n < 5 || n > 6 {
		t.Errorf("%v fetches of one copy", n)
	}
}

func TestHerd(t *testing.T) {
	at := func(ms int64) eventmeter.Instant { return eventmeter.Instant(ms * int64(time.Millisecond)) }
	factor, rate := herd(map[int64]int64{0: 6, 3: 2, 99: 50}, at(0), at(399))
	if factor != 3 || rate != 60 { // 8 in 4 bins
		t.Errorf("factor %v, rate %v", factor, rate)
	}
	if factor, _ := herd(nil, at(0), at(399)); factor != 0 {
		t.Errorf("factor %v of nothing", factor)
	}
}

func TestStampsIn(t *testing.T) {
	a, b, c := eventmeter.Stamp{
		Run:    1,
		Source: 2,
		Seq:    3,
	}, eventmeter.Stamp{
		Run:    1,
		Source: 2,
		Seq:    9,
	}, eventmeter.Stamp{
		Run:    1,
		Source: 1,
		Seq:    4,
	}
	got := driver.StampsIn([]byte("evtm- " + a.String() + b.String() + " evtm-evtm- " + c.String() + a.String() + " evtm-0000"))
	if len(got) != 2 || got[0] != c || got[1] != b {
		t.Errorf("found %v", got)
	}
}

// Private copies are their principal's alone, and public ones everybody's.
func TestCacheScopes(t *testing.T) {
	d := &lane{set: Settings{Cache: true}}
	d.Caller = mcpclient.Caller{Clock: eventmeter.NewClock()}
	c := newCache(d.Clock, d.set, rand.New(rand.NewPCG(d.Opts.Seed, 1)))
	const second = eventmeter.Instant(time.Second)
	keep := func(principal int, key string, public bool) {
		f, first := c.join(principal, key)
		if !first {
			t.Fatal("somebody is at it")
		}
		c.land(f, 1, second, &keptPage{key: key, public: public, ttl: time.Second}, nil)
	}
	state := func(principal int, key string, now eventmeter.Instant) freshness {
		_, s := c.look(principal, key, now)
		return s
	}
	keep(0, "mine", false)
	keep(0, "ours", true)
	for i, x := range []struct {
		principal int
		key       string
		now       eventmeter.Instant
		want      freshness
	}{
		{0, "mine", second, fresh}, {1, "mine", second, missing}, {0, "ours", second, fresh}, {1, "ours", second, fresh},
		{0, "mine", 2*second - 1, fresh}, {0, "mine", 2 * second, expired}, {1, "ours", 2 * second, expired},
	} {
		if got := state(x.principal, x.key, x.now); got != x.want {
			t.Errorf("%d: %d, want %d", i, got, x.want)
		}
	}
	// What was public and comes back private is nobody else's any more.
	keep(0, "ours", false)
	if got := state(1, "ours", second); got != missing {
		t.Errorf("a private copy is shown to another: %d", got)
	}
	// A private page that two principals fetch is fetched by each.
	if _, first := c.join(0, "ours"); !first {
		t.Error("the first waits")
	}
	if _, first := c.join(1, "ours"); !first {
		t.Error("one principal waits for another's private page")
	}
	keep(0, "told", true)
	c.invalidate(1, false, second)
	if got := state(1, "told", second); got != fresh {
		t.Errorf("one principal's notification spoils everybody's copy: %d", got)
	}
	c.invalidate(1, true, second)
	if got := state(0, "told", second); got != changed {
		t.Errorf("after a notification: %d", got)
	}
	c.discard(0)
	if got := state(0, "mine", second); got != missing {
		t.Errorf("after discarding: %d", got)
	}
}

// A server may give a page another cursor each time. What is kept of them does
// not grow with the uses.
func TestNewCursorsDoNotAddUp(t *testing.T) {
	d := &lane{set: Settings{Cache: true}}
	d.Caller = mcpclient.Caller{Clock: eventmeter.NewClock(), Recorder: eventmeter.Tee()}
	kept := newCache(d.Clock, d.set, rand.New(rand.NewPCG(d.Opts.Seed, 1)))
	c := &client{cache: kept, known: map[uint64]uint32{}, looked: map[string]uint64{}}
	for n := range uint64(1000) {
		var pages []*keptPage
		for _, key := range []string{"", fmt.Sprint("second", n), fmt.Sprint("third", n)} {
			f, _ := kept.join(0, key)
			p := &keptPage{key: key, number: n, ttl: time.Second}
			kept.land(f, 1, 2, p, nil)
			pages = append(pages, p)
		}
		kept.trim(0, pages)
		d.sight(c, pages, 3)
	}
	const most = 3 * (2*3 + 8)
	for what, n := range map[string]int{
		"copies": len(kept.private[0]), "owned": len(kept.owned), "looked": len(c.looked), "flights": len(kept.flights),
	} {
		if n > most {
			t.Errorf("%s: %d after 1000 uses", what, n)
		}
	}
}

// A page without a time to live is stale at once, and counted.
func TestListWithoutHints(t *testing.T) {
	s := &scriptedLists{ttl: time.Second, bare: true}
	f := bubble(t, 1, Settings{Cache: true, Use: 10}, s, func(*lane, func()) { time.Sleep(1050 * time.Millisecond) })
	if n := float64(len(s.asked)); n < 10 || f.Values["ttlMissing"] != n {
		t.Errorf("%v of %v pages had no time to live", f.Values["ttlMissing"], n)
	}
	expect(t, f, map[string]float64{"fetchesAvoided": 0, "ttlMs": 0, "scopesMixed": 0})
}
