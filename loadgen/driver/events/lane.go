package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/streamclient"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/sinks"
)

// lane is one lane of the MCP Events draft, or of Smithery's triggers.
type lane struct {
	mcpclient.Caller
	*driver.Inbox
	flavour flavour
	tally   driver.Tally
	claims  claims
	opts    driver.Options
	set     Settings // of the MCP Events draft
	ep      *mcpclient.Endpoint
	looker  eventmeter.Observer // nil when nobody looks at events
	older   bool
	hangUp  func() // closes the transport's connections
	traffic wire.Traffic

	life context.Context // of every stream, poller and refresh
	end  context.CancelFunc
	work sync.WaitGroup

	watch *sinks.Watch        // push
	pump  streamclient.Client // likewise
	hooks *hooks              // webhook

	listening sync.Once

	mu     sync.Mutex
	closed bool
	runs   []*run // by index; nil = never attached, or over
}

// run is one attachment of a subscription, from Attaching to Detached or Failed.
type run struct {
	driver.Attachment
	who  *mcpclient.Principal
	args json.RawMessage
	rand *rand.Rand    // of the one goroutine that runs it
	done chan struct{} // closed when its goroutine is over

	cursor []byte // raw JSON token; empty = null; guarded by mu
	// stands is the event that cursor came with, claimed the one that a cursor
	// claimed last, group what keyOf adds to a cursor. Guarded by mu, but group.
	stands, claimed eventmeter.Stamp
	group           uint64

	resumes bool // it begins at a cursor of the run before it

	hook   *hook   // webhook
	stream *stream // push
	poller poller  // poll
}

// New returns the driver of a lane of the MCP Events draft, or of
// Smithery's triggers.
func New(opts driver.Options) (driver.Driver, error) {
	d, err := newEvents(opts)
	if err != nil {
		return nil, err
	}
	return d, nil
}

func newEvents(opts driver.Options) (*lane, error) {
	switch {
	case opts.Clock == nil, opts.Recorder == nil, opts.Endpoint == nil:
		return nil, errors.New("driver events: Clock, Recorder and Endpoint must be set")
	case opts.Event == "":
		return nil, errors.New("driver events: no event name: set the lane's event")
	case opts.Subscriptions < 0:
		return nil, fmt.Errorf("driver events: %d subscriptions", opts.Subscriptions)
	}
	opts = opts.WithDefaults()
	f, set, err := flavourOf(opts)
	if err != nil {
		return nil, fmt.Errorf("driver %w", err)
	}
	d := &lane{flavour: f, opts: opts, set: set, ep: opts.Endpoint, looker: eventmeter.ObserverOf(opts.Recorder), older: opts.Endpoint.Revision() == mcpclient.Older, runs: make([]*run, opts.Subscriptions)}
	connect := func() (http.RoundTripper, func(), error) {
		if opts.Mode == eventmeter.Poll {
			return d.ep.PollTransport(opts.HTTP, &d.traffic)
		}
		return d.ep.NewTransport(opts.HTTP, &d.traffic, opts.Mode == eventmeter.Push)
	}
	t, hangUp, err := connect()
	if err != nil {
		return nil, fmt.Errorf("driver events: %w", err)
	}
	d.hangUp = hangUp
	if opts.Subscriptions > 1 && opts.Mode != eventmeter.Webhook {
		d.claims.known = make([]knownCursor, knownCursors)
	}
	d.Caller = driver.LaneCaller(&opts, t, &d.traffic)
	d.life, d.end = context.WithCancel(context.Background())
	switch opts.Mode {
	case eventmeter.Poll:
	case eventmeter.Push:
		every := min(max(opts.Push.Heartbeat/8, 10*time.Millisecond), time.Second)
		if d.Pipe == nil {
			if d.pump, err = d.ep.StreamClient(opts.HTTP, opts.Clock, opts.Push.KernelTimestamps, &d.traffic); err != nil {
				d.end()
				return nil, fmt.Errorf("driver events: %w", err)
			}
		}
		d.watch = sinks.NewWatch(opts.Clock, every)
	case eventmeter.Webhook:
		if d.hooks, err = newHooks(d); err != nil {
			d.end()
			return nil, fmt.Errorf("driver events: %w", err)
		}
	default:
		d.end()
		return nil, fmt.Errorf("driver events: mode %q is not known: use poll, push or webhook", opts.Mode)
	}
	d.declare()
	return d, nil
}

