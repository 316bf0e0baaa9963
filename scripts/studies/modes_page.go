package main

import (
	"cmp"
	"fmt"
	"math"
	"strings"
)

func (m *modes) write(p *page) {
	poll, push := kindOf("poll"), kindOf("push")
	p.answer("**The least server CPU for an event, by the rate of events of one subscription: %s. The fewest bytes: %s.** %s Where two modes are named, their repeats do not tell them apart.", m.ruleOf(cpuCost), m.ruleOf(bytCost), m.latencies())
	p.heading("The frontier")
	p.text("Each line is a mode, each marker a rate of events of one subscription: %s events per second, the lowest at the right. Left and low is better.", m.rateList())
	p.chart("cpu-frontier", "p99 latency against server CPU per delivered event, by mode", m.frontier("Latency against server CPU", "server CPU per delivered event, µs", cpuCost))
	p.chart("bytes-frontier", "p99 latency against bytes per delivered event, by mode", m.frontier("Latency against traffic", "bytes per delivered event", bytCost))
	p.heading("By rate")
	p.text("The dashed lines are expected: *u* × *n* + *e*, with *u* the cost of an idle action (an empty poll, a heartbeat, a refresh), *n* the idle actions for each event, and *e* the cost of an event. *u* was measured without events, *e* at %s/s; the rates below it are predicted. A poll costs its *u* every second. Heartbeats and long polls that end empty come each %s and only where no event came. A webhook is refreshed after %g of its time to live of %s, longer than a run: **its lines and figures contain this share by calculation**.",
		short(m.top()), seconds(push.period.Seconds()), refreshShare, minutes(defaultTTL))
	p.chart("cpu", "server CPU per delivered event by rate", m.byRate("Server CPU by rate", "server CPU per delivered event, µs", cpuCost))
	p.chart("bytes", "bytes per delivered event by rate", m.byRate("Traffic by rate", "bytes per delivered event", bytCost))
	m.tables(p)
	p.heading("Where the lines cross")
	m.crossings(p)
	if rules := m.rules(); len(rules) > 0 {
		p.text("Rule of thumb for the server's CPU: %s.", strings.Join(rules, "; "))
	}
	if u, v := m.unitOf("poll"), m.unitOf("push"); v.CPUMicros.Median > 0 {
		p.text("A poll costs the server %s µs and %s bytes, a heartbeat %s µs and %s bytes. So a client that receives few events costs the same CPU by polls as by push if it polls every %s, and the same traffic if it polls every %s. It then waits up to that long for an event.",
			u.CPUMicros, u.Bytes, v.CPUMicros, v.Bytes,
			seconds(u.CPUMicros.Median/v.CPUMicros.Median*push.period.Seconds()), seconds(u.Bytes.Median/v.Bytes.Median*push.period.Seconds()))
	}
	p.heading("What was expected before")
	m.hypotheses(p, poll)
	p.changesIt("A server that writes heartbeats at another interval than %s, or grants another time to live: multiply *n*.", seconds(push.period.Seconds()))
	p.changesIt("A fan-out other than %d subscriptions to a source: publishing is part of *e*, and is shared by them.", m.FanOut)
	p.changesIt("Processes, TLS towards the server, proxies and authorisation, which cost each request the more: polls and long polls the most.")
	p.changesIt("Callbacks at many hosts: here all are at one, whose connections are used again. A host that receives few events needs a new TLS connection for an event, which costs the server more CPU and bytes than the event.")
	p.changesIt("Memory and connections, which are not in these figures: an open stream or long poll holds a connection, a poll or a webhook need not.")
}

func seconds(s float64) string { return number(s) + " s" }

func (m *modes) top() float64 {
	if r := m.rates(); len(r) > 0 {
		return r[len(r)-1]
	}
	return math.NaN()
}

func (m *modes) rateList() string {
	var list []string
	for _, r := range m.rates() {
		list = append(list, short(r))
	}
	return strings.Join(list, ", ")
}

// latencies says how long events take at the highest rate at which all modes are quick.
func (m *modes) latencies() string {
	var parts []string
	for _, k := range modeKinds {
		var values []float64
		for _, q := range m.points(k.mode) {
			if q.Received >= deliveriesForP99 {
				values = append(values, q.P99MS.Median)
			}
		}
		if len(values) > 0 {
			s := spreadOf(values)
			parts = append(parts, fmt.Sprintf("%s %s ms", k.title, rangeOf(s)))
		}
	}
	return "The 99th percentile of the latency, over the rates: " + strings.Join(parts, ", ") + "."
}

