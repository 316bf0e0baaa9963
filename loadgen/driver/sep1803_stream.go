package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/sinks"
)

// resourceStream is what the one open stream of a session needs.
type resourceStream struct {
	s       *resourceSession
	take    func(wire.Event)
	parser  wire.EventParser
	msg     wire.Message
	backoff sinks.Backoff
	pause   time.Duration // see pause

	trouble sync.Mutex
	last    *callError // what kept it from standing last; guarded by trouble

	// Of all its connections.
	opened bool   // one has stood
	lastID []byte // where to go on, as the server named it; empty = nowhere
	lost   eventmeter.Instant
	back   eventmeter.Instant
	cut    bool // the last end was our own doing

	// Of the connection at hand.
	method  string
	id      uint64 // of the request to listen
	session string // of the GET
	modern  bool
	fresh   bool // the session was opened for it
	resumed bool // it asked to go on where the last one ended
	began   eventmeter.Instant
	at      eventmeter.Instant
	up      int64
	down    int64 // until it stood
	cause   eventmeter.Cause
	stands  bool
	ended   bool
	strange bool // an update that should not be so was noticed
	over    *callError
	timer   *time.Timer
}

func (t *resourceStream) init(s *resourceSession) {
	t.s, t.cause, t.take = s, eventmeter.Subscribe, t.event
	o := s.d.opts.Push
	t.backoff = sinks.Backoff{Min: o.BackoffMin, Max: o.BackoffMax, Rand: s.d.jitter(s.number)}
}

// lastTrouble says what kept the stream from standing, if that may pass.
func (t *resourceStream) lastTrouble() *callError {
	t.trouble.Lock()
	defer t.trouble.Unlock()
	return t.last
}

// serve keeps the session's stream open until the session is over, or the
// target will not have it.
func (s *resourceSession) serve() {
	defer close(s.done)
	t := &s.stream
	for {
		err := t.connect()
		if s.ctx.Err() != nil {
			s.giveUp(fmt.Errorf("%w: the session was closed", ErrState))
			return
		}
		var ce *callError
		known := errors.As(err, &ce)
		passes := err == nil || known && (ce.throttled() || ce.kind == "session lost")
		switch {
		case !t.opened && !passes, t.opened && !passes && !known, known && ce.final() && !passes:
			s.giveUp(err)
			return
		case t.stands:
			t.backoff.Reset()
			t.cause = eventmeter.Reconnect
		default:
			if t.opened && err != nil {
				s.tell(eventmeter.TransientError, err.Error())
			}
			t.cause = eventmeter.Retry
		}
		t.trouble.Lock()
		t.last = ce
		t.trouble.Unlock()
		wait := t.backoff.Next(t.pause)
		if t.cut {
			wait = s.d.opts.SEP1803.CutFor
		}
		if known {
			wait += ce.retryAfter
		}
		sinks.Sleep(s.ctx, wait)
	}
}

// giveUp says that there will be no stream any more. Subscriptions that are
// being opened learn it from err, those that were open are over.
func (s *resourceSession) giveUp(err error) {
	s.mu.Lock()
	s.err = err
	first := s.confirmed == 0
	s.mu.Unlock()
	if first {
		close(s.ready)
	}
	if s.ctx.Err() != nil {
		return
	}
	for _, r := range s.runs() {
		if r.isActive() {
			s.lostRun(r, err.Error(), err)
		}
	}
}

// tell notices something for every subscription of the session.
func (s *resourceSession) tell(k eventmeter.NoticeKind, detail string) {
	at := s.d.clock.Now()
	for _, r := range s.runs() {
		if r.isActive() {
			s.d.notice(r, k, at, detail)
		}
	}
}

