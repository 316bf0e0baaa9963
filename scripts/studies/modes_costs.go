package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// What was expected before the first measurement. The page says what of it held.
const (
	modesCheapQuiet  = "webhook" // least CPU at the lowest rate: nothing is sent while nothing happens
	modesCheapMiddle = "push"    // least CPU at 0.1/s and 1/s: an event is one write on an open stream
	modesCheapBusy   = "poll"    // least CPU at the highest rate: one answer carries many events
	modesPredictedTo = 0.25      // error of the costs that the line of a mode predicts
	pollPredictedTo  = 0.05      // error of the p99 that the interval of polls predicts
	quickMS          = 100       // p99 of the modes that do not wait for a poll
	deliveriesForP99 = 100
)

// idlePerEvent is how many idle actions of a mode there are for each event at a rate of one
// subscription. Events come at equal distances. Those of streams and long polls begin a new period;
// polls and refreshes go on.
func idlePerEvent(k modeKind, rate float64) float64 {
	n := 1 / (k.period.Seconds() * rate)
	if k.always {
		return n
	}
	return math.Floor(n + 1e-9)
}

// cost is a figure of a point: CPU or bytes of a delivered event.
type cost struct {
	name string
	unit func(*modeUnit) spread
	of   func(*modePoint) spread
	// clock is how far the figure of a point may be off in either direction
	clock func(*modePoint) float64
	// rate is the rate of events while the figure was measured
	rate func(*modePoint) float64
}

var (
	cpuCost = cost{"server CPU", func(u *modeUnit) spread { return u.CPUMicros }, func(p *modePoint) spread { return p.CPUMicros }, func(p *modePoint) float64 { return p.ClockMicros }, func(p *modePoint) float64 { return p.Actual }}
	bytCost = cost{"bytes", func(u *modeUnit) spread { return u.Bytes }, func(p *modePoint) spread { return p.Bytes }, func(*modePoint) float64 { return 0 }, func(p *modePoint) float64 { return p.ActualBytes }}
)

// unitOf returns the unit of a mode. Polls at any interval share theirs.
func (m *modes) unitOf(mode string) *modeUnit {
	profile := kindOf(mode).profile
	for i := range m.Units {
		if u := &m.Units[i]; u.Mode == mode || u.Mode == profile {
			return u
		}
	}
	return &modeUnit{Mode: mode}
}

func (m *modes) points(mode string) []*modePoint {
	var found []*modePoint
	for i := range m.Points {
		if m.Points[i].Mode == mode {
			found = append(found, &m.Points[i])
		}
	}
	return found
}

func (m *modes) point(mode string, rate float64) *modePoint {
	for _, p := range m.points(mode) {
		if p.Rate == rate {
			return p
		}
	}
	return nil
}

// total is the cost of an event at a point: what was measured, and the idle actions whose period is
// longer than a run.
func (m *modes) total(c cost, p *modePoint) spread {
	s, k := c.of(p), kindOf(p.Mode)
	if k.unseen {
		more := c.unit(m.unitOf(p.Mode)).Median * idlePerEvent(k, c.rate(p))
		s.Low, s.Median, s.High = s.Low+more, s.Median+more, s.High+more
	}
	return s
}

// expected is the cost of an event by the line of a mode.
func (m *modes) expected(c cost, mode string, rate float64) float64 {
	k, u := kindOf(mode), c.unit(m.unitOf(mode)).Median
	base := m.points(k.profile) // polls at another interval differ in nothing else
	if len(base) == 0 {
		return math.NaN()
	}
	top := base[len(base)-1]
	event := m.total(c, top).Median - u*idlePerEvent(kindOf(top.Mode), c.rate(top))
	return u*idlePerEvent(k, rate) + max(0, event)
}