// rangeOf writes the ends of a spread.
func rangeOf(s spread) string {
	if number(s.Low) == number(s.High) {
		return number(s.Low)
	}
	return number(s.Low) + " to " + number(s.High)
}

// frontier draws p99 against a cost.
func (m *modes) frontier(title, x string, c cost) chart {
	ch := chart{title: title, x: axis{title: x, log: true}, y: axis{title: "p99 published → received, ms", log: true}}
	for _, k := range modeKinds {
		s := series{name: k.title}
		for _, q := range m.points(k.mode) {
			if q.Received >= deliveriesForP99 {
				s.points = append(s.points, point{x: m.total(c, q).Median, y: q.P99MS.Median, low: q.P99MS.Low, high: q.P99MS.High})
			}
		}
		if len(s.points) > 0 {
			ch.series = append(ch.series, s)
		}
	}
	return ch
}

// byRate draws a cost by rate, and the expected one.
func (m *modes) byRate(title, y string, c cost) chart {
	ch := chart{title: title, x: axis{title: "events per second of one subscription", log: true}, y: axis{title: y, log: true}}
	var dashed []series
	for i, k := range modeKinds {
		s, e := series{name: k.title, hue: i + 1}, series{name: k.title + ", expected", expected: true, hue: i + 1}
		for _, q := range m.points(k.mode) {
			t := m.total(c, q)
			s.points = append(s.points, point{x: c.rate(q), y: t.Median, low: t.Low, high: t.High})
		}
		for _, r := range m.between() {
			if len(s.points) > 0 && r >= s.points[0].x*0.8 && r <= s.points[len(s.points)-1].x*1.2 {
				e.points = append(e.points, point{x: r, y: m.expected(c, k.mode, r)})
			}
		}
		if len(s.points) > 0 {
			ch.series, dashed = append(ch.series, s), append(dashed, e)
		}
	}
	ch.series = append(ch.series, dashed...)
	return ch
}

func (m *modes) tables(p *page) {
	var rows [][]string
	for i := range m.Points {
		q := &m.Points[i]
		p99 := "–"
		if q.Received >= deliveriesForP99 {
			p99 = q.P99MS.String()
		}
		rows = append(rows, []string{kindOf(q.Mode).title, short(q.Rate), count(q.Subscriptions), count(q.Received), count(q.Lost), q.P50MS.String(), p99,
			m.total(cpuCost, q).String(), number(m.expected(cpuCost, q.Mode, cpuCost.rate(q))), m.total(bytCost, q).String(), number(m.expected(bytCost, q.Mode, bytCost.rate(q)))})
	}
	p.table([]string{"mode", "events/s", "subscriptions", "received", "lost", "p50, ms", "p99, ms", "CPU, µs", "expected", "bytes", "expected"}, rows)
	p.text("CPU and bytes are of one delivered event: the median of the repeats, and their range. The resolution of CPU times is %s µs for an event at most. The p99 of fewer than %d deliveries is left out. Bytes are bodies and headers in both directions, without TLS records and TCP/IP headers. Expected figures are those of the rate that was reached.", number(m.coarsest()), deliveriesForP99)
}

func (m *modes) coarsest() float64 {
	var most float64
	for _, q := range m.Points {
		most = max(most, q.ClockMicros)
	}
	return most
}

func (m *modes) crossings(p *page) {
	var rows [][]string
	for i, a := range modeKinds {
		for _, b := range modeKinds[i+1:] {
			if a.unitPeriod == 0 || b.unitPeriod == 0 {
				continue
			}
			row := []string{a.title + " and " + b.title}
			crosses := false
			for _, c := range []cost{cpuCost, bytCost} {
				measured, expected := m.crossing(c, a.mode, b.mode)
				crosses = crosses || !math.IsNaN(measured) || !math.IsNaN(expected)
				row = append(row, number(measured), number(expected))
			}
			if crosses {
				rows = append(rows, row)
			}
		}
	}
	if len(rows) == 0 {
		p.text("None of the lines cross between these rates.")
		return
	}
	p.table([]string{"modes", "equal CPU at, events/s", "expected", "equal bytes at, events/s", "expected"}, rows)
	p.text("A dash: one of the two is cheaper over the whole range. Pairs that cross nowhere are left out. A measured crossing lies between two rates; it is read from the straight line between them.")
}

