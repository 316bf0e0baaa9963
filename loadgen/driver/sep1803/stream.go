package sep1803

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/sinks"
)

func (t *resourceStream) init(s *resourceSession) {
	t.s, t.cause, t.take = s, eventmeter.Subscribe, t.event
	o := s.d.Opts.Push
	t.backoff = sinks.Backoff{Min: o.BackoffMin, Max: o.BackoffMax, Rand: s.d.Rand(uint64(s.number))}
}

// lastTrouble says what kept the stream from standing, if that may pass.
func (t *resourceStream) lastTrouble() *mcpclient.CallError {
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
			s.giveUp(fmt.Errorf("%w: the session was closed", mcpclient.ErrState))
			return
		}
		var ce *mcpclient.CallError
		known := errors.As(err, &ce)
		passes := err == nil || known && (ce.Throttled() || ce.Kind == mcpclient.KindSession)
		switch {
		case !t.opened && !passes, t.opened && !passes && !known, known && ce.Final() && !passes:
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
			wait = s.d.set.CutFor
		}
		if known {
			wait += ce.RetryAfter
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
		if r.IsActive() {
			s.lostRun(r, err.Error(), err)
		}
	}
}

// tell notices something for every subscription of the session.
func (s *resourceSession) tell(k eventmeter.NoticeKind, detail string) {
	at := s.d.Clock.Now()
	for _, r := range s.runs() {
		if r.IsActive() {
			s.d.Notice(r.Sub, k, at, detail)
		}
	}
}

// connect opens one stream and reads it to its end. nil means that it stood,
// and ended without an error, or was cut by us.
func (t *resourceStream) connect() error {
	s, d := t.s, t.s.d
	t.stands, t.ended, t.strange, t.over, t.down, t.fresh, t.resumed, t.cut, t.id = false, false, false, nil, 0, false, false, false, 0
	session, err := s.who.Session(s.ctx, d.Observe)
	if err != nil {
		return err
	}
	ctx, hangUp := context.WithCancelCause(s.ctx)
	defer hangUp(nil)
	s.mu.Lock()
	s.hangUp = hangUp
	s.mu.Unlock()
	req, err := t.request(ctx, session)
	if err != nil {
		return err
	}
	pulse := d.watch.Add(2*d.Opts.Push.Heartbeat, func() { hangUp(driver.ErrDead) })
	defer d.watch.Remove(pulse)
	t.up = mcpclient.RequestSize(req.Method, d.URL.RequestURI(), req.Header, max(req.ContentLength, 0))
	t.began = d.Clock.Now()
	resp, err := d.Transport.RoundTrip(req)
	if err != nil {
		return t.broken(ctx, mcpclient.TransportError(ctx, err))
	}
	defer resp.Body.Close()
	if resp.StatusCode > 299 || !mcpclient.IsEventStream(resp.Header) {
		return t.refused(ctx, resp, session)
	}
	t.down = mcpclient.ResponseSize(resp)
	t.parser.Budget = d.Budget
	t.parser.Reset()
	if !t.modern {
		t.at = d.Clock.Now()
		t.stand() // the answer's header is all the confirmation there is
	}
	defer func() {
		if t.timer != nil {
			t.timer.Stop()
		}
	}()
	err = sinks.ReadStream(resp.Body, d.Clock, pulse, t.piece)
	if errors.Is(err, driver.ErrEnded) {
		d.Patience.Rest(resp.Body)
	}
	t.pause = mcpclient.Pause(&t.parser, t.pause)
	t.parser.Reset()
	switch {
	case t.over != nil:
		return t.broken(ctx, t.over)
	case err == nil || errors.Is(err, driver.ErrEnded):
		return t.broken(ctx, nil)
	}
	return t.broken(ctx, mcpclient.TransportError(ctx, err))
}

// request makes the request that opens the stream, and the session before it if
// there is none.
func (t *resourceStream) request(ctx context.Context, session *mcpclient.Session) (*http.Request, error) {
	s, d := t.s, t.s.d
	t.modern = session.Era == mcpclient.Modern
	switch session.Era {
	case mcpclient.Modern:
		t.method = mcpclient.MethodListen
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
		o.Raw("_meta", session.Meta)
		t.id = d.Endpoint.NextID()
		return d.NewPost(ctx, session.Header(mcpclient.MethodListen, ""), wire.AppendRequest(nil, t.id, mcpclient.MethodListen, o.End())), nil
	case mcpclient.Legacy:
		t.method = methodSessionStream
		header, id := s.credentials()
		if id == "" {
			if err := s.initialize(session, t.cause); err != nil {
				return nil, err
			}
			t.fresh, t.lastID = true, t.lastID[:0]
			header, id = s.credentials()
		}
		t.session = id
		header = header.Clone()
		header.Del("Content-Type")
		header.Set("Accept", "text/event-stream")
		if len(t.lastID) > 0 && !d.set.NoRedelivery {
			t.resumed = true
			header.Set("Last-Event-Id", string(t.lastID))
		}
		return d.NewGet(ctx, header), nil
	}
	return nil, fmt.Errorf("%w: updates come on the stream of a session, or on one that listens, and it has neither", mcpclient.ErrNotOffered)
}

