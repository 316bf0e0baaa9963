package run

import (
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/internal/runtest"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// windowProfile has a warm-up that is as long as the measured part, so that
// what is counted beyond it would be seen.
func windowProfile(t *testing.T, measure string) *profiles.Profile {
	t.Helper()
	s := runtest.StartTarget(t, refserver.Options{Heartbeat: 20 * time.Millisecond})
	p, err := profiles.Parse("test", []byte(`name: test
target: {url: "`+s.URL()+`"}
lanes:
  - {name: push, mode: push, subscriptions: 3, event: chat.message}
  - {name: poll, mode: poll, subscriptions: 2, event: chat.message}
phases: {warmup: 1s, measure: `+measure+`, drain: 3s}
schedule: {kind: constant, rate: 40/s}
upstream: {admin: "`+s.AdminURL()+`", payload: {text: "{{.Probe}}"}}
`), nil, systems.Table)
	must(t, err)
	return p
}

// TestMeasuredWindow: the ratios of a run have one window. Every subscription is
// open for the whole of it, so its hours are known beforehand.
func TestMeasuredWindow(t *testing.T) {
	t.Parallel()
	out := runs(t, Options{Profile: windowProfile(t, "1s")})
	for _, l := range out.Result.Lanes {
		o := l.Overhead
		if want := time.Second.Hours() * float64(
			l.Subscriptions,
		); math.Abs(o.Measured.SubscriptionHours-want) > 1e-12 ||
			o.SubscriptionHours < 1.9*want {
			t.Errorf("%s: %v hours in the window, want %v; %v in the run", l.Name, o.Measured.SubscriptionHours, want, o.SubscriptionHours)
		}
		if m := o.Measured; m.Received == 0 || m.Received >= l.Received || len(m.Causes) == 0 {
			t.Errorf("%s: %d received in the window, %d in the run; causes %v", l.Name, m.Received, l.Received, m.Causes)
		}
		for _, cause := range []string{"subscribe", "unsubscribe", "discovery"} {
			if c, there := o.Measured.Causes[cause]; there {
				t.Errorf("%s: %s lies in the window: %+v", l.Name, cause, c)
			}
		}
		var all, ongoing results.Traffic
		for cause, c := range o.Measured.Causes {
			if whole := o.Causes[cause]; c.Requests > whole.Requests || c.BytesDown > whole.BytesDown || c.BytesUp > whole.BytesUp ||
				c.Connections > whole.Connections {
				t.Errorf("%s: %s: %+v in the window, %+v in the run", l.Name, cause, c, whole)
			}
			for to, of := range map[*results.Traffic]bool{&all: true, &ongoing: cause != "events"} {
				if of {
					to.Requests, to.BytesUp, to.BytesDown = to.Requests+c.Requests, to.BytesUp+c.BytesUp, to.BytesDown+c.BytesDown
				}
			}
		}
		for name, x := range map[string]struct {
			got results.Share
			of  results.Traffic
			n   float64
		}{
			"perDelivered":        {o.PerDelivered, ongoing, float64(o.Measured.Received)},
			"totalPerDelivered":   {o.TotalPerDelivered, all, float64(o.Measured.Received)},
			"perSubscriptionHour": {o.PerSubscriptionHour, ongoing, o.Measured.SubscriptionHours},
		} {
			want := results.Share{Requests: float64(x.of.Requests) / x.n, Bytes: float64(x.of.BytesUp+x.of.BytesDown) / x.n}
			if x.got.Requests != want.Requests || x.got.Bytes != want.Bytes ||
				want.Bytes == 0 && (l.Name == "push" || name == "totalPerDelivered") {
				t.Errorf("%s: %s is %+v, want %+v", l.Name, name, x.got, want)
			}
		}
	}
}

// TestMeasuredWindowOfAStoppedRun ends when the run is stopped, not when its
// profile says.
func TestMeasuredWindowOfAStoppedRun(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	var once sync.Once
	out, err := Run(t.Context(), Options{Profile: windowProfile(t, "20s"), Stop: stop, Progress: func(p Progress) {
		if p.Phase == "measure" && slices.ContainsFunc(p.Live.Lanes, func(l ledger.LiveLane) bool { return l.Delivered > 3 }) {
			once.Do(func() { close(stop) })
		}
	}})
	if err != nil && out == nil {
		t.Fatal(err)
	}
	// The window is no longer than firing was, within what it takes to be told.
	for _, l := range out.Result.Lanes {
		seconds := l.Overhead.Measured.SubscriptionHours * 3600 / float64(l.Subscriptions)
		if run := l.Overhead.SubscriptionHours * 3600 / float64(l.Subscriptions); seconds <= 0 || seconds > run-1 {
			t.Errorf("%s: each subscription was open for %v s of the window, of %v s with a warm-up of 1 s", l.Name, seconds, run)
		}
	}
}
