package sep2549_test

import (
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/loadgen/driver/sep2549"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
	"github.com/eventmeter/eventmeter/profiles"
)

const listProfile = `
name: lists
lanes:
  - {name: a, system: sep-2549, mode: poll, subscriptions: 3, sep2549: {SETTINGS}}
upstream:
  payload: {list: tools, probe: "{{.Probe}}"}
schedule: {rate: 1/s}
`

func TestSEP2549Defaults(t *testing.T) {
	p, err := profiles.Parse("x", []byte(strings.Replace(listProfile, "SETTINGS", "notifications: true", 1)), nil, systems.Table)
	if err != nil {
		t.Fatal(err)
	}
	l := p.Lanes[0]
	want := sep2549.Settings{
		List:          "tools",
		URI:           "list://content",
		Use:           10,
		Cache:         true,
		Notifications: true,
		Jitter:        0.1,
		StaleOnError:  true,
	}
	if got := *l.Settings.(*sep2549.Settings); got != want || l.Event != "list.changed" || p.Upstream.Event != "list.changed" {
		t.Errorf("%+v, event %q, upstream %q", l.Settings, l.Event, p.Upstream.Event)
	}
	if e := p.Target.Embedded.Lists; e != (profiles.EmbeddedLists{Entries: 50, TTL: 2 * time.Second}) {
		t.Errorf("embedded lists %+v", e)
	}
	systemstest.ReadAgain(t, p)
}

func TestSEP2549Problems(t *testing.T) {
	for settings, want := range map[string]string{
		"list: toads":                         "no such list",
		"uri: 'a://b'":                        "belongs to list: resource",
		"use: 0":                              "is out of bounds",
		"use: 2000/s":                         "is out of bounds",
		"jitter: 1.5":                         "is out of bounds",
		"{jitter: 0, background: true}":       "all clients refresh at once",
		"{cache: false, shared: true}":        "has no effect without a cache",
		"{cache: false, notifications: true}": "has no effect without a cache",
	} {
		settings = strings.Trim(settings, "{}")
		_, err := profiles.Parse("x", []byte(strings.Replace(listProfile, "SETTINGS", settings, 1)), nil, systems.Table)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", settings, err, want)
		}
	}
	for text, want := range map[string]string{
		strings.Replace(listProfile, "mode: poll", "mode: push", 1):                         "has no push",
		strings.Replace(listProfile, "subscriptions: 3", "subscriptions: 3, maxAge: 1s", 1): "a lane that uses lists",
		strings.Replace(listProfile, "system: sep-2549", "event: a",
			1): "has no effect on a lane of system events",
		strings.Replace(listProfile, "lanes:", "target: {embedded: {lists: {ttl: 1500ms, older: true}}}\nlanes:", 1): "whole seconds",
	} {
		_, err := profiles.Parse("x", []byte(strings.Replace(text, "SETTINGS", "list: tools", 1)), nil, systems.Table)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v, want %s", text, err, want)
		}
	}
}
