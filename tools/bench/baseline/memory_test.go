//go:build unix

package baseline_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/sinks/ledger"
	"github.com/eventmeter/eventmeter/tools/bench/baseline"
)

// TestMemoryOfStreams bounds the heap and the stacks of streams over HTTP/2 with their
// ledger, after a delivery to each. The server, which is in the same process, and what any
// process needs are included.
func TestMemoryOfStreams(t *testing.T) {
	const n, bound = 8000, 1200
	server, _, url := start(t, baseline.Options{}, true)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	before := inUse()
	clock := eventmeter.NewClock()
	account, err := ledger.New(ledger.Options{
		Clock:   clock,
		Run:     9,
		Sources: 1,
		Lanes:   []ledger.LaneSpec{{Name: "push", System: "events", Mode: eventmeter.Push, Subscriptions: n}},
	})
	if err != nil {
		t.Fatal(err)
	}
	endpoint, err := mcpclient.NewEndpoint(mcpclient.EndpointOptions{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer endpoint.Close(ctx)
	lane, err := systems.New(driver.Options{
		Clock:         clock,
		Recorder:      account,
		Endpoint:      endpoint,
		Mode:          eventmeter.Push,
		Event:         baseline.EventName,
		Subscriptions: n,
		HTTP:          "h2c",
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := loadgen.Attach(ctx, loadgen.AttachOptions{N: n, Concurrency: 64}, lane.Attach); err != nil {
		t.Fatal(err)
	}
	stamp := eventmeter.Stamp{Run: 9, Seq: 1}
	now := clock.Now()
	account.Fired(eventmeter.Emission{Stamp: stamp, Intended: now, Fired: now, Measured: true})
	if _, err := server.Fire([]byte(`{"note":"` + stamp.String() + `"}`)); err != nil {
		t.Fatal(err)
	}
	account.Resolved(stamp, eventmeter.Accepted, clock.Now())
	for account.Live().Lanes[0].Delivered < n && ctx.Err() == nil {
		runtime.Gosched()
	}
	per := (inUse() - before) / n
	t.Logf("%d bytes per stream", per)
	if per > bound {
		t.Errorf("%d bytes per stream, more than %d", per, bound)
	}
	if err := lane.Close(ctx); err != nil {
		t.Error(err)
	}
	if a := account.Account(); a.Check() != nil || a.Lanes[0].Delivered != n || a.Lanes[0].Expected != n {
		t.Errorf("%d delivered: %v", a.Lanes[0].Delivered, a.Check())
	}
}

func inUse() int64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
