package updates

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/sinks"
)

// join adds a client to its stream, and starts the stream for the first client.
func (d *lane) join(c *client, legacy bool) *stream {
	shared := legacy && d.Pipe != nil
	d.Mu.Lock()
	defer d.Mu.Unlock()
	s := d.pipe
	if !shared || s == nil || s.ctx.Err() != nil {
		s = &stream{d: d, who: c.who, first: c, shared: shared, clients: map[string][]*client{}}
		s.ctx, s.cancel = context.WithCancel(d.Life)
		s.Init(d.streams, s)
		defer s.Start(s.ctx) // after the client was added
		if shared {
			d.pipe = s
		}
	}
	s.refs++
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients[c.uri] = append(s.clients[c.uri], c)
	return s
}

// await returns when the server has confirmed the stream.
func (s *stream) await(ctx context.Context) error {
	select {
	case <-s.First():
		if !s.Ended() || s.WasConfirmed() {
			return nil
		}
		if err := s.Failure(); err != nil {
			return err
		}
		return driver.NotConfirmed(nil, context.Canceled)
	case <-ctx.Done():
		var trouble *mcpclient.CallError
		_ = errors.As(s.Failure(), &trouble) // nil if there was no answer
		return driver.NotConfirmed(trouble, ctx.Err())
	}
}

// leave ends a client's subscription, and the stream with its last client. The error
// says that the server did not confirm the end.
func (s *stream) leave(ctx context.Context, c *client) error {
	d := s.d
	s.mu.Lock()
	subscribed := c.subscribed
	if s.shared {
		rest := slices.DeleteFunc(s.clients[c.uri], func(o *client) bool { return o == c })
		if s.clients[c.uri] = rest; len(rest) == 0 {
			delete(s.clients, c.uri)
		}
	}
	s.mu.Unlock()
	var err error
	// Other clients of the session may need the subscription.
	if subscribed && (d.Pipe == nil || d.Pipe.Release(c.uri)) {
		err = s.unsubscribe(ctx, c)
	}
	d.Mu.Lock()
	s.refs--
	last := s.refs == 0
	if last {
		s.cancel() // under the lock, so that no client joins a stream that is ending
	}
	d.Mu.Unlock()
	if !last {
		return err
	}
	s.HangUp()
	<-s.Done()
	return errors.Join(err, d.EndOwn(ctx, &s.own, s.who))
}

// session returns the session of the legacy era, which it opens if there is none.
func (s *stream) session(ctx context.Context, version string) (*mcpclient.Session, error) {
	if own := s.own.Current(s.who); own != nil {
		return own, nil
	}
	own, err := s.d.OpenOwn(ctx, &s.own, s.who, version, s.Cause())
	if err == nil {
		s.d.tally.Count("sessions", 1)
	}
	return own, err
}

// judge returns the error of a request. If the server no longer knows the session, it
// forgets the session and returns an error of the kind [mcpclient.KindSession].
func (s *stream) judge(method string, session *mcpclient.Session, a *mcpclient.Answer) error {
	switch {
	case a.Err == nil:
		return nil
	case a.Err.Forgotten() && session.ID != "":
		s.lose(session)
		return mcpclient.SessionLost(method)
	}
	return a.Err
}

// lose forgets a session that the server no longer knows, and ends its stream, which is
// then opened again in a new session.
func (s *stream) lose(session *mcpclient.Session) {
	s.own.Lose(session, func() {
		s.d.tally.Count("sessionsForgotten", 1)
		s.GiveUp(mcpclient.SessionLost(driver.MethodGet))
	})
}

// subscribe makes the request resources/subscribe of the legacy era for a client.
func (s *stream) subscribe(ctx context.Context, c *client, cause eventmeter.Cause) error {
	d := s.d
	in := s.own.Opened()
	o := wire.BeginObject(nil)
	o.String("uri", c.uri)
	a, session, err := d.send(ctx, c, driver.MethodSubscribe, "", o)
	if err != nil {
		return err
	}
	defer a.Release()
	d.Called(cause, driver.MethodSubscribe, a)
	if err := s.judge(driver.MethodSubscribe, session, a); err != nil {
		return d.refused(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own.Opened() != in { // the session was lost meanwhile
		return mcpclient.SessionLost(driver.MethodSubscribe)
	}
	if d.Pipe != nil && !c.subscribed {
		d.Pipe.Hold(c.uri)
	}
	c.subscribed, c.in = true, in
	return nil
}

// resubscribe subscribes the clients again in the new session, after the former one was
// lost. If the server has no room, it tries again while the stream stays open.
func (s *stream) resubscribe() {
	defer crash.Guard()
	backoff := s.d.Backoff(nil)
	for {
		c := s.unsubscribed()
		if c == nil {
			s.reopened()
			return
		}
		err := s.subscribe(s.ctx, c, eventmeter.Reconnect)
		var e *mcpclient.CallError
		switch {
		case err == nil:
			continue
		case s.ctx.Err() != nil || errors.As(err, &e) && e.Kind == mcpclient.KindSession:
			return // the stream is opened again, and resubscribe is called again
		case e == nil || !e.Throttled():
			s.GiveUp(fmt.Errorf("subscribing again: %w", err))
			return
		}
		if !sinks.Sleep(s.ctx, backoff.Next(e.RetryAfter)) {
			return
		}
	}
}

// unsubscribed returns a client whose subscription was in a session that was lost; nil if
// there is none.
func (s *stream) unsubscribed() *client {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, list := range s.clients {
		for _, c := range list {
			if c.subscribed && c.in != s.own.Opened() {
				return c
			}
		}
	}
	return nil
}

// unsubscribe makes the request resources/unsubscribe of the legacy era for a client.
func (s *stream) unsubscribe(ctx context.Context, c *client) error {
	o := wire.BeginObject(nil)
	o.String("uri", c.uri)
	a, session, err := s.d.send(ctx, c, driver.MethodUnsubscribe, "", o)
	if err == nil {
		defer a.Release()
		s.d.Called(eventmeter.Unsubscribe, driver.MethodUnsubscribe, a)
		err = s.judge(driver.MethodUnsubscribe, session, a)
	}
	var e *mcpclient.CallError
	if errors.As(err, &e) && (e.Kind == mcpclient.KindSession || e.Kind == mcpclient.KindEnded) {
		return nil // the subscription has ended with its session
	}
	return err
}
