package sep2549

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// listener is a stream of notifications: in the modern era the answer to
// subscriptions/listen, in the legacy era the stream of a session. Each client has one.
// Clients that share copies share one listener per principal, and so do all clients of a
// program in the legacy era, which has one session. The listener ends with its last client.
type listener struct {
	driver.Stream
	d      *lane
	who    *mcpclient.Principal
	own    bool           // who has a session for this stream alone
	sub    eventmeter.Sub // the subscription that opened it, for reports
	ctx    context.Context
	cancel context.CancelFunc
	// follows is true if the stream needs resources/subscribe; named is closed when that
	// has succeeded for the first time. Both are set before the stream starts.
	follows bool
	named   chan struct{}

	refs   int            // number of clients; guarded by the lane's lock
	caches map[*cache]int // how many clients use each; guarded by the lane's lock
}

// listen gives a client a listener, and returns when the target has confirmed it.
func (d *lane) listen(ctx context.Context, c *client) error {
	session, err := c.who.Session(ctx, d.Observe)
	if err != nil {
		return err
	}
	if session.Era == mcpclient.Bare {
		return fmt.Errorf(
			"notifications: %w: the target refused every handshake, so it has no session to listen on",
			mcpclient.ErrNotOffered,
		)
	}
	e := d.join(c, session)
	select {
	case <-e.First():
		if e.Ended() && !e.WasConfirmed() {
			return e.failure()
		}
	case <-ctx.Done():
		return driver.NotConfirmed(nil, ctx.Err())
	}
	if !e.follows {
		return nil
	}
	select {
	case <-e.named:
		return nil
	case <-e.Done():
		return e.failure()
	case <-ctx.Done():
		return driver.NotConfirmed(nil, ctx.Err())
	}
}

// join adds a client to its listener, and starts the listener for the first client.
func (d *lane) join(c *client, session *mcpclient.Session) *listener {
	who, key := c.who, int(c.Sub.Index)
	legacy := session.Era == mcpclient.Legacy
	if legacy && d.Pipe == nil { // a session has one stream, which other lanes may use
		who = c.who.Clone()
	}
	own := who != c.who
	if d.shared != nil || legacy && d.Pipe != nil {
		key = -1 - c.who.Index
	} else {
		c.who = who
	}
	d.Mu.Lock()
	defer d.Mu.Unlock()
	e := d.listeners[key]
	if e != nil && e.ctx.Err() != nil {
		e = nil
	}
	if e == nil {
		e = &listener{
			d:       d,
			who:     who,
			own:     own,
			sub:     c.Sub,
			follows: legacy && d.list.Want == "",
			named:   make(chan struct{}),
			caches:  map[*cache]int{},
		}
		e.ctx, e.cancel = context.WithCancel(d.Life)
		e.Init(d.streams, e)
		d.listeners[key] = e
		if d.lead < 0 {
			d.lead = c.who.Index
		}
		e.Start(e.ctx)
	}
	e.refs++
	e.caches[c.cache]++
	c.listener = e
	return e
}

// unlisten removes a client from its listener. With the last client it ends the stream and
// waits for it.
func (d *lane) unlisten(c *client) {
	e := c.listener
	if e == nil {
		return
	}
	d.Mu.Lock()
	e.refs--
	if e.caches[c.cache]--; e.caches[c.cache] == 0 {
		delete(e.caches, c.cache)
	}
	last := e.refs == 0
	if last {
		e.cancel() // under the lock, so that no client joins a stream that is ending
		for k, other := range d.listeners {
			switch {
			case other == e:
				delete(d.listeners, k)
			case d.lead == e.who.Index && other.ctx.Err() == nil:
				d.lead = other.who.Index
			}
		}
	}
	d.Mu.Unlock()
	if !last {
		return
	}
	e.HangUp()
	<-e.Done()
	if e.own {
		e.who.End()
	}
	if e.follows && e.complete() && d.Pipe != nil && d.Pipe.Release(d.set.URI) { // over HTTP the subscription ends with the session
		ctx, cancel := context.WithTimeout(context.Background(), mcpclient.CancelTime)
		defer cancel()
		_ = e.name(ctx, driver.MethodUnsubscribe, eventmeter.Unsubscribe) // the error is reported
	}
}

// failure returns why a stream that is done has ended.
func (e *listener) failure() error {
	if err := e.Failure(); err != nil {
		return err
	}
	return e.ctx.Err()
}

// complete reports whether the target has confirmed the listener.
func (e *listener) complete() bool {
	if !e.follows {
		return e.WasConfirmed()
	}
	select {
	case <-e.named:
		return true
	default:
		return false
	}
}

// Over implements [driver.StreamProtocol]: the first connection has to succeed.
func (e *listener) Over(err error) bool {
	var ce *mcpclient.CallError
	ended := errors.As(err, &ce) && ce.Kind == mcpclient.KindEnded
	if ended || !e.complete() && !driver.Passes(err) {
		e.cancel()
		return true
	}
	if err != nil {
		e.Notice(eventmeter.TransientError, e.d.Clock.Now(), err.Error())
	}
	return false
}

