package profiles

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter/internal/settings"
)

// schedules are the kinds of schedules, with the keys that they need and may have.
var schedules = []struct{ kind, needs, takes string }{
	{"constant", "rate", ""},
	{"poisson", "rate", "seed"},
	{"burst", "burst every", "spread"},
	{"ramp", "to", "rate period"},
	{"sine", "rate amplitude period", ""},
	{"trace", "", "file warp"},
}

func (c *checker) schedule() {
	s := &c.p.Schedule
	var kinds []string
	for _, of := range schedules {
		kinds = append(kinds, of.kind)
	}
	c.enum("schedule.kind", s.Kind, kinds...)
	i := slices.Index(kinds, s.Kind)
	if i < 0 {
		return
	}
	needs, takes := strings.Fields(schedules[i].needs), strings.Fields(schedules[i].takes)
	for _, key := range keysOf(fieldsOf(nil, reflect.ValueOf(*s)))[1:] { // but kind
		path := "schedule." + key
		switch needed := slices.Contains(needs, key); {
		case needed && !c.given(path):
			c.missing(path, "kind "+s.Kind+" needs it")
		case !needed && !slices.Contains(takes, key) && c.given(path):
			c.bad(path, "has no effect with kind "+s.Kind, "remove it, or choose another kind")
		}
	}
	positive := func(key string, r Rate) {
		if c.given("schedule."+key) && !(r > 0) {
			c.bad("schedule."+key, "must be above 0", "write a rate like 20/s")
		}
	}
	switch s.Kind {
	case "constant", "poisson":
		positive("rate", s.Rate)
	case "burst":
		c.span("schedule.spread", s.Spread, 0, max(s.Every, 0))
	case "ramp":
		if c.given("schedule.to") && s.Rate <= 0 && s.To <= 0 {
			c.bad("schedule.to", "both ends of the ramp are 0", "give rate or to above 0")
		}
		c.span("schedule.period", s.Period, 0, settings.Longest)
	case "sine":
		positive("rate", s.Rate)
		if s.Amplitude > s.Rate {
			c.bad(
				"schedule.amplitude",
				fmt.Sprintf("%v is more than the rate of %v, which it swings around", s.Amplitude, s.Rate),
				"give at most the rate",
			)
		}
		if c.given("schedule.period") {
			c.span("schedule.period", s.Period, time.Millisecond, settings.Longest)
		}
	}
	if s.Kind == "trace" {
		if s.File == "" {
			c.missing("schedule.file", "give the file of the trace, as eventmeter record writes it")
		}
		if c.given("schedule.warp") && !(s.Warp > 0) {
			c.bad("schedule.warp", "must be above 0", "give 1 for the times as recorded, 2 for twice as fast")
		}
		return // the events are known only when the file is read
	}
	if len(c.problems) == 0 {
		c.publishesNothing()
	}
}

// until checks what ends the measured phase.
func (c *checker) until() {
	p := &c.p.Phases
	switch {
	case p.Cooldown > 0 && p.Order == "turns":
		c.bad(
			"phases.cooldown",
			"lanes that take turns are no constant load, so that no rise can be judged",
			"remove it, or set phases.order: together",
		)
	case p.Cooldown > 0 && len(c.p.Cases) > 0:
		c.bad("phases.cooldown", "a calibration judges no leaks", "remove it")
	}
	if c.given("phases.measureAtMost") && !c.given("phases.until") {
		const what = "does nothing without until: the measured phase takes phases.measure"
		c.bad("phases.measureAtMost", what, "remove it, or give until too")
	}
	if len(p.Until) == 0 {
		return
	}
	c.filled("phases.until", p.Until, "write one like push.p99 ±5%")
	if p.MeasureAtMost < p.Measure {
		c.bad(
			"phases.measureAtMost",
			fmt.Sprintf("%v is less than phases.measure, %v", p.MeasureAtMost, p.Measure),
			"give more, or shorten phases.measure",
		)
	}
	switch kind := c.p.Schedule.Kind; {
	case c.p.Upstream.Kind == "none":
		c.bad("phases.until", "nothing is published, so that there are no latencies", "remove it, or choose another upstream.kind")
	case kind == "ramp" || kind == "trace":
		c.bad(
			"phases.until",
			"a schedule of kind "+kind+" does not go on unchanged",
			"remove it, or set schedule.kind: constant, poisson, burst or sine",
		)
	case len(c.p.Cases) > 0:
		c.bad("phases.until", "the events of a calibration are counted beforehand", "remove it")
	}
}

