//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// lane is the part of the generator that receives: the driver of MCP Events and the ledger, without
// the rest of a run. It is for what a run does not tell, or cannot leave out.
type lane struct {
	base
	rec      eventmeter.Recorder
	ledger   *ledger.Ledger
	errors   *errorMeter // nil when the error is not measured
	endpoint *mcpclient.Endpoint
	driver   driver.Driver
	stop     func() // ends the reading of figures
	heap     runtime.MemStats
}

func newLane(s spec, clock *eventmeter.Clock) (client, error) {
	c := &lane{base: base{spec: s}, errors: newErrorMeter(s, clock)}
	runtime.ReadMemStats(&c.heap)
	o := driver.Options{
		Clock: clock, Mode: eventmeter.Push, Event: eventName, HTTP: s.HTTP, Subscriptions: s.Streams, Timeout: s.Timeout,
		Push: driver.Push{Heartbeat: time.Hour}, KernelTimestamps: !s.Portable, Unjudged: s.Unjudged,
	}
	spec := ledger.LaneSpec{Name: s.Mode, System: "events", Mode: eventmeter.Push, Subscriptions: s.Streams}
	if s.Groups > 0 {
		o.Arguments = func(i int) json.RawMessage { return json.RawMessage(s.arguments(i)) }
		spec.Owed = func(i int) []uint16 { return []uint16{uint16(i % s.Groups)} }
	}
	var err error
	c.ledger, err = ledger.New(ledger.Options{
		Clock: clock, Run: runID, Sources: s.groups(), DetachGrace: s.Timeout, Lanes: []ledger.LaneSpec{spec},
	})
	if err != nil {
		return nil, err
	}
	c.rec, o.Published = c.ledger, c.ledger
	if c.errors != nil {
		c.rec = eventmeter.Tee(c.rec, c.errors)
	}
	if c.endpoint, err = mcpclient.NewEndpoint(mcpclient.EndpointOptions{URL: s.URL, Tokens: []string{token}}); err != nil {
		return nil, err
	}
	o.Recorder, o.Endpoint = c.rec, c.endpoint
	if c.driver, err = systems.New(o); err != nil {
		return nil, err
	}
	c.stop = repeat(time.Second, func() { c.ledger.Live() }) // as the live view of a run does
	return c, nil
}

// arguments are those of stream i's subscription.
func (s *spec) arguments(i int) string {
	if s.Groups == 0 {
		return "{}"
	}
	return fmt.Sprintf(`{"group":"%d"}`, i%s.Groups)
}

func (c *lane) open(ctx context.Context) error {
	_, err := loadgen.Attach(ctx, loadgen.AttachOptions{N: c.spec.Streams, Concurrency: opening}, c.driver.Attach)
	return err
}

func (c *lane) received() int64 { return c.ledger.Live().Lanes[0].EventMessages }

func (c *lane) recorder() eventmeter.Recorder { return c.rec }

func (c *lane) begin() {
	c.errors.begin()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	c.heap.HeapInuse, c.heap.StackInuse = m.HeapInuse-c.heap.HeapInuse, m.StackInuse-c.heap.StackInuse
}

func (c *lane) finish(o *outcome) {
	n := float64(c.spec.Streams)
	o.Values["heap"], o.Values["stack"] = float64(c.heap.HeapInuse)/1024/n, float64(c.heap.StackInuse)/1024/n
	c.errors.report(o)
	if f, ok := c.driver.(driver.Figurer); ok {
		for _, row := range f.Figures().Conform {
			o.Values["judged"] += float64(row.Seen) / float64(o.Delivered)
			o.Values["broken"] += float64(row.Broken)
		}
	}
	account := c.ledger.Account()
	l := account.Lanes[0]
	extra := l.Duplicates.Total() + l.Unexpected.Total()
	o.Lost = max(o.Lost, l.Expected-l.Delivered+extra)
	o.Delivered = l.Delivered
	if account.Check() != nil {
		o.Lost++
	}
	copies := float64(l.EventMessages)
	o.Values["kernel"], o.Values["shared"] = 100*float64(l.Arrivals.Kernel)/copies, 100*float64(l.Arrivals.Shared)/copies
}

func (c *lane) close(ctx context.Context) error {
	c.stop()
	c.errors.close()
	err := c.driver.Close(ctx)
	_ = c.endpoint.Close(ctx) // it has no sessions
	return err
}
