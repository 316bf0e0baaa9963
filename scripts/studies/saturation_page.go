package main

import (
	"fmt"
	"math"
	"strings"
)

// What was expected before the first measurement. The page says what of it held.
const (
	satLossWithin  = 0.05 // of all events: measured and expected loss of the bounded server
	satWaitWithin  = 0.25 // of the expected longest wait, and satWaitSlack
	satWaitSlackMS = 150
	satSlowerMS    = 500  // a mode keeps up while its p99 is at most this much above that of the lowest rate
	satReached     = 0.95 // and this share of the offered events is read while they are published
	satLimitWithin = 2.0  // factor between the limit of the machine and what an event's CPU predicts
)

// keepsUp says whether a mode kept up with a rate: nothing was lost, and the p99 did not run away.
func (s *saturation) keepsUp(p *satPoint) bool {
	for i := range s.Free {
		if low := &s.Free[i]; low.Mode == p.Mode { // the lowest rate comes first
			return p.NotPublished == 0 && p.lost() == 0 && p.P99MS <= low.P99MS+satSlowerMS && (p.Rate < 10 || p.Delivered >= satReached*p.Rate)
		}
	}
	return false
}

// limit is the highest rate with which a mode kept up before the first with which it did not, and
// that one. Both are 0 where there is none.
func (s *saturation) limit(mode string) (highest, next float64) {
	for i := range s.Free {
		p := &s.Free[i]
		switch {
		case p.Mode != mode:
		case !s.keepsUp(p):
			return highest, p.Rate
		default:
			highest = p.Rate
		}
	}
	return highest, 0
}

// expectLimit is the rate of a subscription at which the machine is busy, if an event costs as much
// as at the rate where its CPU was read.
func (s *saturation) expectLimit(mode string, cpus int) float64 {
	for i := range s.Free {
		if p := &s.Free[i]; p.Mode == mode && p.Rate == satUnitRate {
			return float64(cpus) * 1e6 / (p.ServerMicros + p.GeneratorMicros) / float64(s.FreeSubscriptions)
		}
	}
	return math.NaN()
}

func (s *saturation) write(p *page) {
	p.answer("**%s** %s", s.limits(), s.oldest())
	p.heading("A server whose capacity is known")
	served := s.Capacity / float64(s.Subscriptions)
	p.text("The server delivers %s events per second and has %d subscriptions that all receive the same events, so a subscription is served %s of them per second. Its queue, and the buffer that polls read, holds %d. A rate is offered for %s. Where a subscription is offered more, the queue grows by the difference; an event waits for those before it, at most %s; then the oldest in the queue is dropped for each new one. What becomes of polls was simulated: a poll takes the newest %d events at most, and all polls wait in one line.",
		number(s.Capacity), s.Subscriptions, short(served), s.Queue, seconds(s.Seconds), seconds(float64(s.Queue)/served), s.Queue)
	p.chart("bounded-lost", "share of events lost by offered rate, bounded server", s.boundedChart("Lost of what was offered", "lost, %", func(q *satPoint) float64 { return 100 * q.lost() }, func(q queueing) float64 { return 100 * q.lost }))
	p.chart("bounded-wait", "longest wait of a delivered event by offered rate, bounded server", s.boundedChart("The longest wait of an event that arrived", "scheduled → received, s", func(q *satPoint) float64 { return q.MaxMS / 1e3 }, func(q queueing) float64 { return q.longest }))
	s.boundedTable(p)
	p.heading("A server that the machine bounds")
	p.text("%d subscriptions on a server without a bound. A mode keeps up with a rate where every event is published and none is lost, at least %g %% of the events are read while they are published, and its p99 is at most %d ms above that of the lowest rate. The expected limit is that of the machine: its processors, divided by the CPU that an event costs server and generator together at %s events per second.", s.FreeSubscriptions, satReached*100, satSlowerMS, short(satUnitRate))
	p.chart("free-latency", "p99 latency by offered rate", s.freeChart("Latency by offered rate", "p99 scheduled → received, ms", func(q *satPoint) float64 { return q.P99MS }))
	ch := s.freeChart("Read by offered rate", "events read per second by a subscription", func(q *satPoint) float64 { return q.Delivered })
	even := series{name: "expected: what is offered", expected: true, hue: 8}
	for _, r := range satFree {
		even.points = append(even.points, point{x: r, y: r})
	}
	ch.series = append(ch.series, even)
	p.chart("free-read", "events read by offered rate", ch)
	s.freeTable(p)
	p.heading("What was expected before")
	s.hypotheses(p)
	p.changesIt("A longer queue: an event waits longer, and fewer are dropped. No length helps a subscription that is offered more than it is served for good.")
	p.changesIt("More than %d subscriptions to a source: the limit of a subscription falls with their number, that of all deliveries hardly does.", s.FreeSubscriptions)
	p.changesIt("A generator on another machine: here it takes its share of the processors.")
}

