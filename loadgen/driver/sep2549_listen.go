package driver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/sinks"
)

const (
	methodFollow       = "resources/subscribe"
	methodAcknowledged = "notifications/subscriptions/acknowledged"
)

// listEar is a stream of notifications: in the modern era the answer to
// subscriptions/listen, in the legacy era the GET stream of a session. Each
// client has one; clients that share copies share one for each principal, which
// ends with the last of them.
type listEar struct {
	d      *listLane
	who    *principal
	own    bool           // who has a session that is for this stream
	sub    eventmeter.Sub // who opened it, for reports
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
	ready  chan struct{} // closed when it is open, or cannot be
	err    error         // why not, before ready is closed

	refs   int                // under the lane's lock
	caches map[*listCache]int // likewise: how many clients use each

	agreed []*agreement // of all its sessions; for who waited for done

	// Of the connection at hand; used by its goroutine only.
	parser wire.EventParser
	id     uint64
	opened bool          // of all connections
	pause  time.Duration // see pause; likewise
	told   bool          // ready is closed
	heard  bool
	over   error
	at     eventmeter.Instant
	began  eventmeter.Instant
	up     int64
	down   int64
}

// hear lets a client listen, and returns when the target has confirmed it.
func (d *listLane) hear(ctx context.Context, c *listClient) error {
	agreed, err := c.who.agree(ctx, d.observe)
	if err != nil {
		return err
	}
	if agreed.era == Bare {
		return fmt.Errorf("notifications: %w: the target refused every handshake, so it has no session to listen on", ErrNotOffered)
	}
	who, key := c.who, int(c.sub.Index)
	if agreed.era == Legacy { // a session has one stream, and other lanes may want it
		who = &principal{endpoint: d.ep, index: c.who.index, token: c.who.token}
	}
	own := who != c.who
	if d.shared != nil {
		key = -1 - c.who.index
	} else {
		c.who = who
	}
	d.mu.Lock()
	e := d.ears[key]
	if e != nil && e.ctx.Err() != nil {
		e = nil
	}
	if e == nil {
		e = &listEar{d: d, who: who, own: own, sub: c.sub, done: make(chan struct{}), ready: make(chan struct{}), caches: map[*listCache]int{}}
		e.ctx, e.cancel = context.WithCancel(d.life)
		d.ears[key] = e
		if d.lead < 0 {
			d.lead = c.who.index
		}
		d.work.Go(crash.Guarded(e.serve))
	}
	e.refs++
	e.caches[c.cache]++
	c.ear = e
	d.mu.Unlock()
	select {
	case <-e.ready:
		return e.err
	case <-ctx.Done():
		return notConfirmed(nil, ctx.Err())
	}
}

// silence ends a client's listening. The last one ends the stream and waits.
func (d *listLane) silence(c *listClient) {
	e := c.ear
	if e == nil {
		return
	}
	d.mu.Lock()
	e.refs--
	if e.caches[c.cache]--; e.caches[c.cache] == 0 {
		delete(e.caches, c.cache)
	}
	last := e.refs == 0
	if last {
		e.cancel() // under the lock: nobody joins a stream that is ending
		for k, other := range d.ears {
			switch {
			case other == e:
				delete(d.ears, k)
			case d.lead == e.who.index && other.ctx.Err() == nil:
				d.lead = other.who.index
			}
		}
	}
	d.mu.Unlock()
	if !last {
		return
	}
	<-e.done
	if e.own { // its agreements are over, and nobody asks for their headers again
		d.mu.Lock()
		defer d.mu.Unlock()
		for k := range d.headers {
			if slices.Contains(e.agreed, k.of) {
				delete(d.headers, k)
			}
		}
	}
}

