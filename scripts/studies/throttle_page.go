package main

import (
	"fmt"
	"math"
	"strings"
)

// What was expected before the first measurement. The page says what of it held.
const (
	throttleLostWithin = 0.05 // of the owed events
	throttleWaitWithin = 0.25 // of the expected longest wait, and throttleWaitSlack
	throttleSlackMS    = 150
	throttleLateMS     = 250 // a client sees a delay where its p99 is this much above that of the server that is not throttled
)

func (s *throttle) at(way, mode string) *throttlePoint {
	for i := range s.Points {
		if p := &s.Points[i]; p.Way == way && p.Mode == mode {
			return p
		}
	}
	return nil
}

// silently is what a client cannot tell from what it receives.
const silently = "**events are missing without an announcement**"

// sees says what a client of a mode can tell from what it receives.
func (s *throttle) sees(p *throttlePoint) string {
	var signs []string
	if base := s.at("none", p.Mode); base != nil && p != base && p.P99MS.Low > base.P99MS.High+throttleLateMS {
		signs = append(signs, "events come late")
	}
	if p.Announced > 0 {
		signs = append(signs, "gaps are announced")
	}
	if p.StatusThrottled > 0 {
		signs = append(signs, fmt.Sprintf("%s of %s refreshes answer throttled, for up to %s", count(p.StatusThrottled), count(p.StatusRead), milli(p.RetryAfterMS)))
	}
	if p.Silent > 0 {
		signs = append(signs, silently)
	}
	if len(signs) == 0 {
		return "nothing"
	}
	return strings.Join(signs, "; ")
}

func (s *throttle) write(p *page) {
	p.answer("**%s.** %s", s.told(), s.costs())
	p.text("The server is offered %s events per second for each of %d subscriptions of a mode, for %s, and delivers %s: by holding events back; by holding back up to %d events, and then dropping the oldest; by dropping every second one and saying so; or by dropping it without an announcement.",
		short(s.Offered), s.Subscriptions, seconds(s.Seconds), short(s.Allowed), s.Queue)
	p.heading("What a client sees")
	var rows [][]string
	for _, w := range throttleWays {
		row := []string{w.title}
		for _, m := range throttleModes {
			sees := "–"
			if q := s.at(w.way, m); q != nil {
				sees = s.sees(q)
			}
			row = append(row, sees)
		}
		rows = append(rows, row)
	}
	p.table(append([]string{"the server"}, throttleModes...), rows)
	p.text("A delay is seen where the 99th percentile is %d ms above that of the server that is not throttled, in all repeats. Polls come every %s. Webhook subscriptions are refreshed every %s here; the answer may say that deliveries are throttled. Polls and streams have no such answer.", throttleLateMS, milli(s.PollSeconds*1e3), seconds(1.5))
	p.heading("What becomes of the events")
	p.chart("lost", "share of events lost by way of throttling", s.barChart("Lost of what was owed", "lost, %",
		func(q *throttlePoint) float64 { return 100 * q.lost() }, func(o throttleOutcome) float64 { return 100 * (o.announced + o.silent) }))
	p.chart("wait", "longest wait by way of throttling", s.barChart("The longest wait of an event that arrived", "scheduled → received, s",
		func(q *throttlePoint) float64 { return q.MaxMS.Median / 1e3 }, func(o throttleOutcome) float64 { return o.longest }))
	s.table(p)
	p.heading("What was expected before")
	s.hypotheses(p)
	p.changesIt("How long the server is offered too much: a delay without a bound grows as long, here by %s for each second.", seconds(s.Offered/s.Allowed-1))
	p.changesIt("A longer queue: events wait longer before the first is dropped.")
	p.changesIt("Real servers choose what they drop: the newest, the largest, or all of one tenant. The account of what is lost stays the same.")
}

func (p *throttlePoint) lost() float64 {
	if p.Owed == 0 {
		return 0
	}
	return float64(p.Announced+p.Silent+p.OtherLost) / float64(p.Owed)
}

// told says under which ways clients see something.
func (s *throttle) told() string {
	var yes, no []string
	for _, w := range throttleWays[1:] {
		seen, points := 0, 0
		for _, m := range throttleModes {
			if q := s.at(w.way, m); q != nil {
				points++
				if got := s.sees(q); got != "nothing" && got != silently {
					seen++
				}
			}
		}
		switch {
		case points == 0:
		case seen == points:
			yes = append(yes, w.title)
		case seen == 0:
			no = append(no, w.title)
		default:
			no = append(no, fmt.Sprintf("%s (%d of %d modes)", w.title, points-seen, points))
		}
	}
	text := "In every mode, a client can tell that the server is throttled if events are " + join(yes)
	switch {
	case len(yes) == 0:
		return "A client can tell in no mode that the server is throttled, whether events are " + join(no)
	case len(no) > 0:
		text += ", but not if they are " + join(no)
	}
	return text
}