// Attach opens subscription i.
func (d *lane) Attach(ctx context.Context, i int) error {
	r, err := d.begin(i)
	if err != nil {
		return fmt.Errorf("attach %s: subscription %d: %w", d.opts.Event, i, err)
	}
	switch d.opts.Mode {
	case eventmeter.Poll:
		err = d.attachPoll(ctx, r)
	case eventmeter.Push:
		err = d.attachPush(ctx, r)
	default:
		err = d.attachWebhook(ctx, r)
	}
	if err == nil {
		return nil
	}
	r.Fail(err)
	d.release(r)
	return fmt.Errorf("attach %s at %s: %w", d.opts.Event, d.ep.Name(), err)
}

// begin makes a run for subscription i and reports Attaching.
func (d *lane) begin(i int) (*run, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := driver.MayAttach(d.closed, d.runs, i); err != nil {
		return nil, err
	}
	args := json.RawMessage("{}")
	if d.opts.Arguments != nil {
		if a := d.opts.Arguments(i); len(a) > 0 {
			args = a
		}
	}
	var f wire.Fields
	if !wire.ScanFields(args, &f) {
		return nil, fmt.Errorf("%w: arguments %s are not a JSON object", mcpclient.ErrInvalid, errtext.Line(string(args)))
	}
	r := &run{
		Attachment: driver.Attachment{Sub: eventmeter.Sub{Lane: d.opts.Lane, Index: uint32(i)}, Caller: &d.Caller},
		who:        d.ep.Principal(d.opts.NumberOf(i)),
		args:       args,
		rand:       rand.New(rand.NewPCG(d.opts.Seed, uint64(d.opts.Lane)<<32|uint64(d.opts.NumberOf(i)))),
		done:       make(chan struct{}),
	}
	r.Ctx, r.Cancel = context.WithCancel(d.life)
	r.group = eventmeter.HashID(args) ^ uint64(r.who.Index+1)<<40
	switch {
	case d.hooks != nil:
		r.hook = d.hooks.newHook(r)
	case d.watch != nil:
		r.stream = d.newStream(r)
	}
	if last := d.runs[i]; last != nil && d.set.Resume {
		r.cursor = last.position()
		r.resumes = len(r.cursor) > 0
	}
	d.runs[i] = r
	d.listening.Do(d.listen)
	d.Recorder.Changed(eventmeter.Transition{Sub: r.Sub, To: eventmeter.Attaching, At: d.Clock.Now()})
	return r, nil
}

// Detach ends subscription i.
func (d *lane) Detach(ctx context.Context, i int) error {
	r := driver.LastTurn(&d.mu, d.runs, i)
	if r == nil {
		return nil
	}
	if d.opts.Mode == eventmeter.Webhook {
		d.ask(ctx, r)
	}
	if !r.Leave() {
		return nil
	}
	var err error
	if d.opts.Mode == eventmeter.Webhook {
		err = d.unsubscribe(ctx, r)
	}
	d.release(r)
	d.Recorder.Changed(eventmeter.Transition{Sub: r.Sub, To: eventmeter.Detached, At: d.Clock.Now()})
	if err != nil {
		return fmt.Errorf("detach %s at %s: %w", d.opts.Event, d.ep.Name(), err)
	}
	return nil
}

