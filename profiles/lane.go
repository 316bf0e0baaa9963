package profiles

import (
	"strings"
	"time"

	"github.com/eventmeter/eventmeter/internal/defaults"
	"github.com/eventmeter/eventmeter/internal/settings"
)

// Systems are the systems that lanes can be of. The table of all of them is
// loadgen/systems.Table.
type Systems = settings.Table

// Lane is a group of identical subscribers, the unit in which results are reported.
type Lane struct {
	// unique name: lower-case letters, digits and hyphens, with a letter first
	Name string `yaml:"name" json:"name"`
	// events (the default; the MCP Events draft), smithery, sep-1803, sep-975, sep-2549, updates or requests
	System string `yaml:"system,omitempty" json:"system"`
	Mode   string `yaml:"mode" json:"mode"` // poll, push, webhook
	// a client that the lane imitates, which sets defaults of the block webhook: generic (the
	// default), chatgpt or ai-sdk
	Client string `yaml:"client,omitempty" json:"client,omitempty" check:"|generic|chatgpt|ai-sdk"`
	// number of subscriptions, at least 1
	Subscriptions int `yaml:"subscriptions" json:"subscriptions" check:"1.."`
	// name of the event to subscribe to
	Event string `yaml:"event" json:"event"`
	// arguments of the subscription. Every string in them, at any depth, is a template over .Index,
	// the number of the subscription in the lane from 0.
	Arguments map[string]any `yaml:"arguments,omitempty" json:"arguments,omitempty"`
	// template over .Index that gives the numbers of the upstream sources of this subscription,
	// separated by commas, or "all" (the default), or "none". It must agree with what the target
	// does with arguments, because it determines which deliveries are owed.
	Sources string `yaml:"sources,omitempty" json:"sources"`
	// 1.1 (the default), 2 (over TLS) or h2c
	HTTP    string      `yaml:"http,omitempty" json:"http" check:"1.1|2|h2c"`
	Poll    PollLane    `yaml:"poll,omitempty" json:"poll,omitzero"`       // settings of mode poll
	Push    PushLane    `yaml:"push,omitempty" json:"push,omitzero"`       // settings of mode push
	Webhook WebhookLane `yaml:"webhook,omitempty" json:"webhook,omitzero"` // settings of mode webhook
	// Settings are those of the lane's system, of the type that its driver declares, under the
	// system's own key. Copies of the lane share them.
	Settings settings.Settings `yaml:"-" json:"-"`
	Churn    Churn             `yaml:"churn,omitempty" json:"churn,omitzero"` // closing and reopening of subscriptions
	Attach   Attach            `yaml:"attach,omitempty" json:"attach"`        // opening of subscriptions
	// asks for a replay of events up to this age when a subscription is opened or reopened; 0 =
	// none
	MaxAge time.Duration `yaml:"maxAge,omitempty" json:"maxAge,omitempty" check:"0.."`
}

// PollLane defines the pace of a poller.
type PollLane struct {
	// shortest time between an answer without hasMore and the next poll; default 1s, as the draft
	// recommends. A longer wait requested by the server (nextPollMs) takes precedence.
	MinInterval time.Duration `yaml:"minInterval,omitempty" json:"minInterval,omitempty" check:"0.."`
	// requested long-poll time (timeoutMs), which only target.revision longpoll has; 0 = answer at
	// once
	Timeout time.Duration `yaml:"timeout,omitempty" json:"timeout,omitempty" check:"0.."`
	// largest number of events per poll; 0 = the server's default
	MaxEvents int `yaml:"maxEvents,omitempty" json:"maxEvents,omitempty" check:"0.."`
}

// PushLane defines how a stream is supervised.
type PushLane struct {
	// heartbeat interval that the server promises, default 30s, the draft's minimum; a stream
	// without data for more than twice as long is dead
	Heartbeat time.Duration `yaml:"heartbeat,omitempty" json:"heartbeat,omitempty" check:"1ms.."`
	// first and longest wait before a reconnect or after a failed poll, default 500ms to 30s
	Backoff Backoff `yaml:"backoff,omitempty" json:"backoff,omitempty"`
}

