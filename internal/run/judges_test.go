package run

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
)

// TestThresholdsOnNamesThatCannotExist: such a threshold held in every run. One on a count that
// did not occur is fine.
func TestThresholdsOnNamesThatCannotExist(t *testing.T) {
	for text, want := range map[string]string{
		"push.figures.cuts == 0":                             "",
		"*.figures.grants == 0":                              "",
		"push.overhead.causes.retry.requests == 0":           "",
		"run.upstream.dropped == 0":                          "",
		"push.figures.cutsX == 0":                            "did you mean cuts?",
		"push.figures.fetches == 0":                          `there is no figure "figures.fetches"`,
		"*.figures.nosuch == 0":                              `there is no figure "figures.nosuch"`,
		"push.timings.outages.p99 < 1s":                      "did you mean outage?",
		"push.failures.nosuch == 0":                          `there is no figure "failures.nosuch"`,
		"push.overhead.causes.retries.requests == 0":         "there are events, subscribe",
		"push.overhead.measured.causes.nosuch.requests == 0": "there are events, subscribe",
		"run.upstream.figures.feedGone == 0":                 `there is no figure "upstream.figures.feedGone"`,
		"nosuch.lostSilent == 0":                             `there is no lane "nosuch"`,
	} {
		p, err := profiles.Parse("test", []byte(fmt.Sprintf(`name: test
target: {url: "http://127.0.0.1:1/mcp"}
lanes:
  - {name: push, mode: push, subscriptions: 1, event: chat.message}
upstream: {kind: inject, event: chat.message, admin: "http://127.0.0.1:1", payload: {text: "{{.Probe}}"}}
schedule: {rate: 20/s}
thresholds: ["%s"]
`, text)), nil, systems.Table)
		must(t, err)
		_, _, err = Judges(p)
		if want == "" && err != nil || want != "" && (!errors.Is(err, ErrProfile) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
