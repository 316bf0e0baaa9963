package run

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/settings"
	"github.com/eventmeter/eventmeter/internal/shard/split"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// lane is a lane of the profile with its templates compiled.
type lane struct {
	profiles.Lane
	number    int // in the profile
	templates *profiles.LaneTemplates
	// numbers are, of a shard, the numbers in the whole run of its
	// subscriptions, Subscriptions of them; else nil.
	numbers []int
	plan    *split.Plan // of a shard
	shard   int
	cert    *tls.Certificate // of the webhook listener, where the profile has one
}

func newLane(number int, l profiles.Lane) (*lane, error) {
	t, err := profiles.CompileLane(l)
	if err != nil {
		return nil, err
	}
	out := &lane{Lane: l, number: number, templates: t}
	if l.Webhook.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(l.Webhook.CertFile, l.Webhook.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("webhook.certFile: %w", err)
		}
		out.cert = &cert
	}
	return out, nil
}

// spec is what the ledger needs to know of the lane.
func (l *lane) spec() ledger.LaneSpec {
	spec := ledger.LaneSpec{
		Name:          l.Name,
		System:        l.System,
		Mode:          eventmeter.Mode(l.Mode),
		Subscriptions: l.Subscriptions,
		Hears:         l.hears,
		// The draft keeps order per subscription for poll and push only.
		Ordered: l.Mode != string(eventmeter.Webhook),
		Replay:  l.MaxAge > 0 || replays(l.Settings),
	}
	if l.plan != nil {
		spec.Broadcast = l.hearsAll
	}
	return spec
}

// options translates the lane for its driver.
func (l *lane) options(at uint16, clock *eventmeter.Clock, rec eventmeter.Recorder, ends *targetSide, seed uint64) driver.Options {
	o := LaneSettings(&l.Lane)
	o.Clock, o.Recorder, o.Endpoint, o.Lane, o.Seed = clock, rec, ends.endpointFor(l.HTTP), at, seed
	o.Arguments = func(i int) json.RawMessage { return l.templates.Arguments(l.wholeNumber(i)) }
	o.Number = l.wholeNumber
	o.Webhook.Authority, o.Webhook.Certificate, o.Webhook.MaxConnections = ends.authority, l.cert, ends.callbacks
	if l.plan != nil {
		o.Webhook.Prefix = fmt.Sprintf("/shard-%d", l.shard)
	}
	o.Hears = l.hears
	return o
}

// replays reports whether subscriptions with these settings are given what they
// missed when they are opened again.
func replays(set settings.Settings) bool {
	s, ok := set.(interface{ Replays() bool })
	return ok && s.Replays()
}

// LaneSettings translates the settings of a lane for its driver. What only a
// run knows is left out: clock, recorder, endpoint, arguments and certificates.
func LaneSettings(l *profiles.Lane) driver.Options {
	o := driver.Options{
		System:        l.System,
		Mode:          eventmeter.Mode(l.Mode),
		Event:         l.Event,
		MaxAge:        l.MaxAge,
		HTTP:          l.HTTP,
		Settings:      l.Settings,
		Subscriptions: l.Subscriptions,
		Poll:          driver.PollOptions{Timeout: l.Poll.Timeout, MaxEvents: l.Poll.MaxEvents},
		Push: driver.PushOptions{
			Heartbeat: l.Push.Heartbeat, BackoffMin: l.Push.Backoff.Min, BackoffMax: l.Push.Backoff.Max,
		},
		Webhook: driver.WebhookOptions{
			RefreshAt: l.Webhook.RefreshAt, RotateEvery: l.Webhook.RotateEvery, Listen: l.Webhook.Listen, Callback: l.Webhook.Callback,
			Grace: l.Webhook.OldSecret, Secrets: driver.Secrets(l.Webhook.Secrets), Verify: driver.Verify(l.Webhook.Verify),
		},
	}
	w := &l.Webhook
	o.Webhook.Require, o.Webhook.Silent, o.Webhook.UnsubscribeMode, o.Webhook.BodyLimit = w.Require, w.Silent, w.UnsubscribeMode, int64(w.BodyLimit)
	o.Webhook.ShareURL = w.ShareURL
	o.Webhook.RefusePending, o.Webhook.RefuseExpired = w.Pending == "refuse", w.Expired == "refuse"
	for _, a := range l.Webhook.Answer {
		o.Webhook.Answer = append(o.Webhook.Answer, driver.Answer(a))
	}
	if l.Mode == string(eventmeter.Poll) {
		o.Poll.MinInterval = orNone(l.Poll.MinInterval)
	}
	switch l.Webhook.TTL {
	case "", "default":
	case "none":
		o.Webhook.NoExpiry = true
	default:
		// Checked when the profile was read.
		o.Webhook.TTL, _ = time.ParseDuration(l.Webhook.TTL)
	}
	return o
}

// orNone is a length of time of the profile as drivers take it, for which 0 is
// their own default and less than 0 is none.
func orNone(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// split is what a plan of shards needs to know of the lane.
func (l *lane) split() split.Lane {
	unit := 1
	if of, err := systems.Find(l.System); err == nil && of.Unit != nil {
		o := LaneSettings(&l.Lane)
		unit = of.Unit(&o)
	}
	return split.Lane{Subscriptions: l.Subscriptions, Unit: unit, Sources: l.templates.Sources, HasNoSources: l.HasNoSources()}
}

// wholeNumber is the number that local subscription i has in the whole run.
func (l *lane) wholeNumber(i int) int {
	if l.numbers == nil {
		return i
	}
	return l.numbers[i]
}

// hears gives what local subscription i is owed; nil is everything.
func (l *lane) hears(i int) []uint16 {
	heard := l.templates.Sources(l.wholeNumber(i))
	if l.plan == nil {
		return heard
	}
	return l.plan.Hears(l.shard, heard)
}

// hearsAll tells whether what sibling shards publish reaches local subscription i,
// whatever its source.
func (l *lane) hearsAll(i int) bool {
	return l.plan.HearsAll(l.templates.Sources(l.wholeNumber(i)))
}

func mode(l *lane) eventmeter.Mode { return eventmeter.Mode(l.Mode) }
