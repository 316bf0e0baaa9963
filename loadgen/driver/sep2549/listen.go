package sep2549

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/sinks"
)

const (
	methodFollow       = "resources/subscribe"
	methodAcknowledged = "notifications/subscriptions/acknowledged"
)

// listener is a stream of notifications: in the modern era the answer to
// subscriptions/listen, in the legacy era the GET stream of a session. Each
// client has one; clients that share copies share one for each principal, which
// ends with the last of them.
type listener struct {
	d      *lane
	who    *mcpclient.Principal
	own    bool           // who has a session that is for this stream
	sub    eventmeter.Sub // who opened it, for reports
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
	ready  chan struct{} // closed when it is open, or cannot be
	err    error         // why not, before ready is closed

	refs   int            // under the lane's lock
	caches map[*cache]int // under the lane's lock: how many clients use each

	// Of the connection at hand; used by its goroutine only.
	parser wire.EventParser
	id     uint64
	opened bool          // of all connections
	pause  time.Duration // as the server asked for; of all connections
	told   bool          // ready is closed
	heard  bool
	over   error
	at     eventmeter.Instant
	began  eventmeter.Instant
	up     int64
	down   int64
}

// listen lets a client listen, and returns when the target has confirmed it.
func (d *lane) listen(ctx context.Context, c *client) error {
	session, err := c.who.Session(ctx, d.Observe)
	if err != nil {
		return err
	}
	if session.Era == mcpclient.Bare {
		return fmt.Errorf("notifications: %w: the target refused every handshake, so it has no session to listen on", mcpclient.ErrNotOffered)
	}
	who, key := c.who, int(c.Sub.Index)
	if session.Era == mcpclient.Legacy { // a session has one stream, and other lanes may want it
		who = c.who.Clone()
	}
	own := who != c.who
	if d.shared != nil {
		key = -1 - c.who.Index
	} else {
		c.who = who
	}
	d.Mu.Lock()
	e := d.listeners[key]
	if e != nil && e.ctx.Err() != nil {
		e = nil
	}
	if e == nil {
		e = &listener{d: d, who: who, own: own, sub: c.Sub, done: make(chan struct{}), ready: make(chan struct{}), caches: map[*cache]int{}}
		e.ctx, e.cancel = context.WithCancel(d.Life)
		d.listeners[key] = e
		if d.lead < 0 {
			d.lead = c.who.Index
		}
		d.Work.Go(crash.Guarded(e.serve))
	}
	e.refs++
	e.caches[c.cache]++
	c.listener = e
	d.Mu.Unlock()
	select {
	case <-e.ready:
		return e.err
	case <-ctx.Done():
		return driver.NotConfirmed(nil, ctx.Err())
	}
}

// unlisten ends a client's listening. The last one ends the stream and waits.
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
		e.cancel() // under the lock: nobody joins a stream that is ending
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
	<-e.done
}

// serve keeps the stream open until the last client has gone.
func (e *listener) serve() {
	defer close(e.done)
	if e.own {
		defer e.who.End()
	}
	d := e.d
	backoff := d.StreamBackoff(nil)
	for {
		err := e.connect()
		if e.ctx.Err() != nil {
			if !e.opened {
				e.err = e.ctx.Err()
				close(e.ready)
			}
			return
		}
		var ce *mcpclient.CallError
		known := errors.As(err, &ce)
		if !e.opened && !(known && (ce.Throttled() || ce.Kind == mcpclient.KindSession)) {
			if e.err = err; err == nil {
				e.err = fmt.Errorf("notifications: %w: the stream ended at once", mcpclient.ErrProtocol)
			}
			e.cancel()
			close(e.ready)
			return
		}
		if e.heard {
			backoff.Reset()
		}
		if err != nil {
			d.Recorder.Noticed(eventmeter.Notice{Sub: e.sub, Kind: eventmeter.TransientError, At: d.Clock.Now(), Detail: errtext.Line(err.Error())})
		}
		least := e.pause
		if known {
			least += ce.RetryAfter
		}
		if !sinks.Sleep(e.ctx, backoff.Next(least)) {
			if !e.opened {
				e.err = e.ctx.Err()
				close(e.ready)
			}
			return
		}
	}
}

