package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/eventmeter/eventmeter/internal/exectest"
)

// handlerStats are the counts of handler.mjs.
type handlerStats struct {
	Published, Subscribed, Refreshed, Removed, Refused, Expired, Rotated, Live int64
	Verifications, Verified, Attempts, Delivered, Abandoned, Queued            int64

	Failed, Forged, Requests map[string]int64
}

// handlerProfile is a run against handler.mjs: URL, control, certificate, key and
// settings of the webhooks.
const handlerProfile = `name: interop
target: {url: "%s", tokens: [principal-one, principal-two]}
lanes:
  - name: webhook
    mode: webhook
    subscriptions: 15
    event: chat.message
    arguments: {channel: "channel-{{mod .Index 5}}"}
    sources: "{{mod .Index 5}}"
    webhook: {certFile: "%s", keyFile: "%s", %s}
upstream:
  kind: http
  sources: 5
  http: {url: "%s/publish"}
  payload: {name: chat.message, data: {channel: "channel-{{.Source}}", text: "{{.Probe}}"}}
schedule: {kind: constant, rate: 20/s}
phases: {ready: 60s, warmup: 500ms, measure: 3s, drain: 30s}
`

// laneResult holds the checked part of a lane's result.
type laneResult struct {
	Name     string
	Ready    struct{ Active, Failed int64 }
	Expected int64
	Overhead struct {
		Causes map[string]struct{ Requests int64 }
	}
	Figures map[string]float64
	Detail  struct {
		Rejected, Malformed, Terminated int64
		RejectedBy                      map[string]int64
	}
	Delivered, LostSilent int64
	Duplicates            struct{ Count int64 }
}

// program is the built command.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "interop-*")
	if err != nil {
		return "", err
	}
	programDir = dir
	path := filepath.Join(dir, "eventmeter")
	return path, exectest.Build(path, "github.com/eventmeter/eventmeter/cmd/eventmeter")
})

var programDir string

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == goPiped {
		if err := newGoTools().mcp.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if programDir != "" {
		_ = os.RemoveAll(programDir)
	}
	os.Exit(code)
}

// eventmeterRun runs the built program with a profile and returns its only lane.
func eventmeterRun(t *testing.T, profile string) laneResult {
	t.Helper()
	file := filepath.Join(t.TempDir(), "interop.yaml")
	must(t, os.WriteFile(file, []byte(profile), 0o600))
	lanes := runProgram(t, "--profile", file)
	if len(lanes) != 1 {
		t.Fatalf("%d lanes: %+v", len(lanes), lanes)
	}
	return lanes[0]
}

// runProgram runs the built program and returns the lanes of the result.
func runProgram(t *testing.T, args ...string) []laneResult {
	t.Helper()
	path, err := program()
	must(t, err)
	out := filepath.Join(t.TempDir(), "out")
	cmd := exectest.CommandContext(t.Context(), path, append([]string{"run", "--out", out, "--plain"}, args...)...)
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	err = cmd.Run()
	// A busy machine makes the generator the bottleneck (4), which changes no count.
	var exit *exec.ExitError
	if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 4) {
		t.Fatalf("%v\n%s", err, text.String())
	}
	var result struct{ Lanes []laneResult }
	if err := readJSON(filepath.Join(out, "result.json"), &result); err != nil {
		t.Fatalf("%v\n%s", err, text.String())
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(text.String())
		}
	})
	return result.Lanes
}

// TestHandlerCounts runs webhook lanes against mcp-handler and compares each of our
// counts with the server's own.
func TestHandlerCounts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, webhook string
		args          []string
		wants         string // what the case is about: a count of the server that must not be 0
	}{
		{"plain", "ttl: default", nil, "delivered"},
		{"refused", "ttl: default", []string{"--refuse-every", "4"}, "refused"},
		{"rotated", "ttl: 4s, refreshAt: 0.4, rotateEvery: 1", []string{"--ttl", "4000"}, "rotated"},
		{"forged", "ttl: default", []string{"--forge-every", "10"}, "forged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cert, key := certificate(t)
			s := start(t, "handler.mjs", append(c.args, "--ca", cert, "--until-eof")...)
			lane := eventmeterRun(t, fmt.Sprintf(handlerProfile, s.URL, cert, key, c.webhook, s.Control))
			var server handlerStats
			until(t, "the outcome of every attempt", func() bool {
				server = stats[handlerStats](s)
				left := server.Attempts - server.Delivered
				for _, n := range server.Failed {
					left -= n
				}
				return left == 0
			})
			compare(t, lane, server)
			about := map[string]int64{
				"delivered": server.Delivered,
				"refused":   server.Refused,
				"rotated":   server.Rotated,
				"forged":    server.Forged["401"],
			}
			if about[c.wants] == 0 {
				t.Errorf("the server counts no %s: %+v", c.wants, server)
			}
		})
	}
}

// compare compares the counts of a lane with those of the server. They hold however
// slow the machine is.
func compare(t *testing.T, lane laneResult, server handlerStats) {
	t.Helper()
	sent := func(cause string) int64 { return lane.Overhead.Causes[cause].Requests }
	var forged, failed int64
	for _, n := range server.Forged {
		forged += n
	}
	for outcome, n := range server.Failed {
		failed += n
		if outcome != "401" { // a signature of the secret before the last, where a message took long
			t.Errorf("%d deliveries failed with %s", n, outcome)
		}
	}
	for _, c := range []struct {
		what         string
		ours, theirs int64
	}{
		{"subscriptions", lane.Ready.Active, server.Subscribed - server.Expired},
		{"subscriptions ended", sent("unsubscribe"), server.Removed},
		{"calls of events/subscribe", sent("subscribe") + sent("refresh") + sent("retry"), server.Requests["events/subscribe"]},
		{"refusals", sent("retry"), server.Refused},
		{"refreshes", sent("refresh"), server.Refreshed + server.Expired},
		{"changes of secrets", int64(lane.Figures["rotations"]), server.Rotated},
		{"challenges", sent("verification"), server.Verifications},
		{"challenges answered", sent("verification"), server.Verified},
		{"posts of events", sent("events"), server.Attempts + forged},
		{"posts of events accepted", sent("events") - lane.Detail.Rejected, server.Delivered},
		{"posts of events refused", lane.Detail.Rejected, server.Forged["401"] + failed},
		{"forgeries refused", forged, server.Forged["401"]},
		{"events expected and delivered", lane.Expected, lane.Delivered},
		{"copies", lane.Duplicates.Count, 0},
		{"events given up", 0, server.Abandoned},
		{"subscriptions at the end", 0, server.Live},
	} {
		if c.ours != c.theirs {
			t.Errorf("%s: %d here, %d there", c.what, c.ours, c.theirs)
		}
	}
	if lane.Ready.Active != 15 || lane.Expected == 0 || lane.Detail.Malformed != 0 || lane.Detail.Terminated != 0 {
		t.Errorf("the lane: %+v", lane)
	}
	if t.Failed() {
		text, _ := json.Marshal(server)
		t.Logf("lane %+v\nserver %s", lane, strings.TrimSpace(string(text)))
	}
}
