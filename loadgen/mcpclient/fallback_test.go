package mcpclient_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
)

// oldServer is a server of the legacy era, or one without any handshake, that
// refuses what it does not know in a way of its own. It counts what it is asked.
type oldServer struct {
	*httptest.Server
	mu    sync.Mutex
	asked map[string]int
}

func (s *oldServer) count(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[method]
}

func newOldServer(t *testing.T, bare bool, refuse func(w http.ResponseWriter, id json.RawMessage)) *oldServer {
	s := &oldServer{asked: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.NewDecoder(r.Body).Decode(&m)
		s.mu.Lock()
		s.asked[m.Method]++
		n := s.asked[m.Method]
		s.mu.Unlock()
		result := ""
		switch {
		case r.Method == http.MethodDelete:
			return
		case m.ID == nil:
			w.WriteHeader(http.StatusAccepted)
			return
		case m.Method == "initialize" && !bare:
			w.Header().Set("Mcp-Session-Id", fmt.Sprint("s", n))
			result = `{"protocolVersion":"2025-06-18","capabilities":{"events":{}},"serverInfo":{"name":"old","version":"1"}}`
		case m.Method == "events/list":
			result = `{"events":[]}`
		case m.Method == "events/poll":
			result = `{"events":[],"cursor":"c","truncated":false,"hasMore":false,"nextPollMs":60000}`
		}
		if result == "" {
			refuse(w, m.ID)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}))
	t.Cleanup(s.Close)
	return s
}

func bareStatus(status int) func(http.ResponseWriter, json.RawMessage) {
	return func(w http.ResponseWriter, _ json.RawMessage) { http.Error(w, "no", status) }
}

func unknownMethod(status int) func(http.ResponseWriter, json.RawMessage) {
	return func(w http.ResponseWriter, id json.RawMessage) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, id)
	}
}

// TestFallbackIsAskedOnce requires that a target of an earlier era is asked for
// the later one once, however many principals, lanes and endpoints there are,
// and that this is no failed call.
func TestFallbackIsAskedOnce(t *testing.T) {
	const principals = 20
	var tokens []string
	for i := range principals {
		tokens = append(tokens, fmt.Sprint("t", i))
	}
	for _, c := range []struct {
		name   string
		bare   bool
		refuse func(http.ResponseWriter, json.RawMessage)
		era    mcpclient.Era
		why    string
	}{
		{"legacy, bare 400", false, bareStatus(400), mcpclient.Legacy, "server/discover: http 400"},
		{"legacy, bare 404", false, bareStatus(404), mcpclient.Legacy, "server/discover: http 404"},
		{"legacy, error with 400", false, unknownMethod(400), mcpclient.Legacy, "server/discover: rpc -32601"},
		{"legacy, error with 200", false, unknownMethod(200), mcpclient.Legacy, "server/discover: rpc -32601"},
		{"no handshake", true, unknownMethod(400), mcpclient.Bare, "server/discover: rpc -32601, initialize: rpc -32601"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newOldServer(t, c.bare, c.refuse)
			eras := &mcpclient.Eras{}
			var recs []*systemstest.Memory
			var eps []*mcpclient.Endpoint
			var attaching sync.WaitGroup
			for range 2 { // endpoints, of two lanes each, all at once
				ep, err := mcpclient.NewEndpoint(mcpclient.EndpointOptions{URL: s.URL, Tokens: tokens, Eras: eras})
				must(t, err)
				t.Cleanup(func() {
					if err := ep.Close(context.Background()); err != nil {
						t.Error(err)
					}
				})
				for range 2 {
					rec := systemstest.NewMemory()
					d, err := systems.New(driver.Options{
						Clock:         eventmeter.NewClock(),
						Recorder:      rec,
						Endpoint:      ep,
						Mode:          eventmeter.Poll,
						Event:         "e",
						Subscriptions: principals,
					})
					must(t, err)
					t.Cleanup(func() {
						if err := d.Close(context.Background()); err != nil {
							t.Error(err)
						}
					})
					recs = append(recs, rec)
					for i := range principals {
						attaching.Go(func() {
							if err := d.Attach(t.Context(), i); err != nil {
								t.Error(err)
							}
						})
					}
				}
				eps = append(eps, ep)
			}
			attaching.Wait()
			for _, ep := range eps {
				if who := ep.Server(); who.Era != c.era || who.Fallback != c.why {
					t.Errorf("%+v, want %s by %q", who, c.era, c.why)
				}
			}
			if n := s.count("server/discover"); n != 1 {
				t.Errorf("server/discover was asked %d times", n)
			}
			if n := s.count("initialize"); c.bare && n != 1 || !c.bare && n != 2*principals {
				t.Errorf("initialize was asked %d times", n)
			}
			reported := 0
			for _, rec := range recs {
				rec.Mu.Lock()
				for _, call := range rec.Calls {
					if call.Failure != "" {
						t.Errorf("%s failed: %s", call.Method, call.Failure)
					}
					if call.Method == "server/discover" {
						reported++
					}
				}
				rec.Mu.Unlock()
			}
			if reported != 1 {
				t.Errorf("server/discover was reported %d times", reported)
			}
		})
	}
}

// TestNoFallbackIsAFailure requires that a refusal which nothing came of stays a
// failed call.
func TestNoFallbackIsAFailure(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusBadRequest) }))
	defer s.Close()
	ep, err := mcpclient.NewEndpoint(mcpclient.EndpointOptions{URL: s.URL})
	must(t, err)
	rec := systemstest.NewMemory()
	d, err := systems.New(
		driver.Options{Clock: eventmeter.NewClock(), Recorder: rec, Endpoint: ep, Mode: eventmeter.Poll, Event: "e", Subscriptions: 1},
	)
	must(t, err)
	defer d.Close(t.Context())
	if err := d.Attach(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "handshake") {
		t.Errorf("%v", err)
	}
	rec.Mu.Lock()
	defer rec.Mu.Unlock()
	failed := map[string]string{}
	for _, c := range rec.Calls {
		failed[c.Method] = c.Failure
	}
	if failed["server/discover"] != "http 400" || failed["initialize"] != "http 400" {
		t.Errorf("failed calls: %v", failed)
	}
}

// must ends the test if a step of it has failed.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