// connect opens one stream and reads it to its end. nil means that it stood,
// and ended without an error, or was cut by us.
func (t *resourceStream) connect() error {
	s, d := t.s, t.s.d
	t.stands, t.ended, t.strange, t.over, t.down, t.fresh, t.resumed, t.cut, t.id = false, false, false, nil, 0, false, false, false, 0
	agreed, err := s.who.agree(s.ctx, d.observe)
	if err != nil {
		return err
	}
	ctx, hangUp := context.WithCancelCause(s.ctx)
	defer hangUp(nil)
	s.mu.Lock()
	s.hangUp = hangUp
	s.mu.Unlock()
	req, err := t.request(ctx, agreed)
	if err != nil {
		return err
	}
	pulse := d.watch.Add(2*d.opts.Push.Heartbeat, func() { hangUp(errDead) })
	defer d.watch.Remove(pulse)
	t.up = requestSize(req.Method, d.url.RequestURI(), req.Header, max(req.ContentLength, 0))
	t.began = d.clock.Now()
	resp, err := d.transport.RoundTrip(req)
	if err != nil {
		return t.broken(ctx, transportError(ctx, err))
	}
	defer resp.Body.Close()
	if resp.StatusCode > 299 || !isEventStream(resp.Header) {
		return t.refused(ctx, resp, agreed)
	}
	t.down = responseSize(resp)
	t.parser.Budget = d.budget
	t.parser.Reset()
	if !t.modern {
		t.at = d.clock.Now()
		t.stand() // the answer's header is all the confirmation there is
	}
	defer func() {
		if t.timer != nil {
			t.timer.Stop()
		}
	}()
	err = sinks.ReadStream(resp.Body, d.clock, pulse, t.piece)
	if errors.Is(err, errEnded) {
		d.patience.rest(resp.Body)
	}
	t.pause = pause(&t.parser, t.pause)
	t.parser.Reset()
	switch {
	case t.over != nil:
		return t.broken(ctx, t.over)
	case err == nil || errors.Is(err, errEnded):
		return t.broken(ctx, nil)
	}
	return t.broken(ctx, transportError(ctx, err))
}

// request makes the request that opens the stream, and the session before it if
// there is none.
func (t *resourceStream) request(ctx context.Context, agreed *agreement) (*http.Request, error) {
	s, d := t.s, t.s.d
	t.modern = agreed.era == Modern
	switch agreed.era {
	case Modern:
		t.method = methodListen
		uris, err := s.wanted()
		if err != nil {
			return nil, err
		}
		list, err := json.Marshal(uris)
		if err != nil {
			return nil, err
		}
		what := wire.BeginObject(nil)
		what.Raw("resourceSubscriptions", list)
		o := wire.BeginObject(nil)
		o.Raw("notifications", what.End())
		o.Raw("_meta", agreed.meta)
		t.id = d.ep.id()
		return d.request(ctx, agreed.headers[methodListen], wire.AppendRequest(nil, t.id, methodListen, o.End())), nil
	case Legacy:
		t.method = methodSessionStream
		header, id := s.credentials()
		if id == "" {
			if err := s.initialize(agreed, t.cause); err != nil {
				return nil, err
			}
			t.fresh, t.lastID = true, t.lastID[:0]
			header, _ = s.credentials()
		}
		t.session = header.Get(headerSession)
		header = header.Clone()
		header.Del("Content-Type")
		header.Set("Accept", "text/event-stream")
		if len(t.lastID) > 0 && !d.opts.SEP1803.NoRedelivery {
			t.resumed = true
			header.Set("Last-Event-Id", string(t.lastID))
		}
		return (&http.Request{
			Method: http.MethodGet, URL: d.url, Host: d.host, Header: header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		}).WithContext(ctx), nil
	}
	return nil, fmt.Errorf("%w: updates come on the stream of a session, or on one that listens, and it has neither", ErrNotOffered)
}

// wanted are the URIs of every subscription that belongs to the session,
// whether it is open already or not: what a request listens to is fixed.
func (s *resourceSession) wanted() ([]string, error) {
	var uris []string
	seen := map[string]bool{}
	from := s.number * s.d.per
	for i := from; i < min(from+s.d.per, len(s.d.runs)); i++ {
		uri, err := s.d.uriOf(s.ctx, i)
		if err != nil {
			return nil, err
		}
		if !seen[uri] {
			seen[uri] = true
			uris = append(uris, uri)
		}
	}
	s.mu.Lock()
	s.asked = seen
	s.mu.Unlock()
	return uris, nil
}

