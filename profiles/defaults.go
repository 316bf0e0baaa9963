package profiles

import (
	"slices"
	"time"

	"github.com/eventmeter/eventmeter/internal/defaults"
)

// Defaults are set before a profile is read, so that a 0 that is written means
// 0. Those that depend on other keys follow in complete.
func defaultProfile() Profile {
	return Profile{
		Target:   Target{Era: "auto", Revision: "newest"},
		Upstream: Upstream{Kind: "inject", Sources: 1, Timeout: 5 * time.Second, Workers: 64},
		Schedule: Schedule{Kind: "constant"},
		Phases: Phases{
			Order:   "together",
			Ready:   15 * time.Second,
			Warmup:  2 * time.Second,
			Measure: 10 * time.Second,
			Drain:   5 * time.Second,
			Late:    5 * time.Second,
		},
		Generator: Generator{KernelTimestamps: "auto"},
		Limits:    Limits{Rate: 20_000, Subscriptions: 200_000, Duration: 24 * time.Hour, Memory: 256 << 20},
	}
}

// defaultLane fills the block of the lane's own mode only: the others mean
// nothing to it.
func defaultLane(mode string) Lane {
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
	return l
}

// defaultLaneOf also fills the block of the lane's own system.
func defaultLaneOf(mode, system string) Lane {
	l := defaultLane(mode)
	for _, s := range systems() {
		if s.name == system && s.fill != nil {
			s.fill(&l, mode)
		}
	}
	return l
}

// complete fills what follows from other keys.
func (p *Profile) complete() {
	p.completeLists()
	if (p.Upstream.Kind == "inject" || p.Upstream.Kind == "feed" || p.Upstream.Kind == "replay" && p.Upstream.Replay.URL == "") && p.Upstream.Event == "" && len(p.Lanes) > 0 {
		var events []string
		for _, l := range p.Lanes {
			if !l.HearsNone() {
				events = append(events, l.Event)
			}
		}
		if slices.Sort(events); len(slices.Compact(events)) == 1 {
			p.Upstream.Event = events[0]
		}
	}
	if p.Upstream.Kind == "http" && p.Upstream.HTTP.Method == "" {
		p.Upstream.HTTP.Method = "POST"
	}
	if p.Upstream.Kind == "replay" && p.Schedule == (Schedule{Kind: "constant"}) {
		p.Schedule.Kind = "trace" // a schedule that was left out
	}
	if p.Schedule.Kind == "trace" && p.Schedule.File == "" {
		p.Schedule.File = p.Upstream.Replay.File
	}
	if p.Schedule.Kind == "ramp" && p.Schedule.Period == 0 {
		p.Schedule.Period = p.Phases.Warmup + p.Phases.Measure
	}
}
