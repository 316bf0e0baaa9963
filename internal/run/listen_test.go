package run

import (
	"errors"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/internal/runtest"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
)

// Two lanes that listen in one session would take each other's notifications.
func TestListenersOfOneSession(t *testing.T) {
	t.Parallel()
	s := runtest.StartTarget(t, refserver.Options{})
	for name, c := range map[string]struct {
		era, second string
		want        string
	}{
		"legacy, two":        {"legacy", "events: {listen: true}", "lanes.b.events.listen: lane a listens already"},
		"legacy, one":        {"legacy", "http: 1.1", ""},
		"modern, two":        {"modern", "events: {listen: true}", ""},
		"legacy, two, turns": {"legacy, ", "events: {listen: true}", ""},
	} {
		order := "phases: {warmup: 0, measure: 200ms, drain: 1s}\n"
		if era, ok := strings.CutSuffix(c.era, ", "); ok {
			c.era, order = era, "phases: {warmup: 0, measure: 200ms, drain: 1s, order: turns}\n"
		}
		p, err := profiles.Parse("test", []byte(`name: test
target: {url: "`+s.URL()+`", tokens: [t], era: `+c.era+`}
lanes:
  - {name: a, mode: push, subscriptions: 1, event: chat.message, events: {listen: true}}
  - {name: b, mode: push, subscriptions: 1, event: chat.message, `+c.second+`}
upstream: {kind: inject, admin: "`+s.AdminURL()+`", `+chat+`}
`+steady+order), nil, systems.Table)
		must(t, err)
		_, err = Run(t.Context(), Options{Profile: p})
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, ErrProfile) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