// connect opens one connection's stream and reads it to its end.
func (e *listener) connect() error {
	d := e.d
	e.heard, e.over, e.down = false, nil, 0
	e.parser.Budget = d.Budget
	e.parser.Reset()
	session, err := e.who.Session(e.ctx, d.Observe)
	if err != nil {
		return err
	}
	req := e.request(session)
	e.began = d.Clock.Now()
	resp, err := d.Transport.RoundTrip(req)
	if err != nil {
		return e.failed(mcpclient.TransportError(e.ctx, err))
	}
	defer resp.Body.Close()
	if resp.StatusCode > 299 || !mcpclient.IsEventStream(resp.Header) {
		return e.refused(resp, session)
	}
	e.down = mcpclient.ResponseSize(resp)
	if session.Era == mcpclient.Legacy { // the stream needs no words; a resource has to be named
		if err := e.subscribe(session); err != nil {
			return err
		}
		e.at = d.Clock.Now()
		e.confirmed()
		e.letIn()
	}
	if err = sinks.ReadStream(resp.Body, d.Clock, nil, e.piece); errors.Is(err, driver.ErrEnded) {
		d.Patience.Rest(resp.Body)
	}
	e.pause = mcpclient.Pause(&e.parser, e.pause)
	e.parser.Reset()
	switch {
	case e.over != nil && !errors.Is(e.over, driver.ErrEnded): // errEnded: in order
		return e.over
	case err == nil || errors.Is(err, driver.ErrEnded):
		if !e.heard && e.over == nil {
			return e.failed(&mcpclient.CallError{Kind: mcpclient.KindProtocol, Message: "the stream ended before it was confirmed"})
		}
		return nil
	case !e.heard:
		return e.failed(mcpclient.TransportError(e.ctx, err))
	}
	return mcpclient.TransportError(e.ctx, err)
}

// request is the POST of the modern era or the GET of the legacy one.
func (e *listener) request(session *mcpclient.Session) *http.Request {
	d := e.d
	if session.Era == mcpclient.Legacy {
		h := session.StreamHeader()
		e.up = mcpclient.RequestSize(http.MethodGet, d.URL.RequestURI(), h, 0)
		return d.NewGet(e.ctx, h)
	}
	want := wire.BeginObject(nil)
	if d.want != "" {
		want.Raw(d.want, []byte("true"))
	} else {
		want.Raw("resourceSubscriptions", append(wire.AppendString([]byte{'['}, d.set.URI), ']'))
	}
	o := wire.BeginObject(nil)
	o.Raw("notifications", want.End())
	body := d.build(mcpclient.MethodListen, &o, session, &e.id)
	h := session.Header(mcpclient.MethodListen, "")
	e.up = mcpclient.RequestSize(http.MethodPost, d.URL.RequestURI(), h, int64(len(body)))
	return d.Caller.NewPost(e.ctx, h, body)
}

// subscribe asks for notifications of the resource.
func (e *listener) subscribe(session *mcpclient.Session) error {
	d := e.d
	if d.want != "" {
		return nil
	}
	o := wire.BeginObject(nil)
	o.String("uri", d.set.URI)
	ctx, cancel := context.WithTimeout(e.ctx, d.Opts.Timeout)
	defer cancel()
	a := d.Call(ctx, methodFollow, session.Header(methodFollow, ""), d.build(methodFollow, &o, session, nil))
	defer a.Release()
	d.called(eventmeter.Subscribe, methodFollow, a, false)
	if a.Err != nil {
		return a.Err
	}
	return nil
}

// refused reads an answer that is no stream.
func (e *listener) refused(resp *http.Response, session *mcpclient.Session) error {
	a := &mcpclient.Answer{}
	defer a.Release()
	a.Read(e.ctx, &e.d.Caller, resp, mcpclient.MethodListen)
	e.down = a.Down
	if a.Err == nil {
		a.Err = &mcpclient.CallError{Kind: mcpclient.KindProtocol, Message: "answered without a stream", Status: a.Status}
	}
	if session.ID != "" && a.Err.Forgotten() {
		e.who.Forget(session)
		a.Err = &mcpclient.CallError{Kind: mcpclient.KindSession, Status: a.Status}
	}
	if a.Err.Status == http.StatusMethodNotAllowed {
		return fmt.Errorf("notifications: %w: %w", mcpclient.ErrNotOffered, e.failed(a.Err))
	}
	return e.failed(a.Err)
}

// failed reports a request that opened no stream.
func (e *listener) failed(err *mcpclient.CallError) error {
	err.Method = mcpclient.MethodListen
	e.at = e.d.Clock.Now()
	if e.ctx.Err() == nil {
		e.report(err)
	}
	return err
}

func (e *listener) report(err *mcpclient.CallError) {
	d := e.d
	cause := eventmeter.Subscribe
	if e.opened {
		cause = eventmeter.Reconnect
		d.tally.bytes.Add(e.up + e.down)
	}
	d.Recorder.Called(eventmeter.Call{
		Lane: d.Opts.Lane, Cause: cause, At: e.at, Requests: 1, Up: e.up, Down: e.down, Connections: d.Sockets.TakeOpened(),
		Took: e.at.Sub(e.began), Method: mcpclient.MethodListen, Failure: err.Failure(),
	})
}

