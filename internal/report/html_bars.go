package report

import (
	"fmt"
	"maps"
	"slices"

	"github.com/mcpload/mcpload/results"
)

// bars is one chart of what lanes cost, a bar for each lane.
type bars struct {
	Title string
	Unit  string
	Bars  []bar
	Rows  int // height of the drawing
	Keys  []barKey
}

type bar struct {
	Column column
	Y      int
	Text   string
	Parts  []barPart
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

// once are the causes that are paid once per subscription.
var once = []string{"subscribe", "verification", "unsubscribe", "discovery"}

// costs are the charts of the overhead, split by cause.
func costs(columns []column, lanes []*results.Lane) []bars {
	perHour := func(l *results.Lane) float64 { return l.Overhead.SubscriptionHours }
	perEvent := func(l *results.Lane) float64 { return float64(l.Delivered) }
	perOne := func(l *results.Lane) float64 { return float64(l.Subscriptions) }
	requests := func(t results.Traffic) float64 { return float64(t.Requests) }
	size := func(t results.Traffic) float64 { return float64(t.BytesUp + t.BytesDown) }
	ongoing := func(cause string) bool { return cause != "events" && !slices.Contains(once, cause) }
	opening := func(cause string) bool { return slices.Contains(once, cause) }
	return []bars{
		costBars("Requests without an event, per delivered event", ratio, columns, lanes, ongoing, requests, perEvent),
		costBars("Bytes without an event, per delivered event", bytes, columns, lanes, ongoing, size, perEvent),
		costBars("Requests without an event, per subscription-hour", ratio, columns, lanes, ongoing, requests, perHour),
		costBars("Bytes without an event, per subscription-hour", bytes, columns, lanes, ongoing, size, perHour),
		costBars("Requests to open and end one subscription", ratio, columns, lanes, opening, requests, perOne),
		costBars("Bytes to open and end one subscription", bytes, columns, lanes, opening, size, perOne),
	}
}

func costBars(title string, say func(float64) string, columns []column, lanes []*results.Lane, counts func(cause string) bool, amount func(results.Traffic) float64, over func(*results.Lane) float64) bars {
	c := bars{Title: title}
	seen := map[string]int{}
	var widest float64
	for i, l := range lanes {
		n := over(l)
		if n <= 0 {
			continue
		}
		b := bar{Column: columns[i], Y: 26 * len(c.Bars)}
		var sum float64
		for _, cause := range slices.Sorted(maps.Keys(l.Overhead.Causes)) {
			v := amount(l.Overhead.Causes[cause]) / n
			if !counts(cause) || v == 0 {
				continue
			}
			if _, known := seen[cause]; !known {
				seen[cause] = len(c.Keys)
				c.Keys = append(c.Keys, barKey{len(c.Keys) % hues, Clean(cause)})
			}
			b.Parts = append(b.Parts, barPart{Key: seen[cause] % hues, X: sum, W: v, Tip: fmt.Sprintf("%s, %s: %s", columns[i].Label(), Clean(cause), say(v))})
			sum += v
		}
		widest = max(widest, sum)
		b.Text = say(sum)
		c.Bars = append(c.Bars, b)
	}
	for i := range c.Bars {
		for j := range c.Bars[i].Parts {
			p := &c.Bars[i].Parts[j]
			p.X, p.W = round1(1000*p.X/widest), round1(1000*p.W/widest)
		}
	}
	c.Rows = 26 * len(c.Bars)
	return c
}

func round1(v float64) float64 { return float64(int(v*10+0.5)) / 10 }
