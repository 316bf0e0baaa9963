package profiles

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// Capacity is a search for the largest load that meets a SLO. With
// it, the profile can be given to eventmeter capacity; eventmeter run ignores it.
type Capacity struct {
	// Axis is what is raised: rate (events per second; schedule.kind constant or
	// poisson), subscriptions (of each lane), or burst (events in a burst;
	// schedule.kind burst).
	Axis string `yaml:"axis,omitempty" json:"axis"`
	// From is the lowest load, which is tried first, To the highest. Whole
	// numbers but for rate.
	From float64 `yaml:"from,omitempty" json:"from"`
	To   float64 `yaml:"to,omitempty" json:"to"`
	// SLO is what a load must meet.
	SLO SLO `yaml:"slo,omitempty" json:"slo"`
	// Step is how long each load is measured, after phases.warmup and before a
	// drain of at most phases.drain; default 5s.
	Step time.Duration `yaml:"step,omitempty" json:"step" check:"500ms..1h"`
	// Confirm is by how many trials the verdict on the two loads beside the maximum load
	// must be confirmed, default 2.
	Confirm int `yaml:"confirm,omitempty" json:"confirm" check:"1..10"`
	// Precision is how far apart these two may be, as a share; default 0.02.
	Precision float64 `yaml:"precision,omitempty" json:"precision" check:"0.001..0.5"`
	// Idle is how long each lane's subscriptions are held without events, for
	// the cost sheet; default 5s, 0 = no cost sheet.
	Idle time.Duration `yaml:"idle,omitempty" json:"idle" check:"0..1h"`
}

// SLO is a SLO. Every lane must meet it.
type SLO struct {
	// P50, P90, P99 and P999 are bounds of scheduled → received; 0 = none.
	P50  time.Duration `yaml:"p50,omitempty" json:"p50,omitempty"`
	P90  time.Duration `yaml:"p90,omitempty" json:"p90,omitempty"`
	P99  time.Duration `yaml:"p99,omitempty" json:"p99,omitempty"`
	P999 time.Duration `yaml:"p999,omitempty" json:"p999,omitempty"`
	// Loss is the largest share of the deliveries that may be missing when the
	// drain is over, and of the events that may fail to be fired; default 0.
	Loss float64 `yaml:"loss,omitempty" json:"loss" check:"0..1"`
	// Backlog is the largest growth of what is owed and not yet delivered, as a
	// share of what is offered; default 0.01.
	Backlog float64 `yaml:"backlog,omitempty" json:"backlog" check:"0..1"`
}

// defaultCapacity is what a capacity section begins with.
func defaultCapacity() Capacity {
	return Capacity{SLO: SLO{Backlog: 0.01}, Step: 5 * time.Second, Confirm: 2, Precision: 0.02, Idle: 5 * time.Second}
}

// Axes are the axes of a capacity search, with the unit of a load on each.
var Axes = map[string]string{"rate": "events/s", "subscriptions": "subscriptions per lane", "burst": "events per burst"}

// At is the profile of one step: this one with so much load, without capacity,
// cases and thresholds.
func (p *Profile) At(load float64) (*Profile, error) {
	plain := *p
	plain.Cases, plain.Thresholds, plain.Capacity = nil, nil, Capacity{}
	plain.Phases.Measure = p.Capacity.Step
	text, err := plain.YAML()
	if err != nil {
		return nil, err
	}
	number := strconv.FormatFloat(load, 'f', -1, 64)
	key := map[string]string{"rate": "schedule.rate", "subscriptions": "lanes.*.subscriptions", "burst": "schedule.burst"}[p.Capacity.Axis]
	return Parse(fmt.Sprintf("%s %s", number, Axes[p.Capacity.Axis]), text, []string{key + "=" + number})
}

// Only is the profile with one lane, and nothing else changed.
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
		c.bad("capacity.axis", "a schedule of kind "+kind+" has no one rate to raise", "set schedule.kind: constant or poisson, or choose another axis")
	case s.Axis == "burst" && kind != "burst":
		c.bad("capacity.axis", "a schedule of kind "+kind+" has no bursts to raise", "set schedule.kind: burst, or choose another axis")
	}
	if c.p.Phases.Order == "turns" {
		c.bad("phases.order", "a capacity is that of all lanes together", "remove it, or leave one lane")
	}
	c.capacityBounds(s)
	l := &s.SLO
	for _, q := range []struct {
		key   string
		bound time.Duration
	}{{"p50", l.P50}, {"p90", l.P90}, {"p99", l.P99}, {"p999", l.P999}} {
		// Growth is looked for after the first third of a step, when everything
		// that is owed in time has come once.
		c.span("capacity.slo."+q.key, q.bound, 0, s.Step/3)
	}
}

func (c *checker) capacityBounds(s *Capacity) {
	for _, b := range []struct {
		path  string
		value float64
	}{{"capacity.from", s.From}, {"capacity.to", s.To}} {
		switch {
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

// steps finds the loads that no run could have.
func (c *checker) steps() {
	if !c.given("capacity") {
		return
	}
	for _, b := range []struct {
		path string
		load float64
	}{{"capacity.from", c.p.Capacity.From}, {"capacity.to", c.p.Capacity.To}} {
		if _, err := c.p.At(b.load); err != nil {
			c.bad(b.path, oneProblem(err), "choose another load, or change what does not allow it")
		}
	}
}

func (c *checker) between(path string, value, least, most float64) {
	if !(value >= least && value <= most) {
		c.bad(path, fmt.Sprintf("%v is out of bounds", value), fmt.Sprintf("give %v to %v", least, most))
	}
}
