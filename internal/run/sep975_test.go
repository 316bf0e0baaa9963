package run

import (
	"testing"

	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/internal/runtest"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
)

// TestResumableLanes runs lanes of long requests through the phases, alone and
// beside one that listens: each request that was begun is seen to its end, and
// a lane that subscribes to no source is expected nothing of.
func TestResumableLanes(t *testing.T) {
	t.Parallel()
	s := runtest.StartTarget(t, refserver.Options{})
	const long = `
  - {name: long, system: sep-975, mode: push, subscriptions: 4, sep975: {steps: 10, step: 40ms, at: 100ms, away: 120ms, statusEvery: 50ms}}
  - {name: mass, system: sep-975, mode: push, subscriptions: 4, sep975: {steps: 10, step: 40ms, disconnect: all, at: 100ms, away: 120ms}}
phases: {warmup: 100ms, measure: 900ms, drain: 10s}
thresholds: ["long.figures.messagesLost == 0", "mass.timings.resumeToFirst.count > 0"]
`
	for name, rest := range map[string]string{
		"alone": long + "upstream: {kind: none}\n",
		"beside": "\n  - {name: push, mode: push, subscriptions: 2, event: chat.message}" + long +
			"upstream: {admin: \"" + s.AdminURL() + "\", payload: {text: \"{{.Probe}}\"}}\n" + steady,
	} {
		t.Run(name, func(t *testing.T) {
			p, err := profiles.Parse("test", []byte("name: test\ntarget: {url: \""+s.URL()+"\"}\nlanes:"+rest), nil, systems.Table)
			must(t, err)
			r := runs(t, Options{Profile: p}).Result
			for _, v := range r.Thresholds {
				if !v.Passed {
					t.Errorf("%s: %s: %s", v.Lane, v.Threshold, v.Text)
				}
			}
			for _, w := range r.Warnings {
				if w.Code == "observed-only" || w.Code == "nothing-measured" {
					t.Errorf("warning %+v", w)
				}
			}
			for _, l := range r.Lanes {
				if l.System != "sep-975" {
					if l.Expected == 0 || l.Delivered != l.Expected {
						t.Errorf("%s: %d of %d", l.Name, l.Delivered, l.Expected)
					}
					continue
				}
				f := l.Figures
				if l.Expected != 0 || l.Unexpected != 0 || l.Ready.Active != 4 || f["requestsBegun"] < 4 ||
					f["requestsCompleted"] != f["requestsBegun"] ||
					f["messagesExpected"] != 11*f["requestsBegun"] || f["messagesDelivered"] != f["messagesExpected"] ||
					f["unbalanced"] != 0 ||
					f["cuts"] == 0 {
					t.Errorf("%s: expected %d, active %d, %v", l.Name, l.Expected, l.Ready.Active, f)
				}
				if _, there := f["observedEvents"]; there {
					t.Errorf("%s has figures of events", l.Name)
				}
			}
			if held := s.Stats().Resumable.Held; name == "alone" && held == 0 {
				t.Error("the target forgot responses that may not have been read")
			}
		})
	}
}