// release stops whatever serves the run and waits for it.
func (d *lane) release(r *run) {
	r.Cancel()
	if d.opts.Mode == eventmeter.Webhook {
		d.hooks.retire(r)
		return
	}
	<-r.done
}

// Close ends everything. It detaches what is open, many at a time.
func (d *lane) Close(ctx context.Context) error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	d.mu.Unlock()
	failed, first := driver.DetachAll(d.runs, func(i int) error { return d.Detach(ctx, i) })
	d.end()
	d.work.Wait()
	if d.watch != nil {
		d.watch.Close()
	}
	if d.pump != nil {
		if err := d.pump.Close(); err != nil && first == nil {
			first, failed = err, failed+1
		}
	}
	if d.hooks != nil {
		if err := d.hooks.close(ctx); err != nil && first == nil {
			first, failed = err, failed+1
		}
	}
	d.hangUp()
	if first != nil {
		return fmt.Errorf("close lane %d: %d errors, the first: %w", d.opts.Lane, failed, first)
	}
	return nil
}

// Traffic returns the lane's totals.
func (d *lane) Traffic() mcpclient.Traffic {
	return mcpclient.Traffic{Up: d.traffic.Up(), Down: d.traffic.Down(), Opened: d.traffic.Opened(), Accepted: d.Accepted()}
}

// notice reports something that a subscription was told.
func (d *lane) notice(r *run, k eventmeter.NoticeKind, at eventmeter.Instant, detail string) {
	d.Recorder.Noticed(eventmeter.Notice{Sub: r.Sub, Kind: k, At: at, Detail: errtext.Line(detail)})
}

// called reports an exchange.
func (d *lane) called(cause eventmeter.Cause, method string, a *mcpclient.Answer) {
	d.Recorder.Called(eventmeter.Call{
		Lane: d.opts.Lane, Cause: cause, At: a.At, Requests: 1, Up: a.Up, Down: a.Down,
		Connections: d.traffic.TakeOpened(), Took: a.Took, Method: method, Failure: a.Err.Failure(),
	})
}

// agreement returns what the run's principal agreed on.
func (d *lane) agreement(ctx context.Context, r *run) (*mcpclient.Session, error) {
	return r.who.Session(ctx, d.observe)
}

// observe reports handshakes as the lane's traffic.
func (d *lane) observe(c eventmeter.Call) {
	c.Lane, c.At = d.opts.Lane, d.Clock.Now()
	d.Recorder.Called(c)
}

// lost tells whether an answer means that the server no longer knows the
// session, and then forgets it.
func (d *lane) lost(r *run, a *mcpclient.Session, e *mcpclient.CallError) bool {
	if a.ID == "" || !e.Forgotten() {
		return false
	}
	r.who.Forget(a)
	return true
}

// params begins the params that every subscribing method shares.
func (d *lane) params(r *run) wire.Object {
	o := wire.BeginObject((*paramsBuffers.Get().(*[]byte))[:0])
	o.String("name", d.opts.Event)
	o.Raw(d.flavour.arguments, r.args)
	return o
}

// paramsBuffers are for params on their way into a request.
var paramsBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 512); return &b }}

// build closes params and makes a request of them. The params are void then.
func (d *lane) build(method string, o wire.Object, a *mcpclient.Session) (id uint64, body []byte) {
	if a.Meta != nil {
		o.Raw("_meta", a.Meta)
	}
	id = d.ep.NextID()
	params := o.End()
	body = wire.AppendRequest(nil, id, method, params)
	paramsBuffers.Put(&params)
	return id, body
}

// look shows an event to whoever wants to see it, right after its delivery was
// reported. message is the event's object, or the notification around it.
func (d *lane) look(r *run, at eventmeter.Instant, id uint64, f *wire.Fields, message []byte) {
	if d.looker != nil {
		d.looker.Observed(eventmeter.Observation{Sub: r.Sub, At: at, EventID: id, Timestamp: f.Timestamp, Message: message})
	}
}
