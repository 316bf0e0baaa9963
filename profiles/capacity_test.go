package profiles

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/loadgen/systems"
)

func TestCapacityErrors(t *testing.T) {
	const good = "capacity: {axis: rate, from: 10, to: 100, slo: {p99: 250ms}}"
	if _, err := Parse("p.yaml", []byte(base+good), nil, systems.Table); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ set, want string }{
		{"capacity.axis=speed", `capacity.axis: no such axis "speed"; there is rate, subscriptions, burst`},
		{"capacity.axis=burst", "capacity.axis: a schedule of kind constant has no bursts to raise"},
		{"schedule={kind: burst, burst: 1, every: 1s}", "capacity.axis: a schedule of kind burst has no one rate to raise"},
		{"capacity.to=10", "capacity.to: 10 is not above from, which is 10; raise it"},
		{"capacity.from=0", "capacity.from: must be above 0"},
		{"capacity={axis: rate, to: 5}", "capacity.from: is missing; give the load, in events/s"},
		{"capacity={axis: subscriptions, from: 1.5, to: 5}", "capacity.from: 1.5 is not a whole number"},
		{"capacity.to=30000", "capacity.to: "},
		{"capacity.slo.p99=2s", "capacity.slo.p99: 2s is too long; give at most 1.666666666s"},
		{"capacity.slo.loss=2", "capacity.slo.loss: 2 is out of bounds; give 0 to 1"},
		{"capacity.slo.p98=2s", "capacity.slo.p98: no such key"},
		{"capacity.precision=0", "capacity.precision: 0 is out of bounds"},
		{"capacity.confirm=0", "capacity.confirm: 0 is too small"},
		{"phases.order=turns", "phases.order: a capacity covers all lanes together"},
		{"target.embedded.capacityBurst=5", "target.embedded.capacityBurst: there is no capacity"},
	} {
		_, err := Parse("p.yaml", []byte(base+good), []string{c.set}, systems.Table)
		if err == nil || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s:\n got %v\nwant %s", c.set, err, c.want)
		}
	}
}

func TestCapacitySteps(t *testing.T) {
	p, err := Load("capacity", []string{"thresholds=['*.lostSilent == 0']", "capacity.idle=0"}, systems.Table)
	must(t, err)
	if got := p.Capacity; got.Idle != 0 || got.Step != 3*time.Second || got.SLO.Backlog != 0.01 {
		t.Errorf("%+v", got)
	}
	again(t, p)
	q, err := p.At(12.5)
	must(t, err)
	if q.Schedule.Rate != 12.5 || q.Phases.Measure != 3*time.Second || q.Thresholds != nil || !reflect.ValueOf(q.Capacity).IsZero() ||
		q.Target.Embedded.Capacity != 2000 {
		t.Errorf("%+v", q)
	}
	compare, err := Load("compare", []string{"capacity={axis: subscriptions, from: 100, to: 1000}"}, systems.Table)
	must(t, err)
	if q, err = compare.Only("poll").
		At(200); err != nil || len(q.Lanes) != 1 || q.Lanes[0].Name != "poll" ||
		q.Lanes[0].Subscriptions != 200 {
		t.Errorf("%+v, %v", q, err)
	}
	if len(compare.Lanes) != 3 {
		t.Error("Only changed the profile itself")
	}
}