// rules say which of two modes is cheaper on which side of a measured crossing.
func (m *modes) rules() []string {
	var rules []string
	lowest := m.rates()
	for _, pair := range [][2]string{{"webhook", "push"}, {"push", "poll"}, {"longpoll", "poll"}, {"webhook", "poll"}} {
		at, _ := m.crossing(cpuCost, pair[0], pair[1])
		if math.IsNaN(at) {
			continue
		}
		below, above := pair[0], pair[1]
		if m.total(cpuCost, m.point(below, lowest[0])).Median > m.total(cpuCost, m.point(above, lowest[0])).Median {
			below, above = above, below
		}
		rules = append(rules, fmt.Sprintf("%s rather than %s for subscriptions that receive less than %s, beyond that %s", kindOf(below).title, kindOf(above).title, pace(at), kindOf(above).title))
	}
	return rules
}

// pace writes a rate below 1/s as an event in a time.
func pace(rate float64) string {
	if rate < 1 {
		return "an event in " + seconds(1/rate)
	}
	return number(rate) + " events/s"
}

// worstPrediction is the largest error of the predicted costs, as a share, and where it is. The
// clock's steps and the range of the repeats are no error.
func (m *modes) worstPrediction(c cost) (share float64, where string) {
	for i := range m.Points {
		q := &m.Points[i]
		if q.Rate == m.top() {
			continue
		}
		t, e := m.total(c, q), m.expected(c, q.Mode, c.rate(q))
		off := max(t.Low-c.clock(q)-e, e-t.High-c.clock(q), 0) / max(t.Median, e)
		if off > share || where == "" {
			share, where = off, fmt.Sprintf("%s at %s/s", kindOf(q.Mode).title, short(q.Rate))
		}
	}
	return share, where
}

// held says whether an expectation was met.
func held(ok bool) string {
	if ok {
		return "Held"
	}
	return "**Did not hold**"
}

func (m *modes) hypotheses(p *page, poll modeKind) {
	var rows [][]string
	add := func(what string, ok bool, found string) { rows = append(rows, []string{what, held(ok), found}) }
	least := func(what, mode string, rates ...float64) {
		ok, found := len(rates) > 0, []string(nil)
		for _, r := range rates {
			c := m.cheapest(cpuCost, r)
			ok = ok && len(c) == 1 && c[0] == mode
			found = append(found, fmt.Sprintf("%s/s: %s", short(r), titles(c)))
		}
		add(what, ok, strings.Join(found, "; "))
	}
	rates := m.rates()
	if len(rates) < 3 {
		return
	}
	least(fmt.Sprintf("At %s/s, %s costs the least CPU", short(rates[0]), modesCheapQuiet), modesCheapQuiet, rates[0])
	least(fmt.Sprintf("From %s/s to %s/s, %s costs the least CPU", short(rates[len(rates)/2]), short(rates[len(rates)-2]), modesCheapMiddle), modesCheapMiddle, rates[len(rates)/2:len(rates)-1]...)
	least(fmt.Sprintf("At %s/s, %s costs the least CPU", short(m.top()), modesCheapBusy), modesCheapBusy, m.top())
	worst, at := 0.0, ""
	for _, k := range []modeKind{poll, kindOf("fast-poll")} {
		for _, q := range m.points(k.mode) {
			want := 0.99 * k.period.Seconds() * 1e3
			if off := math.Abs(q.P99MS.Median/want - 1); q.Received >= deliveriesForP99 && off >= worst {
				worst, at = off, fmt.Sprintf("%s ms where %s was expected", q.P99MS, number(want))
			}
		}
	}
	add(fmt.Sprintf("An event waits for its poll uniformly, so that p99 is 0.99 of the interval, within %g %%", pollPredictedTo*100), at != "" && worst <= pollPredictedTo, "furthest: "+at)
	slow := []string(nil)
	for i := range m.Points {
		if q := &m.Points[i]; kindOf(q.Mode).profile != "poll" && q.Received >= deliveriesForP99 && q.P99MS.Median >= quickMS {
			slow = append(slow, fmt.Sprintf("%s at %s/s: %s ms", kindOf(q.Mode).title, short(q.Rate), number(q.P99MS.Median)))
		}
	}
	add(fmt.Sprintf("The other modes have a p99 under %d ms at every rate", quickMS), len(slow) == 0, cmp.Or(strings.Join(slow, "; "), "all"))
	for _, c := range []cost{cpuCost, bytCost} {
		off, where := m.worstPrediction(c)
		add(fmt.Sprintf("The lines predict %s within %g %% at the rates that they were not made from", c.name, modesPredictedTo*100), off <= modesPredictedTo, fmt.Sprintf("furthest: %s, off by %.0f %%", where, off*100))
	}
	p.table([]string{"expected", "verdict", "found"}, rows)
}
