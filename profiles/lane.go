package profiles

import (
	"strings"
	"time"

	"github.com/eventmeter/eventmeter/internal/settings"
)

// Systems are the systems that lanes can use. loadgen/systems.Table has all of them.
type Systems = settings.Table

// Lane is a group of identical subscribers, the unit in which results are reported.
type Lane struct {
	// unique name: lower-case letters, digits and hyphens, with a letter first
	Name string `json:"name"`
	// events (the default; the MCP Events draft), smithery, sep-1803, sep-975, sep-2549, updates or requests
	System string `json:"system"`
	Mode   string `json:"mode"` // poll, push, webhook
	// a client that the lane imitates, which sets defaults of the block webhook: generic (the
	// default), chatgpt or ai-sdk
	Client string `json:"client,omitempty" check:"|generic|chatgpt|ai-sdk"`
	// number of subscriptions, at least 1
	Subscriptions int `json:"subscriptions" check:"1.."`
	// name of the event to subscribe to
	Event string `json:"event"`
	// arguments of the subscription. Every string in them, at any depth, is a template over .Index,
	// the number of the subscription in the lane from 0.
	Arguments map[string]any `json:"arguments,omitempty"`
	// template over .Index that gives the numbers of the upstream sources of this subscription,
	// separated by commas, or "all" (the default), or "none". It must agree with what the target
	// does with arguments, because it determines which deliveries are owed.
	Sources string `json:"sources"`
	// 1.1 (the default), 2 (over TLS) or h2c
	HTTP    string               `json:"http" check:"1.1|2|h2c"`
	Poll    settings.PollLane    `json:"poll,omitzero"`    // settings of mode poll
	Push    settings.PushLane    `json:"push,omitzero"`    // settings of mode push
	Webhook settings.WebhookLane `json:"webhook,omitzero"` // settings of mode webhook
	// Settings are those of the lane's system, of the type that its driver declares, under the
	// system's own key. Copies of the lane share them.
	Settings settings.Settings `json:"-"`
	Churn    Churn             `json:"churn,omitzero"` // closing and reopening of subscriptions
	Attach   Attach            `json:"attach"`         // opening of subscriptions
	// asks for a replay of events up to this age when a subscription is opened or reopened; 0 =
	// none
	MaxAge time.Duration `json:"maxAge,omitempty" check:"0.."`
}

// Churn ends and reopens subscriptions while the run measures.
type Churn struct {
	// subscriptions per second, e.g. "2/s"; empty or 0 = none
	Rate Rate `json:"rate,omitempty"`
	// how long a subscription stays closed; 0 = it is reopened at once
	Pause time.Duration `json:"pause,omitempty" check:"0.." needs:"rate: no subscription churns"`
}

// Attach defines how a lane's subscriptions are opened.
type Attach struct {
	Rate Rate `json:"rate,omitempty"` // subscriptions opened per second; 0 = as fast as concurrency allows
	// number of subscriptions opened concurrently, default 64, at most 65536
	Concurrency int `json:"concurrency" check:"1..65536"`
	// stop (the default) or continue
	OnFailure string `json:"onFailure" check:"stop|continue"`
}

// noSources is the value of sources for a lane that subscribes to no source.
const noSources = "none"

// HasNoSources reports whether the lane subscribes to no source.
func (l *Lane) HasNoSources() bool { return strings.TrimSpace(l.Sources) == noSources }

// defaultLaneOf returns a lane with the defaults of its own mode and system.
func defaultLaneOf(systems Systems, mode, system, client string) Lane {
	l := Lane{
		System:  "events",
		Sources: "all",
		HTTP:    settings.HTTP,
		Attach:  Attach{Concurrency: settings.AttachConcurrency, OnFailure: "stop"},
	}
	switch mode {
	case "poll":
		l.Poll = settings.DefaultPoll()
	case "push":
		l.Push = settings.DefaultPush()
	case "webhook":
		l.Webhook = settings.WebhookOf(client)
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
