package main

import (
	"context"
	"fmt"
	"time"

	"github.com/eventmeter/eventmeter/results"
)

// saturation raises the rate of events of a subscription until each mode stops keeping up: on a
// server whose capacity is known, where queues follow from arithmetic, and on one that is bounded by
// the machine alone.
type saturation struct {
	Subscriptions     int        `json:"subscriptions"`     // of the bounded server; all of the same source
	FreeSubscriptions int        `json:"freeSubscriptions"` // of the other one
	Capacity          float64    `json:"capacity"`          // of the bounded server, deliveries per second
	Queue             int        `json:"queue"`             // events, of a subscriber, and of the buffer that polls read
	PollSeconds       float64    `json:"pollSeconds"`       // between polls
	PauseSeconds      float64    `json:"pauseSeconds"`      // between the answer of a long poll and the next one
	Seconds           float64    `json:"seconds"`           // how long a rate of the bounded server was offered
	Bounded           []satPoint `json:"bounded"`
	Free              []satPoint `json:"free"`
}

// satPoint is a mode at a rate.
type satPoint struct {
	Mode            string  `json:"mode"`
	Rate            float64 `json:"rate"`      // offered to a subscription, events per second
	Delivered       float64 `json:"delivered"` // read by a subscription in the measured phase, events per second
	Owed            int64   `json:"owed"`
	LostAnnounced   int64   `json:"lostAnnounced"` // those whose order beside the announcement is not known included
	LostOther       int64   `json:"lostOther"`
	NotPublished    int64   `json:"notPublished"` // due while the generator had no free worker
	P50MS           float64 `json:"p50Ms"`        // scheduled → received
	P99MS           float64 `json:"p99Ms"`
	MaxMS           float64 `json:"maxMs"`
	ServerMicros    float64 `json:"serverMicros"` // CPU per event received
	GeneratorMicros float64 `json:"generatorMicros"`
}

var (
	satModes    = []string{"poll", "longpoll", "push", "webhook"}
	satBounded  = []float64{50, 110, 200, 1000}
	satFree     = []float64{1, 10, 100, 300, 1000, 3000}
	satUnitRate = 100.0 // at which an event's CPU is read, to expect the limit of the machine
)

const (
	satSubscriptions = 10
	satFreeSubs      = 50 // so that deliveries reach the machine's limit before publishing does
	satCapacity      = 1000.0
	satQueue         = 100
	satPoll          = 250 * time.Millisecond
	satPause         = 50 * time.Millisecond
)

func (s *saturation) measure(ctx context.Context, l *lab) error {
	s.Subscriptions, s.FreeSubscriptions, s.Capacity, s.Queue, s.PollSeconds, s.PauseSeconds = satSubscriptions, satFreeSubs, satCapacity, satQueue, satPoll.Seconds(), satPause.Seconds()
	bounded := l.duration(6*time.Second, 2*time.Second)
	s.Seconds = bounded.Seconds()
	for _, mode := range satModes {
		for _, rate := range satBounded {
			p, err := s.point(ctx, l, "bounded", mode, s.Subscriptions, rate, bounded,
				"--set", fmt.Sprintf("target.embedded.capacity=%g/s", satCapacity), "--set", fmt.Sprintf("target.embedded.queue=%d", satQueue), "--set", fmt.Sprintf("target.embedded.buffer=%d", satQueue),
				"--set", "phases.warmup=0s")
			if err != nil {
				return err
			}
			s.Bounded = append(s.Bounded, p)
		}
		for _, rate := range satFree {
			p, err := s.point(ctx, l, "free", mode, s.FreeSubscriptions, rate, l.duration(4*time.Second, 2*time.Second), "--set", "phases.warmup=1s")
			if err != nil {
				return err
			}
			s.Free = append(s.Free, p)
		}
	}
	return nil
}

