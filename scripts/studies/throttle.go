package main

import (
	"context"
	"fmt"
	"time"

	"github.com/eventmeter/eventmeter/results"
)

// throttle shows a server that delivers half of what is published, by four ways to do so, as the
// clients of each mode see it.
type throttle struct {
	Subscriptions int             `json:"subscriptions"` // of each mode
	Offered       float64         `json:"offered"`       // events per second to a subscription
	Allowed       float64         `json:"allowed"`       // events per second that the server delivers to it
	Queue         int             `json:"queue"`         // events, where a full queue drops the oldest
	Seconds       float64         `json:"seconds"`       // how long events were published
	PollSeconds   float64         `json:"pollSeconds"`
	Points        []throttlePoint `json:"points"`
}

// throttlePoint is a mode under a way of throttling, all repeats together.
type throttlePoint struct {
	Way             string  `json:"way"` // none, delay, queue, announce or drop
	Mode            string  `json:"mode"`
	Owed            int64   `json:"owed"`
	Delivered       int64   `json:"delivered"`
	Announced       int64   `json:"announced"` // lost, and those whose order beside the announcement is not known
	Silent          int64   `json:"silent"`    // lost
	OtherLost       int64   `json:"otherLost"`
	P50MS           spread  `json:"p50Ms"` // scheduled → received
	P99MS           spread  `json:"p99Ms"`
	MaxMS           spread  `json:"maxMs"`
	Bytes           spread  `json:"bytes"`           // per delivered event
	StatusRead      int64   `json:"statusRead"`      // answers to refreshes with a delivery status
	StatusThrottled int64   `json:"statusThrottled"` // those that said throttled
	RetryAfterMS    float64 `json:"retryAfterMs"`    // largest that they said
}

// throttleWay is a way to deliver less than is published.
type throttleWay struct {
	way, title, label string
	args              func(*throttle) []string
	drain             func(*throttle) time.Duration
}

var throttleWays = []throttleWay{
	{"none", "not throttled", "not throttled", func(*throttle) []string { return nil }, shortDrain},
	{"delay", "delayed", "delayed", func(s *throttle) []string {
		return []string{"--set", fmt.Sprintf("target.embedded.faults=throttle(rate=%g/s)", s.Allowed)}
	}, func(s *throttle) time.Duration {
		return time.Duration(s.Seconds*(s.Offered/s.Allowed-1)*float64(time.Second)) + 6*time.Second
	}},
	// Lanes take turns, so that each has the capacity to itself.
	{"queue", "delayed until a queue is full", "full queue", func(s *throttle) []string {
		return []string{"--set", "phases.order=turns", "--set", fmt.Sprintf("target.embedded.capacity=%g/s", s.Allowed*float64(s.Subscriptions)),
			"--set", fmt.Sprintf("target.embedded.queue=%d", s.Queue), "--set", fmt.Sprintf("target.embedded.buffer=%d", s.Queue)}
	}, func(s *throttle) time.Duration {
		return time.Duration(float64(s.Queue)/s.Allowed*float64(time.Second)) + 3*time.Second
	}},
	{"announce", "dropped and announced", "announced", func(s *throttle) []string {
		return []string{"--set", fmt.Sprintf("target.embedded.faults=announce(every=%g)", s.Offered/(s.Offered-s.Allowed))}
	}, shortDrain},
	{"drop", "dropped silently", "silently", func(s *throttle) []string {
		return []string{"--set", fmt.Sprintf("target.embedded.faults=drop(every=%g)", s.Offered/(s.Offered-s.Allowed))}
	}, shortDrain},
}

func shortDrain(*throttle) time.Duration { return 3 * time.Second }

const (
	throttleSubscriptions = 10
	throttleOffered       = 40.0
	throttleAllowed       = 20.0 // half, so that every second event is dropped where events are dropped
	throttleQueue         = 20
	throttlePoll          = 250 * time.Millisecond
	throttleRepeats       = 2
)

var throttleModes = []string{"push", "poll", "webhook"}

