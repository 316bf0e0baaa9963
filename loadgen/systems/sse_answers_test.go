package systems_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/driver/sep2549"
	"github.com/eventmeter/eventmeter/loadgen/driver/sep975"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestSSEAnswersKeepConnections runs lanes against the reference server that
// answers every call with SSE, and counts the connections that they open.
func TestSSEAnswersKeepConnections(t *testing.T) {
	w := systemstest.NewWorld(t, refserver.Options{
		NextPoll: time.Millisecond, SSEAnswers: true, TTLMin: time.Second, Lists: refserver.ListOptions{Entries: 5},
	})
	const calls = 20
	made := func(method string) func(*systemstest.Memory) bool {
		return func(m *systemstest.Memory) bool {
			n := 0
			for _, c := range m.Calls {
				if c.Method == method && c.Failure == "" {
					n += int(c.Requests)
				}
			}
			return n >= calls
		}
	}
	for name, c := range map[string]struct {
		o      driver.Options
		tls    bool
		method string
		most   int64 // connections
	}{
		"poll":      {o: driver.Options{Mode: eventmeter.Poll, Poll: &driver.Poll{}}, method: "events/poll", most: 1},
		"poll, tls": {o: driver.Options{Mode: eventmeter.Poll, Poll: &driver.Poll{}}, tls: true, method: "events/poll", most: 1},
		"poll, h2c": {o: driver.Options{Mode: eventmeter.Poll, HTTP: "h2c", Poll: &driver.Poll{}}, method: "events/poll", most: 1},
		"webhook": {
			o: driver.Options{Mode: eventmeter.Webhook, Listener: driver.ListenerOptions{Authority: w.Authority},
				Webhook: driver.Webhook{TTL: "2s", RefreshAt: 0.1}},
			method: "events/subscribe", most: 1,
		},
		"lists": {
			o:      driver.Options{System: "sep-2549", Mode: eventmeter.Poll, Settings: sep2549.Settings{Use: 200}},
			method: "tools/list", most: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := mcpclient.EndpointOptions{URL: w.Srv.URL(), Tokens: []string{"a"}}
			if c.tls {
				e.URL, e.Roots = w.Srv.TLSURL(), w.Roots()
			}
			d, rec := systemstest.Lane(t, e, c.o)
			systemstest.Attach(t, d, 1)
			rec.Wait(t, "calls", made(c.method))
			if n := d.(driver.Meter).Traffic().Opened; n == 0 || n > c.most {
				t.Errorf("%d calls took %d connections, want at most %d", calls, n, c.most)
			}
		})
	}
}

// TestSSERequestsKeepConnections has requests of SEP-975, whose results come by
// SSE, one after another.
func TestSSERequestsKeepConnections(t *testing.T) {
	w := systemstest.NewWorld(t, refserver.Options{})
	d, rec := systemstest.Lane(
		t,
		mcpclient.EndpointOptions{URL: w.Srv.URL(), Tokens: []string{"a"}, Capabilities: []string{sep975.ResumableRequests}},
		driver.Options{
			System: "sep-975", Mode: eventmeter.Push, Settings: sep975.Settings{Steps: 1, Step: time.Millisecond},
		},
	)
	systemstest.Attach(t, d, 1)
	rec.Wait(t, "requests", func(m *systemstest.Memory) bool {
		n := 0
		for _, c := range m.Calls {
			n += int(c.Requests)
		}
		return n >= 20
	})
	if n := d.(driver.Meter).Traffic().Opened; n != 1 {
		t.Errorf("20 requests took %d connections", n)
	}
}

// ending is how a server ends the event stream of an answer.
type ending int

const (
	endAtOnce ending = iota
	endLate          // a while after the message
	endNever         // not before the client hangs up
)

// sseServer is a server that answers every call with SSE, as many do that are
// made with an SDK. It counts its connections.
type sseServer struct {
	*httptest.Server
	conns atomic.Int64
	calls atomic.Int64
	stop  chan struct{}
}

