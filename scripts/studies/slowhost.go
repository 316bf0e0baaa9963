package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter/results"
)

// slowHost is about callbacks that are slow, hang or refuse.
//
// Hypotheses, before anything was measured: a subscription holds one sender at most, so the healthy are
// not delayed while the slow ones are fewer than the senders, whatever the share; beyond that the
// isolation index is what a queue of subscriptions predicts. Callbacks that refuse at once delay nobody.
// A bound per host isolates as long as slow hosts × bound stay below the senders.
type slowHost struct {
	Senders      int              `json:"senders"`
	Hold         float64          `json:"holdSeconds"` // of a slow or hanging delivery
	Isolation    []isolation      `json:"isolation"`
	Hosts        []isolation      `json:"hosts"`
	Duplicates   []ackDelay       `json:"duplicates"`
	Suspensions  []suspensionTime `json:"suspensions"`
	SuspendAfter int              `json:"suspendAfter"`
	Refresh      float64          `json:"refreshSeconds"` // after the grant, in the runs on suspension
}

// isolation is one run with healthy and other callbacks.
type isolation struct {
	Kind     string  `json:"kind"` // none, slow, hang or refuse
	Healthy  int     `json:"healthy"`
	Slow     int     `json:"slow"`
	Hosts    int     `json:"hosts"`   // of the slow ones
	PerHost  int     `json:"perHost"` // bound of senders at a host; 0 = none
	P50      float64 `json:"healthyP50Seconds"`
	P99      float64 `json:"healthyP99Seconds"`
	Lost     int64   `json:"healthyLost"` // the target gave up: such a delivery is in no latency
	Expected float64 `json:"expectedP99Seconds"`
}

// ackDelay is one run whose callbacks accept events late.
type ackDelay struct {
	Longest   float64 `json:"longestSeconds"`
	Timeout   float64 `json:"ackTimeoutSeconds"`
	Retries   int     `json:"retries"`
	Delivered int64   `json:"delivered"`
	Rate      float64 `json:"duplicatesPerEvent"`
}

// suspensionTime is one run whose callbacks refuse everything.
type suspensionTime struct {
	Retries  int     `json:"retries"`
	Base     float64 `json:"retryBaseSeconds"`
	Subs     int     `json:"subscriptions"`
	Rate     float64 `json:"eventsPerSecond"` // of each subscription
	Took     float64 `json:"secondsToSuspension"`
	Expected float64 `json:"expectedSecondsToSuspension"`
	Paused   float64 `json:"secondsSuspended"` // until the refresh ended it; 0 = not seen in the run
	Attempts float64 `json:"attemptsPerSubscription"`
}

const slowSources = 20

// model is the expectation for a run.
func (s *slowHost) model(i *isolation, seconds float64) sendersModel {
	m := sendersModel{
		senders: s.Senders, perHost: i.PerHost, healthy: i.Healthy, slow: i.Slow, hosts: max(i.Hosts, 1), sources: slowSources,
		rate: slowRate, hold: s.Hold, service: 0.001, seconds: seconds,
	}
	if i.Kind == "refuse" {
		m.hold = m.service
	}
	return m
}

// slowRate is the events per second, over all sources: each subscription has two a second.
const slowRate = 40

func (s *slowHost) measure(ctx context.Context, l *lab) error {
	s.Senders, s.Hold, s.SuspendAfter = 64, 1, 20
	all := 200
	for n := range 2 {
		if err := s.isolate(ctx, l, &s.Isolation, fmt.Sprintf("none-%d", n+1), isolation{Kind: "none", Healthy: all}); err != nil {
			return err
		}
	}
	for _, kind := range []string{"slow", "hang", "refuse"} {
		for _, percent := range []int{10, 25, 40, 50} {
			slow := all * percent / 100
			if err := s.isolate(ctx, l, &s.Isolation, fmt.Sprintf("%s-%d", kind, percent), isolation{Kind: kind, Healthy: all - slow, Slow: slow, Hosts: 1}); err != nil {
				return err
			}
		}
	}
	for _, of := range []struct{ hosts, perHost int }{{8, 0}, {1, 16}, {2, 16}, {4, 16}, {8, 16}} {
		if err := s.isolate(ctx, l, &s.Hosts, fmt.Sprintf("hosts-%d-bound-%d", of.hosts, of.perHost), isolation{Kind: "hang", Healthy: 100, Slow: 96, Hosts: of.hosts, PerHost: of.perHost}); err != nil {
			return err
		}
	}
	for _, longest := range []int{800, 1200, 1600, 2400, 4000} {
		if err := s.late(ctx, l, longest); err != nil {
			return err
		}
	}
	for _, policy := range []suspensionTime{{Retries: -1, Base: 0.2}, {Retries: 2, Base: 0.2}, {Retries: 4, Base: 0.2}, {Retries: 4, Base: 1}} {
		if err := s.suspend(ctx, l, policy); err != nil {
			return err
		}
	}
	return nil
}

// hookLane is a webhook lane in YAML.
func hookLane(name string, subscriptions int, webhook string) string {
	return fmt.Sprintf("{name: %s, mode: webhook, subscriptions: %d, event: chat.message, arguments: {channel: 'channel-{{mod .Index %d}}'}, sources: '{{mod .Index %d}}', webhook: {%s}}", name, subscriptions, slowSources, slowSources, webhook)
}

