package sep1803_test

import (
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/loadgen/driver/sep1803"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
	"github.com/eventmeter/eventmeter/profiles"
)

const lane1803 = `name: base
lanes:
  - name: a
    system: sep-1803
    mode: push
    subscriptions: 10
    event: e
    sep1803: {cutEvery: 1s}
  - name: b
    system: sep-1803
    mode: webhook
    subscriptions: 5
    event: e
    sep1803: {secret: raw}
upstream:
  payload:
    text: "{{.Probe}}"
schedule: {rate: 20/s}
`

func TestSEP1803(t *testing.T) {
	p, err := profiles.Parse("p.yaml", []byte(lane1803), nil, systems.Table)
	if err != nil {
		t.Fatal(err)
	}
	if got := *p.Lanes[0].Settings.(*sep1803.Settings); got != (sep1803.Settings{PerSession: 1, Redelivery: true, CutEvery: time.Second}) {
		t.Errorf("%+v", got)
	}
	if got := *p.Lanes[1].Settings.(*sep1803.Settings); got != (sep1803.Settings{Secret: "raw", Early: "hold"}) {
		t.Errorf("%+v", got)
	}
	systemstest.ReadAgain(t, p)
	p, err = profiles.Parse(
		"p.yaml",
		[]byte(strings.Replace(lane1803, "{cutEvery: 1s}", "{redelivery: false, perSession: 4}", 1)),
		nil,
		systems.Table,
	)
	if err != nil || *p.Lanes[0].Settings.(*sep1803.Settings) != (sep1803.Settings{PerSession: 4}) {
		t.Fatalf("%v %+v", err, p)
	}
	systemstest.ReadAgain(t, p)
	for _, c := range []struct{ old, new, want string }{
		{"mode: push", "mode: poll", "lanes.a.mode: system sep-1803 has no poll"},
		{"{cutEvery: 1s}", "{perSession: 0}", "lanes.a.sep1803.perSession: 0 is too small"},
		{"{cutEvery: 1s}", "{secret: raw}", "lanes.a.sep1803.secret: has no effect on a lane of mode push"},
		{"{cutEvery: 1s}", "{cutEvery: -1s}", "lanes.a.sep1803.cutEvery: -1s is negative"},
		{"{cutEvery: 1s}", "{cutOften: 1s}", "lanes.a.sep1803.cutOften: no such key"},
		{"{secret: raw}", "{secret: row}", `lanes.b.sep1803.secret: no such secret "row"; did you mean raw?`},
		{"{secret: raw}", "{early: never}", `lanes.b.sep1803.early: no such early "never"`},
		{"{secret: raw}", "{redelivery: true}", "lanes.b.sep1803.redelivery: has no effect on a lane of mode webhook"},
		{"{secret: raw}", "{}\n    webhook: {ttl: 5m}", "lanes.b.webhook.ttl: system sep-1803 has neither refreshes nor secrets of the client's"},
		{"{secret: raw}", "{}\n    maxAge: 5m", "lanes.b.maxAge: system sep-1803 has no replay"},
		{"system: sep-1803\n    mode: push", "mode: push", "lanes.a.sep1803: has no effect on a lane of system events"},
		{"system: sep-1803\n    mode: push", "system: sep1803\n    mode: push",
			`lanes.a.system: no such system "sep1803"; did you mean sep-1803?`},
	} {
		_, err := profiles.Parse("p.yaml", []byte(strings.Replace(lane1803, c.old, c.new, 1)), nil, systems.Table)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s for %s: %v, want %s", c.new, c.old, err, c.want)
		}
	}
}
