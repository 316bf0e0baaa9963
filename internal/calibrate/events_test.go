package calibrate

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/settings"
	"github.com/eventmeter/eventmeter/loadgen/driver/events"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
)

// of is a webhook lane of MCP Events with some settings.
func of(client string, change func(w *settings.WebhookLane)) profiles.Lane {
	w := settings.WebhookOf(client)
	if change != nil {
		change(&w)
	}
	return profiles.Lane{System: "events", Mode: "webhook", Webhook: w}
}

// What the target and the sink are set to changes the plan of a subscription that hears
// eight measured events of ten.
func TestExpectedCountsOfSettings(t *testing.T) {
	clean := planned{expected: 8, delivered: 8}
	drop := func(w *settings.WebhookLane) {
		w.TTL, w.Answer = settings.TTLNone, []settings.WebhookAnswer{{Status: 503, Times: 1000}}
	}
	refused := planned{expected: 8, lostRefused: 8, gaps: 1}
	messages := profiles.Target{Embedded: profiles.Embedded{WebhookID: "message"}}
	for name, tt := range map[string]struct {
		lane             profiles.Lane
		target           profiles.Target
		spec             string
		over             eventmeter.Instant
		want             planned
		rejected, failed int64
		terminated       int64
	}{
		"dropped": {lane: of("", drop), target: profiles.Target{Embedded: profiles.Embedded{DropAfter: 1}},
			over: 555, want: planned{expected: 3, delivered: 8, requested: 3000, lossy: true, ended: true}, terminated: 1},
		"never dropped": {lane: of("", drop), want: planned{expected: 8, delivered: 8, requested: 8000}},
		"listed": {lane: of("", nil), target: profiles.Target{Embedded: profiles.Embedded{Proof: "allow-list",
			CallbackHosts: []string{"127.0.0.1"}}}, want: clean},
		"chatgpt":         {lane: of("chatgpt", nil), want: clean},
		"ids of messages": {lane: of("chatgpt", nil), target: messages, want: refused, rejected: 10},
		"ids, generic":    {lane: of("", nil), target: messages, want: clean},
		"before it":       {lane: of("ai-sdk", nil), spec: "early()", want: clean, rejected: 1},
		"before, generic": {lane: of("", nil), spec: "early()", want: planned{expected: 8, delivered: 8, early: 1}},
		"overflow": {
			lane:   profiles.Lane{System: "events", Mode: "push", Settings: &events.Settings{StallFor: time.Second}},
			target: profiles.Target{Embedded: profiles.Embedded{QueueLen: 8}}, want: planned{expected: 8, delivered: 8, lossy: true},
		},
	} {
		m := expectedFor(t, tt.spec, tt.lane, tt.target, tt.over)
		if got := m.subscription(0); got != tt.want {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, tt.want)
		}
		failed := int64(0)
		if m.refused(0) {
			failed = 1
		}
		if m.judged() != tt.rejected || failed != tt.failed || m.ended() != tt.terminated {
			t.Errorf("%s: %d rejected, %d failed, %d terminated", name, m.judged(), failed, m.ended())
		}
	}
}

// failing are the names of the checks that failed.
func failing(checks []Check) (names []string) {
	for _, c := range checks {
		if !c.Passed {
			names = append(names, c.Name)
		}
	}
	return names
}

// Each figure that settings have a plan for is changed in turn, and must be noticed.
func TestOneWrongFigureIsNoticed(t *testing.T) {
	for name, tt := range map[string]struct {
		lane   profiles.Lane
		target profiles.Target
		right  map[string]float64
		most   time.Duration
	}{
		"chatgpt": {lane: of("chatgpt", nil), right: map[string]float64{"refusedUnfit": 0}},
		"ids": {
			lane: of("ai-sdk", nil), target: profiles.Target{Embedded: profiles.Embedded{WebhookID: "message"}},
			right: map[string]float64{"refusedUnfit": 10, "refusedPending": 0},
		},
		"rotation": {
			lane:  of("", func(w *settings.WebhookLane) { w.ShareURL, w.RotateEvery = true, 1 }),
			right: map[string]float64{"unrouted": 0, "rotations": 1, "rejectedInRace": 0},
		},
		"no expiry": {lane: of("", func(w *settings.WebhookLane) { w.TTL = settings.TTLNone }), right: map[string]float64{"grantsWithoutEnd": 1}},
	} {
		m := expectedFor(t, "", tt.lane, tt.target, 0)
		if m.result.Figures = tt.right; len(failing(m.received())) > 0 {
			t.Errorf("%s: the right figures fail: %+v", name, m.received())
		}
		for figure := range tt.right {
			wrong := maps.Clone(tt.right)
			wrong[figure] -= 1
			if m.result.Figures = wrong; !slices.Equal(failing(m.received()), []string{figure}) {
				t.Errorf("%s: %s is wrong, and %v fail", name, figure, failing(m.received()))
			}
		}
	}
}