// slowArgs are the arguments of a run with lanes.
func slowArgs(lanes []string, rate string, measure, drain time.Duration) []string {
	return []string{"--profile", "slow-host", "--set", "lanes=[" + strings.Join(lanes, ", ") + "]", "--set", "thresholds=[]", "--set", "schedule.rate=" + rate, "--set", "phases.measure=" + measure.String(), "--set", "phases.drain=" + drain.String()}
}

// slowServer are options of a server that asks for no proof of callbacks: a challenge would have the short
// timeout of deliveries.
func slowServer(more string) string {
	return `{"TTLMin": "1s", "Proof": "allow-list", "CallbackHosts": ["127.0.0.1"], "AllowPrivateCallbacks": true, "CallbackInsecure": true, ` + more + `}`
}

func (s *slowHost) isolate(ctx context.Context, l *lab, into *[]isolation, name string, i isolation) error {
	answer := map[string]string{
		"slow": fmt.Sprintf("{delay: %gms}", s.Hold*1000), "hang": "{hang: true, times: 1000}", "refuse": "{status: 503, times: 1000}",
	}[i.Kind]
	lanes := []string{hookLane("healthy", i.Healthy, "")}
	for h := range i.Hosts {
		lanes = append(lanes, hookLane(fmt.Sprintf("slow-%d", h+1), i.Slow/i.Hosts, "answer: ["+answer+"]"))
	}
	timeout := "5s"
	if i.Kind == "hang" {
		timeout = fmt.Sprintf("%gms", s.Hold*1000) // a hanging delivery holds its sender for as long as a slow one
	}
	measure := l.duration(12*time.Second, 5*time.Second)
	options := slowServer(fmt.Sprintf(`"Senders": %d, "SendersPerHost": %d, "AckTimeout": "%s", "RetryMax": -1, "SuspendAfter": -1`, s.Senders, i.PerHost, timeout))
	r, _, err := l.runServed(ctx, name, options, slowArgs(lanes, fmt.Sprintf("%d/s", slowRate), measure, 3*time.Second)...)
	if err != nil {
		return err
	}
	q := r.Lanes[0].Latency.FromSent
	i.Lost = r.Lanes[0].Expected - r.Lanes[0].Delivered
	i.P50, i.P99 = time.Duration(q.P50).Seconds(), time.Duration(q.P99).Seconds()
	i.Expected = quantile(s.model(&i, 1+measure.Seconds()).healthyLatencies(1), 0.99)
	*into = append(*into, i)
	return nil
}

func (s *slowHost) late(ctx context.Context, l *lab, longest int) error {
	a := ackDelay{Longest: float64(longest) / 1000, Timeout: 1, Retries: 2}
	lane := hookLane("late", 300, fmt.Sprintf("answer: [{delay: 0s, delayTo: %dms}]", longest))
	options := slowServer(fmt.Sprintf(`"Senders": 2000, "AckTimeout": "1s", "RetryMax": %d, "RetryBase": "200ms", "SuspendAfter": -1`, a.Retries))
	r, _, err := l.runServed(ctx, fmt.Sprintf("late-%d", longest), options, slowArgs([]string{lane}, "4/s", l.duration(10*time.Second, 5*time.Second), 10*time.Second)...)
	if err != nil {
		return err
	}
	a.Delivered, a.Rate = r.Lanes[0].Delivered, r.Lanes[0].Duplicates.Rate
	s.Duplicates = append(s.Duplicates, a)
	return nil
}

func (s *slowHost) suspend(ctx context.Context, l *lab, p suspensionTime) error {
	const ttl = 16
	s.Refresh = 0.75 * ttl
	p.Subs, p.Rate = slowSources, 4
	lane := hookLane("refusing", p.Subs, fmt.Sprintf("ttl: %ds, refreshJitter: 0, answer: [{status: 503, times: 1000}]", ttl))
	options := slowServer(fmt.Sprintf(`"RetryMax": %d, "RetryBase": "%gs", "SuspendAfter": %d`, p.Retries, p.Base, s.SuspendAfter))
	r, all, err := l.runServed(ctx, fmt.Sprintf("suspend-%d-%g", p.Retries, p.Base*1000), options,
		append(slowArgs([]string{lane}, fmt.Sprintf("%g/s", p.Rate*slowSources), 18*time.Second, time.Second), "--set", "phases.warmup=0s")...)
	if err != nil {
		return err
	}
	p.follow(r, all)
	var sum float64
	for seed := range uint64(50) {
		sum += simulateSuspension(p.Subs, s.SuspendAfter, max(p.Retries, 0), p.Base, p.Rate, seed)
	}
	p.Expected = sum / 50
	s.Suspensions = append(s.Suspensions, p)
	return nil
}

// follow finds in the server's attempts when they stopped and when they went on.
func (p *suspensionTime) follow(r *results.Result, all []sample) {
	from, _, err := phase(r, "measure")
	if err != nil {
		return
	}
	const still = 1.0 // seconds without an attempt that are a suspension of all
	stopped := from
	last := 0.0
	for _, a := range all {
		n := attemptsOf(&a.stats)
		if n != last {
			if last > 0 && a.at.Sub(stopped).Seconds() > still {
				p.Paused = a.at.Sub(stopped).Seconds()
				break
			}
			stopped, last = a.at, n
		}
	}
	p.Took, p.Attempts = stopped.Sub(from).Seconds(), last/float64(p.Subs)
}
