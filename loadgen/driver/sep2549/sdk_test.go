package sep2549_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/driver/sep2549"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// sdkServer is a server made of nothing but the official SDK. docs/sep-2549.md
// says what was found with it.
type sdkServer struct {
	server *mcp.Server
	http   *httptest.Server
	mu     sync.Mutex
	text   string // the resource's
}

func newSDKServer(t *testing.T, ttl time.Duration, private bool) *sdkServer {
	s := &sdkServer{}
	opts := &mcp.ServerOptions{
		PageSize:           2,
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	}
	if ttl > 0 {
		opts.SetCacheable = func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) {
			c.TTLMs = int(ttl.Milliseconds())
			if private {
				c.CacheScope = "private"
			}
		}
	}
	s.server = mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, opts)
	for _, name := range []string{"a", "b", "c"} {
		s.tool(name, "")
	}
	s.server.AddResource(
		&mcp.Resource{URI: "file:///r", Name: "r"},
		func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: "x " + s.text}}}, nil
		},
	)
	get := func(*http.Request) *mcp.Server { return s.server }
	modern := mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{Stateless: true})
	legacy := mcp.NewStreamableHTTPHandler(get, nil)
	s.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Protocol-Version") >= "2026-07-28" {
			modern.ServeHTTP(w, r)
			return
		}
		legacy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.http.Close)
	t.Cleanup(func() {
		for session := range s.server.Sessions() {
			session.Close()
		}
	})
	return s
}

func (s *sdkServer) tool(name, mark string) {
	mcp.AddTool(
		s.server,
		&mcp.Tool{Name: name, Description: "a tool " + mark},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{}, nil, nil
		},
	)
}

// change is how such a server changes: by what the SDK offers for it.
func (s *sdkServer) change(list, probe string) error {
	switch list {
	case "tools":
		s.tool("c", probe) // on the second page
	case "resource":
		s.mu.Lock()
		s.text = probe
		s.mu.Unlock()
		return s.server.ResourceUpdated(context.Background(), &mcp.ResourceUpdatedNotificationParams{URI: "file:///r"})
	default:
		return errors.New("no such list")
	}
	return nil
}

func TestListsOfAServerOfTheSDK(t *testing.T) {
	for _, c := range []struct {
		name  string
		era   mcpclient.Era
		ttl   time.Duration
		priv  bool
		set   sep2549.Settings
		holds func(v map[string]float64) bool
	}{
		// Left alone it says ttlMs 0 and public: nothing is kept, in either era.
		{"nothing set", mcpclient.Modern, 0, false, sep2549.Settings{Cache: true, List: "tools"},
			func(v map[string]float64) bool {
				return v["fetchesAvoided"] == 0 && v["ttlMs"] == 0 && v["privatePages"] == 0
			}},
		{"nothing set, legacy", mcpclient.Legacy, 0, false, sep2549.Settings{Cache: true, List: "tools"},
			func(v map[string]float64) bool { return v["fetchesAvoided"] == 0 && v["privatePages"] == 0 }},
		// With SetCacheable it says so on every page, and in sessions too.
		{"a time to live", mcpclient.Modern, 100 * time.Millisecond, true, sep2549.Settings{Cache: true, List: "tools"},
			func(v map[string]float64) bool {
				return v["ttlMs"] == 100 && v["fetchesAvoided"] > 0 && v["privatePages"] > 0
			}},
		{"a time to live, legacy", mcpclient.Legacy, 100 * time.Millisecond, true, sep2549.Settings{Cache: true, List: "tools"},
			func(v map[string]float64) bool {
				return v["ttlMs"] == 100 && v["fetchesAvoided"] > 0 && v["privatePages"] > 0
			}},
		// subscriptions/listen tells of changes, and so does a session's stream.
		{"told", mcpclient.Modern, time.Hour, false, sep2549.Settings{Cache: true, List: "tools", Notifications: true},
			func(v map[string]float64) bool { return v["changesNotified"] > 0 && v["fetchesExpired"] == 0 }},
		{"told, legacy", mcpclient.Legacy, time.Hour, false, sep2549.Settings{Cache: true, List: "tools", Notifications: true},
			func(v map[string]float64) bool { return v["changesNotified"] > 0 && v["fetchesExpired"] == 0 }},
		{"notified of a resource", mcpclient.Modern, time.Hour, false,
			sep2549.Settings{Cache: true, List: "resource", URI: "file:///r", Notifications: true},
			func(v map[string]float64) bool { return v["changesNotified"] > 0 && v["fetchesExpired"] == 0 }},
		{"notified of a resource, legacy", mcpclient.Legacy, time.Hour, false,
			sep2549.Settings{Cache: true, List: "resource", URI: "file:///r", Notifications: true},
			func(v map[string]float64) bool { return v["changesNotified"] > 0 && v["fetchesExpired"] == 0 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSDKServer(t, c.ttl, c.priv)
			const clients, rounds = 3, 4
			c.set.Use = 100
			lw := newListWorld(
				t,
				mcpclient.EndpointOptions{URL: s.http.URL, Era: c.era},
				driver.Options{Subscriptions: clients, Settings: c.set},
				1,
				s.change,
			)
			systemstest.Attach(t, lw.d, clients)
			for range rounds {
				lw.fire(t, c.set.List, 0)
				lw.settle(t)
			}
			lane, f := lw.finish(t, clients)
			if lane.Delivered != clients*rounds {
				t.Errorf("%d delivered", lane.Delivered)
			}
			if !c.holds(f.Values) {
				t.Errorf("figures %v", f.Values)
			}
			if h := f.Timings["invalidation"].Histogram; h.TotalCount() > 0 {
				t.Logf("invalidation %v to %v", time.Duration(h.Min()), time.Duration(h.Max()))
			}
		})
	}
}

// A server of the SDK that does not allow subscribing to resources does not
// agree to tell of them.
func TestListsOfAServerOfTheSDKThatTellsNothing(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true})
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	for _, list := range []string{"resource", "prompts"} {
		lw := newListWorld(
			t,
			mcpclient.EndpointOptions{URL: srv.URL},
			driver.Options{Subscriptions: 1, Settings: sep2549.Settings{Cache: true, List: list, Notifications: true}},
			1,
			nil,
		)
		if err := lw.d.Attach(t.Context(), 0); !errors.Is(err, mcpclient.ErrNotOffered) {
			t.Errorf("%s: %v", list, err)
		}
	}
}

// The SDK waits 10 ms for more changes before it tells of one, and starts anew
// with each: changes that never pause are never announced.
func TestSDKDebounceNeverEnds(t *testing.T) {
	s := newSDKServer(t, time.Hour, false)
	lw := newListWorld(
		t,
		mcpclient.EndpointOptions{URL: s.http.URL, Era: mcpclient.Modern},
		driver.Options{Subscriptions: 1, Settings: sep2549.Settings{Cache: true, Use: 100, Notifications: true}},
		1,
		s.change,
	)
	systemstest.Attach(t, lw.d, 1)
	const changes = 100
	for range changes {
		lw.fire(t, "tools", 0)
	}
	lw.settle(t)
	lane, f := lw.finish(t, 1)
	if lane.Delivered != changes {
		t.Errorf("%d delivered", lane.Delivered)
	}
	// How many notifications that takes depends on how fast the machine is.
	t.Logf(
		"%d changes without a pause: %v notifications, %v seen, %v superseded",
		changes,
		f.Values["changesNotified"],
		f.Values["changesSeen"],
		f.Values["changesSuperseded"],
	)
}
