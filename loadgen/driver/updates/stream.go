package updates

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/sinks"
)

// stream carries a client's notifications over HTTP: in the modern era the answer
// to subscriptions/listen, in the legacy era the GET stream of a session that is
// the client's own. It is opened again when it ends, and a session that the server
// has forgotten is replaced by a new one. A server is not required to send
// anything on a stream on which nothing happens, so silence ends none.
type stream struct {
	d       *lane
	c       *client
	ctx     context.Context
	cancel  context.CancelFunc
	done    chan struct{}
	ready   chan struct{} // closed when the subscription was confirmed, or will not be
	err     error         // why not, before ready is closed
	started bool

	mu      sync.Mutex
	trouble *mcpclient.CallError // what kept it from being confirmed last
	id      string               // of the session; "" = there is none
	fields  http.Header          // of requests in it
	hangUp  context.CancelCauseFunc

	// Of its goroutine, for all connections.
	opened     bool
	lost       eventmeter.Instant
	pause      time.Duration // as the server asked for
	cause      eventmeter.Cause
	subscribed bool // in the session at hand
	parser     wire.EventParser
	message    wire.Message

	// Of the connection at hand.
	modern  bool
	method  string
	status  int
	request uint64 // the id of the request to listen
	began   eventmeter.Instant
	at      eventmeter.Instant
	up      int64
	down    int64 // until it was confirmed
	stands  bool
	ended   bool
	over    error
	strange bool // a notification that names another request was noticed
}

// errForgotten ends a stream whose session the server no longer knows.
var errForgotten = errors.New("the server no longer knows the session")

func newStream(c *client) *stream {
	s := &stream{d: c.d, c: c, done: make(chan struct{}), ready: make(chan struct{}), cause: eventmeter.Subscribe}
	s.ctx, s.cancel = context.WithCancel(c.d.Life)
	s.parser.Budget = c.d.Budget
	return s
}

// open implements carrier.
func (s *stream) open(ctx context.Context) error {
	s.started = true
	s.d.Work.Go(crash.Guarded(s.serve))
	select {
	case <-s.ready:
		return s.err
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		return driver.NotConfirmed(s.trouble, ctx.Err())
	}
}

// header implements carrier.
func (s *stream) header(session *mcpclient.Session, method, name string) (http.Header, error) {
	if session.Era == mcpclient.Modern {
		return session.NamedHeader(method, name), nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id == "" { // forgotten, and being opened again
		return nil, &mcpclient.CallError{Method: method, Kind: mcpclient.KindSession}
	}
	return s.fields, nil
}

// forgotten implements carrier: the stream is ended, which has the session opened
// again.
func (s *stream) forgotten(request http.Header, e *mcpclient.CallError) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !e.Forgotten() || request.Get(mcpclient.HeaderSession) == "" {
		return false
	}
	if s.id != request.Get(mcpclient.HeaderSession) { // another one has found out
		return true
	}
	s.id = ""
	s.d.tally.Count("sessionsForgotten", 1)
	if s.hangUp != nil {
		s.hangUp(errForgotten)
	}
	return true
}

// close implements carrier.
func (s *stream) close(ctx context.Context) error {
	var err error
	if s.c.uri != "" && s.c.WasActive() {
		err = s.unsubscribe(ctx)
	}
	s.cancel()
	if s.started {
		<-s.done
	}
	s.mu.Lock()
	fields, id := s.fields, s.id
	s.mu.Unlock()
	if id == "" {
		return err
	}
	return errors.Join(err, s.d.EndSession(ctx, fields))
}

// unsubscribe makes the request resources/unsubscribe, in the legacy era.
func (s *stream) unsubscribe(ctx context.Context) error {
	s.mu.Lock()
	id := s.id
	s.mu.Unlock()
	if id == "" {
		return nil
	}
	o := wire.BeginObject(nil)
	o.String("uri", s.c.uri)
	a, header, err := s.d.send(ctx, s.c, methodUnsubscribe, "", o)
	if err != nil {
		return nil // its session is gone, and the subscription with it
	}
	defer a.Release()
	s.d.Called(eventmeter.Unsubscribe, methodUnsubscribe, a)
	if a.Err == nil || s.forgotten(header, a.Err) {
		return nil
	}
	return a.Err
}

