package events_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/eventmeter/eventmeter/internal/settings"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/driver/events"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
)

// judged are the rows that a lane saw.
func judged(d driver.Driver) conform.Account { return d.(driver.Figurer).Figures().Conform }

// brokenOf are the names of the rows that something broke.
func brokenOf(a conform.Account) []string {
	var names []string
	for _, row := range slices.Sorted(maps.Keys(a)) {
		if a[row].Broken > 0 {
			names = append(names, row)
		}
	}
	return names
}

// conformLane opens a lane of a reference server with a fault, "" = none.
func conformLane(
	t *testing.T,
	fault string,
	mode eventmeter.Mode,
	with func(*driver.Options),
) (driver.Driver, *systemstest.Memory, *systemstest.World) {
	t.Helper()
	o := refserver.Options{
		Heartbeat:  20 * time.Millisecond,
		NextPoll:   10 * time.Millisecond,
		RetryBase:  10 * time.Millisecond,
		TTLMin:     300 * time.Millisecond,
		TTLDefault: time.Minute,
	}
	if fault != "" {
		spec, err := faults.Parse(fault)
		must(t, err)
		o.Faults = spec
	}
	w := systemstest.NewWorld(t, o)
	opts := driver.Options{
		Mode:          mode,
		Subscriptions: 2,
		Poll:          &driver.Poll{MinInterval: time.Millisecond},
		Listener:      driver.ListenerOptions{Authority: w.Authority},
		Arguments:     func(int) json.RawMessage { return json.RawMessage(`{"channel":"c"}`) },
	}
	if with != nil {
		with(&opts)
	}
	d, rec := systemstest.Lane(t, mcpclient.EndpointOptions{URL: w.Srv.URL(), Tokens: []string{"a"}}, opts)
	return d, rec, w
}

// TestCleanTargetBreaksNoRow: of the reference server without faults, no row is
// broken in any mode, and those that the mode shows are seen.
func TestCleanTargetBreaksNoRow(t *testing.T) {
	for mode, want := range map[eventmeter.Mode][]string{
		eventmeter.Poll: {"poll-events-array", "poll-has-more", "poll-next-poll-ms", "cursor-null-starts-from-now",
			"poll-max-events-cap", "occurrence-data", "descriptor-name"},
		eventmeter.Push: {"stream-active-confirmation", "stream-heartbeat-required", "stream-subscription-id-meta",
			"cursor-consistency", "occurrence-timestamp"},
		eventmeter.Webhook: {"delivery-post-json", "delivery-signature-formula", "envelope-webhook-id-format",
			"subscribe-id-derived", "ttl-null-only-when-requested", "verification-cached-per-principal-url",
			"unsubscribe-by-key"},
	} {
		t.Run(string(mode), func(t *testing.T) {
			d, rec, w := conformLane(t, "", mode, func(o *driver.Options) {
				o.Poll.MaxEvents = 1
				o.Webhook.TTL, o.Webhook.RefreshAt = "4s", 0.1
			})
			if _, err := d.(driver.Discoverer).Discover(t.Context()); err != nil {
				t.Fatal(err)
			}
			systemstest.Attach(t, d, 2)
			for seq := range uint32(3) {
				w.Fire(t, "c", 1, seq+1)
			}
			rec.Wait(t, "three events", func(m *systemstest.Memory) bool { return len(m.Seen(0, 1)) == 3 && len(m.Seen(1, 1)) == 3 })
			rec.Wait(t, "heartbeats, or a refresh", func(m *systemstest.Memory) bool {
				return m.Causes(eventmeter.Heartbeat)+m.Causes(eventmeter.Refresh)+m.Causes(eventmeter.EmptyPoll) > 2
			})
			if err := d.Detach(t.Context(), 0); err != nil {
				t.Error(err)
			}
			got := judged(d)
			for _, row := range brokenOf(got) {
				t.Errorf("%s is broken: %+v, %+v", row, got[row], got[row].First)
			}
			for _, row := range want {
				if got[row].Seen == 0 {
					t.Errorf("%s was not seen", row)
				}
			}
			t.Logf("%d rows were seen", len(got))
		})
	}
}

