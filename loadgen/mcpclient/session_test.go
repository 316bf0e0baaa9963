package mcpclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
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
	must(t, err)
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

// TestHeaderWhileTheTokenChanges: the race detector finds fields that are read while another
// goroutine replaces them.
func TestHeaderWhileTheTokenChanges(t *testing.T) {
	var issued atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/token" {
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}`)
			return
		}
		fmt.Fprintf(w, `{"access_token":"t%d","token_type":"Bearer"}`, issued.Add(1))
	}))
	defer srv.Close()
	ep, err := mcpclient.NewEndpoint(mcpclient.EndpointOptions{URL: srv.URL + "/mcp", OAuth: &mcpclient.OAuth{
		Grant: mcpclient.GrantCredentials, Principals: 1, ClientID: func(int) string { return "c" },
		TokenURL: srv.URL + "/token", RefreshAt: 1, Timeout: time.Minute,
	}})
	must(t, err)
	defer func() { _ = ep.Close(t.Context()) }()
	p := ep.Principal(0)
	renew := func(refused string) {
		if ok, err := p.Renew(t.Context(), refused, nil, eventmeter.Call{}, nil); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	renew("")
	c := ep.Caller(eventmeter.NewClock(), nil)
	a, err := p.OpenSession(t.Context(), &c, "2025-06-18", func(string, *mcpclient.Answer) {})
	must(t, err)
	renew("t1")
	var readers sync.WaitGroup
	var done atomic.Bool
	began := make(chan struct{})
	readers.Go(func() {
		close(began)
		for !done.Load() {
			_ = a.NamedHeader("resources/read", "x")
		}
	})
	<-began
	a.Authorize(p)
	done.Store(true)
	readers.Wait()
	if got := mcpclient.Bearer(a.NamedHeader("resources/read", "x")); got != "t2" {
		t.Errorf("token %q", got)
	}
}
