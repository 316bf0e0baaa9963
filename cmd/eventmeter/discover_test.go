package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/embedded"
	"github.com/eventmeter/eventmeter/internal/refserver"
)

func TestDiscoverEverySystem(t *testing.T) {
	t.Parallel()
	ready, _ := serveTargetWith(t, embedded.Options{Lists: refserver.ListOptions{Entries: 60, TTL: 2 * time.Second, Private: true}})
	stdout, stderr, code := execute(t, "discover", "--target", ready.URL, "--token", "x")
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	for _, want := range []string{
		"smithery      4 triggers\n", "\nsmithery: chat.message  webhook\n",
		"sep-1803      6 event resources\n", "\nsep-1803: event://chat.message/{channel}  push, webhook\n",
		"sep-975       knows requests/getStatus", "tools/list: 50 entries on the first page, 2s to live, private\n",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is missing in\n%s", want, stdout)
		}
	}
	stdout, _, _ = execute(t, "discover", "--target", ready.URL, "--token", "x", "--format=json")
	var o struct {
		Events []struct{ Name string }
		Others []struct {
			System string
			Events []struct{ Name string }
		}
		Abilities struct {
			Resumable bool
			Lists     []struct{ Method string }
		}
	}
	if err := json.Unmarshal(
		[]byte(stdout),
		&o,
	); err != nil || len(o.Events) != 4 || len(o.Others) != 2 || o.Others[0].System != "smithery" ||
		len(o.Others[0].Events) != 4 || o.Others[1].System != "sep-1803" || len(o.Others[1].Events) != 6 ||
		!o.Abilities.Resumable ||
		len(o.Abilities.Lists) != 4 {
		t.Errorf("%v: %+v", err, o)
	}
}

// answersOnly is a server of the modern era that knows those methods.
func answersOnly(t *testing.T, results map[string]string) string {
	return answersElse(t, results, 0)
}

// answersElse is the same, which answers other methods with a bare status; 0 =
// with the error of JSON-RPC.
func answersElse(t *testing.T, results map[string]string, status int) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.NewDecoder(r.Body).Decode(&m)
		w.Header().Set("Content-Type", "application/json")
		if result := results[m.Method]; result != "" {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
			return
		}
		if status != 0 {
			w.Header().Set("Content-Type", "text/plain")
			http.Error(w, "no", status)
			return
		}
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, m.ID)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// A server that has one system only is described by that one; the others are
// not invented.
func TestDiscoverOneSystem(t *testing.T) {
	t.Parallel()
	const who = `{"supportedVersions":["2026-07-28"],"capabilities":{"extensions":{"ai.smithery/events":{}}},` +
		`"serverInfo":{"name":"one","version":"1"}}`
	one := answersOnly(
		t,
		map[string]string{"server/discover": who, "ai.smithery/events/list": `{"events":[{"name":"build.done","delivery":["webhook"]}]}`},
	)
	stdout, stderr, code := execute(t, "discover", "--target", one)
	if code != 0 || !strings.Contains(stdout, "smithery: build.done  webhook\n") || strings.Contains(stdout, "sep-") {
		t.Fatalf("exit code %d\n%s\n%s", code, stderr, stdout)
	}
	_, yaml, _ := strings.Cut(stdout, "--write FILE writes it\n")
	file := filepath.Join(t.TempDir(), "first.yaml")
	must(t, os.WriteFile(file, []byte(yaml), 0o600))
	if out, stderr, code := execute(t, "profiles", "check", file); code != 0 || !strings.Contains(yaml, "system: smithery") {
		t.Errorf("exit code %d: %s%s\n%s", code, out, stderr, yaml)
	}
	none := answersOnly(t, map[string]string{"server/discover": who})
	if _, stderr, code := execute(t, "discover", "--target", none); code != exitTarget || !strings.Contains(stderr, "events/list") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
}

