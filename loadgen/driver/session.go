package driver

import (
	"context"
	"fmt"
	"net/http"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// OpenSession opens a session of the legacy era for a single stream of a principal, in
// the version that was negotiated before. It returns the session's id and the header
// fields of its requests. If the server has no sessions, which it shows by returning no
// id, the error wraps [mcpclient.ErrNotOffered].
func (l *Lane[T]) OpenSession(
	ctx context.Context,
	who *mcpclient.Principal,
	version string,
	cause eventmeter.Cause,
) (string, http.Header, error) {
	header, body := who.Initialization(version)
	const method = "initialize"
	ctx, cancel := context.WithTimeout(ctx, l.Opts.Timeout)
	defer cancel()
	a := &mcpclient.Answer{Up: mcpclient.RequestSize(http.MethodPost, l.URL.RequestURI(), header, int64(len(body)))}
	defer a.Release()
	start := l.Clock.Now()
	id := ""
	if resp, err := l.Transport.RoundTrip(l.NewPost(ctx, header, body)); err != nil {
		a.Err, a.At = mcpclient.TransportError(ctx, err), l.Clock.Now()
	} else {
		a.Read(ctx, &l.Caller, resp, method)
		resp.Body.Close()
		id = resp.Header.Get(mcpclient.HeaderSession)
	}
	a.Took = a.At.Sub(start)
	if a.Err != nil {
		a.Err.Method = method
	}
	l.Called(cause, method, a)
	if a.Err != nil {
		return "", nil, a.Err
	}
	if id == "" {
		return "", nil, fmt.Errorf("%w: it has no sessions, and so no stream for updates", mcpclient.ErrNotOffered)
	}
	header = who.Initialized(id, version)
	const initialized = "notifications/initialized"
	n := l.Caller.Call(ctx, initialized, header, wire.AppendNotification(nil, initialized, []byte("{}")))
	defer n.Release()
	if n.Err != nil && n.Err.Kind == mcpclient.KindProtocol {
		n.Err = nil // a notification has no answer
	}
	l.Called(cause, initialized, n)
	if n.Err != nil {
		return "", nil, n.Err
	}
	return id, header, nil
}

// EndSession ends a session of the legacy era. It is no error if the server does not let
// clients end sessions (405), or no longer knows the session (404).
func (l *Lane[T]) EndSession(ctx context.Context, header http.Header) error {
	ctx, cancel := context.WithTimeout(ctx, l.Opts.Timeout)
	defer cancel()
	req := l.NewRequest(ctx, http.MethodDelete, header)
	a := &mcpclient.Answer{Up: mcpclient.RequestSize(req.Method, l.URL.RequestURI(), header, 0)}
	start := l.Clock.Now()
	if resp, err := l.Transport.RoundTrip(req); err != nil {
		a.Err = mcpclient.TransportError(ctx, err)
	} else {
		a.Down = mcpclient.ResponseSize(resp) + l.Patience.Rest(resp.Body)
		resp.Body.Close()
		if resp.StatusCode > 299 && resp.StatusCode != http.StatusMethodNotAllowed && resp.StatusCode != http.StatusNotFound {
			a.Err = &mcpclient.CallError{Status: resp.StatusCode}
		}
	}
	a.At = l.Clock.Now()
	a.Took = a.At.Sub(start)
	if a.Err != nil {
		a.Err.Method = http.MethodDelete
	}
	l.Called(eventmeter.Unsubscribe, http.MethodDelete, a)
	if a.Err != nil {
		return a.Err
	}
	return nil
}
