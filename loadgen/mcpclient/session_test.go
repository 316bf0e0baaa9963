package mcpclient_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// Whoever waits for another's handshake waits no longer than its own context
// allows: a target that hangs must not hold up those who end.
func TestHandshakeIsAwaitedAsLongAsOneLikes(t *testing.T) {
	asked, release := make(chan struct{}, 16), make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		asked <- struct{}{}
		select {
		case <-release:
		case <-r.Context().Done():
		}
		http.Error(w, "no", http.StatusForbidden)
	}))
	defer srv.Close()
	e, err := mcpclient.NewEndpoint(mcpclient.EndpointOptions{URL: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.Background())
	first := make(chan error, 1)
	go func() { first <- e.Connect(context.Background()) }()
	<-asked
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	if err := e.Connect(gone); !errors.Is(err, mcpclient.ErrUnreachable) || !errors.Is(err, context.Canceled) {
		t.Errorf("the second handshake: %v", err)
	}
	select {
	case err := <-first:
		t.Errorf("the first handshake was over before the second gave up: %v", err)
	default:
	}
	close(release)
	if err := <-first; !errors.Is(err, mcpclient.ErrAuth) {
		t.Errorf("the first handshake: %v", err)
	}
}
