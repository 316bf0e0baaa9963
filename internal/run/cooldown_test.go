package run

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/eventmeter/eventmeter/internal/runtest"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
)

// TestStopEndsTheCoolDown: a first interrupt must not wait for a cool-down of an hour, and what
// was measured before it stays.
func TestStopEndsTheCoolDown(t *testing.T) {
	p, err := profiles.Parse("test", []byte(`name: test
target: {embedded: {}, tokens: [t]}
lanes: [{name: push, mode: push, subscriptions: 2, event: chat.message}]
upstream: {sources: 1, payload: {text: "{{.Probe}}"}}
schedule: {rate: 20/s}
phases: {warmup: 100ms, measure: 500ms, drain: 10s, cooldown: 1h}
`), nil, systems.Table)
	must(t, err)
	stop := make(chan struct{})
	var once sync.Once
	out, err := Run(t.Context(), Options{Profile: p, Stop: stop, Embedded: runtest.InProcess, Progress: func(now Progress) {
		if now.Phase == "cool-down" {
			once.Do(func() { close(stop) })
		}
	}})
	if !errors.Is(err, ErrStopped) {
		t.Fatal(err)
	}
	r := out.Result
	if l := r.Lanes[0]; l.Delivered != 20 || l.LostSilent != 0 || !r.Partial {
		t.Errorf("%+v, partial %v", l, r.Partial)
	}
	if last := r.Phases[len(r.Phases)-1]; last.Name != "cool-down" {
		t.Errorf("the last phase is %+v", last)
	}
	for name, g := range r.Target.Leak {
		if g.Verdict == "leak" || strings.Contains(g.Reason, "comes back") {
			t.Errorf("%s: %+v", name, g)
		}
	}
}

// TestStopInTheDrain: a signal while the run drains, or later, is not swallowed.
func TestStopInTheDrain(t *testing.T) {
	for _, phase := range []string{"drain", "detach"} {
		p, err := profiles.Parse("test", []byte(`name: test
target: {embedded: {}, tokens: [t]}
lanes: [{name: push, mode: push, subscriptions: 2, event: chat.message}]
upstream: {sources: 1, payload: {text: "{{.Probe}}"}}
schedule: {rate: 20/s}
phases: {warmup: 100ms, measure: 500ms, drain: 10s}
`), nil, systems.Table)
		must(t, err)
		stop := make(chan struct{})
		var once sync.Once
		o := Options{Profile: p, Stop: stop, Embedded: runtest.InProcess, Progress: func(now Progress) {
			if now.Phase == phase {
				once.Do(func() { close(stop) })
			}
		}}
		o.Measured = func(context.Context, string, *http.Client) error { // a phase can be too short for the progress
			if phase == "detach" {
				once.Do(func() { close(stop) })
			}
			return nil
		}
		out, err := Run(t.Context(), o)
		if !errors.Is(err, ErrStopped) || !out.Result.Partial || out.Result.Lanes[0].Delivered != 20 {
			t.Errorf("%s: %v, partial %v, %+v", phase, err, out.Result.Partial, out.Result.Lanes[0])
		}
	}
}
