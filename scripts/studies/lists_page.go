package main

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// What was expected before the first measurement. The page says what of it held.
const (
	staleWithin    = 0.15 // of the simulated staleness, and two uses of the list
	fetchesWithin  = 0.15 // of the simulated fetches
	herdWithin     = 0.30 // of the simulated herd
	notifiedWithin = 2.0  // uses of the list until a notified client sees a change, at the 99th percentile
	herdSpread     = 2.5  // times the mean, the most of a herd that a jitter of the whole time to live leaves
)

func (s *lists) of(lane string) []*listPoint {
	var found []*listPoint
	for i := range s.Points {
		if s.Points[i].Lane == lane {
			found = append(found, &s.Points[i])
		}
	}
	return found
}

func (s *lists) expect(p *listPoint) listOutcome {
	return s.simulate(p.listLoad, p.Lane == "notified")
}

func (s *lists) simulate(load listLoad, notified bool) listOutcome {
	c := listCase{load, notified}
	o, ok := s.simulated[c]
	if !ok {
		o = expectLists(load, s.Pages, s.UseSeconds, notified)
		if s.simulated == nil {
			s.simulated = map[listCase]listOutcome{}
		}
		s.simulated[c] = o
	}
	return o
}

func (s *lists) write(p *page) {
	ttl, notified := s.of("ttl"), s.of("notified")
	if len(ttl) == 0 || len(ttl) != len(notified) || len(s.Herds) == 0 {
		p.answer("**Nothing was measured.**")
		return
	}
	a, b := ttl[len(ttl)-1], notified[len(notified)-1]
	p.answer("**With a time to live of %s, a client that is not notified uses a list for %s after it changed, in the median, and for %s at the 99th percentile; a client that is notified sees the change after %s and %s.** %s %s",
		seconds(a.TTLSeconds), milli(a.StaleP50MS), milli(a.StaleP99MS), milli(b.StaleP50MS), milli(b.StaleP99MS), s.price(ttl, notified), s.herdAnswer())
	p.heading("How old the lists are that clients use")
	p.text("%s clients of each kind use a list of %d pages every %s, which changes %s times per second at random moments. They begin at different times. The dashed lines are simulated: a use fetches a page whose copy has expired, or of which a notification came; copies expire up to %g %% early, at random; answers take a millisecond.",
		count(a.Clients), s.Pages, milli(s.UseSeconds*1e3), number(a.Changes), a.Jitter*100)
	p.chart("staleness", "staleness by time to live, with and without notifications", s.staleChart(ttl, notified))
	p.heading("What keeping them costs")
	p.chart("fetches", "fetches of a client by time to live", s.fetchChart(ttl, notified))
	s.pointTable(p)
	if base := s.of("no-cache"); len(base) > 0 {
		q := base[len(base)-1]
		p.text("A client that keeps no copies fetches %s pages an hour and moves %s MB, whatever the time to live; it sees a change after %s in the median.", number(q.FetchesHour), number(q.BytesHour/1e6), milli(q.StaleP50MS))
	}
	p.text("Rule of thumb: with a time to live of *T*, a client fetches once in *T* and is *T*/2 behind in the median. A notified client with a long time to live fetches once for each change. The two cost the same where *T* is the mean time between two changes, %s here; a shorter *T* costs more than notifications and is staler.", seconds(1/a.Changes))
	p.heading("The herd")
	h := s.Herds[0]
	p.text("%s clients begin within %s, as after a restart, with a time to live of %s. The herd is the number of fetches of expired copies in the busiest 100 ms, over the mean of all 100 ms. Jitter is the share of the time to live by which a copy expires early, at random.",
		count(h.Clients), seconds(h.AttachSeconds), seconds(h.TTLSeconds))
	p.chart("herd", "herd factor by jitter", s.herdChart())
	s.herdTable(p)
	p.heading("What was expected before")
	s.hypotheses(p)
	p.changesIt("Lists that change more often: a notified client then fetches as often as they change, or once a use.")
	p.changesIt("Clients that use a list less often: both kinds see a change with their next use at the earliest.")
	p.changesIt("A server that delays notifications, as some do to collect changes: add the delay to the staleness of notified clients.")
	p.changesIt("More clients: the requests of a herd grow with their number. As a multiple of the mean, a herd without jitter grows with the time to live.")
}

func milli(ms float64) string { return duration(time.Duration(ms * 1e6)) }

