package events_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/internal/refserver/breach"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/driver/events"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
)

// planted is a row that the reference server breaks, and a lane that sees it.
type planted struct {
	row    string
	modes  []eventmeter.Mode
	every  int    // breaks each such occasion; 0 = all
	beside string // other faults, which make the occasion; crowd, if not "", in place of it under load
	crowd  string
	lane   func(*driver.Options)
	server func(*refserver.Options)
	before int  // events that are published before the lane attaches
	events int  // events after that at most; 0 = until the row is broken
	fails  bool // subscriptions may be refused
	ends   bool // the end of the subscriptions breaks it
	closes bool // the end of the server breaks it
	slow   bool // the row is about more than 10 s
	load   bool // what load is likely to break, and is planted under load, too
	few    bool // the occasion comes while few subscriptions are open
}

var (
	poll    = []eventmeter.Mode{eventmeter.Poll}
	push    = []eventmeter.Mode{eventmeter.Push}
	webhook = []eventmeter.Mode{eventmeter.Webhook}
	all     = []eventmeter.Mode{eventmeter.Poll, eventmeter.Push, eventmeter.Webhook}
	notPoll = []eventmeter.Mode{eventmeter.Push, eventmeter.Webhook}
)

// refreshed is a lane with many refreshes, at each of which its secret changes every
// rotate times.
func refreshed(ttl string, rotate int) func(*driver.Options) {
	return func(o *driver.Options) { o.Webhook.TTL, o.Webhook.RefreshAt, o.Webhook.RotateEvery = ttl, 0.2, rotate }
}

func answering(a driver.Answer) func(*driver.Options) {
	return func(o *driver.Options) { o.Webhook.Answer = []driver.Answer{a} }
}

func quickHeartbeat(o *driver.Options) { o.Push.Heartbeat = 500 * time.Millisecond }

