package sep1803

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// resourceSession is a stream with the subscriptions that share it: a session of the
// legacy era with its GET stream, or subscriptions/listen of the modern era. It begins
// with its first subscription and ends with its last.
type resourceSession struct {
	d       *lane
	number  int
	who     *mcpclient.Principal
	ctx     context.Context
	cancel  context.CancelFunc
	members int // guarded by the lane's lock

	mu        sync.Mutex
	err       error              // why there will be no stream; nil = there is one, or will be
	confirmed eventmeter.Instant // when the first stream was confirmed
	modern    bool
	asked     map[string]bool // modern: the requested URIs, also those of later subscriptions
	honoured  map[string]bool // modern: the URIs in the acknowledgement
	id        string          // legacy
	header    http.Header     // legacy: header fields of the session's POSTs
	routes    map[string][]*resourceRun

	stream resourceStream
}

// join adds a run to its session, and opens the session for the first run.
func (d *lane) join(r *resourceRun) (*resourceSession, error) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if d.Closed {
		return nil, fmt.Errorf("%w: the lane is closed", mcpclient.ErrState)
	}
	if r.IsOver() {
		return nil, fmt.Errorf("%w: the subscription was ended while it was being opened", mcpclient.ErrState)
	}
	n := int(r.Sub.Index) / d.per
	s := d.sessions[n]
	if s == nil || s.failure() != nil {
		s = &resourceSession{d: d, number: n, who: r.who, routes: map[string][]*resourceRun{}}
		s.ctx, s.cancel = context.WithCancel(d.Life)
		s.stream.s = s
		s.stream.Init(d.streams, &s.stream)
		d.sessions[n] = s
		s.stream.Start(s.ctx)
	}
	s.members++
	s.mu.Lock()
	defer s.mu.Unlock()
	s.routes[r.uri] = append(s.routes[r.uri], r)
	// A pipe was there before the session, and may bring what other lanes are told of.
	r.session, r.late = s, s.confirmed != 0 || d.Pipe != nil
	return s, nil
}

// part removes a run from its session, once. The session ends with its last run.
func (d *lane) part(ctx context.Context, s *resourceSession, r *resourceRun) (err error) {
	r.parted.Do(func() { err = s.dismiss(ctx, r) })
	return err
}

func (s *resourceSession) dismiss(ctx context.Context, r *resourceRun) error {
	d := s.d
	s.mu.Lock()
	// A resource without subscriptions stays in routes: updates of it may be on
	// their way, and the URIs of a modern stream do not change.
	s.routes[r.uri] = slices.DeleteFunc(s.routes[r.uri], func(o *resourceRun) bool { return o == r })
	s.mu.Unlock()
	d.Mu.Lock()
	s.members--
	last := s.members == 0
	if last && d.sessions[s.number] == s {
		d.sessions[s.number] = nil
	}
	d.Mu.Unlock()
	if !last {
		return nil
	}
	s.cancel()
	s.stream.HangUp()
	<-s.stream.Done()
	return s.endSession(ctx)
}

// attachPush opens the session if need be, and subscribes in it.
func (d *lane) attachPush(ctx context.Context, r *resourceRun) error {
	s, err := d.join(r)
	if err != nil {
		return err
	}
	defer func() {
		if r.IsActive() {
			return
		}
		bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), mcpclient.CancelTime)
		defer cancel()
		_ = d.part(bye, s, r) // the error of attachPush matters more
	}()
	select {
	case <-s.stream.First():
		if s.stream.Ended() && s.failure() == nil {
			return fmt.Errorf("%w: the session was closed", mcpclient.ErrState)
		}
	case <-ctx.Done():
		var trouble *mcpclient.CallError
		_ = errors.As(s.stream.Failure(), &trouble) // nil if there was no answer
		return driver.NotConfirmed(trouble, ctx.Err())
	case <-r.Ctx().Done():
		return driver.NotConfirmed(nil, r.Ctx().Err())
	}
	if err := s.failure(); err != nil {
		return err
	}
	s.mu.Lock()
	modern, honoured := s.modern, s.honoured[r.uri]
	s.mu.Unlock()
	if modern {
		if !honoured {
			return fmt.Errorf("%w: the acknowledgement leaves %s out", mcpclient.ErrNotOffered, errtext.Line(r.uri))
		}
		r.Activate(d.Clock.Now()) // if the acknowledgement has not
		return nil
	}
	backoff := d.Backoff(nil)
	_, err = driver.RetryThrottled(ctx, &backoff, func(cause eventmeter.Cause) (struct{}, error) {
		a, err := s.call(ctx, cause, methodResourceSubscribe, r.uri)
		if err == nil {
			if d.Pipe != nil && !r.held {
				d.Pipe.Hold(r.uri)
				r.held = true
			}
			r.Activate(a.At)
		}
		return struct{}{}, err
	})
	return err
}

