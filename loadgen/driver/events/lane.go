package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// lane is one lane of the MCP Events draft, or of Smithery's triggers.
type lane struct {
	driver.Lane[*run]
	flavour flavour
	tally   driver.Tally
	claims  claims
	set     Settings // of the MCP Events draft
	older   bool
	said    said // what discover saw

	streams *driver.Streams      // push
	agenda  *agenda              // webhook
	shared  *sharedCallback      // webhook, nil = each subscription has a callback of its own
	nobody  *mcpclient.Principal // webhook, nil = subscriptions have the run's principals

	listening sync.Once
	notices   *driver.Streams // of who listens; nil = nobody does
}

// run is one attachment of a subscription, from Attaching to Detached or Failed.
type run struct {
	driver.Attachment
	who  *mcpclient.Principal
	args json.RawMessage
	rand *rand.Rand    // of the one goroutine that runs it
	done chan struct{} // closed when its goroutine is over; nil = it has a stream

	cursor []byte // raw JSON token; empty = null; guarded by mu
	// stands is the event that cursor came with, claimed the one that a cursor
	// claimed last, group what keyOf adds to a cursor. Guarded by mu, but group.
	stands, claimed eventmeter.Stamp
	group           uint64

	// begins counts it if it begins at a cursor, and not now: resumed at one of the run
	// before it, started at the one of the settings.
	begins string

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
	if err := driver.CheckOptions("driver events", &opts); err != nil {
		return nil, err
	}
	if opts.Event == "" {
		return nil, errors.New("driver events: no event name: set the lane's event")
	}
	opts = opts.WithDefaults()
	f, set, err := flavourOf(opts)
	if err != nil {
		return nil, fmt.Errorf("driver %w", err)
	}
	revision := opts.Endpoint.Revision()
	if opts.Mode == eventmeter.Poll && opts.Poll.Timeout > 0 && revision != mcpclient.LongPoll {
		return nil, fmt.Errorf("driver events: poll.timeout asks for long polls, which revision %s does not have: set revision longpoll, or leave the timeout out", revision)
	}
	if opts.Webhook.ShareURL && revision == mcpclient.Older {
		return nil, errors.New("driver events: webhook.shareUrl needs X-MCP-Subscription-Id, which revision older does not have: set another revision")
	}
	d := &lane{flavour: f, set: set, older: revision == mcpclient.Older}
	if err := d.Init(opts, d, func(t *wire.Traffic) (http.RoundTripper, func(), error) {
		if opts.Mode == eventmeter.Poll {
			return opts.Endpoint.PollTransport(opts.HTTP, t)
		}
		return opts.Endpoint.NewTransport(opts.HTTP, t, opts.Mode == eventmeter.Push)
	}); err != nil {
		return nil, fmt.Errorf("driver events: %w", err)
	}
	if opts.Subscriptions > 1 && opts.Mode != eventmeter.Webhook {
		d.claims.known = make([]knownCursor, knownCursors)
	}
	if set.Listen {
		if d.notices, err = d.OpenStreams(d.listenOptions()); err != nil {
			d.Cancel()
			return nil, fmt.Errorf("driver events: %w", err)
		}
	}
	switch opts.Mode {
	case eventmeter.Poll:
	case eventmeter.Push:
		if d.streams, err = d.OpenStreams(d.streamOptions()); err != nil {
			d.Cancel()
			return nil, fmt.Errorf("driver events: %w", err)
		}
	case eventmeter.Webhook:
		if err = d.openWebhooks(); err != nil {
			d.Cancel()
			return nil, fmt.Errorf("driver events: %w", err)
		}
	default:
		d.Cancel()
		return nil, fmt.Errorf("driver events: mode %q is not known: use poll, push or webhook", opts.Mode)
	}
	d.declare()
	return d, nil
}

// Make implements [driver.Protocol].
func (d *lane) Make(i int, last *run) (*run, error) {
	args, err := d.Arguments(i)
	if err != nil {
		return nil, err
	}
	r := &run{who: d.principal(i), args: args, rand: d.RandOf(i)}
	d.Ready(&r.Attachment, i)
	r.group = eventmeter.HashID(args) ^ uint64(r.who.Index+1)<<40
	switch {
	case d.agenda != nil:
		r.hook = d.newHook(r)
	case d.streams != nil:
		r.stream = d.newStream(r)
	}
	if r.stream == nil {
		r.done = make(chan struct{})
	}
	d.start(r, last)
	d.listening.Do(d.listen)
	return r, nil
}

// principal returns who subscription i is.
func (d *lane) principal(i int) *mcpclient.Principal {
	if d.nobody != nil {
		return d.nobody
	}
	return d.Principal(i)
}

// start has a run begin at a cursor, if there is one for it.
func (d *lane) start(r, last *run) {
	if last != nil && d.set.Resume {
		r.cursor, r.begins = last.position(), "resumed"
	}
	if len(r.cursor) == 0 && d.set.Cursor != "" {
		r.cursor, r.begins = wire.AppendString(nil, d.set.Cursor), "started"
	}
	if len(r.cursor) == 0 {
		r.begins = ""
	}
}

// Open implements [driver.Protocol].
func (d *lane) Open(ctx context.Context, r *run) error {
	switch d.Opts.Mode {
	case eventmeter.Poll:
		return d.attachPoll(ctx, r)
	case eventmeter.Push:
		return d.attachPush(ctx, r)
	}
	return d.attachWebhook(ctx, r)
}

// Part asks, of a webhook, whether its deliveries were suspended.
func (d *lane) Part(ctx context.Context, r *run) {
	if d.Opts.Mode == eventmeter.Webhook {
		d.ask(ctx, r)
	}
}

// End implements [driver.Protocol].
func (d *lane) End(ctx context.Context, r *run) (err error) {
	switch {
	case d.Opts.Mode != eventmeter.Webhook:
	case d.silent(r):
		d.tally.Count("leftSilently", 1)
	default:
		err = d.unsubscribe(ctx, r)
	}
	d.Abandon(r)
	return err
}

// silent tells whether a subscription does not unsubscribe when it ends, by its number.
func (d *lane) silent(r *run) bool {
	share := d.Opts.Webhook.Silent
	return share > 0 && d.Rand(uint64(d.Opts.NumberOf(int(r.Sub.Index)))|1<<31).Float64() < share
}

// Abandon implements [driver.Protocol]: it stops whatever serves the run and
// waits for it.
func (d *lane) Abandon(r *run) {
	r.Cancel()
	if d.Opts.Mode == eventmeter.Webhook {
		d.retire(r)
		return
	}
	if r.stream != nil {
		<-r.stream.Done()
		return
	}
	<-r.done
}

// Stop implements [driver.Protocol].
func (d *lane) Stop(ctx context.Context) error {
	err := errors.Join(d.streams.Close(), d.notices.Close())
	if d.agenda != nil {
		d.agenda.close()
		err = errors.Join(err, d.CloseInbox(ctx))
	}
	if d.nobody != nil {
		d.nobody.End()
	}
	return err
}

// session returns that of the run's principal.
func (d *lane) session(ctx context.Context, r *run) (*mcpclient.Session, error) {
	return r.who.Session(ctx, d.Observe)
}

// params begins the params that every subscribing method shares.
func (d *lane) params(r *run) wire.Object {
	o := wire.BeginObject((*paramsBuffers.Get().(*[]byte))[:0])
	o.String("name", d.Opts.Event)
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
	id = d.Endpoint.NextID()
	params := o.End()
	body = wire.AppendRequest(nil, id, method, params)
	paramsBuffers.Put(&params)
	return id, body
}