var plantings = []planted{
	{row: "capability-events-object", modes: all},
	{row: "capability-list-changed-flag", modes: all},
	{
		row:    "capability-list-changed-gated",
		modes:  push,
		lane:   func(o *driver.Options) { o.Settings = events.Settings{Listen: true} },
		server: func(o *refserver.Options) { o.TypesEvery = 20 * time.Millisecond },
	},
	{row: "fallback-method-not-found", modes: all, fails: true},
	{row: "list-implemented", modes: all, load: true},
	{row: "list-pagination", modes: all, load: true},
	{row: "descriptor-name", modes: poll},
	{row: "descriptor-description", modes: poll},
	{row: "descriptor-delivery-subset", modes: poll},
	{row: "descriptor-input-schema", modes: poll},
	{row: "descriptor-payload-schema", modes: poll},
	{row: "descriptor-meta", modes: poll},
	{row: "removal-error-not-found", modes: notPoll, beside: "withdraw(at=1ms)"},
	{row: "removal-error-schema-changed", modes: notPoll, beside: "change(at=1ms)"},
	{row: "error-not-found", modes: all, beside: "refuse(code=-32023, every=1)", fails: true},
	{row: "error-forbidden", modes: all, beside: "refuse(code=-32024, every=1)", fails: true},
	{
		row:    "error-resource-exhausted",
		modes:  all,
		beside: "refuse(code=-32025, every=2)",
		crowd:  "refuse(code=-32025, every=10)",
		load:   true,
	},
	{row: "error-unsupported", modes: notPoll, beside: "change(at=1ms)"},
	{
		row:   "error-callback-endpoint-error",
		modes: webhook,
		lane:  answering(driver.Answer{Challenge: true, Times: 9}),
		fails: true,
		load:  true,
	},
	{row: "error-server-range", modes: all, beside: "refuse(code=-32024, every=1)", fails: true},

	{row: "poll-implemented", modes: poll, every: 5, fails: true},
	{row: "poll-events-array", modes: poll},
	{row: "poll-response-cursor", modes: poll, every: 2},
	{row: "poll-next-poll-ms", modes: poll, load: true},
	{row: "poll-has-more", modes: poll, events: 1, load: true}, // where nothing came
	{
		row:   "poll-max-events-cap",
		modes: poll,
		lane:  func(o *driver.Options) { o.Poll.MaxEvents = 1; o.Poll.MinInterval = 50 * time.Millisecond },
		load:  true,
	},
	{row: "poll-errors-are-jsonrpc", modes: poll, every: 5, fails: true, load: true},
	{row: "occurrence-event-id", modes: all},
	{row: "occurrence-name", modes: all},
	{row: "occurrence-timestamp", modes: all},
	{row: "occurrence-data", modes: all},
	{row: "occurrence-cursor-optional", modes: all},
	{row: "cursor-opaque", modes: notPoll},
	{row: "cursor-null-starts-from-now", modes: poll, before: 3, load: true},
	{row: "cursor-consistency", modes: all, every: 2, load: true},
	{row: "max-age-ms-ignored-when-cursor-null", modes: poll, before: 3, lane: func(o *driver.Options) { o.MaxAge = time.Hour }},
	{
		row:    "truncated-returns-fresh-cursor",
		modes:  []eventmeter.Mode{eventmeter.Poll, eventmeter.Push},
		beside: "announce(every=3)",
		load:   true,
	},
	{
		row:    "truncated-false-when-no-replay",
		modes:  push,
		server: func(o *refserver.Options) { o.Presence = true },
		lane:   func(o *driver.Options) { o.Event, o.Arguments = "presence.changed", nil },
	},

	{row: "stream-implemented", modes: push, every: 2, fails: true},
	{row: "stream-error-before-open", modes: push, every: 2, fails: true},
	{row: "stream-active-confirmation", modes: push, load: true},
	{row: "stream-subscription-id-meta", modes: push, load: true},
	{row: "stream-event-notification", modes: push},
	{row: "stream-error-is-recoverable", modes: push, beside: "trouble(every=3)", every: 2},
	{row: "stream-gap-resends-active", modes: push, beside: "announce(every=3)", load: true},
	{row: "stream-heartbeat-required", modes: push, lane: quickHeartbeat, events: 1, load: true},
	{row: "stream-heartbeat-carries-cursor", modes: push},
	{
		row:    "stream-heartbeat-interval",
		modes:  push,
		events: 1,
		lane:   func(o *driver.Options) { o.Push.Heartbeat = 30 * time.Second },
		slow:   true,
	},
	{row: "stream-heartbeat-not-sse-comment", modes: push, lane: quickHeartbeat, events: 1, load: true},
	{row: "stream-final-result-shape", modes: push, closes: true},
	{row: "stream-exempt-from-concurrency-cap", modes: push, every: 2, fails: true, load: true},
	{row: "stream-carries-only-event-notifications", modes: push},

	{row: "subscribe-auth-required", modes: webhook, lane: func(o *driver.Options) { o.Settings = events.Settings{Anonymous: true} }},
	{row: "subscribe-id-derived", modes: webhook},
	{row: "subscribe-refresh-replaces-secret", modes: webhook, lane: refreshed("40s", 1), slow: true},
	{row: "subscribe-response-cursor", modes: webhook, load: true},
	{row: "subscribe-response-truncated", modes: webhook},
	{row: "ttl-refresh-before-lte-suggestion", modes: webhook, lane: refreshed("10m", 0)},
	{row: "ttl-null-only-when-requested", modes: webhook},
	{row: "ttl-omitted-means-default", modes: webhook},
	{row: "unsubscribe-by-key", modes: webhook, ends: true, load: true},
	{row: "delivery-status-last-error-category", modes: webhook, lane: refreshed("1s", 0)},
	{row: "delivery-post-json", modes: webhook},
	{row: "delivery-standard-webhooks-headers", modes: webhook, every: 2},
	{row: "delivery-subscription-id-header", modes: webhook},
	{row: "delivery-signature-formula", modes: webhook, every: 2},
	{
		row:    "delivery-retry-regenerates-signature",
		modes:  webhook,
		events: 1,
		lane:   answering(driver.Answer{Status: 500}),
		server: func(o *refserver.Options) { o.RetryBase = 4 * time.Second },
		load:   true,
	},
	{row: "delivery-dual-sign-on-rotation", modes: webhook, lane: refreshed("4s", 1), load: true},
	{row: "delivery-body-size", modes: webhook},
	{row: "delivery-413-non-retryable", modes: webhook, lane: answering(driver.Answer{Status: 413})},
	{row: "delivery-410-non-retryable", modes: webhook, lane: answering(driver.Answer{Status: 410}), load: true},
	{row: "ssrf-no-redirects", modes: webhook, lane: answering(driver.Answer{Status: 307})},
	{row: "verification-required-before-delivery", modes: webhook, load: true},
	{row: "verification-challenge-echo", modes: webhook, lane: answering(driver.Answer{Challenge: true, Times: 9}), load: true, few: true},
	{row: "verification-failure-error", modes: webhook, lane: answering(driver.Answer{Challenge: true, Times: 9}), fails: true},
	{row: "verification-cached-per-principal-url", modes: webhook, lane: refreshed("4s", 0), load: true},
	{row: "envelope-type-discriminator", modes: webhook},
	{row: "envelope-signed-like-deliveries", modes: webhook, beside: "announce(every=3)", every: 2},
	{row: "envelope-webhook-id-format", modes: webhook, beside: "announce(every=3)"},
	{row: "envelope-gap", modes: webhook, beside: "announce(every=3)", load: true},
	{row: "envelope-terminated", modes: webhook, beside: "withdraw(at=1ms)", load: true, few: true},
}