// cheapest returns the modes that cost the least at a rate: the least one, and those from which it
// differs by less than the repeats of both span. Polls at another interval do not take part.
func (m *modes) cheapest(c cost, rate float64) []string {
	var at []*modePoint
	for i := range m.Points {
		if p := &m.Points[i]; p.Rate == rate && kindOf(p.Mode).unitPeriod > 0 {
			at = append(at, p)
		}
	}
	if len(at) == 0 {
		return nil
	}
	slices.SortStableFunc(at, func(a, b *modePoint) int { return cmp.Compare(m.total(c, a).Median, m.total(c, b).Median) })
	least := []string{at[0].Mode}
	for _, p := range at[1:] {
		if m.total(c, p).Low-c.clock(p) <= m.total(c, at[0]).High+c.clock(at[0]) {
			least = append(least, p.Mode)
		}
	}
	order := func(mode string) int {
		return slices.IndexFunc(modeKinds, func(k modeKind) bool { return k.mode == mode })
	}
	slices.SortFunc(least, func(a, b string) int { return cmp.Compare(order(a), order(b)) })
	return least
}

// crossing is the rate at which two modes cost the same; NaN where one is always cheaper.
func (m *modes) crossing(c cost, a, b string) (measured, expected float64) {
	measured, expected = math.NaN(), math.NaN()
	var before, beforeRate float64
	for _, p := range m.points(a) {
		q := m.point(b, p.Rate)
		if q == nil {
			continue
		}
		d := math.Log(m.total(c, p).Median / m.total(c, q).Median)
		if before*d < 0 && math.IsNaN(measured) {
			x, y := math.Log(beforeRate), math.Log(p.Rate)
			measured = math.Exp(x + (y-x)*before/(before-d))
		}
		before, beforeRate = d, p.Rate
	}
	before = 0
	for _, rate := range m.between() {
		d := m.expected(c, a, rate) - m.expected(c, b, rate)
		if before*d < 0 && math.IsNaN(expected) {
			expected = rate
		}
		before = d
	}
	return measured, expected
}

// rates are the rates of the points, in order.
func (m *modes) rates() []float64 {
	var rates []float64
	for _, p := range m.Points {
		if !slices.Contains(rates, p.Rate) {
			rates = append(rates, p.Rate)
		}
	}
	slices.Sort(rates)
	return rates
}

// titles joins the titles of modes.
func titles(names []string) string {
	t := make([]string, len(names))
	for i, n := range names {
		t[i] = kindOf(n).title
	}
	return strings.Join(t, " or ")
}

// ruleOf says which modes are cheapest from rate to rate: "webhook up to 0.01/s, push from 0.1/s".
func (m *modes) ruleOf(c cost) string {
	var parts []string
	rates := m.rates()
	for i := 0; i < len(rates); {
		names := titles(m.cheapest(c, rates[i]))
		j := i
		for j+1 < len(rates) && titles(m.cheapest(c, rates[j+1])) == names {
			j++
		}
		switch {
		case i == 0 && j == len(rates)-1:
			parts = append(parts, names+" at every rate")
		case i == 0 && j > 0:
			parts = append(parts, fmt.Sprintf("%s up to %s/s", names, short(rates[j])))
		case i == j:
			parts = append(parts, fmt.Sprintf("%s at %s/s", names, short(rates[i])))
		case j == len(rates)-1:
			parts = append(parts, fmt.Sprintf("%s from %s/s", names, short(rates[i])))
		default:
			parts = append(parts, fmt.Sprintf("%s from %s/s to %s/s", names, short(rates[i]), short(rates[j])))
		}
		i = j + 1
	}
	return strings.Join(parts, ", ")
}

// between are rates close enough for the lines of expected costs.
func (m *modes) between() []float64 {
	rates := m.rates()
	if len(rates) == 0 {
		return nil
	}
	var b []float64
	for r := rates[0]; r < rates[len(rates)-1]; r *= 1.05 {
		b = append(b, r)
	}
	return append(b, rates[len(rates)-1])
}
