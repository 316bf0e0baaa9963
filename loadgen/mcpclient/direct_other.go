//go:build !unix

package mcpclient

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/eventmeter/eventmeter/internal/wire"
)

// directTransport is for systems that tell whether a connection was hung up
// without reading it. This is none of them, and net/http does its work.
type directTransport struct{}

func newDirect(*url.URL, wire.DialFunc, string, *wire.Traffic) *directTransport { return nil }

func (*directTransport) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.ErrUnsupported
}

func (*directTransport) close() {}