// notPlanted are the rows that lanes judge and that are not in plantings.
var notPlanted = []string{
	"occurrence-event-id-from-upstream", // judged by the ledger of a run
}

// TestEveryJudgedRowIsPlanted: each row that a lane judges is tried.
func TestEveryJudgedRowIsPlanted(t *testing.T) {
	for _, r := range conform.Rows {
		tried := slices.ContainsFunc(plantings, func(p planted) bool { return p.row == r.Name }) || slices.Contains(notPlanted, r.Name)
		if tried != (r.Unseen == "") {
			t.Errorf("%s: judged: %v; tried: %v", r.Name, r.Unseen == "", tried)
		}
	}
}

// TestPlantedRows: of a server that breaks one row, this row is broken, and no other but
// those that follow from it, at rest and under load.
func TestPlantedRows(t *testing.T) {
	t.Parallel() // it mostly waits
	var g errgroup.Group
	defer func() { _ = g.Wait() }() // the functions return none
	g.SetLimit(4)                   // they mostly wait; -parallel is for tests that compute
	run := func(name string, try func(t *testing.T)) {
		g.Go(func() error {
			t.Run(name, try)
			return nil
		})
	}
	// The longest first, so that nobody waits for them in the end.
	for _, p := range slices.SortedStableFunc(slices.Values(plantings), func(a, b planted) int { return cmp.Compare(tardy(a), tardy(b)) }) {
		for _, mode := range p.modes {
			run(fmt.Sprint(p.row, " ", mode, " at rest"), func(t *testing.T) {
				if p.slow && testing.Short() {
					t.Skip("takes half a minute")
				}
				p.try(t, mode, 2, 0)
			})
			if p.load {
				run(fmt.Sprint(p.row, " ", mode, " under load"), func(t *testing.T) { p.try(t, mode, underLoad, underLoad/2) })
			}
		}
	}
}

// tardy is 0 for rows that take long, else 1.
func tardy(p planted) int {
	if p.slow {
		return 0
	}
	return 1
}

// underLoad is how many subscriptions a lane under load has.
const underLoad = 20

// TestCleanTargetUnderLoad: of the reference server without faults, no row is broken in
// any mode while many subscriptions open, are sent bursts, and end.
func TestCleanTargetUnderLoad(t *testing.T) {
	for _, mode := range all {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			p := planted{lane: func(o *driver.Options) { refreshed("5s", 2)(o); o.Poll.MaxEvents = 5 }, events: 40}
			p.try(t, mode, underLoad*3/2, 0)
		})
	}
}

