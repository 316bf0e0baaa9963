package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter/results"
)

// A lane is called faster than another only if every interval of the run agrees. One figure per
// lane is no evidence: of two equally fast lanes, either is ahead in half of all runs.
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

// faster reports whether a was certainly faster than b. Lanes that take turns share no interval:
// every interval of a must then be faster than every interval of b.
func faster(a, b *contender, turns bool) bool {
	if b.belowResolution() || float64(b.p99) < leastTimes*float64(a.p99) {
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

// lead compares the lanes of a run and names the settings that explain differences and the figures
// that are not clean. It is empty if there is nothing to report.
func lead(p *Page) string {
	var sentences []string
	if s := compared(p); s != "" {
		sentences = append(sentences, s)
	}
	for _, s := range settingLines(p.Result) {
		sentences = append(sentences, s+".")
	}
	var unclean []string
	for _, u := range uncleanLines(lanesOf(p.Result)) {
		unclean = append(unclean, u.Label+" ("+listed(u.Names)+")")
	}
	if unclean != nil {
		sentences = append(sentences, "Not clean: "+strings.Join(unclean, ", ")+".")
	}
	return strings.Join(sentences, " ")
}

// compared returns the sentence that compares the lanes.
func compared(p *Page) string {
	var all []contender
	for _, l := range lanesByP99(p.Result) {
		if l.Delivered > 0 {
			all = append(all, newContender(l, p.Logs[l.Name]))
		}
	}
	if len(all) < 2 {
		return ""
	}
	first, turns := &all[0], takesTurns(p.Result)
	tied, slower := []string{standing(first)}, []string(nil)
	for i := range all[1:] {
		c := &all[1+i]
		name := Clean(c.lane.Name)
		switch times := float64(c.p99) / float64(max(first.p99, 1)); {
		case !faster(first, c, turns):
			tied = append(tied, standing(c))
		case first.belowResolution(): // the quotient is not known
			slower = append(slower, fmt.Sprintf("%s took %s", name, results.FormatNanos(c.p99)))
		default:
			slower = append(slower, fmt.Sprintf("%s took %s times as long", name, quotient(times)))
		}
	}
	s := fmt.Sprintf("%s was fastest: 99 of 100 deliveries within %s", Clean(first.lane.Name), results.FormatNanos(first.p99))
	if len(tied) > 1 {
		s = fmt.Sprintf("No lane is named fastest: this run does not separate %s", listed(tied))
	}
	if slower != nil {
		s += "; " + strings.Join(slower, ", ")
	}
	return s + "."
}

// standing returns the lane's name with its p99.
func standing(c *contender) string {
	return fmt.Sprintf("%s (p99 %s)", Clean(c.lane.Name), results.FormatNanos(c.p99))
}