// TestDiscoverListsOnly meets servers that have no events at all, and answer
// events/list in three ways. What they have is described, and the profile that
// is printed runs.
func TestDiscoverListsOnly(t *testing.T) {
	t.Parallel()
	const who = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"resources":{}},` +
		`"serverInfo":{"name":"lists","version":"1"}}`
	for _, c := range []struct {
		name, method, result, list string
		status                     int
	}{
		{"tools, error", "tools/list", `{"tools":[{"name":"a","inputSchema":{"type":"object"}}],"ttlMs":500,"cacheScope":"public"}`, "tools", 0},
		{"tools, bare 400", "tools/list", `{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}`, "tools", http.StatusBadRequest},
		{"resources, bare 404", "resources/list", `{"resources":[{"uri":"file:///a","name":"a"}]}`, "resources", http.StatusNotFound},
		{"templates, bare 405", "resources/templates/list",
			`{"resourceTemplates":[{"uriTemplate":"file:///{a}","name":"a"}]}`, "templates", http.StatusMethodNotAllowed},
	} {
		t.Run(c.name, func(t *testing.T) {
			url := answersElse(t, map[string]string{"server/discover": who, c.method: c.result}, c.status)
			stdout, stderr, code := execute(t, "discover", "--target", url)
			if code != 0 || !strings.Contains(stdout, c.method+": 1 entry") {
				t.Fatalf("exit code %d\n%s\n%s", code, stderr, stdout)
			}
			_, yaml, _ := strings.Cut(stdout, "--write FILE writes it\n")
			if !strings.Contains(yaml, "list: "+c.list) {
				t.Errorf("no lane uses %s:\n%s", c.list, stdout)
			}
			file := filepath.Join(t.TempDir(), "first.yaml")
			must(t, os.WriteFile(file, []byte(yaml), 0o600))
			dir := filepath.Join(t.TempDir(), "out")
			out, stderr, code := execute(
				t,
				"run",
				"--profile",
				file,
				"--set",
				"phases.warmup=0",
				"--set",
				"phases.measure=1s",
				"--set",
				"phases.drain=1s",
				"--out",
				dir,
				"--quiet",
			)
			if code != 0 && code != exitBottleneck {
				t.Fatalf("exit code %d\n%s\n%s", code, stderr, out)
			}
			r := loaded(t, dir)
			if l := r.Lanes[0]; r.Target.Protocol != "2026-07-28" || l.Figures["fetches"] == 0 || l.Figures["fetchesFailed"] != 0 {
				t.Errorf("%+v, figures %v", r.Target, l.Figures)
			}
			// A lane of events needs the list.
			_, stderr, code = execute(
				t,
				"run",
				"--profile",
				file,
				"--set",
				"lanes=[{name: e, mode: poll, subscriptions: 1, event: x}]",
				"--set",
				"phases.warmup=0",
				"--set",
				"phases.measure=1s",
				"--quiet",
				"--out",
				dir+"-events",
			)
			if want := fmt.Sprintf(
				"events/list: http %d",
				c.status,
			); code != exitTarget ||
				c.status != 0 && c.status != http.StatusNotFound && !strings.Contains(stderr, want) {
				t.Errorf("exit code %d, want %q\n%s", code, want, stderr)
			}
		})
	}
}

// TestDiscoverPicksEvent requires that the profile is for the type that is
// named, or for the first by name, whatever the order of the server's list.
func TestDiscoverPicksEvent(t *testing.T) {
	t.Parallel()
	const who = `{"supportedVersions":["2026-07-28"],"capabilities":{"events":{}},"serverInfo":{"name":"one","version":"1"}}`
	url := answersOnly(
		t,
		map[string]string{
			"server/discover": who,
			"events/list": `{"events":[{"name":"zebra","delivery":["poll"]},{"name":"ant","delivery":["poll"]},{"name":"bee",` +
				`"delivery":["push"]}]}`,
		},
	)
	for _, c := range []struct {
		args []string
		want string
	}{{nil, "event: ant\n"}, {[]string{"--event", "bee"}, "event: bee\n"}, {[]string{"--event", "zebra"}, "event: zebra\n"}} {
		stdout, stderr, code := execute(t, append([]string{"discover", "--target", url}, c.args...)...)
		if code != 0 || !strings.Contains(strings.ReplaceAll(stdout, `"`, ""), c.want) {
			t.Errorf("%q: exit code %d, %q is missing\n%s%s", c.args, code, c.want, stderr, stdout)
		}
	}
	_, stderr, code := execute(t, "discover", "--target", url, "--event", "cow")
	if code != exitTarget || !strings.Contains(stderr, `no event type "cow"`) || !strings.Contains(stderr, "ant, bee, zebra") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
}

// TestDiscoverCleans: what a server writes cannot reach the terminal or a profile as control
// characters or as another direction of text, however JSON spells it.
func TestDiscoverCleans(t *testing.T) {
	t.Parallel()
	const who = `{"supportedVersions":["2026-07-28"],"capabilities":{"events":{"a\u009b1m":"b\u202e"}},` +
		`"serverInfo":{"name":"one\u009b31m","version":"1\u202e"}}`
	url := answersOnly(t, map[string]string{
		"server/discover": who,
		"events/list": `{"events":[{"name":"e\u202ef","description":"d\u009b31m","delivery":["poll"],` +
			`"inputSchema":{"required":["k\u202e"],"properties":{"k\u202e":{"type":"string","enum":["v\u009b31m\u202e\u2066"]}}},` +
			`"payloadSchema":{"required":["p\u202e"],"properties":{"p\u202e":{"type":"string","const":"c\u009b\u200f"}}}}]}`,
	})
	file := filepath.Join(t.TempDir(), "mine.yaml")
	var all string
	for _, more := range [][]string{nil, {"--format", "json"}, {"--write", file}} {
		stdout, stderr, code := execute(t, append([]string{"discover", "--target", url, "--publish-with", url}, more...)...)
		if code != exitTarget || !strings.Contains(stderr, "one event was tried") {
			t.Fatalf("exit code %d\n%s", code, stderr)
		}
		all += stdout + stderr
	}
	text := readFile(t, file)
	all += string(text)
	for _, bad := range []string{"\u009b", "\u202e", "\u2066", "\u200f"} {
		for _, spelled := range []string{bad, strings.Trim(strconv.QuoteToASCII(bad), `"`)} {
			if strings.Contains(all, spelled) {
				at := strings.Index(all, spelled)
				t.Errorf("%+q is in %+q", spelled, all[max(0, at-60):at+len(spelled)])
			}
		}
	}
}