// detachPush ends a subscription, and the session with its last one. It unsubscribes only
// if no other subscription of the session has the same resource.
func (d *lane) detachPush(ctx context.Context, r *resourceRun) error {
	d.Mu.Lock()
	s := r.session
	d.Mu.Unlock()
	if s == nil {
		return nil
	}
	s.mu.Lock()
	shared := slices.ContainsFunc(s.routes[r.uri], func(o *resourceRun) bool { return o != r && !o.IsOver() })
	legacy := s.id != ""
	s.mu.Unlock()
	if d.Pipe != nil { // other lanes use the same session
		shared = !r.held || !d.Pipe.Release(r.uri)
	}
	var err error
	if legacy && !shared {
		_, err = s.call(ctx, eventmeter.Unsubscribe, methodResourceUnsubscribe, r.uri)
	}
	if bye := d.part(ctx, s, r); err == nil {
		err = bye
	}
	return err
}

// failure returns why the session will have no stream, nil if it has one or will have one.
func (s *resourceSession) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// lostRun ends an open subscription that the target no longer serves.
func (s *resourceSession) lostRun(r *resourceRun, detail string, err error) {
	d := s.d
	d.Notice(r.Sub, eventmeter.Terminated, d.Clock.Now(), detail)
	r.Fail(err)
	d.Work.Go(func() {
		defer crash.Guard()
		ctx, cancel := context.WithTimeout(context.Background(), mcpclient.CancelTime)
		defer cancel()
		_ = d.part(ctx, s, r) // the session may be gone, too
	})
}

// runs returns the runs that are not over.
func (s *resourceSession) runs() (all []*resourceRun) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rs := range s.routes {
		for _, r := range rs {
			if !r.IsOver() {
				all = append(all, r)
			}
		}
	}
	return all
}

// call makes a request about one resource in the session.
func (s *resourceSession) call(ctx context.Context, cause eventmeter.Cause, method, uri string) (*mcpclient.Answer, error) {
	d := s.d
	header, id := s.credentials()
	if id == "" { // lost, and being opened again
		return nil, &mcpclient.CallError{Method: method, Kind: mcpclient.KindSession}
	}
	o := wire.BeginObject(nil)
	o.String("uri", uri)
	ctx, cancel := context.WithTimeout(ctx, d.Opts.Timeout)
	defer cancel()
	a := d.Caller.Call(ctx, method, header, wire.AppendRequest(nil, d.Endpoint.NextID(), method, o.End()))
	defer a.Release()
	d.Called(cause, method, a)
	if a.Err == nil {
		return a, nil
	}
	if a.Err.Forgotten() {
		s.lose(id)
		return a, &mcpclient.CallError{Method: method, Status: a.Status, Kind: mcpclient.KindSession}
	}
	return a, a.Err
}

// credentials returns the header fields and the id of the session of the legacy era; the
// id is empty if there is none, or if it was lost.
func (s *resourceSession) credentials() (http.Header, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.header != nil {
		s.header = s.who.Current(s.header)
	}
	return s.header, s.id
}

// lose forgets a session that the server no longer knows, and ends its stream, which is
// then opened again in a new session.
func (s *resourceSession) lose(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id != id {
		return
	}
	s.id = ""
	s.stream.GiveUp(&mcpclient.CallError{Method: methodSessionStream, Kind: mcpclient.KindSession})
}

// pipeSession is used as the session id over a pipe, which is one session.
const pipeSession = "pipe"

// initialize opens a session of the legacy era.
func (s *resourceSession) initialize(session *mcpclient.Session, cause eventmeter.Cause) error {
	id, header := pipeSession, http.Header(nil)
	if s.d.Pipe == nil {
		own, err := s.d.OpenSession(s.ctx, s.who, session.Version, cause)
		if err != nil {
			return err
		}
		id, header = own.ID, own.NamedHeader("", "")
	}
	s.d.tally.Count("sessions", 1)
	s.mu.Lock()
	s.id, s.header = id, header
	s.mu.Unlock()
	return nil
}

// resubscribe subscribes again in a new session, after the former one was lost.
func (s *resourceSession) resubscribe() {
	seen := map[string]bool{}
	for _, r := range s.runs() {
		if seen[r.uri] || !r.IsActive() {
			continue
		}
		seen[r.uri] = true
		if _, err := s.call(s.ctx, eventmeter.Reconnect, methodResourceSubscribe, r.uri); err != nil && s.ctx.Err() == nil {
			s.d.Notice(r.Sub, eventmeter.TransientError, s.d.Clock.Now(), "subscribing again: "+err.Error())
		}
	}
}

// endSession ends a session of the legacy era.
func (s *resourceSession) endSession(ctx context.Context) error {
	header, id := s.credentials()
	if id == "" || s.d.Pipe != nil {
		return nil
	}
	return s.d.EndSession(ctx, header)
}

// resourceStream is the one stream of a session.
type resourceStream struct {
	driver.Stream
	s      *resourceSession
	lastID []byte // the last event id; empty = there is none

	// Of the current connection.
	session string // id of the session of its GET
	modern  bool
	fresh   bool // the session was opened for it
	resumed bool // it was requested with Last-Event-ID
	strange bool // a malformed update was reported
}