// TestFaultsBreakTheirRows: a fault breaks its own rows and no other.
func TestFaultsBreakTheirRows(t *testing.T) {
	push, poll, webhook := eventmeter.Push, eventmeter.Poll, eventmeter.Webhook
	for _, c := range []struct {
		fault string
		mode  eventmeter.Mode
		rows  []string
		with  func(*driver.Options)
		alone bool // no subscription comes to stand
	}{
		{fault: "malformed(every=1)", mode: push, rows: []string{"stream-event-notification"}},
		{fault: "malformed(every=1)", mode: poll, rows: []string{"poll-events-array"}},
		{fault: "malformed(every=1)", mode: webhook, rows: []string{"delivery-post-json"}},
		{fault: "signature(every=1, sign=wrong)", mode: webhook, rows: []string{"delivery-signature-formula"}},
		{fault: "signature(every=1, sign=stale)", mode: webhook, rows: []string{"delivery-standard-webhooks-headers"}},
		{fault: "signature(every=1, sign=missing)", mode: webhook, rows: []string{"delivery-standard-webhooks-headers"}},
		{fault: "oversize(every=1)", mode: webhook, rows: []string{"delivery-body-size"}},
		{fault: "early", mode: webhook, rows: []string{"verification-required-before-delivery"}},
		{fault: "ttl(grant=1h)", mode: webhook, rows: []string{"ttl-refresh-before-lte-suggestion"},
			with: func(o *driver.Options) { o.Webhook.TTL = "10m" }},
		{fault: "anonymous", mode: webhook, rows: []string{"subscribe-auth-required"},
			with: func(o *driver.Options) { o.Settings = events.Settings{Anonymous: true} }},
		{fault: "heartbeats", mode: push, rows: []string{"stream-heartbeat-required"},
			with: func(o *driver.Options) { o.Push.Heartbeat = 100 * time.Millisecond }},
		{fault: "refuse(every=1, code=-31000)", mode: poll, rows: []string{"error-server-range"}, alone: true},
		{fault: "refuse(every=1, code=-31000)", mode: push, rows: []string{"error-server-range"}, alone: true},
		{fault: "refuse(every=1, code=-32014)", mode: webhook, rows: []string{"error-unsupported"}, alone: true},
	} {
		t.Run(fmt.Sprint(c.fault, " ", c.mode), func(t *testing.T) {
			d, rec, w := conformLane(t, c.fault, c.mode, c.with)
			if c.alone {
				if err := d.Attach(t.Context(), 0); err == nil {
					t.Fatal("the subscription was not refused")
				}
			} else {
				systemstest.Attach(t, d, 2)
				w.Fire(t, "c", 1, 1)
			}
			rec.Wait(t, "the row to break", func(*systemstest.Memory) bool {
				a := judged(d)
				for _, row := range c.rows {
					if a[row].Broken == 0 {
						return false
					}
				}
				return true
			})
			got := judged(d)
			if broken := brokenOf(got); !slices.Equal(broken, c.rows) {
				for _, row := range broken {
					t.Errorf("%s: %+v %+v", row, got[row], got[row].First)
				}
				t.Errorf("broken are %q, want %q", broken, c.rows)
			}
			for _, row := range c.rows {
				if x := got[row].First; x == nil || x.Message == "" || x.At == 0 {
					t.Errorf("%s has no example: %+v", row, x)
				}
			}
		})
	}
}

// TestADeliveryIsOneOccasion: of a server that breaks every second delivery, half of them are
// broken, whether the lane takes them or refuses them for good.
func TestADeliveryIsOneOccasion(t *testing.T) {
	report := func(o *driver.Options) { o.Webhook.Verify = settings.VerifyReport }
	for _, c := range []struct {
		name, fault, row string
		with             func(*driver.Options)
	}{
		{"wrong", "signature(every=2, sign=wrong)", "delivery-signature-formula", report},
		{"stale", "signature(every=2, sign=stale)", "delivery-standard-webhooks-headers", report},
		{"missing", "signature(every=2, sign=missing)", "delivery-standard-webhooks-headers", report},
		{"taken", "oversize(every=2)", "delivery-body-size", func(o *driver.Options) { o.Webhook.BodyLimit = 1 << 20 }},
		{"refused", "oversize(every=2)", "delivery-body-size", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			const subs, fired = 2, 4
			d, rec, w := conformLane(t, c.fault, eventmeter.Webhook, c.with)
			systemstest.Attach(t, d, subs)
			for seq := range uint32(fired) {
				w.Fire(t, "c", 1, seq+1)
			}
			rec.Wait(t, "the deliveries", func(*systemstest.Memory) bool {
				got := judged(d)[c.row]
				return got.Broken >= subs*fired/2 && got.Seen >= subs*fired
			})
			for i := range subs {
				if err := d.Detach(t.Context(), i); err != nil {
					t.Error(err)
				}
			}
			if got := judged(d)[c.row]; got.Seen != subs*fired || got.Broken != subs*fired/2 {
				t.Errorf("%d broken of %d", got.Broken, got.Seen)
			}
		})
	}
}
