//go:build !unix

package mcpclient

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/eventmeter/eventmeter/internal/wire"
)

// directTransport needs a system that can tell whether a connection was hung up without
// reading from it. This one cannot, so newDirect returns nil and net/http is used.
type directTransport struct{}

func newDirect(*url.URL, wire.DialFunc, string, *wire.Traffic) *directTransport { return nil }

func (*directTransport) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.ErrUnsupported
}

func (*directTransport) close() {}
