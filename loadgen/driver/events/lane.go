package events

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/conform"
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
	judge   judge
	set     Settings // of the MCP Events draft
	older   bool
	said    said // what the answers to Discover and Examine show

	streams *driver.Streams      // push
	herd    herd                 // push, of streams that were cut together
	agenda  *agenda              // webhook
	shared  *sharedCallback      // webhook, nil = each subscription has a callback of its own
	nobody  *mcpclient.Principal // webhook, without a token; nil = subscriptions have the endpoint's principals

	listening sync.Once
	notices   *driver.Streams // for the stream of listen; nil = there is none
}

// run is one attachment of a subscription, from Attaching to Detached or Failed. There may
// be a million of them, so its size matters.
type run struct {
	driver.Attachment
	who  *mcpclient.Principal
	args json.RawMessage

	cursor []byte // raw JSON token; empty = null; guarded by Mu
	// stands is the event that cursor came with, claimed the last event that a cursor
	// claimed. Both are guarded by Mu. group is a hash of arguments and principal.
	stands, claimed eventmeter.Stamp
	group           uint64

	// expired is true if the target refused the cursor and it was dropped. Guarded by
	// Mu.
	expired bool
	begins  start

	stream *stream // push; nil = the run has a worker
	*worker
}

// worker is what a run needs that is no stream.
type worker struct {
	rand   *rand.Rand    // used by one goroutine at a time
	done   chan struct{} // closed when the run's goroutine is over
	hook   *hook         // webhook
	poller poller        // poll
}

// start is where a run begins.
type start uint8

const (
	beginsNow     start = iota
	beginsResumed       // at the cursor of the run before
	beginsStarted       // at the cursor of the settings
)

// figure returns the name of the figure that counts such runs.
func (b start) figure() string { return [...]string{"", "resumed", "started"}[b] }

// Cancel ends the run's context, and its stream.
func (r *run) Cancel() {
	r.Attachment.Cancel()
	if r.stream != nil {
		r.stream.HangUp()
	}
}

// Fail reports Failed, unless the run has ended already, and then ends it.
func (r *run) Fail(err error) {
	if r.Attachment.Failed(err) {
		r.Cancel()
	}
}

// New returns the driver of a lane of the MCP Events draft, or of
// Smithery's triggers.
func New(opts driver.Options) (driver.Driver, error) {
	return driver.New(cmp.Or(opts.System, "events"), opts, newLane)
}

func newLane(opts driver.Options) (*lane, error) {
	if opts.Event == "" {
		return nil, errors.New("no event name: set the lane's event")
	}
	f, set, err := flavourOf(opts)
	if err != nil {
		return nil, err
	}
	revision := opts.Endpoint.Revision()
	if opts.Mode == eventmeter.Poll && opts.Poll.Timeout > 0 && revision != mcpclient.LongPoll {
		return nil, fmt.Errorf(
			"poll.timeout asks for long polls, which revision %s does not have: set revision longpoll, or leave the timeout out",
			revision,
		)
	}
	if opts.Webhook.ShareURL && revision == mcpclient.Older {
		return nil, errors.New("webhook.shareUrl needs X-MCP-Subscription-Id, which revision older does not have: set another revision")
	}
	d := &lane{flavour: f, set: set, older: revision == mcpclient.Older}
	if err := d.Init(opts, d, func(t *wire.Traffic) (http.RoundTripper, func(), error) {
		if opts.Mode == eventmeter.Poll {
			return opts.Endpoint.PollTransport(opts.HTTP, t)
		}
		return opts.Endpoint.NewTransport(opts.HTTP, t, opts.Mode == eventmeter.Push)
	}); err != nil {
		return nil, err
	}
	if !f.plain && !d.older && !opts.Unjudged {
		d.judge.tally = new(conform.Tally)
	}
	if opts.Subscriptions > 1 && opts.Mode != eventmeter.Webhook {
		d.claims.known = make([]knownCursor, knownCursors)
	}
	if set.Listen {
		if d.notices, err = d.OpenStreams(d.listenOptions()); err != nil {
			return nil, err
		}
	}
	switch opts.Mode {
	case eventmeter.Poll:
	case eventmeter.Push:
		if d.streams, err = d.OpenStreams(d.streamOptions()); err != nil {
			return nil, err
		}
	default:
		if err = d.openWebhooks(); err != nil {
			return nil, err
		}
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
	r := &run{who: d.principal(i), args: args}
	d.Ready(&r.Attachment, i)
	r.group = eventmeter.HashID(args) ^ uint64(r.who.Index)<<40
	if d.streams != nil {
		r.stream = d.newStream(r)
	} else {
		r.worker = &worker{rand: d.RandOf(i), done: make(chan struct{})}
	}
	if d.agenda != nil {
		r.hook = d.newHook(r)
	}
	d.start(r, last)
	d.listening.Do(d.listen)
	return r, nil
}

// principal returns the principal of subscription i.
func (d *lane) principal(i int) *mcpclient.Principal {
	if d.nobody != nil {
		return d.nobody
	}
	return d.Principal(i)
}

// start sets the cursor at which a run begins, if there is one.
func (d *lane) start(r, last *run) {
	if last != nil && d.set.Resume {
		r.cursor, r.begins = last.position(), beginsResumed
	}
	if len(r.cursor) == 0 && d.set.Cursor != "" {
		r.cursor, r.begins = wire.AppendString(nil, d.set.Cursor), beginsStarted
	}
	if len(r.cursor) == 0 {
		r.begins = beginsNow
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

// Part is called by Detach while the subscription exists. It finds out whether the
// deliveries of a webhook were suspended.
func (d *lane) Part(ctx context.Context, r *run) {
	if r.stream != nil {
		r.Via(&r.stream.Stream)
	}
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

// silent reports whether a subscription ends without unsubscribing, which depends on its
// number.
func (d *lane) silent(r *run) bool {
	share := d.Opts.Webhook.Silent
	return share > 0 && d.Rand(uint64(d.Opts.NumberOf(int(r.Sub.Index)))|1<<31).Float64() < share
}

// Abandon implements [driver.Protocol]: it ends the run's stream, goroutine or webhook and
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

// session returns the session of the run's principal.
func (d *lane) session(ctx context.Context, r *run) (*mcpclient.Session, error) {
	s, err := r.who.Session(ctx, d.Observe)
	if err == nil {
		d.judge.greet.Do(func() { d.judgeHandshake(s) })
	}
	return s, err
}

// params begins the params of a method that subscribes, with those that all share.
func (d *lane) params(r *run) wire.Object {
	o := wire.BeginObject((*paramsBuffers.Get().(*[]byte))[:0])
	o.String("name", d.Opts.Event)
	o.Raw(d.flavour.arguments, r.args)
	return o
}

// paramsBuffers has buffers for params.
var paramsBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 512); return &b }}

// build returns a request with params o, and its id. o must not be used afterwards.
func (d *lane) build(method string, o wire.Object, a *mcpclient.Session) (id uint64, body []byte) {
	if a.Meta != nil {
		o.Raw("_meta", a.Meta)
	}
	id = d.Endpoint.NextID()
	params := o.End()
	body = wire.Request(id, method, params)
	paramsBuffers.Put(&params)
	return id, body
}
