package driver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/streamclient"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/sinks"
)

// events is one lane of the MCP Events draft, or of Smithery's triggers.
type events struct {
	caller
	*callbacks
	flavour flavour
	tally   tally
	claims  claims
	opts    Options
	ep      *Endpoint
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
	attachment
	who  *principal
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

func newEvents(opts Options) (*events, error) {
	switch {
	case opts.Clock == nil, opts.Recorder == nil, opts.Endpoint == nil:
		return nil, errors.New("driver events: Clock, Recorder and Endpoint must be set")
	case opts.Event == "":
		return nil, errors.New("driver events: no event name: set the lane's event")
	case opts.Subscriptions < 0:
		return nil, fmt.Errorf("driver events: %d subscriptions", opts.Subscriptions)
	}
	opts = opts.WithDefaults()
	f, err := flavourOf(opts)
	if err != nil {
		return nil, fmt.Errorf("driver %w", err)
	}
	d := &events{flavour: f, opts: opts, ep: opts.Endpoint, looker: eventmeter.ObserverOf(opts.Recorder), older: opts.Endpoint.opts.Revision == Older, runs: make([]*run, opts.Subscriptions)}
	t, hangUp, err := d.ep.eventsTransport(opts, &d.traffic)
	if err != nil {
		return nil, fmt.Errorf("driver events: %w", err)
	}
	d.hangUp = hangUp
	if opts.Subscriptions > 1 && opts.Mode != eventmeter.Webhook {
		d.claims.known = make([]knownCursor, knownCursors)
	}
	d.caller = d.ep.laneCaller(&opts, t, &d.traffic)
	d.life, d.end = context.WithCancel(context.Background())
	switch opts.Mode {
	case eventmeter.Poll:
	case eventmeter.Push:
		every := min(max(opts.Push.Heartbeat/8, 10*time.Millisecond), time.Second)
		if d.pipe == nil {
			if d.pump, err = d.ep.newPump(opts, &d.traffic); err != nil {
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

// number is what subscription i is called in the whole run.
func (o *Options) number(i int) int {
	if o.Number == nil {
		return i
	}
	return o.Number(i)
}

// Attach opens subscription i.
func (d *events) Attach(ctx context.Context, i int) error {
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
	r.fail(err)
	d.release(r)
	return fmt.Errorf("attach %s at %s: %w", d.opts.Event, d.ep.opts.URL, err)
}

// begin makes a run for subscription i and reports Attaching.
func (d *events) begin(i int) (*run, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := mayAttach(d.closed, d.runs, i); err != nil {
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
		return nil, fmt.Errorf("%w: arguments %s are not a JSON object", ErrInvalid, line(string(args)))
	}
	r := &run{
		attachment: attachment{sub: eventmeter.Sub{Lane: d.opts.Lane, Index: uint32(i)}, to: &d.caller},
		who:        d.ep.principal(d.opts.number(i)),
		args:       args,
		rand:       rand.New(rand.NewPCG(d.opts.Seed, uint64(d.opts.Lane)<<32|uint64(d.opts.number(i)))),
		done:       make(chan struct{}),
	}
	r.ctx, r.cancel = context.WithCancel(d.life)
	r.group = eventmeter.HashID(args) ^ uint64(r.who.index+1)<<40
	switch {
	case d.hooks != nil:
		r.hook = d.hooks.newHook(r)
	case d.watch != nil:
		r.stream = d.newStream(r)
	}
	if last := d.runs[i]; last != nil && d.opts.Events.Resume {
		r.cursor = last.position()
		r.resumes = len(r.cursor) > 0
	}
	d.runs[i] = r
	d.listening.Do(d.listen)
	d.rec.Changed(eventmeter.Transition{Sub: r.sub, To: eventmeter.Attaching, At: d.clock.Now()})
	return r, nil
}

// Detach ends subscription i.
func (d *events) Detach(ctx context.Context, i int) error {
	r := lastTurn(&d.mu, d.runs, i)
	if r == nil {
		return nil
	}
	if d.opts.Mode == eventmeter.Webhook {
		d.ask(ctx, r)
	}
	if !r.leave() {
		return nil
	}
	var err error
	if d.opts.Mode == eventmeter.Webhook {
		err = d.unsubscribe(ctx, r)
	}
	d.release(r)
	d.rec.Changed(eventmeter.Transition{Sub: r.sub, To: eventmeter.Detached, At: d.clock.Now()})
	if err != nil {
		return fmt.Errorf("detach %s at %s: %w", d.opts.Event, d.ep.opts.URL, err)
	}
	return nil
}

// release stops whatever serves the run and waits for it.
func (d *events) release(r *run) {
	r.cancel()
	if d.opts.Mode == eventmeter.Webhook {
		d.hooks.retire(r)
		return
	}
	<-r.done
}

// Close ends everything. It detaches what is open, many at a time.
func (d *events) Close(ctx context.Context) error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	d.mu.Unlock()
	failed, first := detachAll(d.runs, func(i int) error { return d.Detach(ctx, i) })
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
func (d *events) Traffic() Traffic {
	return Traffic{Up: d.traffic.Up(), Down: d.traffic.Down(), Opened: d.traffic.Opened(), Accepted: d.accepted()}
}

// setCursor keeps a position that the target sent. null says that there is
// none to send, not that the old one is void.
func (r *run) setCursor(raw []byte) {
	if none(raw) {
		return
	}
	if len(raw) > maxCursor { // only a webhook's: elsewhere, what brings it is refused
		r.to.tooLargeFor(r.sub, r.to.clock.Now(), errCursor)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !bytes.Equal(r.cursor, raw) {
		r.cursor, r.stands = append(r.cursor[:0], raw...), eventmeter.Stamp{}
	}
}

// notice reports something that a subscription was told.
func (d *events) notice(r *run, k eventmeter.NoticeKind, at eventmeter.Instant, detail string) {
	d.rec.Noticed(eventmeter.Notice{Sub: r.sub, Kind: k, At: at, Detail: line(detail)})
}

// called reports an exchange.
func (d *events) called(cause eventmeter.Cause, method string, a *answer) {
	d.rec.Called(eventmeter.Call{
		Lane: d.opts.Lane, Cause: cause, At: a.at, Requests: 1, Up: a.up, Down: a.down,
		Connections: d.traffic.TakeOpened(), Took: a.took, Method: method, Failure: a.err.failure(),
	})
}

// agreement returns what the run's principal agreed on.
func (d *events) agreement(ctx context.Context, r *run) (*agreement, error) {
	return r.who.agree(ctx, d.observe)
}

// observe reports handshakes as the lane's traffic.
func (d *events) observe(c eventmeter.Call) {
	c.Lane, c.At = d.opts.Lane, d.clock.Now()
	d.rec.Called(c)
}

// lost tells whether an answer means that the server no longer knows the
// session, and then forgets it.
func (d *events) lost(r *run, a *agreement, e *callError) bool {
	if a.session == "" || !e.forgotten() {
		return false
	}
	r.who.forget(a)
	return true
}

// params begins the params that every subscribing method shares.
func (d *events) params(r *run) wire.Object {
	o := wire.BeginObject((*paramsBuffers.Get().(*[]byte))[:0])
	o.String("name", d.opts.Event)
	o.Raw(d.flavour.arguments, r.args)
	return o
}

// position writes the cursor and the bound of a replay.
func (d *events) position(o *wire.Object, r *run) {
	r.mu.Lock()
	o.Raw("cursor", r.cursor)
	r.mu.Unlock()
	switch age := d.opts.MaxAge; {
	case age <= 0:
	case d.older:
		o.Int("maxAge", int64((age+time.Second-1)/time.Second))
	default:
		o.Int("maxAgeMs", age.Milliseconds())
	}
}

// paramsBuffers are for params on their way into a request.
var paramsBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 512); return &b }}

// build closes params and makes a request of them. The params are void then.
func (d *events) build(method string, o wire.Object, a *agreement) (id uint64, body []byte) {
	if a.meta != nil {
		o.Raw("_meta", a.meta)
	}
	id = d.ep.id()
	params := o.End()
	body = wire.AppendRequest(nil, id, method, params)
	paramsBuffers.Put(&params)
	return id, body
}