// TestDiscoverListsOverStdio requires that lists and abilities are asked for
// over standard input and output, too.
func TestDiscoverListsOverStdio(t *testing.T) {
	t.Parallel()
	stdout, stderr, code := execute(t, "discover", "--command", overStdio(t)+` --options '{"Lists": {"Entries": 3}}'`)
	for _, want := range []string{"tools/list: 3 entries", "resources/list: "} {
		if code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("exit code %d, %q is missing\n%s\n%s", code, want, stderr, stdout)
		}
	}
}

// TestLegacyTargetIsAskedOnce requires that a server of the legacy era which
// refuses server/discover is asked for it once by each process, and that the
// result names the fallback and no failed call.
func TestLegacyTargetIsAskedOnce(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	var sessions atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.NewDecoder(r.Body).Decode(&m)
		result := map[string]string{
			"initialize":  `{"protocolVersion":"2025-06-18","capabilities":{"events":{}},"serverInfo":{"name":"old","version":"1"}}`,
			"events/list": `{"events":[{"name":"e","delivery":["poll"]}]}`,
			"events/poll": `{"events":[],"cursor":"c","truncated":false,"hasMore":false,"nextPollMs":500}`,
		}[m.Method]
		switch {
		case m.Method == "server/discover":
			asked.Add(1)
			http.Error(w, "no session", http.StatusBadRequest)
			return
		case result == "":
			w.WriteHeader(http.StatusAccepted)
			return
		case m.Method == "initialize":
			w.Header().Set("Mcp-Session-Id", fmt.Sprint("s", sessions.Add(1)))
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}))
	defer s.Close()
	var tokens []string
	for i := range 20 {
		tokens = append(tokens, fmt.Sprint("t", i))
	}
	profile := filepath.Join(t.TempDir(), "old.yaml")
	text := fmt.Sprintf(`name: old
target: {url: %q, tokens: [%s]}
lanes:
  - {name: a, mode: poll, subscriptions: 20, event: e}
  - {name: b, mode: poll, subscriptions: 20, event: e}
upstream: {kind: none}
phases: {warmup: 0, measure: 1s, drain: 1s}
`, s.URL, strings.Join(tokens, ", "))
	must(t, os.WriteFile(profile, []byte(text), 0o600))
	for _, c := range []struct {
		args  []string
		asked int64
	}{{nil, 1}, {[]string{"--processes", "2"}, 2}} {
		asked.Store(0)
		sessions.Store(0)
		dir := filepath.Join(t.TempDir(), "out")
		stdout, stderr, code := execute(t, append([]string{"run", "--profile", profile, "--full", "--out", dir}, c.args...)...)
		if code != 0 && code != exitBottleneck {
			t.Fatalf("%q: exit code %d\n%s\n%s", c.args, code, stderr, stdout)
		}
		r := loaded(t, dir)
		if n := asked.Load(); n != c.asked {
			t.Errorf("%q: server/discover was asked %d times, want %d", c.args, n, c.asked)
		}
		if n := sessions.Load(); n < 20 {
			t.Errorf("%q: %d sessions", c.args, n)
		}
		const why = "server/discover: http 400"
		if r.Target.Era != "legacy" || r.Target.Fallback != why || !strings.Contains(stdout, "fallback after "+why) {
			t.Errorf("%q: target %+v\n%s", c.args, r.Target, stdout)
		}
		if strings.Contains(stdout, "failed") {
			t.Errorf("%q: something failed:\n%s", c.args, stdout)
		}
		for _, l := range r.Lanes {
			if len(l.Failures) > 0 {
				t.Errorf("%q: lane %s: failed calls %v", c.args, l.Name, l.Failures)
			}
		}
	}
	stdout, stderr, code := execute(t, "discover", "--target", s.URL)
	if code != 0 || !strings.Contains(stdout, "legacy 2025-06-18 (fallback after server/discover: http 400)") {
		t.Errorf("exit code %d\n%s\n%s", code, stderr, stdout)
	}
}
