package interop

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// todayArgs shorten the built-in profile, for both ends to do in a few seconds.
var todayArgs = []string{
	"--profile", "today", "--set", "lanes.updates.subscriptions=30", "--set", "lanes.lists.subscriptions=5",
	"--set", "phases.warmup=500ms", "--set", "phases.measure=2s", "--set", "phases.ready=60s", "--set", "phases.drain=60s",
}

// runToday runs the profile and returns its lanes by name.
func runToday(t *testing.T, args ...string) map[string]laneResult {
	t.Helper()
	lanes := map[string]laneResult{}
	for _, l := range runProgram(t, append(todayArgs[:len(todayArgs):len(todayArgs)], args...)...) {
		lanes[l.Name] = l
	}
	return lanes
}

// nodeArgs have the control endpoint of a Node server change the resources. Its list of
// tools does not change: the streams of that lane are idle.
func nodeArgs(control, era string) []string {
	return []string{
		"--set", "lanes.updates.updates.resource=test://items/{n}", "--set", "lanes.lists.sources=none", "--set", "upstream.kind=http",
		"--set", "upstream.http.url=" + control + "/update", "--set", `upstream.payload.index="{{int .Source}}"`,
		"--set", `upstream.payload.text="{{.Probe}}"`, "--set", "target.era=" + era,
	}
}

// checkToday checks what holds of every run of the profile, and returns the figures of its
// lanes.
func checkToday(t *testing.T, lanes map[string]laneResult) (updates, lists, bystander map[string]float64) {
	t.Helper()
	if u := lanes["updates"]; u.Expected == 0 || u.Delivered != u.Expected || u.LostSilent != 0 || u.Duplicates.Count != 0 {
		t.Errorf(
			"of %d changes that clients were owed, %d arrived, %d were lost, %d came twice",
			u.Expected,
			u.Delivered,
			u.LostSilent,
			u.Duplicates.Count,
		)
	}
	updates, lists, bystander = lanes["updates"].Figures, lanes["lists"].Figures, lanes["bystander"].Figures
	for _, f := range []map[string]float64{updates, lists} {
		for _, name := range []string{"readsFailed", "sessionsForgotten", "unrouted", "refused"} {
			if f[name] != 0 {
				t.Errorf("%s is %v, want 0", name, f[name])
			}
		}
	}
	if bystander["requests"] == 0 || bystander["failed"] != 0 {
		t.Errorf("the bystander made %v requests, of which %v failed", bystander["requests"], bystander["failed"])
	}
	return updates, lists, bystander
}

// same compares our counts with the server's.
func same(t *testing.T, counts map[string][2]float64) {
	t.Helper()
	for name, c := range counts {
		if c[0] != c[1] {
			t.Errorf("%s: we count %v, the server %v", name, c[0], c[1])
		}
	}
}

// TestTodayNode runs the profile today against the servers of both npm SDKs, over HTTP
// and over a pipe, and compares our counts with theirs.
func TestTodayNode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		server, era string
		piped       bool
	}{
		{"sdk1.mjs", "legacy", false}, {"sdk2.mjs", "legacy", false}, {"sdk2.mjs", "modern", false},
		{"sdk1.mjs", "legacy", true}, {"sdk2.mjs", "modern", true},
	} {
		t.Run(fmt.Sprintf("%s %s piped=%v", c.server, c.era, c.piped), func(t *testing.T) {
			t.Parallel()
			if c.piped {
				todayPiped(t, c.server, c.era)
				return
			}
			s := start(t, c.server, "--until-eof")
			u, l, _ := checkToday(t, runToday(t, append(nodeArgs(s.Control, c.era), "--target", s.URL)...))
			var server sdkStats
			until(t, "the end of the streams", func() bool {
				server = stats[sdkStats](s)
				return server.OpenStreams == 0
			})
			counts := map[string][2]float64{
				"notifications": {u["notifications"], float64(server.Sent.ResourceUpdated)},
				"list changes":  {l["notifications"], float64(server.Sent.ToolListChanged)},
				"reads":         {u["reads"], float64(server.Requests["resources/read"])},
			}
			if c.era == "legacy" {
				counts["subscriptions"] = [2]float64{30, float64(server.Subscribed)}
				counts["ends of subscriptions"] = [2]float64{30, float64(server.Unsubscribed)}
				counts["sessions"] = [2]float64{
					u["sessions"] + l["sessions"] + 1,
					float64(server.Sessions),
				} // and one that the requests share
			} else {
				counts["streams"] = [2]float64{35, float64(server.Requests["subscriptions/listen"])}
			}
			same(t, counts)
		})
	}
}