// stand notes that a stream stands.
func (t *resourceStream) stand() {
	s, d := t.s, t.s.d
	if t.stands {
		return
	}
	t.stands = true
	t.report(nil)
	if t.resumed {
		d.tally.count("resumes", 1)
	}
	if t.opened {
		if t.lost != 0 {
			d.tally.took("outage", t.at.Sub(t.lost))
			t.lost = 0
		}
		t.back = t.at
		s.tell(eventmeter.Reconnected, "")
		if t.fresh {
			d.work.Go(crash.Guarded(s.resubscribe))
		}
	} else {
		t.opened = true
		s.mu.Lock()
		s.confirmed, s.modern = t.at, t.modern
		s.mu.Unlock()
		if t.modern {
			d.tally.count("sessions", 1)
		}
		close(s.ready)
	}
	if every := d.opts.SEP1803.CutEvery; every > 0 {
		s.mu.Lock()
		hangUp := s.hangUp
		s.mu.Unlock()
		life := time.Duration(float64(every) * (0.5 + t.backoff.Rand.Float64()))
		t.timer = time.AfterFunc(life, func() {
			defer crash.Guard()
			hangUp(errCut)
		})
	}
}

// report tells of the request that opened the stream.
func (t *resourceStream) report(e *callError) {
	now := t.at
	if now < t.began {
		now = t.s.d.clock.Now()
	}
	t.s.d.rec.Called(eventmeter.Call{
		Lane: t.s.d.opts.Lane, Cause: t.cause, At: now, Requests: 1, Up: t.up, Down: t.down,
		Connections: t.s.d.traffic.TakeOpened(), Took: now.Sub(t.began), Method: t.method, Failure: e.failure(),
	})
}

// broken reports the end of a connection, and says what kind of end it was.
func (t *resourceStream) broken(ctx context.Context, e *callError) error {
	s, d := t.s, t.s.d
	if e != nil {
		e.method = t.method
	}
	if t.stands && t.lost == 0 {
		t.lost = d.clock.Now()
	}
	switch cause := context.Cause(ctx); {
	case s.ctx.Err() != nil: // our own doing
		if !t.stands {
			t.report(nil)
		}
		return nil
	case errors.Is(cause, errCut):
		t.cut = true
		d.tally.count("cuts", 1)
		return nil
	case errors.Is(cause, errLost):
		return &callError{method: t.method, kind: "session lost"}
	case errors.Is(cause, errDead):
		e = &callError{method: t.method, kind: "timeout", cause: errDead}
		if t.stands {
			s.tell(eventmeter.DeadStream, errDead.Error())
		}
	case !t.stands && e == nil:
		e = &callError{method: t.method, kind: kindProtocol, message: "the stream ended before it was acknowledged"}
	}
	if !t.stands {
		t.report(e)
	}
	if e == nil {
		return nil
	}
	return e
}

// refused reads an answer that is no stream.
func (t *resourceStream) refused(ctx context.Context, resp *http.Response, agreed *agreement) error {
	s, d := t.s, t.s.d
	a := &answer{}
	defer a.release()
	a.read(ctx, &d.caller, resp, t.method)
	t.at, t.down = a.at, a.down
	if a.err == nil {
		a.err = &callError{kind: kindProtocol, message: "answered without a stream", status: a.status}
	}
	a.err.method = t.method
	t.report(a.err)
	switch {
	case !t.modern && a.status == http.StatusNotFound && !t.fresh:
		s.lose(t.session)
		return &callError{method: t.method, status: a.status, kind: "session lost"}
	case t.resumed && a.status == http.StatusBadRequest:
		// It cannot go on from there: begin anew, and lose what was meanwhile.
		d.tally.count("resumesRefused", 1)
		t.lastID = t.lastID[:0]
		return &callError{method: t.method, status: a.status, kind: "session lost"}
	case !t.modern && a.status == http.StatusMethodNotAllowed:
		return fmt.Errorf("%w: it has no GET stream, and so no way to tell of updates", ErrNotOffered)
	}
	return a.err
}

// piece takes the next bytes of the stream.
func (t *resourceStream) piece(b []byte, at eventmeter.Instant) error {
	t.at = at
	if err := t.parser.Feed(b, t.take); err != nil {
		t.s.d.tooLarge(at, err)
		return err
	}
	if t.ended {
		return errEnded
	}
	return nil
}
