package calibrate

import (
	"cmp"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// plannedFor is the plan for one subscription in a mode that hears source 0 of
// two, each of which fired eight measured emissions, one after the other.
func plannedFor(t *testing.T, system, mode, spec string) planned {
	t.Helper()
	return expectedFor(t, spec, profiles.Lane{System: system, Mode: mode}, profiles.Target{}, 0).subscription(0)
}

// expectedFor are the expected counts of a lane of one subscription that hears source 0,
// as for plannedFor. over is when it ended, 0 = never.
func expectedFor(t *testing.T, spec string, lane profiles.Lane, target profiles.Target, over eventmeter.Instant) *expectedCounts {
	t.Helper()
	mode := lane.Mode
	s, err := faults.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	record := newTape()
	for seq := uint32(1); seq <= 10; seq++ {
		for source := range uint16(2) {
			stamp := eventmeter.Stamp{Source: source, Seq: seq}
			record.Fired(eventmeter.Emission{Stamp: stamp, Fired: eventmeter.Instant(seq * 100), Measured: seq > 2})
			record.Resolved(stamp, eventmeter.Accepted, eventmeter.Instant(seq*100+10))
		}
		// Gaps are announced at once, but for the one of 10.
		if f, _ := s.Event(eventmeter.Mode(mode), eventmeter.Stamp{Seq: seq}); f.Kind == faults.Announce && seq < 10 {
			record.Noticed(eventmeter.Notice{Kind: eventmeter.Truncated, At: eventmeter.Instant(seq*100 + 20)})
		}
	}
	if over != 0 {
		record.Noticed(eventmeter.Notice{Kind: eventmeter.Terminated, At: over})
	}
	lane.Name, lane.Subscriptions, lane.Sources = "a", 1, "0"
	p := &profiles.Profile{Lanes: []profiles.Lane{lane}, Upstream: profiles.Upstream{Sources: 2}, Target: target}
	m, err := newExpectedCounts(p, 0, calibrations[lane.System], s, record)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestExpectedCounts(t *testing.T) {
	clean := planned{expected: 8, delivered: 8}
	for _, tt := range []struct {
		mode, spec string
		want       planned
		system     string // "" = events
	}{
		{"push", "", clean, ""},
		{"push", "drop(every=4)", planned{expected: 8, delivered: 6, lostSilent: 2, gaps: 2},
			""}, // 4, 8
		{"push", "drop(every=1, from=2, to=4)", planned{expected: 8, delivered: 6, lostSilent: 2, gaps: 1},
			""}, // 2 is of the warm-up
		{"push", "announce(every=4); drop(every=1, from=7, to=9)",
			planned{expected: 8, delivered: 4, lostAnnounced: 3, lostSilent: 1,
				gaps: 2}, ""}, // 8 announces 7, and was read before 9
		{"webhook", "announce(every=4); drop(every=1, from=7, to=9)",
			planned{expected: 8, delivered: 4, lostOrderUnknown: 3, lostSilent: 1, gaps: 2}, ""},
		{"push", "announce(every=10); drop(every=1, from=8, to=9)", planned{expected: 8, delivered: 5, lostAnnounced: 3, gaps: 1}, ""},
		{"push", "duplicate(every=5)", planned{expected: 8, delivered: 8, sameEvent: 2}, ""},
		{"push", "reid(every=5)", planned{expected: 8, delivered: 8, sameEmission: 2}, ""},
		{"push", "reorder(every=5, by=2)", planned{expected: 8, delivered: 8, outOfOrder: 1}, ""}, // nothing comes after 10
		{"push", "misdeliver(every=5)", planned{expected: 8, delivered: 8, unexpected: 2}, ""},
		{"push", "malformed(every=5)", planned{expected: 8, delivered: 6, lostSilent: 2, gaps: 2}, ""},
		{"webhook", "malformed(every=5)", clean, ""},
		{"push", "cut(every=5, replay=true)", clean, ""},
		{"push", "cut(every=5, replay=false)", planned{expected: 8, delivered: 6, lostSilent: 2, gaps: 2}, ""},
		{"poll", "cut(every=5, replay=false)", clean, ""},
		{"push", "repeat(every=5)", clean, ""},
		{"push", "trouble(every=5)", clean, ""},
		{"poll", "revoke(at=1h)", planned{expected: 8, delivered: 8, lossy: true, ended: true}, ""},
		{"push", "withdraw(at=550ns)", planned{expected: 4, delivered: 8, lossy: true, ended: true}, ""},
		{"webhook", "repeat(every=5)", planned{expected: 8, delivered: 8, sameEvent: 2}, ""},
		{"webhook", "noretry(); signature(every=4, sign=wrong); drop(every=1, from=9, to=9)",
			planned{expected: 8, delivered: 5, lostRefused: 2, lostSilent: 1, gaps: 2}, ""}, // 4; 8 and 9
		{"webhook", "early()", planned{expected: 8, delivered: 8, early: 1}, ""},
		{"poll", "refuse(code=-32012, every=1)", planned{}, ""},
		{"push", "drop(every=4, mode=poll)", clean, ""},
		{"webhook", "duplicate(every=5)", planned{expected: 8, delivered: 8, sameEvent: 2}, "smithery"},
		{"webhook", "early()", clean, "sep-1803"}, // it has a figure of its own
		{"push", "duplicate(every=5)", planned{expected: 8, delivered: 8, sameEmission: 2}, "sep-1803"},
		{"push", "cut(every=5, replay=false)", planned{expected: 8, delivered: 6, lostSilent: 2, gaps: 2, lossy: true}, "sep-1803"},
		{"push", "drop(every=1)", planned{}, "sep-975"},
		{"poll", "stale(every=1, from=8)", planned{expected: 8, delivered: 5, lostSilent: 3, gaps: 1}, "sep-2549"},
		{"poll", "stale(every=5, offset=3)", clean, "sep-2549"},
	} {
		if got := plannedFor(t, cmp.Or(tt.system, "events"), tt.mode, tt.spec); got != tt.want {
			t.Errorf("%s %s:\n got %+v\nwant %+v", tt.mode, tt.spec, got, tt.want)
		}
	}
}

func TestTapeSeesWhatIsUnsound(t *testing.T) {
	first, second := eventmeter.Stamp{Source: 1, Seq: 1}, eventmeter.Stamp{Source: 1, Seq: 2}
	for name, tt := range map[string]struct {
		acked   eventmeter.Instant
		outcome eventmeter.Outcome
		order   bool
		want    bool
	}{
		"apart":           {19, eventmeter.Accepted, true, false},
		"touching":        {20, eventmeter.Accepted, true, true},
		"in any order":    {20, eventmeter.Accepted, false, false},
		"uncertain":       {19, eventmeter.Uncertain, true, true},
		"uncertain alone": {19, eventmeter.Uncertain, false, true},
	} {
		record := newTape()
		record.Fired(eventmeter.Emission{Stamp: first, Fired: 10})
		record.Fired(eventmeter.Emission{Stamp: second, Fired: 20})
		record.Resolved(first, tt.outcome, tt.acked)
		record.Resolved(second, eventmeter.Accepted, 30)
		if got := record.unsound(tt.order, func(eventmeter.Stamp) bool { return false }); (got != "") != tt.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestTapeSeesALateWarmUp(t *testing.T) {
	for late, measured := range map[bool][2]bool{false: {false, true}, true: {true, false}} {
		record := newTape()
		for i, m := range measured {
			stamp := eventmeter.Stamp{Source: 1, Seq: uint32(i + 1)}
			record.Fired(eventmeter.Emission{Stamp: stamp, Fired: eventmeter.Instant(10 * i), Measured: m})
			record.Resolved(stamp, eventmeter.Accepted, eventmeter.Instant(10*i+5))
		}
		if got := record.unsound(false, nil); (got != "") != late {
			t.Errorf("late %v: %q", late, got)
		}
	}
}

// An event that swaps places with the next one must meet one of another source:
// two of its own would come in the wrong order, which the plan does not say.
func TestTapeSeesWhatSwapsWithItsOwnSource(t *testing.T) {
	for name, tt := range map[string]struct {
		fired, acked eventmeter.Instant
		swaps, want  bool
	}{
		"another source between": {13, 17, true, false},
		"begun before":           {11, 17, true, true},
		"over too late":          {13, 20, true, true},
		"after both":             {31, 32, true, true},
		"not swapped":            {31, 32, false, false},
	} {
		record := newTape()
		for _, e := range []struct {
			stamp        eventmeter.Stamp
			fired, acked eventmeter.Instant
		}{
			{eventmeter.Stamp{Source: 1, Seq: 1}, 10, 12},
			{eventmeter.Stamp{Source: 2, Seq: 1}, tt.fired, tt.acked},
			{eventmeter.Stamp{Source: 1, Seq: 2}, 20, 30},
		} {
			record.Fired(eventmeter.Emission{Stamp: e.stamp, Fired: e.fired})
			record.Resolved(e.stamp, eventmeter.Accepted, e.acked)
		}
		swaps := func(s eventmeter.Stamp) bool { return tt.swaps && s.Source == 1 }
		if got := record.unsound(true, swaps); (got != "") != tt.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestOneWrongCountIsNoticed changes each count of a ledger that is right, one
// at a time: the comparison must fail every time.
func TestOneWrongCountIsNoticed(t *testing.T) {
	plan := plannedFor(t, "events", "push", "drop(every=4)")
	right := ledger.SubCounts{Expected: 8, Delivered: 6, LostSilent: 2, GapIncidents: 2}
	failures := func(c ledger.SubCounts) (names []string) {
		for _, check := range plan.against(&c, eventmeter.Push) {
			if !check.Passed {
				names = append(names, check.Name)
			}
		}
		return names
	}
	if got := failures(right); len(got) != 0 {
		t.Fatalf("the right counts fail: %v", got)
	}
	for name, change := range map[string]func(*ledger.SubCounts){
		"expected":                func(c *ledger.SubCounts) { c.Expected++ },
		"delivered":               func(c *ledger.SubCounts) { c.Delivered-- },
		"lostSilent":              func(c *ledger.SubCounts) { c.LostSilent-- },
		"lostAnnounced":           func(c *ledger.SubCounts) { c.LostAnnounced++ },
		"lostOrderUnknown":        func(c *ledger.SubCounts) { c.LostOrderUnknown++ },
		"lostRefused":             func(c *ledger.SubCounts) { c.LostRefused++ },
		"lostUndeliverable":       func(c *ledger.SubCounts) { c.LostUndeliverable++ },
		"lostSuspended":           func(c *ledger.SubCounts) { c.LostSuspended++ },
		"duplicates.sameEvent":    func(c *ledger.SubCounts) { c.Duplicates.SameEvent++ },
		"duplicates.sameEmission": func(c *ledger.SubCounts) { c.Duplicates.SameEmission++ },
		"duplicates.requested":    func(c *ledger.SubCounts) { c.Duplicates.Requested++ },
		"outOfOrder":              func(c *ledger.SubCounts) { c.OutOfOrder++ },
		"unexpected":              func(c *ledger.SubCounts) { c.Unexpected.Stale++ },
		"unprobed":                func(c *ledger.SubCounts) { c.Unprobed++ },
		"recovered":               func(c *ledger.SubCounts) { c.Recovered++ },
		"gaps.incidents":          func(c *ledger.SubCounts) { c.GapIncidents++ },
		"gaps.falseAlarms":        func(c *ledger.SubCounts) { c.FalseAlarms++ },
	} {
		wrong := right
		change(&wrong)
		if got := strings.Join(failures(wrong), " "); !strings.Contains(got, name) {
			t.Errorf("%s: only %q was noticed", name, got)
		}
	}
	// A loss that is moved from one kind to the other keeps the sum right.
	moved := right
	moved.LostSilent, moved.LostAnnounced = 1, 1
	if len(failures(moved)) != 2 {
		t.Errorf("a moved loss: %v", failures(moved))
	}
}

// TestForecastOfRefusals holds the plan of refusals to counts made by hand:
// four subscriptions are opened one after the other, and a request that meets
// no room is made again.
func TestExpectedCountsOfRefusals(t *testing.T) {
	for _, c := range []struct {
		fault   string
		refused []bool // for good, by subscription
		again   int64
	}{
		{"refuse(code=-32602, every=2)", []bool{false, true, false, true}, 0},
		{"refuse(code=-32013, every=2)", []bool{false, false, false, false}, 3}, // requests 2, 4 and 6
		{"refuse(code=-32025, every=2)", []bool{false, false, false, false}, 3},
		{"refuse(code=-32025, every=3)", []bool{false, false, false, false}, 1}, // request 3
		{"refuse(code=-32025, every=5)", []bool{false, false, false, false}, 0},
		{"refuse(code=-32013, every=1)", []bool{true, true, true, true}, 0},
		{"drop(every=2)", []bool{false, false, false, false}, 0},
	} {
		spec, err := faults.Parse(c.fault)
		if err != nil {
			t.Fatal(err)
		}
		m := &expectedCounts{spec: spec, mode: eventmeter.Push, settings: profiles.Lane{Subscriptions: len(c.refused)}}
		if got := m.askedAgain(); got != c.again {
			t.Errorf("%s: %d requests are made again, want %d", c.fault, got, c.again)
		}
		for i, want := range c.refused {
			if got := m.refused(i); got != want {
				t.Errorf("%s: subscription %d refused: %v", c.fault, i, got)
			}
		}
	}
}
