package selfbench

import (
	"context"
	"encoding/json"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// eventName is the event type that every target offers.
const eventName = "tick"

// token is any token: the reference server accepts all.
const token = "eventbench"

// heartbeat is longer than any measurement, so that targets send only events.
const heartbeat = 10 * time.Minute

// lane is the generator as in a run: a driver and the ledger that it records to.
type lane struct {
	base
	rec      eventmeter.Recorder
	ledger   *ledger.Ledger // nil with a recorder that only counts
	count    *counter       // nil with a ledger
	tally    callTally
	endpoint *mcpclient.Endpoint
	driver   driver.Driver
	stop     context.CancelFunc // ends watch
	stopped  chan struct{}
}

func newLane(s spec, clock *eventmeter.Clock) (client, error) {
	c := &lane{base: base{spec: s}, stopped: make(chan struct{})}
	mode := eventmeter.Mode(s.Mode)
	if s.Count {
		c.count = &counter{Recorder: eventmeter.Tee()}
		c.rec = c.count
	} else {
		var err error
		c.ledger, err = ledger.New(ledger.Options{
			Clock: clock, Run: runID, Sources: s.groups(), DetachGrace: s.Timeout,
			Lanes: []ledger.LaneSpec{{Name: s.Mode, System: "events", Mode: mode, Subscriptions: s.Streams, Owed: sources(s)}},
		})
		if err != nil {
			return nil, err
		}
		c.rec = c.ledger
	}
	if s.Error {
		c.errors = newErrorMeter(clock)
		c.rec = eventmeter.Tee(c.rec, c.errors)
	}
	if mode != eventmeter.Push {
		c.tally.Recorder = c.rec
		c.rec = &c.tally
	}
	var err error
	if c.endpoint, err = mcpclient.NewEndpoint(
		mcpclient.EndpointOptions{URL: s.URL, Tokens: []string{token}, LocalAddrs: locals(s.Local)},
	); err != nil {
		return nil, err
	}
	o := driver.Options{
		Clock: clock, Recorder: c.rec, Endpoint: c.endpoint, Mode: mode, Event: eventName, HTTP: s.HTTP,
		Subscriptions: s.Streams, Timeout: s.Timeout,
		Push:             driver.Push{Heartbeat: 2 * heartbeat},
		KernelTimestamps: s.Kernel, Unjudged: s.Unjudged,
	}
	if s.PollEvery > 0 {
		o.Poll = &driver.Poll{MinInterval: s.PollEvery}
	}
	if s.TTL > 0 {
		o.Webhook.TTL = s.TTL.String()
	}
	if s.Groups > 0 {
		o.Arguments = func(i int) json.RawMessage { return json.RawMessage(s.arguments(i)) }
	}
	if c.ledger != nil {
		o.Published = c.ledger
	}
	if c.driver, err = systems.New(o); err != nil {
		return nil, err
	}
	var ctx context.Context
	ctx, c.stop = context.WithCancel(context.Background())
	go c.watch(ctx)
	return c, nil
}

// sources are the sources of each subscription: the one of its group.
func sources(s spec) func(int) []uint16 {
	if s.Groups == 0 {
		return nil
	}
	return func(i int) []uint16 { return []uint16{uint16(i % s.Groups)} }
}

// locals are addresses of the loopback network to connect from.
func locals(n int) []netip.Addr {
	var out []netip.Addr
	for i := range n {
		out = append(out, netip.AddrFrom4([4]byte{127, 0, 0, byte(1 + i%250)}))
	}
	return out
}

// watch reads the figures once a second, as the live view and the metrics of a
// run do. It does not read them more often: each wakeup of an idle process costs
// a quarter of a millisecond, most of it in the Go runtime.
func (c *lane) watch(ctx context.Context) {
	defer close(c.stopped)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if c.ledger != nil {
				c.ledger.Live()
			}
		}
	}
}

// opening is the number of streams that are opened at a time.
const opening = 256

func (c *lane) open(ctx context.Context) error {
	_, err := loadgen.Attach(ctx, loadgen.AttachOptions{N: c.spec.Streams, Concurrency: opening}, c.driver.Attach)
	return err
}

func (c *lane) received() int64 {
	if c.count != nil {
		return c.count.delivered()
	}
	return c.ledger.Live().Lanes[0].EventMessages
}

func (c *lane) outstanding() int64 {
	if c.ledger == nil {
		return 0
	}
	return c.ledger.Outstanding()
}

func (c *lane) calls() int64 { return c.tally.requests.Load() }

func (c *lane) recorder() eventmeter.Recorder { return c.rec }

func (c *lane) finish(o *outcome) {
	c.base.finish(o)
	o.Refreshes, o.Failures = c.tally.refreshes.Load(), c.tally.failures.Load()
	if f, ok := c.driver.(driver.Figurer); ok {
		for _, row := range f.Figures().Conform {
			o.Judged += row.Seen
			o.Broken += row.Broken
		}
	}
	if c.ledger == nil {
		return
	}
	account := c.ledger.Account()
	l := account.Lanes[0]
	o.Expected, o.Delivered, o.Other = l.Expected, l.Delivered, l.Duplicates.Total()+l.Unexpected.Total()
	o.Balanced = account.Check() == nil
	o.Kernel, o.Shared, o.Copies = l.Arrivals.Kernel, l.Arrivals.Shared, l.EventMessages
}

func (c *lane) close(ctx context.Context) error {
	c.stop()
	<-c.stopped
	c.closeErrors()
	err := c.driver.Close(ctx)
	_ = c.endpoint.Close(ctx) // it has no sessions
	return err
}

// counter is a Recorder that only counts deliveries, in several places so that
// goroutines do not contend for one.
type counter struct {
	eventmeter.Recorder // does nothing

	parts [64]struct {
		n atomic.Int64
		_ [56]byte // a cache line each
	}
}

func (c *counter) Delivered(d eventmeter.Delivery) { c.parts[d.Sub.Index%64].n.Add(1) }

func (c *counter) delivered() (n int64) {
	for i := range c.parts {
		n += c.parts[i].n.Load()
	}
	return n
}

// callTally counts the calls of pollers and webhook subscriptions and passes
// everything to another Recorder.
type callTally struct {
	eventmeter.Recorder
	requests, refreshes, failures atomic.Int64
}

func (t *callTally) Called(c eventmeter.Call) {
	t.requests.Add(int64(c.Requests))
	if c.Cause == eventmeter.Refresh {
		t.refreshes.Add(1)
	}
	if c.Failure != "" {
		t.failures.Add(1)
	}
	t.Recorder.Called(c)
}
