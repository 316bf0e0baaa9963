package sep975_test

import (
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/loadgen/driver/sep975"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
	"github.com/eventmeter/eventmeter/profiles"
)

const sep975Text = `
name: t
lanes:
  - {name: long, system: sep-975, mode: MODE, subscriptions: 2, EXTRA sep975: {SETTINGS}}
upstream: {kind: none}
phases: {drain: DRAIN}
`

func parse975(mode, extra, settings, drain string) (*profiles.Profile, error) {
	return profiles.Parse(
		"t",
		[]byte(strings.NewReplacer("MODE", mode, "EXTRA", extra, "SETTINGS", settings, "DRAIN", drain).Replace(sep975Text)),
		nil,
		systems.Table,
	)
}

func TestSEP975Lane(t *testing.T) {
	p, err := parse975("push", "", "steps: 5, share: 0.5, disconnect: share, at: 0", "10s")
	if err != nil {
		t.Fatal(err)
	}
	l := p.Lanes[0]
	want := sep975.Settings{
		Via: "token", Tool: "work", Steps: 5, Step: 200 * time.Millisecond, MaxWait: 10 * time.Second,
		Disconnect: "share", Share: 0.5, Away: time.Second, Tolerance: time.Second,
	}
	if got := *l.Settings.(*sep975.Settings); got != want || !l.HasNoSources() {
		t.Errorf("%+v, hears %s", l.Settings, l.Sources)
	}
	lt, err := profiles.CompileLane(l)
	if err != nil {
		t.Fatal(err)
	}
	if heard := lt.Sources(1); heard == nil || len(heard) != 0 {
		t.Errorf("hears %v", heard)
	}
	systemstest.ReadAgain(t, p)
}

func TestSEP975LaneIsChecked(t *testing.T) {
	for _, c := range []struct{ mode, extra, settings, drain, want string }{
		{"poll", "", "", "10s", "has no poll"},
		{"push", "event: chat.message,", "", "10s", "event: has no effect"},
		{"push", "sources: all,", "", "10s", "subscribes to no source"},
		{"push", "", "steps: 0", "10s", "steps: 0 is too small"},
		{"push", "", "disconnect: some", "10s", "no such disconnect"},
		{"push", "", "disconnect: share", "10s", "share: is missing"},
		{"push", "", "share: 0.5", "10s", "belongs to disconnect: share"},
		{"push", "", "every: 1s", "10s", "each request is cut once"},
		{"push", "", "disconnect: none, away: 1s", "10s", "nothing is cut"},
		{"push", "", "away: 10s", "20s", "every policy would expire"},
		{"push", "", "away: 20s, statusEvery: 15s", "30s", "too rare"},
		{"push", "", "away: 20s, statusEvery: 5s", "30s", ""},
		{"push", "", "expire: 0.5", "10s", "may take 15s"},
		{"push", "", "expire: 0.5, maxWait: 0", "20s", "does not expire"},
		{"push", "", "double: 1.5", "10s", "double: 1.5 is out of bounds"},
		{"push", "", "", "4s", "may take 5s"},
		{"push", "", "via: cursor", "10s", "no such via"},
		{"push", "", "via: lastEventId", "10s", ""},
		{"push", "", "via: lastEventId, away: 12s, double: 0.5, wrong: 0.5", "20s", ""},
		{"push", "", "via: lastEventId, maxWait: 5s", "10s",
			"maxWait: belongs to a resume policy, and Last-Event-ID has none; remove it, or set via: token"},
		{"push", "", "via: lastEventId, statusEvery: 1s", "10s", "statusEvery: belongs to a resume policy"},
		{"push", "", "via: lastEventId, expire: 0.5", "10s", "expire: belongs to a resume policy"},
	} {
		_, err := parse975(c.mode, c.extra, c.settings, c.drain)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%+v: %v", c, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%+v: %v", c, err)
		}
	}
	_, err := profiles.Parse(
		"t",
		[]byte(
			"name: t\nlanes: [{name: a, mode: push, subscriptions: 1, event: e, sep975: {steps: 1}}]\nupstream: {payload: {x: "+
				"\"{{.Probe}}\"}}\nschedule: {rate: 5/s}\n",
		),
		nil,
		systems.Table,
	)
	if err == nil || !strings.Contains(err.Error(), "has no effect on a lane of system events") {
		t.Errorf("%v", err)
	}
}