// publishesNothing finds schedules without an event in the measured phase.
func (c *checker) publishesNothing() {
	s, p := &c.p.Schedule, &c.p.Phases
	end := p.Warmup + p.Measure
	var none bool
	switch s.Kind {
	case "burst":
		first := (p.Warmup + s.Every - 1) / s.Every * s.Every // the first burst at or after the warm-up
		none = first >= end
		// A burst of the warm-up may spread into the measured phase.
		if last := first - s.Every; none && first > 0 && s.Burst > 1 {
			step := float64(s.Spread) / float64(s.Burst)
			none = float64(last)+step*float64(s.Burst-1) < float64(p.Warmup)
		}
	case "ramp":
		none = float64(max(s.Rate, s.To))*p.Measure.Seconds() < 1
	default:
		none = float64(s.Rate)*p.Measure.Seconds() < 1
	}
	if none {
		c.bad("schedule", fmt.Sprintf("publishes nothing in the measured phase of %v", p.Measure), "raise the rate, or phases.measure")
	}
}

// peak returns the highest rate of the schedule; for bursts it is the mean over a
// second.
func (s *Schedule) peak() Rate {
	switch s.Kind {
	case "burst":
		if s.Every <= 0 {
			return 0
		}
		return Rate(float64(s.Burst) * max(1, 1/s.Every.Seconds()))
	case "ramp":
		return max(s.Rate, s.To)
	case "sine":
		return s.Rate + s.Amplitude
	}
	return s.Rate
}

// leastMemory is enough for the largest answer.
const leastMemory Bytes = 64 << 20

func (c *checker) limits() {
	l := &c.p.Limits
	if !(l.Rate > 0) {
		c.bad("limits.rate", "must be above 0", "write a rate like 20000/s")
	}
	if l.Rate > maxRate {
		c.bad("limits.rate", fmt.Sprintf("%v is too much", l.Rate), fmt.Sprintf("give at most %v", maxRate))
	}
	if l.Memory < leastMemory {
		c.bad("limits.memory", fmt.Sprintf("is %v, the least is %v", l.Memory, leastMemory), "write an amount like 256MiB")
	}
	if peak := c.p.Schedule.peak(); peak > l.Rate {
		c.bad("schedule", fmt.Sprintf("reaches %v, above the limit of %v", peak, l.Rate), "lower it, or raise limits.rate")
	}
	left := l.Subscriptions
	for i, lane := range c.p.Lanes {
		if left -= min(max(lane.Subscriptions, 0), left+1); left < 0 {
			c.bad(
				fmt.Sprintf("lanes.%d.subscriptions", i),
				fmt.Sprintf("it exceeds the limit of %d subscriptions of all lanes", l.Subscriptions),
				"lower it, or raise limits.subscriptions",
			)
			break
		}
	}
	for i, lane := range c.p.Lanes {
		for _, r := range []struct {
			key  string
			rate Rate
		}{{"churn.rate", lane.Churn.Rate}, {"attach.rate", lane.Attach.Rate}} {
			if r.rate > l.Rate {
				c.bad(
					fmt.Sprintf("lanes.%d.%s", i, r.key),
					fmt.Sprintf("%v is above the limit of %v", r.rate, l.Rate),
					"lower it, or raise limits.rate",
				)
			}
		}
	}
	p := &c.p.Phases
	// In floating point, because the sum of allowed values may overflow a Duration.
	total := p.Ready.Seconds() + p.Warmup.Seconds() + p.Longest().Seconds() + p.Drain.Seconds() + p.Cooldown.Seconds()
	if p.Order == "turns" {
		total *= float64(len(c.p.Lanes))
	}
	if total > l.Duration.Seconds() {
		c.bad(
			"phases",
			fmt.Sprintf("the run may take %.0f s, above the limit of %v", total, l.Duration),
			"shorten it, or raise limits.duration",
		)
	}
}