// Backoff doubles from min to max, with full jitter.
type Backoff struct {
	Min time.Duration `yaml:"min,omitempty" json:"min,omitempty" check:"1ms.."` // first wait
	Max time.Duration `yaml:"max,omitempty" json:"max,omitempty"`               // longest wait
}

// WebhookLane defines webhook subscriptions and their sink.
type WebhookLane struct {
	// requested time to live: a duration from 1s to 720h, "default" (request none; the default) or
	// "none" (no expiry)
	TTL string `yaml:"ttl,omitempty" json:"ttl,omitempty"`
	// share of the granted time after which a refresh is sent, 0.1 to 0.95, default 0.75
	RefreshAt float64 `yaml:"refreshAt,omitempty" json:"refreshAt,omitempty" check:"0.1..0.95"`
	// number of refreshes between two new secrets; 0 = never
	RotateEvery int `yaml:"rotateEvery,omitempty" json:"rotateEvery,omitempty" check:"0.."`
	// secret accepted while it changes: both (the default; the old one for oldSecret after the
	// answer), early (only the new one, from when it is sent) or late (only the old one until the
	// answer)
	Secrets   string        `yaml:"secrets,omitempty" json:"secrets,omitempty" check:"both|early|late" needs:"rotateEvery: the secret does not change"`
	OldSecret time.Duration `yaml:"oldSecret,omitempty" json:"oldSecret,omitempty" check:"1ms.." needs:"rotateEvery: the secret does not change"` // how long the old secret is accepted, default 5m
	// how the sink answers shares of the events and of the challenges; the rest is answered 200 at
	// once
	Answer []WebhookAnswer `yaml:"answer,omitempty" json:"answer,omitempty"`
	// one callback for all subscriptions of the lane, routed by X-MCP-Subscription-Id. Subscriptions of
	// the same principal must then differ in their arguments
	ShareURL bool `yaml:"shareUrl,omitempty" json:"shareUrl,omitempty"`
	// what a delivery must have to be accepted: eventId (webhook-id is the event's id), zone (the
	// timestamp has one), name (of the subscribed event type). Otherwise it is answered 400
	Require []string `yaml:"require,omitempty" json:"require,omitempty"`
	// delivery while the answer to a subscribe or refresh is awaited: accept (the default), or refuse
	// with 503
	Pending string `yaml:"pending,omitempty" json:"pending,omitempty" check:"|accept|refuse"`
	// delivery after the granted time is over: accept (the default), or refuse with 410
	Expired string `yaml:"expired,omitempty" json:"expired,omitempty" check:"|accept|refuse"`
	// largest body in bytes, default 278528; a larger one is answered 413
	BodyLimit int `yaml:"bodyLimit,omitempty" json:"bodyLimit,omitempty" check:"1024.."`
	// share of the subscriptions that end without unsubscribing: their refreshes just stop
	Silent float64 `yaml:"silent,omitempty" json:"silent,omitempty" check:"0..1"`
	// sends delivery.mode with events/unsubscribe
	UnsubscribeMode bool `yaml:"unsubscribeMode,omitempty" json:"unsubscribeMode,omitempty"`
	// handling of a delivery with an invalid signature: strict (the default) refuses it, report
	// accepts it and records the error
	Verify string `yaml:"verify,omitempty" json:"verify,omitempty" check:"strict|report"`
	// URL under which the target reaches the sink, if it differs from the listener's own, e.g.
	// https://load-1.example:8443. On a loopback address it may be http: the listener then speaks
	// plain HTTP. Port 0 means the listener's own port, as in http://127.0.0.1:0.
	Callback string `yaml:"callback,omitempty" json:"callback,omitempty"`
	// address of the listener; empty = a free port of 127.0.0.1
	Listen string `yaml:"listen,omitempty" json:"listen,omitempty"`
	// certificate of the listener in PEM, for a target that must already trust it. Without it, the
	// listener has a certificate that only the embedded target trusts.
	CertFile string `yaml:"certFile,omitempty" json:"certFile,omitempty"`
	KeyFile  string `yaml:"keyFile,omitempty" json:"keyFile,omitempty"` // key of the listener in PEM
}

