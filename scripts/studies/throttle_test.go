package main

import (
	"math"
	"testing"
)

// throttleByHand is a server that does what is expected.
func throttleByHand() *throttle {
	s := &throttle{Subscriptions: 10, Offered: 40, Allowed: 20, Queue: 20, Seconds: 10, PollSeconds: 0.25}
	for _, w := range throttleWays {
		for _, m := range throttleModes {
			e := s.expect(w.way, m)
			p := throttlePoint{Way: w.way, Mode: m, Owed: 4000, Announced: int64(math.Round(4000 * e.announced)), Silent: int64(math.Round(4000 * e.silent)), MaxMS: exactly(e.longest * 1e3), P99MS: exactly(e.longest * 990), Bytes: exactly(300)}
			p.Delivered = p.Owed - p.Announced - p.Silent
			if w.way == "delay" && m == "webhook" {
				p.StatusRead, p.StatusThrottled, p.RetryAfterMS = 60, 50, 5500
			}
			s.Points = append(s.Points, p)
		}
	}
	return s
}

func TestThrottleExpected(t *testing.T) {
	s := throttleByHand()
	for _, c := range []struct {
		way, mode string
		want      throttleOutcome
	}{
		{"delay", "poll", throttleOutcome{longest: 10.25}},
		{"none", "push", throttleOutcome{}},
		{"none", "poll", throttleOutcome{longest: 0.4875}},                     // the first poll of the last of ten, after 1.95 intervals
		{"delay", "push", throttleOutcome{longest: 10}},                        // 400 events at 20/s are over after 20 s
		{"queue", "webhook", throttleOutcome{announced: 0.45, longest: 1}},     // 200 too many, 20 of them in the queue
		{"announce", "poll", throttleOutcome{announced: 0.5, longest: 0.4875}}, // every second one
		{"drop", "webhook", throttleOutcome{silent: 0.5}},                      // the same without an announcement
	} {
		got := s.expect(c.way, c.mode)
		if math.Abs(got.announced-c.want.announced) > 1e-9 || math.Abs(got.silent-c.want.silent) > 1e-9 || math.Abs(got.longest-c.want.longest) > 1e-6 {
			t.Errorf("%s, %s: %+v, want %+v", c.way, c.mode, got, c.want)
		}
	}
}

func TestThrottlePage(t *testing.T) {
	s := throttleByHand()
	says(t, pageOf(t, s),
		"**In every mode, a client can tell that the server is throttled if events are delayed, delayed until a queue is full or dropped and announced, but not if they are dropped silently.**",
		"| delayed | events come late | events come late | events come late; 50 of 60 refreshes answer throttled, for up to 5.50 s |",
		"| dropped silently | **events are missing without an announcement** |", "takes as many bytes per event where gaps are announced",
		"within 5 of 100 owed | Held | everywhere |", "mistake it for another | Held |", "25 % and 150 ms | Held |", "refreshes answer throttled | Held | said by [webhook] |",
	)
	for i := range s.Points {
		p := &s.Points[i]
		switch p.Way {
		case "drop": // the account mistakes silence for announcements
			p.Announced, p.Silent = p.Silent, 0
		case "delay":
			p.MaxMS, p.P99MS, p.StatusThrottled = exactly(100), exactly(100), 0
		case "announce":
			p.Bytes = exactly(900)
		}
	}
	says(t, pageOf(t, s),
		"dropped and announced or dropped silently, but not if they are delayed.**",
		"takes 3.00 times the bytes per event where gaps are announced",
		"within 5 of 100 owed | **Did not hold** | not so: drop, push: 50.0 % announced and 0.0 % silently;", "mistake it for another | **Did not hold** |", "25 % and 150 ms | **Did not hold** | not so: delay, push: 100 ms;", "refreshes answer throttled | **Did not hold** | said by [] |",
	)
	s.Points = nil
	pageOf(t, s) // nothing was measured: no panic
}