func newSSEServer(t *testing.T, end ending) *sseServer {
	s := &sseServer{stop: make(chan struct{})}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		if m.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		s.calls.Add(1)
		result := `{"resultType":"complete"}`
		switch m.Method {
		case "server/discover":
			result = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"events":{},"tools":{}},` +
				`"serverInfo":{"name":"sse","version":"1"},"ttlMs":0,"cacheScope":"private"}`
		case "events/list":
			result = `{"events":[{"name":"chat.message","delivery":["poll"]}]}`
		case "tools/list":
			result = `{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			result = `{"content":[]}`
		case "events/poll":
			result = `{"events":[],"cursor":"c","truncated":false,"hasMore":false,"nextPollMs":1}`
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", m.ID, result)
		w.(http.Flusher).Flush()
		switch end {
		case endLate:
			late := time.NewTimer(20 * time.Millisecond)
			defer late.Stop()
			select {
			case <-late.C:
			case <-s.stop:
			}
		case endNever:
			select {
			case <-r.Context().Done():
			case <-s.stop:
			}
		}
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.conns.Add(1)
		}
	}
	s.Start()
	t.Cleanup(func() {
		close(s.stop)
		s.Close()
	})
	return s
}

// TestForeignSSEAnswers meets servers that end their answers in different ways:
// connections are used again where the answer ends, and calls go on where it
// does not.
func TestForeignSSEAnswers(t *testing.T) {
	for _, c := range []struct {
		name string
		end  ending
		most int64 // connections; 0 = one for each call
	}{{"at once", endAtOnce, 2}, {"late", endLate, 2}, {"never", endNever, 0}} {
		t.Run("poll, ends "+c.name, func(t *testing.T) {
			t.Parallel()
			s := newSSEServer(t, c.end)
			d, rec := systemstest.Lane(
				t,
				mcpclient.EndpointOptions{URL: s.URL},
				driver.Options{Mode: eventmeter.Poll, Poll: &driver.Poll{}},
			)
			systemstest.Attach(t, d, 1)
			rec.Wait(t, "polls", func(m *systemstest.Memory) bool { return len(m.Calls) >= 20 })
			s.check(t, c.most)
		})
		t.Run("lists and tools, ends "+c.name, func(t *testing.T) {
			t.Parallel()
			s := newSSEServer(t, c.end)
			ep, err := mcpclient.NewEndpoint(mcpclient.EndpointOptions{URL: s.URL})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := ep.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}()
			for range 10 {
				if _, err := ep.List(t.Context(), "tools"); err != nil {
					t.Fatal(err)
				}
				if _, err := ep.CallTool(t.Context(), 0, "a", []byte("{}")); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := ep.Abilities(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.check(t, c.most)
		})
	}
}

func (s *sseServer) check(t *testing.T, most int64) {
	t.Helper()
	calls, conns := s.calls.Load(), s.conns.Load()
	if calls < 20 || most > 0 && conns > most {
		t.Errorf("%d calls took %d connections, want at most %d", calls, conns, most)
	}
}

// TestSDKServerKeepsConnections meets a server made with the official Go SDK,
// which answers with SSE unless told otherwise, as several principals one after
// another.
func TestSDKServerKeepsConnections(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "a"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, struct{}, error) {
		return nil, struct{}{}, nil
	})
	for _, era := range []mcpclient.Era{mcpclient.Modern, mcpclient.Legacy} {
		t.Run(string(era), func(t *testing.T) {
			var conns atomic.Int64
			s := httptest.NewUnstartedServer(
				mcp.NewStreamableHTTPHandler(
					func(*http.Request) *mcp.Server { return server },
					&mcp.StreamableHTTPOptions{Stateless: era == mcpclient.Modern},
				),
			)
			s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					conns.Add(1)
				}
			}
			s.Start()
			defer s.Close()
			ep, err := mcpclient.NewEndpoint(mcpclient.EndpointOptions{URL: s.URL, Era: era, Tokens: []string{"a", "b", "c", "d", "e"}})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 20 {
				if _, err := ep.CallTool(t.Context(), i, "a", []byte("{}")); err != nil {
					t.Fatal(err)
				}
			}
			if n := conns.Load(); n > 10 { // two for each handshake at most: the official client reads the ends of its answers beside what follows
				t.Errorf("20 calls of 5 principals took %d connections", n)
			}
			if err := ep.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
