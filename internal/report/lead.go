package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter/results"
)

// A lane is called faster than another only if the intervals of their p99 do not overlap and every
// interval of the run agrees. One figure per lane is no evidence: of two equally fast lanes, either
// is ahead in half of all runs.
const (
	// leastInterval is the width of compared intervals. Shorter ones have too few deliveries for a
	// p99.
	leastInterval = time.Second
	// leastIntervals is the number of intervals that must agree. Of two equally fast lanes, one is
	// ahead in all of them in one of 128 runs.
	leastIntervals = 8
	// leastTimes is the smallest quotient over the whole run that is reported.
	leastTimes = 1.2
)

// contender is a lane and its p99 in each interval of the run.
type contender struct {
	lane  *results.Lane
	p99   results.Nanos
	times map[int64]results.Nanos // by the number of the interval
}

func newContender(l *results.Lane, log *results.Log) contender {
	c := contender{lane: l, p99: l.Latency.FromIntended.P99, times: map[int64]results.Nanos{}}
	if log == nil {
		return c
	}
	width := leastInterval
	buckets := map[int64][]results.Bucket{}
	for _, in := range log.Intervals {
		width = max(width, in.Length)
	}
	for _, in := range log.Intervals {
		if in.Tag == results.TagIntended {
			n := int64(in.Start / width)
			buckets[n] = append(buckets[n], in.Buckets...)
		}
	}
	for n, b := range buckets {
		slices.SortFunc(b, func(x, y results.Bucket) int { return int(x.Value - y.Value) })
		c.times[n] = at(b, 99)
	}
	return c
}

// belowResolution reports whether the p99 is below the resolution limit.
func (c *contender) belowResolution() bool {
	return slices.Contains(c.lane.Latency.BelowResolution, "fromIntended.p99")
}

// faster reports whether a was certainly faster than b: the 95 % intervals of their p99 do not
// overlap, and every interval of the run agrees. Lanes that take turns share no interval of the
// run: every one of a must then be faster than every one of b.
func faster(a, b *contender, turns bool) bool {
	if b.belowResolution() || float64(b.p99) < leastTimes*float64(a.p99) || overlap(a.lane, b.lane) {
		return false
	}
	if turns {
		return len(a.times) >= leastIntervals && len(b.times) >= leastIntervals && greatest(a.times) < least(b.times)
	}
	shared := 0
	for n, x := range a.times {
		if y, both := b.times[n]; both {
			if x >= y {
				return false
			}
			shared++
		}
	}
	return shared >= leastIntervals
}

// overlap reports whether the interval of a's p99 reaches that of b, which is greater. An interval
// that is not known, or has no upper end, does not.
func overlap(a, b *results.Lane) bool {
	const p99 = "fromIntended.p99"
	x, y := a.Latency.Intervals[p99], b.Latency.Intervals[p99]
	return x.High > 0 && y.Low > 0 && x.High >= y.Low
}

func greatest(of map[int64]results.Nanos) (v results.Nanos) {
	for _, x := range of {
		v = max(v, x)
	}
	return v
}

func least(of map[int64]results.Nanos) results.Nanos {
	v := greatest(of)
	for _, x := range of {
		v = min(v, x)
	}
	return v
}

// lead compares the lanes of a run and names the settings that explain differences. It is empty if
// there is nothing to report.
func lead(p *Page) string {
	var sentences []string
	if s := compared(p); s != "" {
		sentences = append(sentences, s)
	}
	for _, s := range settingLines(p.Result) {
		sentences = append(sentences, s+".")
	}
	return strings.Join(sentences, " ")
}

// standing is the place of a lane beside the others of its run.
type standing struct {
	*contender
	// tied lanes share the first place. A lane alone in it is the fastest; the others are slower.
	first, tied bool
	// short is set where the run has too few intervals to separate lanes.
	short bool
	// times is the quotient of the p99 to that of the first lane, 0 where it is not known.
	times float64
}

// standingsOf compares the lanes of a run that received something. It is nil where there are fewer
// than two.
func standingsOf(p *Page) []standing {
	var all []standing
	for _, l := range lanesByP99(p.Result) {
		if l.Delivered > 0 {
			c := newContender(l, p.Logs[l.Name])
			all = append(all, standing{contender: &c})
		}
	}
	if len(all) < 2 {
		return nil
	}
	best, turns, ties := all[0].contender, takesTurns(p.Result), false
	for i := range all {
		s := &all[i]
		s.first = i == 0 || !faster(best, s.contender, turns)
		ties = ties || i > 0 && s.first
		if !s.first && !best.belowResolution() {
			s.times = float64(s.p99) / float64(max(best.p99, 1))
		}
	}
	short := longest(all) < leastIntervals
	for i := range all {
		all[i].tied, all[i].short = all[i].first && ties, short
	}
	return all
}

// text returns the standing in a word or two, and its CSS class.
func (s *standing) text() (text, class string) {
	switch {
	case s.tied && s.short:
		return "not compared", "tie"
	case s.tied:
		return "tie", "tie"
	case s.first:
		return "fastest", "fastest"
	case s.times == 0:
		return "slower", "slower"
	}
	return quotient(s.times) + " times as long", "slower"
}

// compared returns the sentence that compares the lanes.
func compared(p *Page) string {
	all := standingsOf(p)
	if all == nil {
		return ""
	}
	var tied, slower []string
	for i := range all {
		s := &all[i]
		name := Clean(s.lane.Name)
		switch {
		case s.first:
			tied = append(tied, s.named())
		case s.times == 0: // the first is below the resolution limit
			slower = append(slower, fmt.Sprintf("%s took %s", name, s.p99))
		default:
			slower = append(slower, fmt.Sprintf("%s took %s times as long", name, quotient(s.times)))
		}
	}
	text := fmt.Sprintf("%s was fastest: 99 of 100 deliveries within %s", Clean(all[0].lane.Name), all[0].p99)
	if all[0].tied {
		text = "Tie: this run does not separate " + listed(tied)
		if all[0].short {
			text = fmt.Sprintf(
				"This run is too short to say which lane is fastest: %s. It takes %d seconds with deliveries",
				listed(tied),
				leastIntervals,
			)
		}
	}
	if slower != nil {
		text += "; " + strings.Join(slower, ", ")
	}
	return text + "."
}

// longest is the largest number of intervals in which a lane received something.
func longest(all []standing) (n int) {
	for i := range all {
		n = max(n, len(all[i].contender.times))
	}
	return n
}

// named returns the lane's name with its p99.
func (s *standing) named() string {
	return fmt.Sprintf("%s (p99 %s)", Clean(s.lane.Name), s.p99)
}