// serve keeps the stream open until the client leaves, or the server refuses its
// first one for good.
func (s *stream) serve() {
	defer close(s.done)
	d := s.d
	backoff := d.StreamBackoff(d.RandOf(int(s.c.Sub.Index)))
	for {
		err := s.connect()
		if s.ctx.Err() != nil {
			s.giveUp(s.ctx.Err())
			return
		}
		var ce *mcpclient.CallError
		known := errors.As(err, &ce)
		if !s.opened && !(known && (ce.Throttled() || ce.Kind == mcpclient.KindSession)) {
			if err == nil {
				err = fmt.Errorf("updates: %w: the stream ended before it was confirmed", mcpclient.ErrProtocol)
			}
			s.giveUp(err)
			return
		}
		switch {
		case s.stands:
			backoff.Reset()
			s.cause = eventmeter.Reconnect
		default:
			s.cause = eventmeter.Retry
		}
		if s.opened && err != nil {
			d.Notice(s.c.Sub, eventmeter.TransientError, d.Clock.Now(), err.Error())
		}
		least := s.pause
		if known {
			least += ce.RetryAfter
		}
		s.mu.Lock()
		s.trouble = ce
		s.mu.Unlock()
		sinks.Sleep(s.ctx, backoff.Next(least))
	}
}

// giveUp says that no stream will be confirmed, if none was.
func (s *stream) giveUp(err error) {
	if !s.opened {
		s.err = err
		close(s.ready)
	}
}

// connect opens one stream and reads it to its end.
func (s *stream) connect() error {
	d := s.d
	s.stands, s.ended, s.over, s.strange, s.down, s.status = false, false, nil, false, 0, 0
	session, err := s.c.who.Session(s.ctx, d.Observe)
	if err != nil {
		return err
	}
	ctx, hangUp := context.WithCancelCause(s.ctx)
	defer hangUp(nil)
	s.mu.Lock()
	s.hangUp = hangUp
	s.mu.Unlock()
	req, err := s.prepare(ctx, session)
	if err != nil {
		return d.refused(err)
	}
	s.up = mcpclient.RequestSize(req.Method, d.URL.RequestURI(), req.Header, max(req.ContentLength, 0))
	s.began, s.at = d.Clock.Now(), 0
	resp, err := d.Transport.RoundTrip(req)
	if err != nil {
		return s.broken(ctx, mcpclient.TransportError(ctx, err))
	}
	defer resp.Body.Close()
	s.status = resp.StatusCode
	if resp.StatusCode > 299 || !mcpclient.IsEventStream(resp.Header) {
		return s.refusal(ctx, resp, req.Header)
	}
	s.down = mcpclient.ResponseSize(resp)
	s.parser.Reset()
	if !s.modern {
		s.at = d.Clock.Now()
		s.report(nil)
		if err := s.subscribe(ctx); err != nil {
			return err
		}
		s.confirmed(d.Clock.Now())
	}
	err = sinks.ReadStream(resp.Body, d.Clock, nil, s.piece)
	if errors.Is(err, driver.ErrEnded) {
		d.Patience.Rest(resp.Body)
	}
	s.pause = mcpclient.Pause(&s.parser, s.pause)
	s.parser.Reset()
	switch {
	case s.over != nil:
		return s.over
	case err == nil || errors.Is(err, driver.ErrEnded):
		return s.broken(ctx, nil)
	}
	return s.broken(ctx, mcpclient.TransportError(ctx, err))
}

// prepare makes the request that opens the stream, and the session before it if
// there is none.
func (s *stream) prepare(ctx context.Context, session *mcpclient.Session) (*http.Request, error) {
	d := s.d
	if s.modern = session.Era == mcpclient.Modern; s.modern {
		s.method, s.request = mcpclient.MethodListen, d.Endpoint.NextID()
		body := d.build(session, s.request, s.method, s.c.wanted())
		return d.NewPost(ctx, session.Header(s.method, ""), body), nil
	}
	s.method = methodStream
	s.mu.Lock()
	id, fields := s.id, s.fields
	s.mu.Unlock()
	if id == "" {
		var err error
		if id, fields, err = d.OpenSession(ctx, s.c.who, session.Version, s.cause); err != nil {
			return nil, err
		}
		d.tally.Count("sessions", 1)
		s.subscribed = false
		s.mu.Lock()
		s.id, s.fields = id, fields
		s.mu.Unlock()
	}
	h := fields.Clone()
	h.Del("Content-Type")
	h.Set("Accept", "text/event-stream")
	return d.NewGet(ctx, h), nil
}

// wanted are the params of a request to listen.
func (c *client) wanted() wire.Object {
	what := wire.BeginObject(nil)
	if c.uri != "" {
		what.Raw("resourceSubscriptions", append(wire.AppendString([]byte{'['}, c.uri), ']'))
	} else {
		what.Raw(c.d.list.want, []byte("true"))
	}
	o := wire.BeginObject(nil)
	o.Raw("notifications", what.End())
	return o
}