// limits says where each mode stopped keeping up.
func (s *saturation) limits() string {
	var parts []string
	for _, m := range satModes {
		switch highest, next := s.limit(m); {
		case next == 0:
			parts = append(parts, fmt.Sprintf("%s keeps up with %s, the highest rate tried", kindOf(m).name(), short(highest)))
		case highest == 0:
			parts = append(parts, fmt.Sprintf("%s not with %s", kindOf(m).name(), short(next)))
		default:
			parts = append(parts, fmt.Sprintf("%s keeps up with %s and not with %s", kindOf(m).name(), short(highest), short(next)))
		}
	}
	return fmt.Sprintf("In events per second to each of %d subscriptions, %s.", s.FreeSubscriptions, strings.Join(parts, "; "))
}

// name is the name of a mode without its settings.
func (k modeKind) name() string {
	if k.mode == "longpoll" {
		return "long poll"
	}
	return k.mode
}

// oldest says what became of the oldest events of the overloaded, bounded server.
func (s *saturation) oldest() string {
	var announced, other int64
	var worst float64
	for i := range s.Bounded {
		p := &s.Bounded[i]
		announced, other = announced+p.LostAnnounced, other+p.LostOther
		worst = max(worst, p.MaxMS/1e3)
	}
	switch {
	case announced+other == 0:
		return "No queue overflowed: every event arrived."
	case other == 0:
		return fmt.Sprintf("Beyond the limit of a server whose capacity is known, the oldest event waits until the queue is full, at most %s here, and is then dropped with an announcement: of %s lost deliveries, none was lost silently.", seconds(worst), count(announced))
	default:
		return fmt.Sprintf("Beyond the limit of a server whose capacity is known, the oldest event waits until the queue is full, at most %s here, and is then dropped. **%s of %s lost deliveries were not announced.**", seconds(worst), count(other), count(announced+other))
	}
}

func (s *saturation) boundedChart(title, y string, of func(*satPoint) float64, expected func(queueing) float64) chart {
	ch := chart{title: title, x: axis{title: "events per second offered to a subscription", log: true}, y: axis{title: y}}
	var dashed []series
	for i, m := range satModes {
		line, e := series{name: kindOf(m).name(), hue: i + 1}, series{name: kindOf(m).name() + ", expected", expected: true, hue: i + 1}
		for j := range s.Bounded {
			if q := &s.Bounded[j]; q.Mode == m {
				line.points = append(line.points, point{x: q.Rate, y: of(q)})
			}
		}
		for r := satBounded[0]; r <= satBounded[len(satBounded)-1]*1.001; r *= 1.05 {
			e.points = append(e.points, point{x: r, y: expected(s.expect(m, r))})
		}
		if m == "webhook" { // the same queue as that of push
			ch.series = append(ch.series, line)
			continue
		}
		if m == "push" {
			e.name = "push and webhook, expected"
		}
		ch.series, dashed = append(ch.series, line), append(dashed, e)
	}
	ch.series = append(ch.series, dashed...)
	return ch
}