// Request implements [driver.StreamProtocol]: it returns the POST of the modern era or the
// GET of the legacy era.
func (e *listener) Request(ctx context.Context) (driver.StreamRequest, error) {
	d := e.d
	session, err := e.who.Session(ctx, d.Observe)
	if err != nil {
		return driver.StreamRequest{}, err
	}
	req := driver.StreamRequest{Who: e.who, Session: session, Method: mcpclient.MethodListen}
	if session.Era == mcpclient.Legacy {
		req.Header = session.StreamHeader()
		return req, nil
	}
	d.Listen(&req, d.list.Want, d.set.URI)
	return req, nil
}

// Confirmed implements [driver.StreamProtocol]. Changes while the stream was lost are
// unknown, so all copies become stale when it is opened again.
func (e *listener) Confirmed(again bool) {
	d := e.d
	again = again && e.complete()
	if again {
		d.tally.reconnects.Add(1)
		e.Notice(eventmeter.Reconnected, e.At(), "")
	}
	switch {
	case e.follows:
		d.Work.Go(func() {
			defer crash.Guard()
			e.follow(again)
		})
	case again:
		e.invalidate(e.At())
	}
}

// follow subscribes to the resource in the session. again is true after the stream was lost:
// copies may have become stale meanwhile.
func (e *listener) follow(again bool) {
	switch err := e.name(e.ctx, driver.MethodSubscribe, eventmeter.Subscribe); {
	case err != nil:
		e.GiveUp(err)
	case again:
		e.invalidate(e.d.Clock.Now())
	default:
		if e.d.Pipe != nil {
			e.d.Pipe.Hold(e.d.set.URI)
		}
		close(e.named)
	}
}

// name calls a method with the resource's URI.
func (e *listener) name(ctx context.Context, method string, cause eventmeter.Cause) *mcpclient.CallError {
	d := e.d
	session, err := e.who.Session(ctx, d.Observe)
	if err != nil {
		return &mcpclient.CallError{Method: method, Kind: mcpclient.KindOf(err), Cause: err}
	}
	o := wire.BeginObject(nil)
	o.String("uri", d.set.URI)
	a := d.Ask(ctx, session, method, "", o)
	defer a.Release()
	d.called(cause, method, a, false)
	return a.Err
}

// Refused implements [driver.StreamProtocol].
func (e *listener) Refused(a *mcpclient.Answer, session *mcpclient.Session) error {
	if a.Err.Status == http.StatusMethodNotAllowed {
		return fmt.Errorf("notifications: %w: %w", mcpclient.ErrNotOffered, a.Err)
	}
	return e.who.Refusal(session, a.Err)
}

// Called implements [driver.StreamProtocol].
func (e *listener) Called(c eventmeter.Call) {
	if c.Cause == eventmeter.Heartbeat || e.complete() {
		e.d.tally.bytes.Add(c.Up + c.Down)
	}
	e.d.Recorder.Called(c)
}

// Notice implements [driver.StreamProtocol].
func (e *listener) Notice(k eventmeter.NoticeKind, at eventmeter.Instant, detail string) {
	e.d.Notice(e.sub, k, at, detail)
}

// TooLarge implements [driver.StreamProtocol].
func (e *listener) TooLarge(at eventmeter.Instant, err error) { e.d.TooLargeFor(e.sub, at, err) }

// invalidate makes the copies of all clients of the listener stale.
func (e *listener) invalidate(at eventmeter.Instant) {
	d := e.d
	d.Mu.Lock()
	caches := make([]*cache, 0, len(e.caches))
	for c := range e.caches {
		caches = append(caches, c)
	}
	public := d.shared == nil || e.who.Index == d.lead
	d.Mu.Unlock()
	for _, c := range caches {
		c.invalidate(e.who.Index, public, at)
	}
}

// Message implements [driver.StreamProtocol]. Notifications carry no event, so all of them
// count as overhead.
func (e *listener) Message(ev wire.Event, m *wire.Message) {
	d := e.d
	switch method := string(m.Method); {
	case method == "" && (m.HasResult || m.HasError):
		e.Overhead(ev.Size, "response")
		var err error
		if m.HasError {
			err = mcpclient.RPCError(mcpclient.MethodListen, &m.Error)
		}
		e.End(err)
	case method == driver.MethodAcknowledged:
		e.acknowledged(ev)
	case method == d.list.Changed && (d.list.Want != "" || names(ev.Data, d.set.URI)):
		e.Overhead(ev.Size, method)
		d.tally.changes.Add(1)
		e.invalidate(e.At())
	default:
		e.Overhead(ev.Size, method)
		d.tally.otherChanges.Add(1)
	}
}

// acknowledged handles the acknowledgement of subscriptions/listen. It ends the stream if
// the acknowledgement leaves out what was requested.
func (e *listener) acknowledged(ev wire.Event) {
	d := e.d
	if driver.Granted(ev.Data, d.list.Want, d.set.URI) {
		e.Confirm(ev.Size)
		return
	}
	e.Overhead(ev.Size, driver.MethodAcknowledged)
	e.End(fmt.Errorf("notifications: %w: the acknowledgement leaves out changes of this list", mcpclient.ErrNotOffered))
}