// serve keeps the stream open until the last client has gone.
func (e *listEar) serve() {
	defer close(e.done)
	if e.own {
		defer e.who.end()
	}
	d := e.d
	backoff := sinks.Backoff{Min: d.opts.Push.BackoffMin, Max: d.opts.Push.BackoffMax}
	for {
		err := e.connect()
		if e.ctx.Err() != nil {
			if !e.opened {
				e.err = e.ctx.Err()
				close(e.ready)
			}
			return
		}
		var ce *callError
		known := errors.As(err, &ce)
		if !e.opened && !(known && (ce.throttled() || ce.kind == "session lost")) {
			if e.err = err; err == nil {
				e.err = fmt.Errorf("notifications: %w: the stream ended at once", ErrProtocol)
			}
			e.cancel()
			close(e.ready)
			return
		}
		if e.heard {
			backoff.Reset()
		}
		if err != nil {
			d.rec.Noticed(eventmeter.Notice{Sub: e.sub, Kind: eventmeter.TransientError, At: d.clock.Now(), Detail: line(err.Error())})
		}
		least := e.pause
		if known {
			least += ce.retryAfter
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
func (e *listEar) connect() error {
	d := e.d
	e.heard, e.over, e.down = false, nil, 0
	e.parser.Budget = d.budget
	e.parser.Reset()
	agreed, err := e.who.agree(e.ctx, d.observe)
	if err != nil {
		return err
	}
	if e.own && !slices.Contains(e.agreed, agreed) {
		e.agreed = append(e.agreed, agreed)
	}
	req := e.request(agreed)
	e.began = d.clock.Now()
	resp, err := d.transport.RoundTrip(req)
	if err != nil {
		return e.failed(transportError(e.ctx, err))
	}
	defer resp.Body.Close()
	if resp.StatusCode > 299 || !isEventStream(resp.Header) {
		return e.refused(resp, agreed)
	}
	e.down = responseSize(resp)
	if agreed.era == Legacy { // the stream needs no words; a resource has to be named
		if err := e.subscribe(agreed); err != nil {
			return err
		}
		e.at = d.clock.Now()
		e.confirmed()
		e.letIn()
	}
	if err = sinks.ReadStream(resp.Body, d.clock, nil, e.piece); errors.Is(err, errEnded) {
		d.patience.rest(resp.Body)
	}
	e.pause = pause(&e.parser, e.pause)
	e.parser.Reset()
	switch {
	case e.over != nil && !errors.Is(e.over, errEnded): // errEnded: in order
		return e.over
	case err == nil || errors.Is(err, errEnded):
		if !e.heard && e.over == nil {
			return e.failed(&callError{kind: kindProtocol, message: "the stream ended before it was confirmed"})
		}
		return nil
	case !e.heard:
		return e.failed(transportError(e.ctx, err))
	}
	return transportError(e.ctx, err)
}

// request is the POST of the modern era or the GET of the legacy one.
func (e *listEar) request(agreed *agreement) *http.Request {
	d := e.d
	if agreed.era == Legacy {
		h := d.header(agreed, "").Clone()
		h.Set("Accept", "text/event-stream")
		h.Del("Content-Type")
		e.up = requestSize(http.MethodGet, d.url.RequestURI(), h, 0)
		req := &http.Request{Method: http.MethodGet, URL: d.url, Host: d.host, Header: h, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
		return req.WithContext(e.ctx)
	}
	want := wire.BeginObject(nil)
	if d.want != "" {
		want.Raw(d.want, []byte("true"))
	} else {
		want.Raw("resourceSubscriptions", append(wire.AppendString([]byte{'['}, d.set.URI), ']'))
	}
	o := wire.BeginObject(nil)
	o.Raw("notifications", want.End())
	body := d.build(methodListen, &o, agreed, &e.id)
	h := d.header(agreed, methodListen)
	e.up = requestSize(http.MethodPost, d.url.RequestURI(), h, int64(len(body)))
	return d.caller.request(e.ctx, h, body)
}

// subscribe asks a session to be told of the resource.
func (e *listEar) subscribe(agreed *agreement) error {
	d := e.d
	if d.want != "" {
		return nil
	}
	o := wire.BeginObject(nil)
	o.String("uri", d.set.URI)
	ctx, cancel := context.WithTimeout(e.ctx, d.opts.Timeout)
	defer cancel()
	a := d.call(ctx, methodFollow, d.header(agreed, methodFollow), d.build(methodFollow, &o, agreed, nil))
	defer a.release()
	d.called(eventmeter.Subscribe, methodFollow, a, false)
	if a.err != nil {
		return a.err
	}
	return nil
}

// refused reads an answer that is no stream.
func (e *listEar) refused(resp *http.Response, agreed *agreement) error {
	a := &answer{}
	defer a.release()
	a.read(e.ctx, &e.d.caller, resp, methodListen)
	e.down = a.down
	if a.err == nil {
		a.err = &callError{kind: kindProtocol, message: "answered without a stream", status: a.status}
	}
	if agreed.session != "" && a.err.forgotten() {
		e.who.forget(agreed)
		a.err = &callError{kind: "session lost", status: a.status}
	}
	if a.err.status == http.StatusMethodNotAllowed {
		return fmt.Errorf("notifications: %w: %w", ErrNotOffered, e.failed(a.err))
	}
	return e.failed(a.err)
}

// failed reports a request that opened no stream.
func (e *listEar) failed(err *callError) error {
	err.method = methodListen
	e.at = e.d.clock.Now()
	if e.ctx.Err() == nil {
		e.report(err)
	}
	return err
}

func (e *listEar) report(err *callError) {
	d := e.d
	cause := eventmeter.Subscribe
	if e.opened {
		cause = eventmeter.Reconnect
		d.tally.bytes.Add(e.up + e.down)
	}
	d.rec.Called(eventmeter.Call{
		Lane: d.opts.Lane, Cause: cause, At: e.at, Requests: 1, Up: e.up, Down: e.down, Connections: d.traffic.TakeOpened(),
		Took: e.at.Sub(e.began), Method: methodListen, Failure: err.failure(),
	})
}

// confirmed notes that the stream is open. What came while it was not is
// unknown, so the copies of then are stale.
func (e *listEar) confirmed() {
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
	e.d.rec.Noticed(eventmeter.Notice{Sub: e.sub, Kind: eventmeter.Reconnected, At: e.at})
	e.spoil()
}

// letIn lets the clients go on that wait for the stream, once.
func (e *listEar) letIn() {
	if e.opened && !e.told {
		e.told = true
		close(e.ready)
	}
}

// spoil makes the copies of everybody who listens here stale.
func (e *listEar) spoil() {
	d := e.d
	d.mu.Lock()
	caches := make([]*listCache, 0, len(e.caches))
	for c := range e.caches {
		caches = append(caches, c)
	}
	public := d.shared == nil || e.who.index == d.lead
	d.mu.Unlock()
	for _, c := range caches {
		c.invalidate(e.who.index, public, e.at)
	}
}
