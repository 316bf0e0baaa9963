package driver

import (
	"context"
	"fmt"
	"net/http"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// OpenSession opens a session of the legacy era for a single stream of a principal, in
// the version that was negotiated before. If the server has no sessions, which it shows
// by returning no id, the error wraps [mcpclient.ErrNotOffered].
func (l *Lane[T]) OpenSession(
	ctx context.Context, who *mcpclient.Principal, version string, cause eventmeter.Cause,
) (*mcpclient.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, l.Opts.Timeout)
	defer cancel()
	a, err := who.OpenSession(ctx, &l.Caller, version, func(method string, a *mcpclient.Answer) { l.Called(cause, method, a) })
	if err == nil && a.ID == "" {
		err = fmt.Errorf("%w: it has no sessions, and so no stream for updates", mcpclient.ErrNotOffered)
	}
	return a, err
}

// EndSession ends a session of the legacy era, whose header fields are given. It is no
// error if the server does not let clients end sessions, or no longer knows the session.
func (l *Lane[T]) EndSession(ctx context.Context, header http.Header) error {
	ctx, cancel := context.WithTimeout(ctx, l.Opts.Timeout)
	defer cancel()
	a := l.Caller.EndSession(ctx, header)
	l.Called(eventmeter.Unsubscribe, http.MethodDelete, a)
	if a.Err != nil {
		return a.Err
	}
	return nil
}
