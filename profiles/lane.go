package profiles

import (
	"strings"
	"time"

	"github.com/eventmeter/eventmeter/internal/defaults"
)

// Lane is one group of equal subscriptions: the unit in which results are
// reported.
type Lane struct {
	// Name is unique in the profile: lower-case letters, digits and hyphens,
	// with a letter first.
	Name string `yaml:"name" json:"name"`
	// System is events (the default): the MCP Events draft.
	System string `yaml:"system,omitempty" json:"system"`
	Mode   string `yaml:"mode" json:"mode"` // poll, push, webhook
	// Subscriptions is how many there are, at least 1.
	Subscriptions int `yaml:"subscriptions" json:"subscriptions" check:"1.."`
	// Event is the event name to subscribe to.
	Event string `yaml:"event" json:"event"`
	// Arguments of the subscription. Every string in it, at any depth, is a
	// template over .Index, the subscription's number in the lane from 0.
	Arguments map[string]any `yaml:"arguments,omitempty" json:"arguments,omitempty"`
	// Sources is a template over .Index that gives the numbers of the upstream
	// sources that this subscription receives, separated by commas, or "all" (the
	// default), or "none". It must agree with what the target does with Arguments: it is
	// what the ledger expects.
	Sources string `yaml:"sources,omitempty" json:"sources"`
	// HTTP is 1.1 (the default), 2 (over TLS) or h2c.
	HTTP    string      `yaml:"http,omitempty" json:"http" check:"1.1|2|h2c"`
	Poll    PollLane    `yaml:"poll,omitempty" json:"poll,omitzero"`
	Push    PushLane    `yaml:"push,omitempty" json:"push,omitzero"`
	Webhook WebhookLane `yaml:"webhook,omitempty" json:"webhook,omitzero"`
	// Events is for lanes of system events, Smithery for those of system
	// smithery.
	Events   EventsLane   `yaml:"events,omitempty" json:"events,omitzero"`
	Smithery SmitheryLane `yaml:"smithery,omitempty" json:"smithery,omitzero"`
	// SEP1803 is for lanes of system sep-1803.
	SEP1803 SEP1803Lane `yaml:"sep1803,omitempty" json:"sep1803,omitzero"`
	SEP975  SEP975Lane  `yaml:"sep975,omitempty" json:"sep975,omitzero"`
	SEP2549 SEP2549Lane `yaml:"sep2549,omitempty" json:"sep2549,omitzero"`
	Churn   Churn       `yaml:"churn,omitempty" json:"churn,omitzero"`
	Attach  Attach      `yaml:"attach,omitempty" json:"attach"`
	// MaxAge asks for a replay of events that old on (re)attach; 0 = not asked.
	MaxAge time.Duration `yaml:"maxAge,omitempty" json:"maxAge,omitempty" check:"0.."`
}

// PollLane paces a poller.
type PollLane struct {
	// MinInterval is the least time between an answer without hasMore and the next
	// poll; default 1s, as the draft advises. Where the server asks for a longer
	// wait (nextPollMs), that counts.
	MinInterval time.Duration `yaml:"minInterval,omitempty" json:"minInterval,omitempty" check:"0.."`
	// Timeout is the long-poll time asked for (timeoutMs); 0 = answer at once.
	Timeout time.Duration `yaml:"timeout,omitempty" json:"timeout,omitempty" check:"0.."`
	// MaxEvents per poll; 0 = the server's own.
	MaxEvents int `yaml:"maxEvents,omitempty" json:"maxEvents,omitempty" check:"0.."`
}

// PushLane watches a stream.
type PushLane struct {
	// Heartbeat is the interval that the server promises, default 30s, as the
	// draft wants at least; a stream that is silent for more than twice as long is
	// dead.
	Heartbeat time.Duration `yaml:"heartbeat,omitempty" json:"heartbeat,omitempty" check:"1ms.."`
	// Backoff is the first and the longest wait before a reconnect, default
	// 500ms to 30s, as for a failed poll.
	Backoff Backoff `yaml:"backoff,omitempty" json:"backoff,omitempty"`
}

// Backoff grows from Min to Max, doubling, with full jitter.
type Backoff struct {
	Min time.Duration `yaml:"min,omitempty" json:"min,omitempty" check:"1ms.."`
	Max time.Duration `yaml:"max,omitempty" json:"max,omitempty"`
}