// price compares what the two kinds fetch.
func (s *lists) price(ttl, notified []*listPoint) string {
	last := len(ttl) - 1
	more := notified[last].FetchesHour / ttl[last].FetchesHour
	text := fmt.Sprintf("For this it fetches %s times as many pages", number(more))
	switch {
	case math.Abs(more-1) < fetchesWithin:
		text = "It fetches about as many pages"
	case more < 1:
		text = fmt.Sprintf("It even fetches %s times as many pages", number(more))
	}
	for i := range ttl { // the longest time to live that costs as much without notifications
		if j := last - i; ttl[j].FetchesHour >= notified[last].FetchesHour {
			return text + fmt.Sprintf("; without notifications, a time to live of %s costs as many and leaves a client %s behind at the 99th percentile.", seconds(ttl[j].TTLSeconds), milli(ttl[j].StaleP99MS))
		}
	}
	return text + "; no time to live measured here costs as many without notifications."
}

func (s *lists) herdAnswer() string {
	first, last := s.Herds[0], s.Herds[len(s.Herds)-1]
	if last.Factor.High >= first.Factor.Low {
		return fmt.Sprintf("Jitter made no difference to the herd beyond that between repeats: %s times the mean with a jitter of %g, %s with %g.", first.Factor, first.Jitter, last.Factor, last.Jitter)
	}
	return fmt.Sprintf("Where clients begin together, the herd at expiry is %s times the mean load with a jitter of %g, and %s with %g.", number(first.Factor.Median), first.Jitter, number(last.Factor.Median), last.Jitter)
}

func (s *lists) staleChart(ttl, notified []*listPoint) chart {
	ch := chart{title: "How long clients use a list that has changed", x: axis{title: "time to live, s", log: true}, y: axis{title: "change → first use that shows it, ms", log: true}}
	var dashed []series
	hue := 0
	for _, points := range [][]*listPoint{ttl, notified} {
		name := map[string]string{"ttl": "time to live alone", "notified": "notified"}[points[0].Lane]
		for _, f := range []struct {
			name     string
			of       func(*listPoint) float64
			expected func(listOutcome) float64
		}{
			{"p50", func(q *listPoint) float64 { return q.StaleP50MS }, func(o listOutcome) float64 { return o.staleP50 * 1e3 }},
			{"p99", func(q *listPoint) float64 { return q.StaleP99MS }, func(o listOutcome) float64 { return o.staleP99 * 1e3 }},
		} {
			hue++
			line, e := series{name: name + ", " + f.name, hue: hue}, series{name: name + ", " + f.name + ", expected", expected: true, hue: hue}
			for _, q := range points {
				line.points = append(line.points, point{x: q.TTLSeconds, y: f.of(q)})
				e.points = append(e.points, point{x: q.TTLSeconds, y: f.expected(s.expect(q))})
			}
			ch.series, dashed = append(ch.series, line), append(dashed, e)
		}
	}
	ch.series = append(ch.series, dashed...)
	return ch
}

func (s *lists) fetchChart(ttl, notified []*listPoint) chart {
	ch := chart{title: "What a client fetches", x: axis{title: "time to live, s", log: true}, y: axis{title: "pages per hour of a client", log: true}}
	for i, points := range [][]*listPoint{ttl, notified} {
		name := map[string]string{"ttl": "time to live alone", "notified": "notified"}[points[0].Lane]
		line, e := series{name: name, hue: i + 1}, series{name: name + ", expected", expected: true, hue: i + 1}
		for _, q := range points {
			line.points = append(line.points, point{x: q.TTLSeconds, y: q.FetchesHour})
			e.points = append(e.points, point{x: q.TTLSeconds, y: s.expect(q).fetchesHour})
		}
		ch.series = append(ch.series, line, e)
	}
	return ch
}

func (s *lists) pointTable(p *page) {
	var rows [][]string
	for _, lane := range []string{"ttl", "notified"} {
		for _, q := range s.of(lane) {
			e := s.expect(q)
			rows = append(rows, []string{map[string]string{"ttl": "time to live alone", "notified": "notified"}[lane], short(q.TTLSeconds), number(q.StaleP50MS), number(e.staleP50 * 1e3), number(q.StaleP99MS), number(e.staleP99 * 1e3),
				number(q.FetchesHour), number(e.fetchesHour), number(q.BytesHour / 1e6), count(q.NeverSeen)})
		}
	}
	p.table([]string{"clients", "time to live, s", "staleness p50, ms", "expected", "p99, ms", "expected", "pages per hour", "expected", "MB per hour", "changes never seen"}, rows)
	p.text("Fetches and bytes are of the whole time that clients were there, the first fetch and the time after the last change included; the simulation has the same times.")
}

