package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/errtext"
)

// HTTPOptions describe an [HTTP] upstream.
type HTTPOptions struct {
	// Method of the request; empty means POST.
	Method string
	// Request returns the request of one emission. The probe must be in the URL, a
	// header or the body. header and body may be nil, and belong to the upstream
	// afterwards. Request is called by many goroutines at once. Required.
	Request func(source int, seq uint32, probe string) (url string, header http.Header, body []byte)
	ClientOptions
}

// HTTP publishes by sending a request that the profile describes to the system that
// causes the target's events.
type HTTP struct {
	*client
	method string
	make   func(source int, seq uint32, probe string) (string, http.Header, []byte)
}

// NewHTTP checks the options. It does not connect.
func NewHTTP(o HTTPOptions) (*HTTP, error) {
	if o.Request == nil {
		return nil, errors.New("upstream http: Request must be given")
	}
	if o.Method == "" {
		o.Method = http.MethodPost
	}
	if _, err := http.NewRequestWithContext(context.Background(), o.Method, "http://127.0.0.1/", nil); err != nil {
		return nil, fmt.Errorf("upstream http: %w; want a method such as POST", err)
	}
	return &HTTP{client: newClient(o.ClientOptions), method: o.Method, make: o.Request}, nil
}

// Fire implements [Upstream]. A request that cannot be made is Refused.
func (h *HTTP) Fire(ctx context.Context, emission Emission) eventmeter.Outcome {
	address, header, body := h.make(int(emission.Source), emission.Seq, emission.Stamp.String())
	u, ok := httpURL(address)
	if !ok {
		h.failed("%s: %q is not an http or https URL", h.method, errtext.Address(address))
		return eventmeter.Refused
	}
	req, err := http.NewRequestWithContext(ctx, h.method, address, bytes.NewReader(body))
	if err != nil {
		h.failed("%s %s: %s", h.method, errtext.URL(u), errtext.Hide(err.Error(), u))
		return eventmeter.Refused
	}
	if header != nil {
		req.Header = header
		if host := header.Get("Host"); host != "" {
			req.Host = host
		}
	}
	if repeats(req) {
		fireOnce(req)
	}
	return h.do(ctx, req)
}

// repeats reports whether net/http may send req again by itself although the server
// may have read it: it does so with safe methods and with an idempotency key. An
// emission must be one request. A second one, which is not counted, would look like a
// duplicate made by the target.
func repeats(req *http.Request) bool {
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	_, key := req.Header["Idempotency-Key"]
	_, xkey := req.Header["X-Idempotency-Key"]
	return key || xkey
}

// fireOnce makes net/http send req once: it gives req a body that cannot be read
// again.
func fireOnce(req *http.Request) {
	req.GetBody = nil
	body := req.Body
	if body == nil || body == http.NoBody {
		body = io.NopCloser(new(bytes.Reader))
	}
	// A type that net/http does not know: it can read bytes.Reader again.
	req.Body = struct{ io.ReadCloser }{body}
}

// Content implements [Recorded]: the payload is the body, which need not be
// JSON.
func (h *HTTP) Content(emission Emission) (string, []byte) {
	_, _, body := h.make(int(emission.Source), emission.Seq, emission.Stamp.String())
	return "", body
}
