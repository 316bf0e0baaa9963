package run

import (
	"context"
	"testing"

	"github.com/eventmeter/eventmeter/internal/streamclient"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/profiles"
)

// TestWhoIsTimedByTheKernel: lanes that are compared are timed alike, unless
// something else is asked for.
func TestWhoIsTimedByTheKernel(t *testing.T) {
	if !streamclient.Stamps(streamclient.Options{}) {
		t.Skip("the kernel of this system gives no times")
	}
	push := profiles.Lane{Name: "push", System: "events", Mode: "push", HTTP: "1.1"}
	h2c := profiles.Lane{Name: "h2c", System: "events", Mode: "push", HTTP: "h2c"}
	tls := profiles.Lane{Name: "tls", System: "events", Mode: "push", HTTP: "2"}
	poll := profiles.Lane{Name: "poll", System: "events", Mode: "poll"}
	for _, tt := range []struct {
		setting string
		lanes   []profiles.Lane
		want    []bool
	}{
		{"auto", []profiles.Lane{push, h2c}, []bool{true, true}},
		{"auto", []profiles.Lane{push, poll}, []bool{false, false}},
		{"auto", []profiles.Lane{push, tls}, []bool{false, false}},
		{"on", []profiles.Lane{push, poll, tls}, []bool{true, false, false}},
		{"off", []profiles.Lane{push}, []bool{false}},
	} {
		p := &profiles.Profile{Lanes: tt.lanes, Generator: profiles.Generator{KernelTimestamps: tt.setting}}
		e, err := mcpclient.NewEndpoint(mcpclient.EndpointOptions{URL: "http://127.0.0.1:1/mcp"})
		must(t, err)
		defer e.Close(context.Background())
		r := &run{profile: p, target: targetSide{plain: e}}
		for i := range tt.lanes {
			if got := r.stampedLane(&tt.lanes[i]); got != tt.want[i] {
				t.Errorf("%s among %d lanes, lane %s: %v", tt.setting, len(tt.lanes), tt.lanes[i].Name, got)
			}
		}
	}
}