// wanted are the URIs of every subscription that belongs to the session,
// whether it is open already or not: what a request listens to is fixed.
func (s *resourceSession) wanted() ([]string, error) {
	var uris []string
	seen := map[string]bool{}
	from := s.number * s.d.per
	for i := from; i < min(from+s.d.per, len(s.d.Turns)); i++ {
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
		d.tally.Count("resumes", 1)
	}
	if t.opened {
		if t.lost != 0 {
			d.tally.Took("outage", t.at.Sub(t.lost))
			t.lost = 0
		}
		t.back = t.at
		s.tell(eventmeter.Reconnected, "")
		if t.fresh {
			d.Work.Go(crash.Guarded(s.resubscribe))
		}
	} else {
		t.opened = true
		s.mu.Lock()
		s.confirmed, s.modern = t.at, t.modern
		s.mu.Unlock()
		if t.modern {
			d.tally.Count("sessions", 1)
		}
		close(s.ready)
	}
	if every := d.set.CutEvery; every > 0 {
		s.mu.Lock()
		hangUp := s.hangUp
		s.mu.Unlock()
		life := time.Duration(float64(every) * (0.5 + t.backoff.Rand.Float64()))
		t.timer = time.AfterFunc(life, func() {
			defer crash.Guard()
			hangUp(driver.ErrCut)
		})
	}
}

// report reports the request that opened the stream.
func (t *resourceStream) report(e *mcpclient.CallError) {
	now := t.at
	if now < t.began {
		now = t.s.d.Clock.Now()
	}
	t.s.d.Recorder.Called(eventmeter.Call{
		Lane: t.s.d.Opts.Lane, Cause: t.cause, At: now, Requests: 1, Up: t.up, Down: t.down,
		Connections: t.s.d.Sockets.TakeOpened(), Took: now.Sub(t.began), Method: t.method, Failure: e.Failure(),
	})
}

// broken reports the end of a connection, and says what kind of end it was.
func (t *resourceStream) broken(ctx context.Context, e *mcpclient.CallError) error {
	s, d := t.s, t.s.d
	if e != nil {
		e.Method = t.method
	}
	if t.stands && t.lost == 0 {
		t.lost = d.Clock.Now()
	}
	switch cause := context.Cause(ctx); {
	case s.ctx.Err() != nil: // our own doing
		if !t.stands {
			t.report(nil)
		}
		return nil
	case errors.Is(cause, driver.ErrCut):
		t.cut = true
		d.tally.Count("cuts", 1)
		return nil
	case errors.Is(cause, errLost):
		return &mcpclient.CallError{Method: t.method, Kind: mcpclient.KindSession}
	case errors.Is(cause, driver.ErrDead):
		e = &mcpclient.CallError{Method: t.method, Kind: "timeout", Cause: driver.ErrDead}
		if t.stands {
			s.tell(eventmeter.DeadStream, driver.ErrDead.Error())
		}
	case !t.stands && e == nil:
		e = &mcpclient.CallError{Method: t.method, Kind: mcpclient.KindProtocol, Message: "the stream ended before it was acknowledged"}
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
func (t *resourceStream) refused(ctx context.Context, resp *http.Response, session *mcpclient.Session) error {
	s, d := t.s, t.s.d
	a := &mcpclient.Answer{}
	defer a.Release()
	a.Read(ctx, &d.Caller, resp, t.method)
	t.at, t.down = a.At, a.Down
	if a.Err == nil {
		a.Err = &mcpclient.CallError{Kind: mcpclient.KindProtocol, Message: "answered without a stream", Status: a.Status}
	}
	a.Err.Method = t.method
	t.report(a.Err)
	switch {
	case !t.modern && a.Status == http.StatusNotFound && !t.fresh:
		s.lose(t.session)
		return &mcpclient.CallError{Method: t.method, Status: a.Status, Kind: mcpclient.KindSession}
	case t.resumed && a.Status == http.StatusBadRequest:
		// It cannot go on from there: begin anew, and lose what was meanwhile.
		d.tally.Count("resumesRefused", 1)
		t.lastID = t.lastID[:0]
		return &mcpclient.CallError{Method: t.method, Status: a.Status, Kind: mcpclient.KindSession}
	case !t.modern && a.Status == http.StatusMethodNotAllowed:
		return fmt.Errorf("%w: it has no GET stream, and so no way to tell of updates", mcpclient.ErrNotOffered)
	}
	return a.Err
}

// piece takes the next bytes of the stream.
func (t *resourceStream) piece(b []byte, at eventmeter.Instant) error {
	t.at = at
	if err := t.parser.Feed(b, t.take); err != nil {
		t.s.d.TooLarge(at, err)
		return err
	}
	if t.ended {
		return driver.ErrEnded
	}
	return nil
}
