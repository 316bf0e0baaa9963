package report

import (
	"slices"

	"github.com/eventmeter/eventmeter/results"
)

// bars is a chart of one cost with a bar for each lane. A bar has its lane's colour; causes are
// shades of it.
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

// barPart is a segment of a bar, in per mille of the widest bar.
type barPart struct {
	Key  int
	X, W float64
	Tip  string
}

// barKey is a cause and its shade.
type barKey struct {
	Key  int
	Name string
}

// Causes paid once per subscription, and running causes. The position of a running cause is its
// shade in every chart; events come first, and the causes paid once together come last.
var (
	once    = []string{"subscribe", "verification", "unsubscribe", "discovery"}
	running = []string{"events", "emptyPoll", "heartbeat", "refresh", "reconnect", "retry", "control", "token"}
	ongoing = running[1:]
)

// opening is the name of the cost paid once, where it is a part of the whole cost.
const opening = "opening and ending"

// costs are the charts of the whole cost of a delivered event, of the overhead by cause, and of the
// target's processor time where it is known by lane. The cost paid once covers the whole run; all
// others cover the measured window.
func costs(columns []column, lanes []laneOf) []bars {
	requests := amount{ratio, func(t results.Traffic) float64 { return float64(t.Requests) }}
	size := amount{bytes, func(t results.Traffic) float64 { return float64(t.BytesUp + t.BytesDown) }}
	perEvent := func(o *results.Overhead) (map[string]results.Traffic, float64) {
		return o.Measured.Causes, float64(o.Measured.Received)
	}
	perHour := func(o *results.Overhead) (map[string]results.Traffic, float64) {
		return o.Measured.Causes, o.Measured.SubscriptionHours
	}
	perOne := func(o *results.Overhead) (map[string]results.Traffic, float64) { return o.Causes, float64(o.Opened) }
	whole := append(causesFrom(running, 0), barKey{len(running), opening})
	overhead, paidOnce := causesFrom(ongoing, 1), causesFrom(once, 0)
	var all []bars
	for _, c := range []cost{
		{"Total: bytes per delivered event", size, whole, perEvent},
		{"Overhead: bytes per delivered event", size, overhead, perEvent},
		{"Total: requests per delivered event", requests, whole, perEvent},
		{"Overhead: requests per delivered event", requests, overhead, perEvent},
		{"Overhead: bytes per subscription-hour", size, overhead, perHour},
		{"Overhead: requests per subscription-hour", requests, overhead, perHour},
		{"Bytes to open and end one subscription", size, paidOnce, perOne},
		{"Requests to open and end one subscription", requests, paidOnce, perOne},
	} {
		all = append(all, c.bars(columns, lanes))
	}
	return slices.DeleteFunc(append(all, targetBars(columns, lanes)), func(b bars) bool { return len(b.Bars) == 0 })
}

// amount is what is measured of traffic, and how it is written.
type amount struct {
	say func(float64) string
	of  func(results.Traffic) float64
}

// cost is an amount of traffic by cause, divided by what it was paid for.
type cost struct {
	title  string
	amount amount
	causes []barKey
	per    func(*results.Overhead) (traffic map[string]results.Traffic, n float64)
}

func causesFrom(names []string, first int) []barKey {
	var out []barKey
	for i, name := range names {
		out = append(out, barKey{first + i, name})
	}
	return out
}

// in returns the traffic of the cause.
func (c barKey) in(causes map[string]results.Traffic) results.Traffic {
	if c.Name != opening {
		return causes[c.Name]
	}
	var sum results.Traffic
	for _, name := range once {
		t := causes[name]
		sum.Requests, sum.Connections = sum.Requests+t.Requests, sum.Connections+t.Connections
		sum.BytesUp, sum.BytesDown = sum.BytesUp+t.BytesUp, sum.BytesDown+t.BytesDown
	}
	return sum
}

func (k *cost) bars(columns []column, lanes []laneOf) bars {
	c := bars{Title: k.title}
	for i, x := range lanes {
		traffic, n := k.per(&x.lane.Overhead)
		if n <= 0 {
			continue
		}
		b := bar{Column: columns[i]}
		var sum float64
		for _, cause := range k.causes {
			v := k.amount.of(cause.in(traffic)) / n
			if v == 0 {
				continue
			}
			if !slices.Contains(c.Keys, cause) {
				c.Keys = append(c.Keys, cause)
			}
			b.Parts = append(b.Parts, barPart{Key: cause.Key, X: sum, W: v, Tip: cause.Name + " " + k.amount.say(v)})
			sum += v
		}
		b.Text, b.sum = k.amount.say(sum), sum
		c.Bars = append(c.Bars, b)
	}
	slices.SortFunc(c.Keys, func(a, b barKey) int { return a.Key - b.Key })
	return c.scaled()
}

// targetBars is the processor time of the target, for lanes that took turns: of lanes that ran
// together it cannot be attributed.
func targetBars(columns []column, lanes []laneOf) bars {
	c := bars{Title: "Processor time of the target, per event received"}
	for i, x := range lanes {
		if x.lane.Process == nil || x.lane.Received == 0 {
			continue
		}
		v := float64(x.lane.Process.CPU) / float64(x.lane.Received)
		text := results.Nanos(v).String()
		c.Bars = append(c.Bars, bar{Column: columns[i], Text: text, sum: v, Parts: []barPart{{W: v, Tip: text}}})
	}
	return c.scaled()
}

// scaled returns c with its parts in per mille of the widest bar, and without bars if all are
// empty.
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
