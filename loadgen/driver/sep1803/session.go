package sep1803

import (
	"context"
	"errors"
	"fmt"
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
	routes    map[string][]*resourceRun

	own    driver.OwnSession // legacy
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
	if d.Pipe != nil {
		return nil
	}
	return d.EndOwn(ctx, &s.own, s.who)
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
	return d.Retry(ctx, nil, func(cause eventmeter.Cause) error {
		at, err := s.call(ctx, cause, driver.MethodSubscribe, r.uri)
		if err == nil {
			if d.Pipe != nil && !r.held {
				d.Pipe.Hold(r.uri)
				r.held = true
			}
			r.Activate(at)
		}
		return err
	})
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
	s.mu.Unlock()
	if d.Pipe != nil { // other lanes use the same session
		shared = !r.held || !d.Pipe.Release(r.uri)
	}
	var err error
	if s.own.Current(s.who) != nil && !shared {
		_, err = s.call(ctx, eventmeter.Unsubscribe, driver.MethodUnsubscribe, r.uri)
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

// call makes a request about one resource in the session, and returns when the answer came.
func (s *resourceSession) call(ctx context.Context, cause eventmeter.Cause, method, uri string) (eventmeter.Instant, error) {
	d, session := s.d, s.own.Current(s.who)
	if session == nil { // lost, and being opened again
		return 0, mcpclient.SessionLost(method)
	}
	o := wire.BeginObject(nil)
	o.String("uri", uri)
	a := d.Ask(ctx, session, method, "", o)
	defer a.Release()
	d.Called(cause, method, a)
	switch {
	case a.Err == nil:
		return a.At, nil
	case a.Err.Forgotten():
		s.lose(session)
		return 0, mcpclient.SessionLost(method)
	}
	return 0, a.Err
}

// lose forgets a session that the server no longer knows, and ends its stream, which is
// then opened again in a new session.
func (s *resourceSession) lose(session *mcpclient.Session) {
	s.own.Lose(session, func() { s.stream.GiveUp(mcpclient.SessionLost(driver.MethodGet)) })
}

// initialize opens a session of the legacy era. A pipe is one session, that of all lanes.
func (s *resourceSession) initialize(session *mcpclient.Session, cause eventmeter.Cause) (*mcpclient.Session, error) {
	if s.d.Pipe != nil {
		s.own.Set(session)
	} else {
		var err error
		if session, err = s.d.OpenOwn(s.ctx, &s.own, s.who, session.Version, cause); err != nil {
			return nil, err
		}
	}
	s.d.tally.Count("sessions", 1)
	return session, nil
}

// resubscribe subscribes again in a new session, after the former one was lost.
func (s *resourceSession) resubscribe() {
	seen := map[string]bool{}
	for _, r := range s.runs() {
		if seen[r.uri] || !r.IsActive() {
			continue
		}
		seen[r.uri] = true
		if _, err := s.call(s.ctx, eventmeter.Reconnect, driver.MethodSubscribe, r.uri); err != nil && s.ctx.Err() == nil {
			s.d.Notice(r.Sub, eventmeter.TransientError, s.d.Clock.Now(), "subscribing again: "+err.Error())
		}
	}
}

// resourceStream is the one stream of a session.
type resourceStream struct {
	driver.Stream
	s      *resourceSession
	lastID []byte // the last event id; empty = there is none

	// Of the current connection.
	session *mcpclient.Session // of its GET
	modern  bool
	fresh   bool // the session was opened for it
	resumed bool // it was requested with Last-Event-ID
	strange bool // a malformed update was reported
}
