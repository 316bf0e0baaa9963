package driver

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// Present asks whether the target is there: any answer of HTTP will do, whatever
// its status. It is a HEAD request to the endpoint's address, on connections that
// are no lane's. Of a program it says whether that has ended. The error is that
// of the connection, or of ctx.
func (e *Endpoint) Present(ctx context.Context) error {
	if e.pipe != nil {
		return e.Err()
	}
	req := &http.Request{Method: http.MethodHead, URL: e.url, Host: e.host, Header: http.Header{}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	resp, err := e.transport.RoundTrip(req.WithContext(ctx))
	if err != nil {
		return fmt.Errorf("endpoint: ask %s whether it is there: %w", e.opts.URL, err)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<10)) // to use the connection again
	return resp.Body.Close()
}