// todayPiped runs the profile against a program, whose control endpoint ends with it: its
// counts cannot be asked for afterwards. Each notification has one read, and each change
// that was published is one that clients were owed.
func todayPiped(t *testing.T, server, era string) {
	needsPackages(t)
	port := freePort(t)
	file, err := filepath.Abs(filepath.Join("testdata", server))
	must(t, err)
	control := "http://127.0.0.1:" + port
	lanes := runToday(t, append(nodeArgs(control, era), "--command", fmt.Sprintf("node '%s' --stdio --control-port %s", file, port))...)
	u, _, _ := checkToday(t, lanes)
	want := u["notifications"]
	if era == "modern" {
		want += 30 // and each client's first read
	}
	if u["reads"] < 30 || u["notifications"] == 0 || era == "modern" && u["reads"] != want {
		t.Errorf("%v notifications and %v reads", u["notifications"], u["reads"])
	}
}

// freePort returns a port that was free a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// goServer is an ordinary server of the official Go SDK, without events, which counts
// what it receives and sends.
type goServer struct {
	mcp  *mcp.Server
	http *httptest.Server

	mu     sync.Mutex
	text   map[string]string // by URI
	counts map[string]int    // by method, of requests received and notifications sent

	marking sync.Mutex // held while the list of tools changes
	marks   string     // of all changes: no client need fetch the list between two of them
}

// touch are the arguments of the tool that changes a resource and the list of tools, as the
// profile has them.
type touch struct {
	URI   string `json:"uri"`
	List  string `json:"list"`
	Probe string `json:"probe"`
}

// goPiped is the argument with which the test program is such a server, over its standard
// input and output.
const goPiped = "go-server"

// newGoServer makes one that is reached over HTTP, in both eras.
func newGoServer(t *testing.T) *goServer {
	s := newGoTools()
	get := func(*http.Request) *mcp.Server { return s.mcp }
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
		for session := range s.mcp.Sessions() {
			session.Close()
		}
	})
	return s
}

func newGoTools() *goServer {
	s := &goServer{text: map[string]string{}, counts: map[string]int{}}
	s.mcp = mcp.NewServer(&mcp.Implementation{Name: "go-sdk", Version: "1"}, &mcp.ServerOptions{
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	count := func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			s.mu.Lock()
			s.counts[method]++
			s.mu.Unlock()
			return next(ctx, method, req)
		}
	}
	s.mcp.AddReceivingMiddleware(count)
	s.mcp.AddSendingMiddleware(count)
	s.echo("")
	mcp.AddTool(s.mcp, &mcp.Tool{Name: "touch", Description: "changes a resource and the list of tools"},
		func(ctx context.Context, _ *mcp.CallToolRequest, in touch) (*mcp.CallToolResult, any, error) {
			s.mu.Lock()
			s.text[in.URI] += " " + in.Probe // of all changes, as calls may overtake each other
			s.mu.Unlock()
			s.echo(in.Probe)
			return nil, nil, s.mcp.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: in.URI})
		})
	s.mcp.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "list://item/{n}", Name: "item"},
		func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: s.text[r.Params.URI]}}}, nil
		})
	return s
}

