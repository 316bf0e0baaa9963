package profiles

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// At returns the profile of one step: p with the given load, without capacity, cases and
// thresholds.
func (p *Profile) At(load float64) (*Profile, error) {
	plain := *p
	plain.Cases, plain.Thresholds, plain.Capacity = nil, nil, Capacity{}
	plain.Phases.Measure, plain.Phases.Until, plain.Phases.MeasureAtMost = p.Capacity.Step, nil, 0
	text, err := plain.YAML()
	if err != nil {
		return nil, err
	}
	number := strconv.FormatFloat(load, 'f', -1, 64)
	key := map[string]string{"rate": "schedule.rate", "subscriptions": "lanes.*.subscriptions", "burst": "schedule.burst"}[p.Capacity.Axis]
	return Parse(fmt.Sprintf("%s %s", number, Axes[p.Capacity.Axis]), text, []string{key + "=" + number}, p.systems)
}

// Only returns the profile with one lane, otherwise unchanged.
func (p *Profile) Only(lane string) *Profile {
	out := *p
	out.Lanes = slices.DeleteFunc(slices.Clone(p.Lanes), func(l Lane) bool { return l.Name != lane })
	return &out
}

// capacity checks the section, if there is one.
func (c *checker) capacity() {
	if !c.given("capacity") {
		return
	}
	s := &c.p.Capacity
	c.enum("capacity.axis", s.Axis, "rate", "subscriptions", "burst")
	switch kind := c.p.Schedule.Kind; {
	case c.p.Upstream.Kind == "none":
		c.bad("capacity", "nothing is published", "choose another upstream.kind")
	case s.Axis == "rate" && kind != "constant" && kind != "poisson":
		c.bad(
			"capacity.axis",
			"a schedule of kind "+kind+" has no one rate to raise",
			"set schedule.kind: constant or poisson, or choose another axis",
		)
	case s.Axis == "burst" && kind != "burst":
		c.bad("capacity.axis", "a schedule of kind "+kind+" has no bursts to raise", "set schedule.kind: burst, or choose another axis")
	}
	if c.p.Phases.Order == "turns" {
		c.bad("phases.order", "a capacity covers all lanes together", "remove it, or leave one lane")
	}
	c.capacityBounds(s)
	l := &s.SLO
	for _, q := range []struct {
		key   string
		bound time.Duration
	}{{"p50", l.P50}, {"p90", l.P90}, {"p95", l.P95}, {"p99", l.P99}, {"p999", l.P999}} {
		// Growth is measured after the first third of a step, when all timely deliveries have
		// arrived once.
		c.span("capacity.slo."+q.key, q.bound, 0, s.Step/3)
	}
}

func (c *checker) capacityBounds(s *Capacity) {
	for _, b := range []struct {
		path  string
		value float64
	}{{"capacity.from", s.From}, {"capacity.to", s.To}} {
		switch {
		case b.path == "capacity.to" && !c.given(b.path):
		case !c.given(b.path):
			c.missing(b.path, "give the load, in "+Axes[s.Axis])
		case !(b.value > 0):
			c.bad(b.path, "must be above 0", "give the load, in "+Axes[s.Axis])
		case s.Axis != "rate" && b.value != math.Trunc(b.value):
			c.bad(b.path, fmt.Sprintf("%v is not a whole number", b.value), "write digits only, as in 300")
		}
	}
	if s.From > 0 && s.To > 0 && s.To <= s.From {
		c.bad("capacity.to", fmt.Sprintf("%v is not above from, which is %v", s.To, s.From), "raise it")
	}
}

// steps finds loads that no run can have.
func (c *checker) steps() {
	if !c.given("capacity") {
		return
	}
	for _, b := range []struct {
		path string
		load float64
	}{{"capacity.from", c.p.Capacity.From}, {"capacity.to", c.p.Capacity.To}} {
		if b.load == 0 {
			continue // no highest load
		}
		if _, err := c.p.At(b.load); err != nil {
			c.bad(b.path, oneProblem(err), "choose another load, or change the key that does not allow it")
		}
	}
}