// subscribe asks for the updates of a resource in the session, once. A server that has
// no room is asked again, while the stream stays open.
func (s *stream) subscribe(ctx context.Context) error {
	if s.c.uri == "" || s.subscribed {
		return nil
	}
	backoff := s.d.StreamBackoff(nil)
	for cause := s.cause; ; cause = eventmeter.Retry {
		err := s.c.subscribe(ctx, cause)
		var ce *mcpclient.CallError
		if s.subscribed = err == nil; s.subscribed || !errors.As(err, &ce) || !ce.Throttled() {
			return err
		}
		s.mu.Lock()
		s.trouble = ce
		s.mu.Unlock()
		if !sinks.Sleep(ctx, backoff.Next(ce.RetryAfter)) {
			return err
		}
	}
}

// subscribe makes the request resources/subscribe.
func (c *client) subscribe(ctx context.Context, cause eventmeter.Cause) error {
	o := wire.BeginObject(nil)
	o.String("uri", c.uri)
	a, header, err := c.d.send(ctx, c, methodSubscribe, "", o)
	if err != nil {
		return err
	}
	defer a.Release()
	c.d.Called(cause, methodSubscribe, a)
	return c.d.refused(c.judge(methodSubscribe, header, a))
}

// refused counts an error if it is the server's refusal, and says so where it came
// inside an answer whose HTTP status is no error.
func (d *lane) refused(err error) error {
	var e *mcpclient.CallError
	if !errors.As(err, &e) || e.Kind != "" {
		return err
	}
	d.tally.Count("refused", 1)
	if e.HasCode && e.Status == http.StatusOK {
		d.tally.Count("refusedInside200", 1)
		return fmt.Errorf("refused inside HTTP 200: %w", err)
	}
	return err
}

// confirmed notes that the stream is open and the subscription in force.
func (s *stream) confirmed(at eventmeter.Instant) {
	if s.stands {
		return
	}
	s.stands = true
	if !s.opened {
		s.opened = true
		close(s.ready)
		return
	}
	d := s.d
	if s.lost != 0 {
		d.tally.Took("outage", at.Sub(s.lost))
		s.lost = 0
	}
	d.Notice(s.c.Sub, eventmeter.Reconnected, at, "")
	s.c.reopened(at)
}

// report reports the request that opened the stream, or did not.
func (s *stream) report(e *mcpclient.CallError) {
	now := s.at
	if now < s.began {
		now = s.d.Clock.Now()
	}
	s.d.Report(eventmeter.Call{
		Cause: s.cause, At: now, Requests: 1, Up: s.up, Down: s.down, Took: now.Sub(s.began), Method: s.method, Failure: e.Failure(),
	})
}

// broken handles the end of a connection.
func (s *stream) broken(ctx context.Context, e *mcpclient.CallError) error {
	d := s.d
	if s.stands && s.lost == 0 {
		s.lost = d.Clock.Now()
	}
	reported := s.stands || !s.modern && s.status != 0
	switch {
	case s.ctx.Err() != nil: // the client leaves
		if !reported {
			s.report(nil)
		}
		return nil
	case errors.Is(context.Cause(ctx), errForgotten):
		return &mcpclient.CallError{Method: s.method, Kind: mcpclient.KindSession}
	case e == nil && s.stands:
		return nil
	case e == nil:
		e = &mcpclient.CallError{Kind: mcpclient.KindProtocol, Message: "the stream ended before it was acknowledged"}
	}
	e.Method = s.method
	if !reported {
		s.report(e)
	}
	return e
}

// refusal reads an answer that is no stream.
func (s *stream) refusal(ctx context.Context, resp *http.Response, request http.Header) error {
	d := s.d
	a := &mcpclient.Answer{}
	if s.modern {
		a.Want = strconv.AppendUint(nil, s.request, 10)
	}
	defer a.Release()
	a.Read(ctx, &d.Caller, resp, s.method)
	s.at, s.down = a.At, a.Down
	if a.Err == nil {
		a.Err = &mcpclient.CallError{Kind: mcpclient.KindProtocol, Message: "answered without a stream", Status: a.Status}
	}
	a.Err.Method = s.method
	s.report(a.Err)
	switch {
	case !s.modern && s.forgotten(request, a.Err):
		return &mcpclient.CallError{Method: s.method, Status: a.Status, Kind: mcpclient.KindSession}
	case !s.modern && a.Status == http.StatusMethodNotAllowed:
		return fmt.Errorf("%w: it has no GET stream, and so no way to notify a client", mcpclient.ErrNotOffered)
	}
	return d.refused(a.Err)
}