// WebhookLane subscribes callbacks.
type WebhookLane struct {
	// TTL is the wish: a duration from 1s to 720h, "default" (ask for none; the
	// default) or "none" (no expiry).
	TTL string `yaml:"ttl,omitempty" json:"ttl,omitempty"`
	// RefreshAt is the share of the grant after which a refresh is sent, 0.1 to
	// 0.95, default 0.75.
	RefreshAt float64 `yaml:"refreshAt,omitempty" json:"refreshAt,omitempty" check:"0.1..0.95"`
	// RotateEvery is how many refreshes pass between two new secrets; 0 = never.
	RotateEvery int `yaml:"rotateEvery,omitempty" json:"rotateEvery,omitempty" check:"0.."`
	// Secrets says which secret the sink accepts while it changes: both (the
	// default; the old one for OldSecret, default 5m, after the answer), early
	// (the new one alone, from when it is sent) or late (the old one alone until
	// the answer has come).
	Secrets   string        `yaml:"secrets,omitempty" json:"secrets,omitempty" check:"both|early|late"`
	OldSecret time.Duration `yaml:"oldSecret,omitempty" json:"oldSecret,omitempty" check:"1ms.."`
	// Refuse is the share of first copies that the sink answers with 503.
	Refuse float64 `yaml:"refuse,omitempty" json:"refuse,omitempty" check:"0..1"`
	// AckDelay is how long the sink waits before it answers 2xx.
	AckDelay time.Duration `yaml:"ackDelay,omitempty" json:"ackDelay,omitempty" check:"0..1h"`
	// Verify says what becomes of a delivery whose signature does not verify:
	// strict (the default) refuses it, report takes it and notes what is wrong.
	Verify string `yaml:"verify,omitempty" json:"verify,omitempty" check:"strict|report"`
	// Callback is the address under which the target reaches the sink, where
	// it differs from the listener's own, e.g. https://load-1.example:8443. On
	// a loopback address it may be http: then the listener speaks plain HTTP.
	// Port 0 stands for the listener's own, as in http://127.0.0.1:0.
	Callback string `yaml:"callback,omitempty" json:"callback,omitempty"`
	// Listen is the listener's address; empty = a free port of 127.0.0.1.
	Listen string `yaml:"listen,omitempty" json:"listen,omitempty"`
	// CertFile and KeyFile are the listener's certificate and key in PEM, for a
	// target that has to trust it already. Without them the listener has a
	// certificate that only the embedded target trusts.
	CertFile string `yaml:"certFile,omitempty" json:"certFile,omitempty"`
	KeyFile  string `yaml:"keyFile,omitempty" json:"keyFile,omitempty"`
}

// Churn ends and reopens subscriptions while the run measures.
type Churn struct {
	// Rate is subscriptions per second, e.g. "2/s". Empty or 0 = none.
	Rate Rate `yaml:"rate,omitempty" json:"rate,omitempty"`
	// Pause is how long a subscription stays away; 0 = it comes back at once.
	Pause time.Duration `yaml:"pause,omitempty" json:"pause,omitempty" check:"0.."`
}

// Attach opens a lane's subscriptions.
type Attach struct {
	Rate Rate `yaml:"rate,omitempty" json:"rate,omitempty"` // per second; 0 = as fast as Concurrency allows
	// Concurrency is how many may be on their way at once, default 64, at most
	// 65536.
	Concurrency int `yaml:"concurrency,omitempty" json:"concurrency" check:"1..65536"`
	// OnFailure is stop (the default) or continue.
	OnFailure string `yaml:"onFailure,omitempty" json:"onFailure" check:"stop|continue"`
}

// noSources is the value of sources for a lane that hears none.
const noSources = "none"

// HearsNone tells whether nothing that the upstream fires is expected at the
// lane.
func (l *Lane) HearsNone() bool { return strings.TrimSpace(l.Sources) == noSources }

// system is what a lane has to know of its system.
type system struct {
	name, block string   // block is the key of its settings in a lane
	modes       []string // those that it has
	// fill sets the defaults of a lane, before it is read; nil = none of its own.
	fill func(l *Lane, mode string)
}

// systems are those that there are; a new one is a line here.
func systems() []system {
	return []system{
		{"events", "events", []string{"poll", "push", "webhook"}, nil},
		{"smithery", "smithery", []string{"webhook"}, nil},
		{"sep-1803", "sep1803", []string{"push", "webhook"}, defaultSEP1803},
		{SystemSEP975, "sep975", []string{"push"}, defaultSEP975},
		{SystemSEP2549, "sep2549", []string{"poll"}, defaultSEP2549},
	}
}

func systemNames() (names []string) {
	for _, s := range systems() {
		names = append(names, s.name)
	}
	return names
}

// defaultLaneOf fills the blocks of the lane's own mode and system only: the
// others mean nothing to it.
func defaultLaneOf(mode, system string) Lane {
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
	}
	for _, s := range systems() {
		if s.name == system && s.fill != nil {
			s.fill(&l, mode)
		}
	}
	return l
}