func TestExpectedOverflow(t *testing.T) {
	lane := profiles.Lane{System: "events", Mode: "push", Settings: &events.Settings{StallFor: time.Second}}
	target := profiles.Target{Embedded: profiles.Embedded{QueueLen: 8}}
	for name, tt := range map[string]struct {
		silent, announced, unknown, skipped int64
		told                                bool
		want                                []string
	}{
		"told":     {announced: 3, skipped: 3, told: true},
		"silent":   {silent: 3, skipped: 3, want: []string{"streams with a gap", "lostSilent", "losses beyond the target's", "losses announced"}},
		"at once":  {announced: 2, unknown: 1, skipped: 3, told: true},
		"too many": {announced: 4, skipped: 3, told: true, want: []string{"losses beyond the target's"}},
		"no loss":  {told: true, want: []string{"losses announced"}},
	} {
		m := expectedFor(t, "", lane, target, 0)
		m.applied.Overflow, m.result.LostSilent = tt.skipped, tt.silent
		m.result.LostAnnounced, m.result.LostOrderUnknown = tt.announced, tt.unknown
		if tt.told {
			m.gaps[0] = []eventmeter.Instant{1}
		}
		if got := failing(m.overflowed()); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v fail, want %v", name, got, tt.want)
		}
	}
}

// One delivery at a time: the second of two readers waits for the answer to the first.
func TestExpectedLatencyOfOneSender(t *testing.T) {
	m := expectedFor(t, "", of("", func(w *settings.WebhookLane) {
		w.Answer = []settings.WebhookAnswer{{Delay: 100 * time.Millisecond}}
	}), profiles.Target{Embedded: profiles.Embedded{Senders: 1}}, 0)
	m.settings.Subscriptions = 2
	for most, want := range map[results.Nanos]bool{98_900_000: false, 99_100_000: true} {
		m.result.Latency.FromIntended.Max = most
		if got := len(failing(m.serial())) == 0; got != want {
			t.Errorf("at most %d ns: %v", most, got)
		}
	}
}

// A page that was on its way to a client which ended is one less, and no two.
func TestExpectedPages(t *testing.T) {
	m := expectedFor(t, "mixscope()", profiles.Lane{System: "sep-2549", Mode: "poll"}, profiles.Target{}, 0)
	for got, want := range map[float64]bool{185: true, 184: true, 183: false, 186: false} {
		m.result.Figures = map[string]float64{"privatePages": got, "usesAbandoned": 1}
		if c := m.pages("privatePages", 185); c.Passed != want {
			t.Errorf("%v of 185: %+v", got, c)
		}
	}
}

// A webhook of the older revision that is refreshed learns that it was forgotten.
func TestForgottenWebhooksBeginAnew(t *testing.T) {
	for _, tt := range []struct {
		revision, mode, spec string
		want                 bool
	}{
		{"older", "push", "forget(at=1s)", true},
		{"older", "webhook", "forget(at=1s)", false},
		{"older", "webhook", "forget(at=1s); ttl(grant=4s)", true},
		{"older", "webhook", "ttl(grant=4s)", false},
		{"sep-3415", "webhook", "forget(at=1s); ttl(grant=4s)", false},
	} {
		m := expectedFor(t, tt.spec, profiles.Lane{System: "events", Mode: tt.mode}, profiles.Target{Revision: tt.revision}, 0)
		if got := m.beginsAnew(); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}
