package driver

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// OwnSession is a session of the legacy era that one stream or client has for itself. The
// zero value has none. It is safe for concurrent use.
type OwnSession struct {
	mu     sync.Mutex
	now    *mcpclient.Session // nil = there is none, or it was lost
	opened int
}

// Current returns the session, with the current token of its principal; nil if there is
// none, or if it was lost.
func (o *OwnSession) Current(who *mcpclient.Principal) *mcpclient.Session {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.now != nil {
		o.now.Authorize(who)
	}
	return o.now
}

// Set sets the session.
func (o *OwnSession) Set(s *mcpclient.Session) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.now = s
	o.opened++
}

// Lose forgets a session that the server no longer knows, and calls then before another
// one can be set. It does nothing if the session was forgotten before.
func (o *OwnSession) Lose(s *mcpclient.Session, then func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s != nil && o.now == s {
		o.now = nil
		then()
	}
}

// Opened returns how many sessions there have been.
func (o *OwnSession) Opened() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.opened
}

// OpenOwn opens and returns a session of a principal, in the version that was negotiated before. If
// the server has no sessions, which it shows by returning no id, the error wraps
// [mcpclient.ErrNotOffered].
func (l *Lane[T]) OpenOwn(
	ctx context.Context, o *OwnSession, who *mcpclient.Principal, version string, cause eventmeter.Cause,
) (*mcpclient.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, l.Opts.Timeout)
	defer cancel()
	s, err := who.OpenSession(ctx, &l.Caller, version, func(method string, a *mcpclient.Answer) { l.Called(cause, method, a) })
	switch {
	case err != nil:
		return nil, err
	case s.ID == "":
		return nil, fmt.Errorf("%w: it has no sessions, and so no stream for updates", mcpclient.ErrNotOffered)
	}
	o.Set(s)
	return s, nil
}

// EndOwn ends the session, if there is one. It is no error if the server does not let
// clients end sessions, or no longer knows the session.
func (l *Lane[T]) EndOwn(ctx context.Context, o *OwnSession, who *mcpclient.Principal) error {
	s := o.Current(who)
	if s == nil {
		return nil
	}
	o.Lose(s, func() {})
	ctx, cancel := context.WithTimeout(ctx, l.Opts.Timeout)
	defer cancel()
	a := l.Caller.EndSession(ctx, s.Header(http.MethodDelete, ""))
	l.Called(eventmeter.Unsubscribe, http.MethodDelete, a)
	if a.Err != nil {
		return a.Err
	}
	return nil
}

// Body returns a request in a session with params o, and its id. o must not be used
// afterwards.
func (l *Lane[T]) Body(s *mcpclient.Session, method string, o wire.Object) (id uint64, body []byte) {
	if s.Meta != nil {
		o.Raw("_meta", s.Meta)
	}
	id = l.Endpoint.NextID()
	return id, wire.Request(id, method, o.End())
}

// Ask makes a request in a session with params o, within the time of a call. name is the
// value of Mcp-Name; "" = none. The caller reports the answer and releases it.
func (l *Lane[T]) Ask(ctx context.Context, s *mcpclient.Session, method, name string, o wire.Object) *mcpclient.Answer {
	_, body := l.Body(s, method, o)
	ctx, cancel := context.WithTimeout(ctx, l.Opts.Timeout)
	defer cancel()
	return l.Call(ctx, method, s.Header(method, name), body)
}