// try runs a lane of subs subscriptions of a server that breaks the row, while more than
// above of them are open, until it is broken.
func (p planted) try(t *testing.T, mode eventmeter.Mode, subs, above int) {
	d, w := p.open(t, mode, subs, above)
	fire := func(seq uint32) { w.Fire(t, "c", 1, seq) }
	var seq uint32
	for range p.before {
		seq++
		fire(seq)
	}
	p.each(t, subs, d.Attach, p.fails)
	if _, err := d.(driver.Discoverer).Discover(t.Context()); err != nil && t.Context().Err() != nil {
		t.Fatal(err)
	}
	pause := 10 * time.Millisecond
	if p.slow {
		pause = 200 * time.Millisecond
	}
	tick := time.NewTicker(pause)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for n := 0; p.row != "" && !p.ends && judged(d)[p.row].Broken == 0 || p.row == "" && n < p.events || p.ends && n < 3; n++ {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s is not broken: %+v", p.row, judged(d)[p.row])
		}
		if (n < cmp.Or(p.events, 300) || p.events == 0 && n%50 == 0) && !(p.closes && n >= 3) {
			seq++
			fire(seq)
		}
		if p.closes && n == 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_ = w.Srv.Close(ctx) // again at the end of the test, which reports the error
		}
	}
	p.each(t, subs, d.Detach, true)
	got := judged(d)
	of := breach.Table[p.row]
	for _, row := range brokenOf(got) {
		if row != p.row && !slices.Contains(of.Follows, row) {
			t.Errorf("%s is broken, too: %+v, %+v", row, got[row], got[row].First)
		}
	}
	if x := got[p.row].First; p.row != "" && (got[p.row].Broken == 0 || x == nil || x.Message == "" || x.At == 0) {
		t.Errorf("%s: %+v, %+v", p.row, got[p.row], x)
	}
}

// open opens the lane and its server.
func (p planted) open(t *testing.T, mode eventmeter.Mode, subs, above int) (driver.Driver, *systemstest.World) {
	t.Helper()
	o := refserver.Options{
		Heartbeat:      20 * time.Millisecond,
		NextPoll:       10 * time.Millisecond,
		RetryBase:      10 * time.Millisecond,
		TTLMin:         300 * time.Millisecond,
		TTLDefault:     time.Minute,
		VerifyFailures: -1,
	}
	if subs > 2 {
		o.Heartbeat, o.NextPoll = 300*time.Millisecond, 100*time.Millisecond
	}
	if p.row != "" {
		text := fmt.Sprintf("break(row=%s, every=%d", p.row, max(p.every, 1))
		if above > 0 && mode != eventmeter.Poll && !p.fails && !p.few {
			text += fmt.Sprintf(", above=%d", above)
		}
		beside := p.beside
		if subs > 2 {
			beside = cmp.Or(p.crowd, beside)
		}
		spec, err := faults.Parse(text + "); " + beside)
		must(t, err)
		o.Faults = spec
	}
	if p.server != nil {
		p.server(&o)
	}
	w := systemstest.NewWorld(t, o)
	opts := driver.Options{
		Mode:          mode,
		Subscriptions: subs,
		Poll:          &driver.Poll{MinInterval: 10 * time.Millisecond},
		Listener:      driver.ListenerOptions{Authority: w.Authority},
		Arguments:     func(int) json.RawMessage { return json.RawMessage(`{"channel":"c"}`) },
	}
	if p.lane != nil {
		p.lane(&opts)
	}
	d, _ := systemstest.Lane(t, mcpclient.EndpointOptions{URL: w.Srv.URL(), Tokens: []string{"token-of-the-lane"}}, opts)
	return d, w
}

// each calls f for every subscription, some at once.
func (p planted) each(t *testing.T, subs int, f func(context.Context, int) error, mayFail bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	next := make(chan int)
	var work sync.WaitGroup
	for range min(subs, 20) {
		work.Go(func() {
			for i := range next {
				if err := f(ctx, i); err != nil && !mayFail {
					t.Errorf("subscription %d: %v", i, err)
				}
			}
		})
	}
	for i := range subs {
		next <- i
	}
	close(next)
	work.Wait()
}