// WebhookAnswer is how the sink answers a share of the events, or of the challenges. Give one of
// status, hang and reset, or none: then an event is accepted, and a challenge is answered with
// another challenge.
type WebhookAnswer struct {
	// HTTP status. 200 to 299 accepts the event, every other refuses it; 300 to 399 redirects to the
	// same callback. 410 and 413 ask the target not to send the event again.
	Status int `yaml:"status,omitempty" json:"status,omitempty" check:"200..599"`
	// never answers
	Hang bool `yaml:"hang,omitempty" json:"hang,omitempty"`
	// closes the connection without an answer
	Reset bool `yaml:"reset,omitempty" json:"reset,omitempty"`
	// is for challenges, by subscription, instead of events
	Challenge bool `yaml:"challenge,omitempty" json:"challenge,omitempty"`
	// share of the events, or of the subscriptions; the default is what other answers leave
	Share float64 `yaml:"share,omitempty" json:"share,omitempty" check:"0..1"`
	// copies of an event, or challenges of a subscription, that are refused, default 1
	Times int `yaml:"times,omitempty" json:"times,omitempty" check:"1.."`
	// wait before the answer
	Delay time.Duration `yaml:"delay,omitempty" json:"delay,omitempty" check:"0..1h"`
	// with it, the wait is drawn between delay and this
	DelayTo time.Duration `yaml:"delayTo,omitempty" json:"delayTo,omitempty" check:"0..1h"`
	// header field Retry-After of the answer
	RetryAfter time.Duration `yaml:"retryAfter,omitempty" json:"retryAfter,omitempty" check:"0..1h"`
}

// accepts reports whether the answer accepts an event.
func (a *WebhookAnswer) accepts() bool {
	return !a.Challenge && !a.Hang && !a.Reset && a.Status < 300
}

// Churn ends and reopens subscriptions while the run measures.
type Churn struct {
	// subscriptions per second, e.g. "2/s"; empty or 0 = none
	Rate Rate `yaml:"rate,omitempty" json:"rate,omitempty"`
	// how long a subscription stays closed; 0 = it is reopened at once
	Pause time.Duration `yaml:"pause,omitempty" json:"pause,omitempty" check:"0.." needs:"rate: no subscription churns"`
}

// Attach defines how a lane's subscriptions are opened.
type Attach struct {
	Rate Rate `yaml:"rate,omitempty" json:"rate,omitempty"` // per second; 0 = as fast as Concurrency allows
	// number of subscriptions opened concurrently, default 64, at most 65536
	Concurrency int `yaml:"concurrency,omitempty" json:"concurrency" check:"1..65536"`
	// stop (the default) or continue
	OnFailure string `yaml:"onFailure,omitempty" json:"onFailure" check:"stop|continue"`
}

// noSources is the value of sources for a lane that subscribes to no source.
const noSources = "none"

// HasNoSources reports whether the lane subscribes to no source.
func (l *Lane) HasNoSources() bool { return strings.TrimSpace(l.Sources) == noSources }

// defaultLaneOf sets only the blocks of the lane's own mode and system.
func defaultLaneOf(systems Systems, mode, system, client string) Lane {
	l := Lane{
		System:  "events",
		Sources: "all",
		HTTP:    defaults.HTTP,
		Attach:  Attach{Concurrency: defaults.AttachConcurrency, OnFailure: "stop"},
	}
	switch mode {
	case "poll":
		l.Poll.MinInterval = defaults.PollMinInterval
	case "push":
		l.Push.Heartbeat = defaults.Heartbeat
		l.Push.Backoff = Backoff{Min: defaults.BackoffMin, Max: defaults.BackoffMax}
	case "webhook":
		l.Webhook.TTL = defaults.WebhookTTL
		l.Webhook.RefreshAt = defaults.RefreshAt
		l.Webhook.Secrets = defaults.Secrets
		l.Webhook.Verify = defaults.Verify
		l.Webhook.OldSecret = defaults.OldSecret
		imitate(&l.Webhook, client)
	}
	of, ok := systems.Find(system)
	if !ok {
		return l
	}
	l.Event = of.Event
	if of.NoEvents {
		l.Sources = noSources
	}
	l.Settings = of.Settings(mode)
	return l
}
