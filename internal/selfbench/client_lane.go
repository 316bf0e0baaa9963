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
	"github.com/eventmeter/eventmeter/sinks"
)

// eventName is what every target of a measurement offers.
const eventName = "tick"

// token is one that the reference target takes; any will do.
const token = "eventbench"

// heartbeat is longer than any measurement, so that nothing but events comes.
const heartbeat = 10 * time.Minute

// lane is the generator as a run has it: a driver, and a ledger that it tells.
type lane struct {
	spec     spec
	rec      eventmeter.Recorder
	ledger   *sinks.Ledger // nil with a recorder that only counts
	count    *counter      // likewise
	errors   *errorMeter   // nil when the error is not measured
	tally    *callTally    // nil for push
	endpoint *driver.Endpoint
	driver   driver.Driver
	watching context.CancelFunc
	watched  chan struct{}
}

func newLane(s spec, clock *eventmeter.Clock) (client, error) {
	c := &lane{spec: s, watched: make(chan struct{})}
	if s.Count {
		c.count = &counter{}
		c.rec = c.count
	} else {
		var err error
		c.ledger, err = sinks.NewLedger(sinks.LedgerOptions{
			Clock: clock, Run: runID, Sources: s.groups(), DetachGrace: s.Patience,
			Lanes: []sinks.LaneSpec{{Name: s.Mode, System: "events", Mode: eventmeter.Mode(s.Mode), Subscriptions: s.Streams, Hears: hears(s)}},
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
	if s.Mode != string(eventmeter.Push) {
		c.tally = &callTally{Recorder: c.rec}
		c.rec = c.tally
	}
	var err error
	if c.endpoint, err = driver.NewEndpoint(driver.EndpointOptions{URL: s.URL, Tokens: []string{token}, LocalAddrs: locals(s.Local)}); err != nil {
		return nil, err
	}
	o := driver.Options{
		Clock: clock, Recorder: c.rec, Endpoint: c.endpoint, Mode: eventmeter.Mode(s.Mode), Event: eventName, HTTP: s.HTTP,
		Subscriptions: s.Streams, Timeout: s.Patience,
		Push:    driver.PushOptions{Heartbeat: 2 * heartbeat, KernelTimestamps: s.Kernel},
		Poll:    driver.PollOptions{MinInterval: s.PollEvery},
		Webhook: driver.WebhookOptions{TTL: s.TTL},
	}
	if s.Groups > 0 {
		o.Arguments = func(i int) json.RawMessage { return json.RawMessage(s.arguments(i)) }
	}
	if c.ledger != nil {
		o.Acked = c.ledger.AckedAt
	}
	if c.driver, err = driver.New(o); err != nil {
		return nil, err
	}
	var ctx context.Context
	ctx, c.watching = context.WithCancel(context.Background())
	go c.watch(ctx)
	return c, nil
}

// hears is the ledger's word for groups: each has a source.
func hears(s spec) func(int) []uint16 {
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
// run do. Each waking of a process that does nothing costs a quarter of a
// millisecond, most of it the runtime's own, so there are no more of them than a
// run has.
func (c *lane) watch(ctx context.Context) {
	defer close(c.watched)
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			if c.ledger != nil {
				c.ledger.Live()
			}
		}
	}
}

// opening is how many streams are being opened at any time.
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

func (c *lane) recorder() eventmeter.Recorder { return c.rec }

func (c *lane) begin() {
	if c.errors != nil {
		c.errors.paced.Store(true)
	}
}

func (c *lane) calls() int64 {
	if c.tally == nil {
		return 0
	}
	return c.tally.requests.Load()
}

func (c *lane) finish(o *outcome) {
	if c.tally != nil {
		o.Refreshes, o.Failures = c.tally.refreshes.Load(), c.tally.failures.Load()
	}
	if c.errors != nil {
		o.Error = c.errors.quantiles()
	}
	if c.ledger == nil {
		return
	}
	account := c.ledger.Account()
	l := account.Lanes[0]
	o.Expected, o.Delivered, o.Other = l.Expected, l.Delivered, l.Duplicates.Total()+l.Unexpected.Total()
	o.Balanced = account.Check() == nil
	o.Kernel, o.Shared, o.Copies = l.Arrivals.Kernel, l.Arrivals.Shared, l.EventMessages
	o.Reconnect = l.Reconnects
}

func (c *lane) close(ctx context.Context) error {
	c.watching()
	<-c.watched
	if c.errors != nil {
		c.errors.close()
	}
	err := c.driver.Close(ctx)
	_ = c.endpoint.Close(ctx) // there are no sessions to lose
	return err
}

// counter is a Recorder that only counts deliveries, in a few places so that
// loops do not share one.
type counter struct {
	silent
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

// silent is a Recorder that does nothing.
type silent struct{}

func (silent) Fired(eventmeter.Emission)                                         {}
func (silent) Resolved(eventmeter.Stamp, eventmeter.Outcome, eventmeter.Instant) {}
func (silent) Dropped(eventmeter.Drop)                                           {}
func (silent) Delivered(eventmeter.Delivery)                                     {}
func (silent) Noticed(eventmeter.Notice)                                         {}
func (silent) Changed(eventmeter.Transition)                                     {}
func (silent) Called(eventmeter.Call)                                            {}

// callTally counts the calls of pollers and of webhook subscriptions on their
// way to the ledger.
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