func (s *saturation) boundedTable(p *page) {
	var rows [][]string
	for i := range s.Bounded {
		q := &s.Bounded[i]
		e := s.expect(q.Mode, q.Rate)
		wait := "–"
		if e.longest > 0 {
			wait = number(e.longest)
		}
		rows = append(rows, []string{kindOf(q.Mode).name(), short(q.Rate), number(q.Delivered), percent(q.lost()), percent(e.lost), count(q.LostAnnounced), count(q.LostOther), number(q.P50MS / 1e3), number(q.MaxMS / 1e3), wait})
	}
	p.table([]string{"mode", "offered/s", "read/s", "lost", "expected", "announced", "not announced", "p50, s", "longest, s", "expected"}, rows)
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", share*100) }

func (s *saturation) freeChart(title, y string, of func(*satPoint) float64) chart {
	ch := chart{title: title, x: axis{title: "events per second offered to a subscription", log: true}, y: axis{title: y, log: true}}
	for i, m := range satModes {
		line := series{name: kindOf(m).name(), hue: i + 1}
		for j := range s.Free {
			if q := &s.Free[j]; q.Mode == m {
				line.points = append(line.points, point{x: q.Rate, y: of(q)})
			}
		}
		ch.series = append(ch.series, line)
	}
	return ch
}

func (s *saturation) freeTable(p *page) {
	var rows [][]string
	for i := range s.Free {
		q := &s.Free[i]
		yes := "no"
		if s.keepsUp(q) {
			yes = "yes"
		}
		rows = append(rows, []string{kindOf(q.Mode).name(), short(q.Rate), number(q.Delivered), yes, count(q.LostAnnounced), count(q.LostOther), count(q.NotPublished), number(q.P50MS), number(q.P99MS), number(q.MaxMS), number(q.ServerMicros), number(q.GeneratorMicros)})
	}
	p.table([]string{"mode", "offered/s", "read/s", "keeps up", "announced", "not announced", "not published", "p50, ms", "p99, ms", "longest, ms", "server CPU, µs", "generator CPU, µs"}, rows)
	p.text("Not announced: dropped without an announcement, or still in a queue when the drain of 4 s was over. Not published: due while the generator had no free worker.")
	rows = nil
	for _, m := range satModes {
		highest, next := s.limit(m)
		to := "–"
		if next > 0 {
			to = short(next)
		}
		rows = append(rows, []string{kindOf(m).name(), short(highest), to, number(s.expectLimit(m, p.file.Machine.CPUs))})
	}
	p.table([]string{"mode", "keeps up with, events/s", "not with", "expected limit"}, rows)
}

func (s *saturation) hypotheses(p *page) {
	var rows [][]string
	add := func(what string, ok bool, found string) { rows = append(rows, []string{what, held(ok), found}) }
	lossOff, waitOff := 0.0, 0.0
	var lossAt, waitAt string
	waits := true
	var other int64
	for i := range s.Bounded {
		q := &s.Bounded[i]
		e := s.expect(q.Mode, q.Rate)
		where := fmt.Sprintf("%s at %s/s", kindOf(q.Mode).name(), short(q.Rate))
		if off := math.Abs(q.lost() - e.lost); off >= lossOff {
			lossOff, lossAt = off, fmt.Sprintf("furthest: %s, %s where %s was expected", where, percent(q.lost()), percent(e.lost))
		}
		if off := math.Abs(q.MaxMS - e.longest*1e3); off >= waitOff {
			waitOff, waitAt = off, fmt.Sprintf("furthest: %s, %s where %s was expected", where, seconds(q.MaxMS/1e3), seconds(e.longest))
		}
		waits = waits && math.Abs(q.MaxMS-e.longest*1e3) <= satWaitWithin*e.longest*1e3+satWaitSlackMS
		other += q.LostOther
	}
	add(fmt.Sprintf("The bounded server loses the expected share, within %g of 100 events", satLossWithin*100), len(s.Bounded) > 0 && lossOff <= satLossWithin, lossAt)
	add(fmt.Sprintf("The longest wait is the expected one, within %g %% and %d ms", satWaitWithin*100, satWaitSlackMS), len(s.Bounded) > 0 && waits, waitAt)
	add("Every event that the bounded server drops is announced", other == 0, fmt.Sprintf("%s not announced", count(other)))
	for _, m := range satModes {
		highest, next := s.limit(m)
		e := s.expectLimit(m, p.file.Machine.CPUs)
		found := fmt.Sprintf("expected %s, kept up with %s", number(e), short(highest))
		// The limit lies between the two rates; above the first, where there is no other.
		verdict := held(e >= highest/satLimitWithin && e <= next*satLimitWithin)
		switch {
		case next > 0:
			found += ", not with " + short(next)
		case e >= highest/satLimitWithin:
			verdict = "Not decided"
		}
		rows = append(rows, []string{fmt.Sprintf("An event's CPU at %s/s predicts the limit of %s within a factor of %g", short(satUnitRate), kindOf(m).name(), satLimitWithin), verdict, found})
	}
	p.table([]string{"expected", "verdict", "found"}, rows)
}