func (s *saturation) point(ctx context.Context, l *lab, server, mode string, subscriptions int, rate float64, measure time.Duration, more ...string) (satPoint, error) {
	lane := "lanes." + mode
	args := []string{"--profile", mode, "--set", fmt.Sprintf("%s.subscriptions=%d", lane, subscriptions), "--set", lane + ".sources=0", "--set", lane + `.arguments={channel: "channel-0"}`,
		"--set", "upstream.sources=1", "--set", fmt.Sprintf("schedule={kind: constant, rate: %g/s}", rate), "--set", "phases.measure=" + measure.String(), "--set", "phases.drain=4s"}
	if mode == "poll" {
		args = append(args, "--set", "target.embedded.nextPoll="+satPoll.String(), "--set", "lanes.poll.poll.minInterval="+satPoll.String())
	}
	name := fmt.Sprintf("%s-%s-%g", server, mode, rate)
	r, err := l.run(ctx, name, append(args, more...)...)
	if err != nil {
		return satPoint{}, err
	}
	lr := &r.Lanes[0]
	if lr.Received == 0 || r.Target.Process == nil {
		return satPoint{}, fmt.Errorf("%s: nothing was measured: %d events received", name, lr.Received)
	}
	return satPoint{Mode: mode, Rate: rate, Owed: lr.Expected, NotPublished: r.Upstream.Dropped,
		Delivered:     float64(lr.Overhead.Measured.Received) / float64(subscriptions) / phaseSeconds(r, "measure"),
		LostAnnounced: lr.LostAnnounced + lr.LostOrderUnknown, LostOther: lr.Lost() - lr.LostAnnounced - lr.LostOrderUnknown,
		P50MS: milliseconds(lr.Latency.FromIntended.P50), P99MS: milliseconds(lr.Latency.FromIntended.P99), MaxMS: milliseconds(lr.Latency.FromIntended.Max),
		ServerMicros: perReceived(r.Target.Process, lr), GeneratorMicros: perReceived(&r.Generator.Process, lr)}, nil
}

// perReceived is the CPU of a process for each event that a lane received, in microseconds.
func perReceived(p *results.Process, l *results.Lane) float64 {
	return float64(p.CPU) / 1e3 / float64(l.Received)
}

// queueing is what becomes of events at a subscription that is offered more than it is served.
type queueing struct {
	lost    float64 // share of the events, dropped as the oldest of a full queue
	longest float64 // wait of an event that arrives, seconds
}

// expectQueue is the outcome of rate events per second for a time, at a subscription that is served
// perSecond of them and whose queue holds a number of events: the queue grows by the difference, and
// is emptied afterwards.
func expectQueue(rate, perSecond float64, queue int, seconds float64) queueing {
	excess := (rate - perSecond) * seconds
	if excess <= 0 {
		return queueing{}
	}
	lost := max(0, excess-float64(queue))
	return queueing{lost: lost / (rate * seconds), longest: min(excess, float64(queue)) / perSecond}
}

// expectPolls is the outcome of polls by simulation. A poll takes the newest events up to the size of
// the buffer, its answer waits until the server may deliver that many, and the next one follows after
// a pause. The first polls are spread over one more pause, as pollers do. An empty long poll waits for
// the next event.
func expectPolls(rate, capacity float64, buffer, subscribers int, pause, seconds float64, long bool) queueing {
	total := int(rate * seconds)
	at := func(event int) float64 { return float64(event) / rate } // of event 0, 1, …
	next, read := make([]float64, subscribers), make([]int, subscribers)
	for i := range next {
		next[i] = pause * (1 + (float64(i)+0.5)/float64(subscribers))
	}
	var q queueing
	free, lost := 0.0, 0
	for {
		who := 0
		for i := range next {
			if read[who] == total || read[i] < total && next[i] < next[who] {
				who = i
			}
		}
		if read[who] == total {
			break
		}
		now := next[who]
		if long {
			now = max(now, at(read[who]))
		}
		there := min(total, int(now*rate+1e-9)+1)
		n := min(there-read[who], buffer)
		lost += there - read[who] - n
		if n <= 0 {
			next[who] = now + pause
			continue
		}
		free = max(free, now) + float64(n)/capacity
		q.longest = max(q.longest, free-at(there-n))
		read[who], next[who] = there, free+pause
	}
	q.lost = float64(lost) / float64(total*subscribers)
	return q
}

// expect is the outcome of a point of the bounded server.
func (s *saturation) expect(mode string, rate float64) queueing {
	switch mode {
	case "poll":
		return expectPolls(rate, s.Capacity, s.Queue, s.Subscriptions, s.PollSeconds, s.Seconds, false)
	case "longpoll":
		return expectPolls(rate, s.Capacity, s.Queue, s.Subscriptions, s.PauseSeconds, s.Seconds, true)
	default:
		return expectQueue(rate, s.Capacity/float64(s.Subscriptions), s.Queue, s.Seconds)
	}
}

// lost is the share of the owed events that never arrived.
func (p *satPoint) lost() float64 {
	if p.Owed == 0 {
		return 0
	}
	return float64(p.LostAnnounced+p.LostOther) / float64(p.Owed)
}