func (s *lists) herdExpected(h *listHerd) float64 {
	return s.simulate(h.listLoad, false).herdExpired
}

func (s *lists) herdChart() chart {
	line, e := series{name: "measured", hue: 1}, series{name: "expected", expected: true, hue: 1}
	for i := range s.Herds {
		h := &s.Herds[i]
		line.points = append(line.points, point{x: h.Jitter, y: h.Factor.Median, low: h.Factor.Low, high: h.Factor.High})
		e.points = append(e.points, point{x: h.Jitter, y: s.herdExpected(h)})
	}
	return chart{title: "The herd when copies expire", x: axis{title: "jitter, share of the time to live"}, y: axis{title: "busiest 100 ms over the mean"}, series: []series{line, e}}
}

func (s *lists) herdTable(p *page) {
	var rows [][]string
	for i := range s.Herds {
		h := &s.Herds[i]
		rows = append(rows, []string{fmt.Sprintf("jitter %g", h.Jitter), count(h.Clients), h.Factor.String(), number(s.herdExpected(h))})
	}
	for _, q := range s.of("notified") {
		rows = append(rows, []string{fmt.Sprintf("a change, time to live %s", seconds(q.TTLSeconds)), count(q.Clients), number(q.Herd), number(s.expect(q).herdChanged)})
	}
	p.table([]string{"herd", "clients", "busiest 100 ms over the mean", "expected"}, rows)
	p.text("The last rows are of notified clients: a change has all of them fetch with their next use, whatever the jitter. Only fetches of one cause are compared, with the mean of that cause.")
}

func (s *lists) hypotheses(p *page) {
	var rows [][]string
	add := func(what string, ok bool, found string) { rows = append(rows, []string{what, held(ok), found}) }
	near := func(got, want, share, slack float64) bool { return math.Abs(got-want) <= share*want+slack }
	stale, fetches, quick := true, true, true
	var staleFound, fetchFound, slow []string
	for _, lane := range []string{"ttl", "notified"} {
		for _, q := range s.of(lane) {
			e := s.expect(q)
			where := fmt.Sprintf("%s at %s", lane, seconds(q.TTLSeconds))
			if !near(q.StaleP50MS, e.staleP50*1e3, staleWithin, 2e3*s.UseSeconds) || !near(q.StaleP99MS, e.staleP99*1e3, staleWithin, 2e3*s.UseSeconds) {
				stale, staleFound = false, append(staleFound, where)
			}
			if !near(q.FetchesHour, e.fetchesHour, fetchesWithin, 0) {
				fetches, fetchFound = false, append(fetchFound, where)
			}
			if lane == "notified" && q.StaleP99MS > notifiedWithin*s.UseSeconds*1e3 {
				quick, slow = false, append(slow, where+": "+milli(q.StaleP99MS))
			}
		}
	}
	list := func(names []string) string {
		if len(names) == 0 {
			return "at every time to live"
		}
		return "not so: " + strings.Join(names, ", ")
	}
	add(fmt.Sprintf("Staleness is the simulated one, within %g %% and two uses", staleWithin*100), stale, list(staleFound))
	add(fmt.Sprintf("Fetches are the simulated ones, within %g %%", fetchesWithin*100), fetches, list(fetchFound))
	add(fmt.Sprintf("99 %% of notified clients see a change within %g uses, whatever the time to live", notifiedWithin), quick, list(slow))
	herd, worst := true, ""
	for i := range s.Herds {
		h := &s.Herds[i]
		if want := s.herdExpected(h); !near(h.Factor.Median, want, herdWithin, 0) {
			herd, worst = false, worst+fmt.Sprintf(" jitter %g: %s where %s was expected;", h.Jitter, number(h.Factor.Median), number(want))
		}
	}
	if herd {
		worst = "at every jitter"
	}
	add(fmt.Sprintf("The herd is the simulated one, within %g %%", herdWithin*100), herd, strings.Trim(worst, " ;"))
	last := s.Herds[len(s.Herds)-1]
	add(fmt.Sprintf("A jitter of the whole time to live leaves a herd of %g times the mean at most", herdSpread), last.Jitter == 1 && last.Factor.Median <= herdSpread, fmt.Sprintf("jitter %g: %s", last.Jitter, last.Factor))
	p.table([]string{"expected", "verdict", "found"}, rows)
}
