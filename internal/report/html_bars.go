package report

import (
	"slices"

	"github.com/mcpload/mcpload/results"
)

// bars is one chart of what lanes cost, a bar for each lane. A bar has its
// lane's colour; its causes are shades of it.
type bars struct {
	Title string
	Bars  []bar
	Keys  []barKey
}

type bar struct {
	Column column
	Text   string // the sum
	Parts  []barPart
	sum    float64
}

// barPart is a stretch of a bar, in per mille of the widest.
type barPart struct {
	Key  int
	X, W float64
	Tip  string
}

type barKey struct {
	Key  int
	Name string
}

// The causes that are paid once per subscription, and those that go on for as
// long as it does. A cause's place is its shade in every chart.
var (
	once    = []string{"subscribe", "verification", "unsubscribe", "discovery"}
	ongoing = []string{"emptyPoll", "heartbeat", "refresh", "reconnect", "retry"}
)

// costs are the charts of the overhead, split by cause, and of the target's
// processor time where that can be told apart by lane.
func costs(columns []column, lanes []laneOf) []bars {
	perHour := func(l *results.Lane) float64 { return l.Overhead.SubscriptionHours }
	perEvent := func(l *results.Lane) float64 { return float64(l.Delivered) }
	perOne := func(l *results.Lane) float64 { return float64(l.Subscriptions) }
	requests := func(t results.Traffic) float64 { return float64(t.Requests) }
	size := func(t results.Traffic) float64 { return float64(t.BytesUp + t.BytesDown) }
	all := []bars{
		costBars("Requests without an event, per delivered event", ratio, columns, lanes, ongoing, requests, perEvent),
		costBars("Bytes without an event, per delivered event", bytes, columns, lanes, ongoing, size, perEvent),
		costBars("Requests without an event, per subscription-hour", ratio, columns, lanes, ongoing, requests, perHour),
		costBars("Bytes without an event, per subscription-hour", bytes, columns, lanes, ongoing, size, perHour),
		costBars("Requests to open and end one subscription", ratio, columns, lanes, once, requests, perOne),
		costBars("Bytes to open and end one subscription", bytes, columns, lanes, once, size, perOne),
		targetBars(columns, lanes),
	}
	return slices.DeleteFunc(all, func(b bars) bool { return len(b.Bars) == 0 })
}

func costBars(title string, say func(float64) string, columns []column, lanes []laneOf, causes []string, amount func(results.Traffic) float64, over func(*results.Lane) float64) bars {
	c := bars{Title: title}
	seen := map[int]bool{}
	for i, x := range lanes {
		l := x.lane
		n := over(l)
		if n <= 0 {
			continue
		}
		b := bar{Column: columns[i]}
		var sum float64
		for k, cause := range causes {
			v := amount(l.Overhead.Causes[cause]) / n
			if v == 0 {
				continue
			}
			if !seen[k] {
				seen[k] = true
				c.Keys = append(c.Keys, barKey{k, cause})
			}
			b.Parts = append(b.Parts, barPart{Key: k, X: sum, W: v, Tip: cause + " " + say(v)})
			sum += v
		}
		b.Text, b.sum = say(sum), sum
		c.Bars = append(c.Bars, b)
	}
	slices.SortFunc(c.Keys, func(a, b barKey) int { return a.Key - b.Key })
	return c.scaled()
}

// targetBars is what the target itself used, in lanes that took turns: beside
// each other nobody can tell whose it was.
func targetBars(columns []column, lanes []laneOf) bars {
	c := bars{Title: "Processor time of the target, per delivered event"}
	for i, x := range lanes {
		if x.lane.Process == nil || x.lane.Delivered == 0 {
			continue
		}
		v := float64(x.lane.Process.CPU) / float64(x.lane.Delivered)
		c.Bars = append(c.Bars, bar{Column: columns[i], Text: results.FormatNanos(results.Nanos(v)), sum: v, Parts: []barPart{{W: v, Tip: results.FormatNanos(results.Nanos(v))}}})
	}
	return c.scaled()
}

// scaled is c with its parts in per mille of the widest bar; without any bar
// where there is nothing to draw.
func (c bars) scaled() bars {
	var widest float64
	for _, b := range c.Bars {
		widest = max(widest, b.sum)
	}
	if widest == 0 {
		return bars{}
	}
	for i := range c.Bars {
		for j := range c.Bars[i].Parts {
			p := &c.Bars[i].Parts[j]
			p.X, p.W = round1(1000*p.X/widest), round1(1000*p.W/widest)
		}
	}
	return c
}

func round1(v float64) float64 { return float64(int(v*10+0.5)) / 10 }