// confirmed notes that the stream is open. What came while it was not is
// unknown, so the copies of then are stale.
func (e *listener) confirmed() {
	if e.heard {
		return
	}
	e.heard = true
	e.report(nil)
	if !e.opened {
		e.opened = true
		return
	}
	e.d.tally.reconnects.Add(1)
	e.d.Recorder.Noticed(eventmeter.Notice{Sub: e.sub, Kind: eventmeter.Reconnected, At: e.at})
	e.invalidate()
}

// letIn lets the clients go on that wait for the stream, once.
func (e *listener) letIn() {
	if e.opened && !e.told {
		e.told = true
		close(e.ready)
	}
}

// invalidate makes the copies of everybody who listens here stale.
func (e *listener) invalidate() {
	d := e.d
	d.Mu.Lock()
	caches := make([]*cache, 0, len(e.caches))
	for c := range e.caches {
		caches = append(caches, c)
	}
	public := d.shared == nil || e.who.Index == d.lead
	d.Mu.Unlock()
	for _, c := range caches {
		c.invalidate(e.who.Index, public, e.at)
	}
}

// piece takes the next bytes of the stream. Clients are let in after it: what
// came with the confirmation is older than their first fetch.
func (e *listener) piece(b []byte, at eventmeter.Instant) error {
	e.at = at
	err := e.parser.Feed(b, e.take)
	e.letIn()
	if err != nil {
		e.d.TooLargeFor(e.sub, at, err)
		return err
	}
	if e.over != nil {
		return driver.ErrEnded
	}
	return nil
}

// take handles one message.
func (e *listener) take(ev wire.Event) {
	d := e.d
	var m wire.Message
	switch {
	case e.over != nil: // nothing more is taken from it
		return
	case len(ev.Data) == 0:
		e.overhead(ev.Size, "comment")
		return
	case !wire.ScanMessage(ev.Data, &m):
		d.Recorder.Noticed(eventmeter.Notice{Sub: e.sub, Kind: eventmeter.Malformed, At: e.at, Detail: "a message is not a JSON object"})
		return
	}
	switch method := string(m.Method); {
	case method == "" && (m.HasResult || m.HasError):
		e.overhead(ev.Size, "response")
		e.over = driver.ErrEnded
		if m.HasError {
			e.over = mcpclient.RPCError(mcpclient.MethodListen, &m.Error)
		} else if !e.heard {
			e.over = e.failed(&mcpclient.CallError{Kind: mcpclient.KindProtocol, Message: "the stream ended before it was confirmed"})
		}
	case method == methodAcknowledged:
		e.acknowledged(ev)
	case method == d.about && (d.want != "" || names(ev.Data, d.set.URI)):
		e.overhead(ev.Size, method)
		d.tally.changes.Add(1)
		e.invalidate()
	default:
		e.overhead(ev.Size, method)
		d.tally.otherChanges.Add(1)
	}
}

// acknowledged looks whether the target will tell what was asked for.
func (e *listener) acknowledged(ev wire.Event) {
	d := e.d
	var m struct {
		Params struct {
			Notifications map[string]json.RawMessage `json:"notifications"`
		} `json:"params"`
	}
	_ = json.Unmarshal(ev.Data, &m) // what cannot be read agrees to nothing
	granted := string(m.Params.Notifications[d.want]) == "true"
	if d.want == "" {
		granted = slices.ContainsFunc(uris(m.Params.Notifications["resourceSubscriptions"]), func(u string) bool { return u == d.set.URI })
	}
	e.down += int64(ev.Size)
	if granted {
		e.confirmed()
		return
	}
	e.report(nil)
	e.over = fmt.Errorf("notifications: %w: it did not agree to tell of changes of this list", mcpclient.ErrNotOffered)
}

func uris(raw json.RawMessage) (list []string) {
	_ = json.Unmarshal(raw, &list) // what cannot be read names none
	return list
}

// overhead counts bytes of the open stream: notifications carry no event.
func (e *listener) overhead(size int, method string) {
	d := e.d
	if !e.heard {
		e.down += int64(size)
		return
	}
	d.tally.bytes.Add(int64(size))
	d.Recorder.Called(eventmeter.Call{Lane: d.Opts.Lane, Cause: eventmeter.Heartbeat, At: e.at, Down: int64(size), Method: method})
}