// echo adds a tool again, which changes the list of tools.
func (s *goServer) echo(mark string) {
	s.marking.Lock()
	defer s.marking.Unlock()
	s.marks += " " + mark
	mcp.AddTool(
		s.mcp,
		&mcp.Tool{Name: "echo", Description: "answers" + s.marks},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return nil, nil, nil
		},
	)
}

func (s *goServer) seen() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.counts)
}

// TestTodayGo runs the profile today against a server of the official Go SDK, whose tool
// causes the changes.
func TestTodayGo(t *testing.T) {
	t.Parallel()
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			s := newGoServer(t)
			u, l, _ := checkToday(
				t,
				runToday(
					t,
					"--target",
					s.http.URL,
					"--set",
					"target.era="+era,
					"--set",
					"upstream.kind=tool",
					"--set",
					"upstream.tool.name=touch",
				),
			)
			seen := s.seen()
			counts := map[string][2]float64{
				"notifications": {u["notifications"], float64(seen["notifications/resources/updated"])},
				"reads":         {u["reads"], float64(seen["resources/read"])},
			}
			if era == "legacy" {
				counts["subscriptions"] = [2]float64{30, float64(seen["resources/subscribe"])}
				counts["ends of subscriptions"] = [2]float64{30, float64(seen["resources/unsubscribe"])}
			} else {
				counts["streams"] = [2]float64{35, float64(seen["subscriptions/listen"])}
			}
			same(t, counts)
			if l["notifications"] == 0 {
				t.Error("no client was notified of a change of the list of tools")
			}
		})
	}
}

// TestTodayGoPiped runs the profile against such a server over a pipe. It ends with the
// run, so its counts cannot be asked for. In the modern era it notifies only one of the
// streams of a pipe of each change, so there is one client for each resource.
func TestTodayGoPiped(t *testing.T) {
	t.Parallel()
	for era, clients := range map[string][2]string{"legacy": {"30", "5"}, "modern": {"10", "1"}} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			u, l, _ := checkToday(t, runToday(
				t,
				"--command",
				fmt.Sprintf("'%s' %s", os.Args[0], goPiped),
				"--set",
				"target.era="+era,
				"--set",
				"upstream.kind=tool",
				"--set",
				"upstream.tool.name=touch",
				"--set",
				"lanes.updates.subscriptions="+clients[0],
				"--set",
				"lanes.lists.subscriptions="+clients[1],
			))
			if u["reads"] < 10 || u["notifications"] == 0 || l["notifications"] == 0 {
				t.Errorf(
					"%v notifications and %v reads, and %v changes of the list of tools",
					u["notifications"],
					u["reads"],
					l["notifications"],
				)
			}
		})
	}
}

// fullProfile has more clients listen than the server allows.
const fullProfile = `name: full
target: {url: "%s", era: modern}
lanes:
  - name: updates
    system: updates
    mode: push
    subscriptions: 30
    attach: {onFailure: continue}
    updates: {resource: "test://items/0"}
upstream: {kind: none}
phases: {ready: 60s, measure: 1s, drain: 1s}
`

// TestTodayFull: streams that a full server refuses are counted as refused inside HTTP
// 200, and the rest stay open.
func TestTodayFull(t *testing.T) {
	t.Parallel()
	s := start(t, "sdk2.mjs", "--until-eof", "--max-subscriptions", "10")
	l := eventmeterRun(t, fmt.Sprintf(fullProfile, s.URL))
	if l.Ready.Active != 10 || l.Ready.Failed != 20 || l.Figures["refused"] != 20 || l.Figures["refusedInside200"] != 20 {
		t.Errorf(
			"%d active and %d failed; %v refused, %v of them inside HTTP 200; want 10, 20, 20 and 20",
			l.Ready.Active,
			l.Ready.Failed,
			l.Figures["refused"],
			l.Figures["refusedInside200"],
		)
	}
	if n := stats[sdkStats](s).Requests["subscriptions/listen"]; n != 30 {
		t.Errorf("the server has seen %d requests to listen, want 30", n)
	}
}