func (s *throttle) measure(ctx context.Context, l *lab) error {
	measure := l.duration(10*time.Second, 3*time.Second)
	s.Subscriptions, s.Offered, s.Allowed, s.Queue, s.PollSeconds, s.Seconds = throttleSubscriptions, throttleOffered, throttleAllowed, throttleQueue, throttlePoll.Seconds(), measure.Seconds()
	for _, w := range throttleWays {
		var runs []*results.Result
		for i := range repeats(l, throttleRepeats) {
			r, err := l.run(ctx, fmt.Sprintf("%s-%d", w.way, i+1), append([]string{"--profile", "compare", "--set", fmt.Sprintf("lanes.*.subscriptions=%d", s.Subscriptions),
				"--set", "lanes.*.sources=0", "--set", `lanes.*.arguments={channel: "channel-0"}`, "--set", "upstream.sources=1", "--set", fmt.Sprintf("schedule={kind: constant, rate: %g/s}", s.Offered),
				"--set", "target.embedded.nextPoll=" + throttlePoll.String(), "--set", "lanes.poll.poll.minInterval=" + throttlePoll.String(),
				"--set", "lanes.webhook.webhook.ttl=2s", "--set", "target.embedded.ttlMin=1s",
				"--set", "phases.warmup=0s", "--set", "phases.measure=" + measure.String(), "--set", "phases.drain=" + w.drain(s).String()}, w.args(s)...)...)
			if err != nil {
				return err
			}
			runs = append(runs, r)
		}
		for _, mode := range throttleModes {
			p, err := throttled(w.way, mode, runs)
			if err != nil {
				return err
			}
			s.Points = append(s.Points, p)
		}
	}
	return nil
}

// throttled adds up what the lane of a mode saw.
func throttled(way, mode string, runs []*results.Result) (throttlePoint, error) {
	p := throttlePoint{Way: way, Mode: mode}
	var p50, p99, most, bytes []float64
	for _, r := range runs {
		for i := range r.Lanes {
			lr := &r.Lanes[i]
			if lr.Name != mode {
				continue
			}
			announced := lr.LostAnnounced + lr.LostOrderUnknown
			p.Owed, p.Delivered = p.Owed+lr.Expected, p.Delivered+lr.Delivered
			p.Announced, p.Silent, p.OtherLost = p.Announced+announced, p.Silent+lr.LostSilent, p.OtherLost+lr.Lost()-announced-lr.LostSilent
			p50, p99, most = append(p50, milliseconds(lr.Latency.FromIntended.P50)), append(p99, milliseconds(lr.Latency.FromIntended.P99)), append(most, milliseconds(lr.Latency.FromIntended.Max))
			bytes = append(bytes, lr.Overhead.TotalPerDelivered.Bytes)
			p.StatusRead, p.StatusThrottled = p.StatusRead+int64(lr.Figures["statusRead"]), p.StatusThrottled+int64(lr.Figures["statusThrottled"])
			p.RetryAfterMS = max(p.RetryAfterMS, milliseconds(lr.Timings["statusRetryAfter"].Max))
		}
	}
	if p.Delivered == 0 {
		return p, fmt.Errorf("%s: nothing was measured in lane %s", way, mode)
	}
	p.P50MS, p.P99MS, p.MaxMS, p.Bytes = spreadOf(p50), spreadOf(p99), spreadOf(most), spreadOf(bytes)
	return p, nil
}

// throttleOutcome is what a way of throttling is expected to do.
type throttleOutcome struct {
	announced, silent float64 // shares of the owed events
	longest           float64 // wait of an event that arrives, seconds
}

// unbounded is more deliveries per second, and more events, than there are.
const unbounded = 1e9

// expect says what becomes of the events. Where they are delayed without a bound, the n-th event
// waits for those before it: the last one of a time T waits T × (offered ÷ allowed − 1).
func (s *throttle) expect(way, mode string) throttleOutcome {
	first, poll := 0.0, 0.0 // waits for the first poll, which is up to two intervals away, and for a later one
	if mode == "poll" {
		first, poll = expectPolls(s.Offered, unbounded, unbounded, s.Subscriptions, s.PollSeconds, s.Seconds, false).longest, s.PollSeconds
	}
	dropped := 1 - s.Allowed/s.Offered
	switch way {
	case "delay":
		return throttleOutcome{longest: s.Seconds*(s.Offered/s.Allowed-1) + poll}
	case "announce":
		return throttleOutcome{announced: dropped, longest: first}
	case "drop":
		return throttleOutcome{silent: dropped, longest: first}
	case "queue":
		q := expectQueue(s.Offered, s.Allowed, s.Queue, s.Seconds)
		if mode == "poll" {
			q = expectPolls(s.Offered, s.Allowed*float64(s.Subscriptions), s.Queue, s.Subscriptions, s.PollSeconds, s.Seconds, false)
		}
		return throttleOutcome{announced: q.lost, longest: q.longest}
	default:
		return throttleOutcome{longest: first}
	}
}