func join(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// costs says how delays and announcements are paid for.
func (s *throttle) costs() string {
	var parts []string
	for _, m := range throttleModes {
		base, delay, announce := s.at("none", m), s.at("delay", m), s.at("announce", m)
		if base == nil || delay == nil || announce == nil {
			continue
		}
		more := "as many bytes"
		if announce.Bytes.Low > base.Bytes.High || announce.Bytes.High < base.Bytes.Low {
			more = number(announce.Bytes.Median/base.Bytes.Median) + " times the bytes"
		}
		parts = append(parts, fmt.Sprintf("%s waits up to %s where events are delayed, and takes %s per event where gaps are announced", m, milli(delay.MaxMS.Median), more))
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("In %s of overload, %s.", seconds(s.Seconds), strings.Join(parts, "; "))
}

// barChart draws a marker for each mode at each way, and dashes for what was expected.
func (s *throttle) barChart(title, y string, of func(*throttlePoint) float64, expected func(throttleOutcome) float64) chart {
	names := make([]string, len(throttleWays))
	for i, w := range throttleWays {
		names[i] = w.label
	}
	ch := chart{title: title, x: axis{title: "the server's way", names: names}, y: axis{title: y}}
	var dashed []series
	for i, m := range throttleModes {
		line := series{name: m, hue: i + 1, apart: true}
		e := series{name: m + ", expected", expected: true, hue: i + 1}
		shift := 0.12 * float64(i-1)
		for j, w := range throttleWays {
			q := s.at(w.way, m)
			if q == nil {
				continue
			}
			line.points = append(line.points, point{x: float64(j) + shift, y: of(q)})
			want := expected(s.expect(w.way, m))
			e.points = append(e.points, point{x: float64(j) + shift - 0.05, y: want}, point{x: float64(j) + shift + 0.05, y: want}, point{x: math.NaN()})
		}
		ch.series, dashed = append(ch.series, line), append(dashed, e)
	}
	ch.series = append(ch.series, dashed...)
	return ch
}

func (s *throttle) table(p *page) {
	var rows [][]string
	for i := range s.Points {
		q := &s.Points[i]
		title := q.Way
		for _, w := range throttleWays {
			if w.way == q.Way {
				title = w.title
			}
		}
		o := s.expect(q.Way, q.Mode)
		rows = append(rows, []string{title, q.Mode, count(q.Owed), percent(share(q.Announced, q.Owed)), percent(o.announced), percent(share(q.Silent, q.Owed)), percent(o.silent), percent(share(q.OtherLost, q.Owed)),
			scaled(q.P50MS).String(), scaled(q.MaxMS).String(), number(o.longest), q.Bytes.String()})
	}
	p.table([]string{"the server", "mode", "owed", "lost, announced", "expected", "lost silently", "expected", "other losses", "p50, s", "longest, s", "expected", "bytes per event"}, rows)
	p.text("Announced losses include events whose order relative to an announcement is unknown. Figures with a range are the median of the repeats.")
}

func share(n, of int64) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

// scaled converts milliseconds to seconds.
func scaled(s spread) spread {
	s.Low, s.Median, s.High = s.Low/1e3, s.Median/1e3, s.High/1e3
	return s
}

func (s *throttle) hypotheses(p *page) {
	var rows [][]string
	add := func(what string, ok bool, found string) { rows = append(rows, []string{what, held(ok), found}) }
	var lost, wait, kind []string
	for i := range s.Points {
		q := &s.Points[i]
		o, where := s.expect(q.Way, q.Mode), q.Way+", "+q.Mode
		if a, b := share(q.Announced, q.Owed), share(q.Silent, q.Owed); math.Abs(a-o.announced) > throttleLostWithin || math.Abs(b-o.silent) > throttleLostWithin {
			lost = append(lost, fmt.Sprintf("%s: %s announced and %s silently", where, percent(a), percent(b)))
		}
		if math.Abs(q.MaxMS.Median-o.longest*1e3) > throttleWaitWithin*o.longest*1e3+throttleSlackMS {
			wait = append(wait, fmt.Sprintf("%s: %s", where, milli(q.MaxMS.Median)))
		}
		if q.Silent > 0 != (o.silent > 0) || q.Announced > 0 != (o.announced > 0) || q.OtherLost > 0 {
			kind = append(kind, where)
		}
	}
	found := func(off []string) string {
		if len(off) == 0 {
			return "everywhere"
		}
		return "not so: " + strings.Join(off, "; ")
	}
	ok := len(s.Points) > 0
	add(fmt.Sprintf("Events are lost in the expected shares, within %g of 100 owed", throttleLostWithin*100), ok && len(lost) == 0, found(lost))
	add("A way of throttling leads to losses of one kind, and the account does not mistake it for another", ok && len(kind) == 0, found(kind))
	add(fmt.Sprintf("The longest wait is the expected one, within %g %% and %d ms", throttleWaitWithin*100, throttleSlackMS), ok && len(wait) == 0, found(wait))
	var told []string
	for _, m := range throttleModes {
		if q := s.at("delay", m); q != nil && q.StatusThrottled > 0 {
			told = append(told, m)
		}
	}
	add("Only webhooks say that deliveries are delayed: their refreshes answer throttled", len(told) == 1 && told[0] == "webhook", "said by "+fmt.Sprint(told))
	p.table([]string{"expected", "verdict", "found"}, rows)
}
