package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/check"
	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/internal/embedded"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/eventmeter/eventmeter/results"
)

// checked is a check of a server at a URL, and its exit code.
func checked(t *testing.T, args ...string) (*results.Check, int) {
	t.Helper()
	stdout, stderr, code := execute(t, append([]string{"check", "--quiet", "--format=json", "--duration", "1s"}, args...)...)
	var c results.Check
	if err := json.Unmarshal([]byte(stdout), &c); err != nil {
		t.Fatalf("exit code %d, %v\n%s\n%s", code, err, stdout, stderr)
	}
	if len(c.Rows) != len(conform.Rows) {
		t.Fatalf("%d rows", len(c.Rows))
	}
	return &c, code
}

// brokenRows are the rows that a check found broken, in either part.
func brokenRows(t *testing.T, c *results.Check) (rows []string) {
	t.Helper()
	for _, row := range c.Rows {
		for _, of := range []*results.ConformanceRow{row.AtRest, row.UnderLoad} {
			if of != nil && of.Verdict == results.RowBroken {
				t.Logf("%s is broken %d of %d times: %+v", of.Row, of.Broken, of.Seen, of.First)
				rows = append(rows, of.Row)
			}
		}
	}
	slices.Sort(rows)
	return slices.Compact(rows)
}

// checkable are the options of a server whose rows can all be judged.
var checkable = embedded.Options{
	AllowPrivateCallbacks: true,
	CallbackInsecure:      true,
	Presence:              true,
	Heartbeat:             time.Second,
	RetryBase:             3 * time.Second,
	AckTimeout:            20 * time.Second,
}

// breaking are the options of such a server with faults.
func breaking(t *testing.T, text string) embedded.Options {
	t.Helper()
	o := checkable
	var err error
	if o.Faults, err = faults.Parse(text); err != nil {
		t.Fatal(err)
	}
	return o
}

// mayPass are the rows that are judged by when something comes, which a busy machine
// may miss.
var mayPass = []string{
	"delivery-dual-sign-on-rotation",
	"delivery-retry-regenerates-signature",
	"subscribe-refresh-replaces-secret",
	"delivery-status-last-error-category",
	"ssrf-reject-non-routable",
}

// TestCheckServe: the reference server holds every row that a step judges, at rest and
// under load.
func TestCheckServe(t *testing.T) {
	t.Parallel()
	ready, _ := serveTargetWith(t, checkable)
	junit := filepath.Join(t.TempDir(), "rows.xml")
	c, code := checked(t, "--target", ready.URL, "--token", "a", "--token", "b", "--upstream-url", ready.Admin,
		"--denied", `private.note {"principal": "b"}`, "--subscriptions", "120", "--format", "junit="+junit)
	if code != 0 && code != exitBottleneck {
		t.Errorf("exit code %d", code)
	}
	if broken := brokenRows(t, c); len(broken) > 0 || c.Broken+c.UnderLoad+c.Must > 0 {
		t.Errorf("broken are %v", broken)
	}
	if len(c.Stages) != 2 || c.Stages[0].Subscriptions != 65 || c.Stages[1].Subscriptions != 120 ||
		c.Stages[0].Ended+c.Stages[1].Ended != "" ||
		c.Stages[1].Rounds < 1 {
		t.Errorf("stages are %+v", c.Stages)
	}
	for i, row := range c.Rows {
		judges := func(s check.Step) bool { return slices.Contains(s.Rows, conform.ID(i)) }
		if !slices.ContainsFunc(check.Steps, judges) || slices.Contains(mayPass, row.Row) {
			continue
		}
		if row.AtRest.Verdict != results.RowHeld || row.UnderLoad.Verdict != results.RowHeld {
			t.Errorf(
				"%s is %s at rest (%s), and %s under load (%s)",
				row.Row,
				row.AtRest.Verdict,
				row.AtRest.Why,
				row.UnderLoad.Verdict,
				row.UnderLoad.Why,
			)
		}
	}
	if text, err := os.ReadFile(
		junit,
	); err != nil || !bytes.Contains(text, []byte(`<testcase classname="eventmeter.check.at rest" name="subscribe-secret-required"`)) ||
		bytes.Contains(text, []byte("<failure")) {
		t.Errorf("%v\n%s", err, text)
	}
}

// mended is a server in front of another, which answers calls in its own way where
// answer returns something.
func mended(t *testing.T, target string, answer func(method string, params map[string]json.RawMessage) (result string)) string {
	t.Helper()
	u, err := url.Parse(target)
	must(t, err)
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: u.Scheme, Host: u.Host})
	}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m struct {
			ID     json.RawMessage
			Method string
			Params map[string]json.RawMessage
		}
		_ = json.Unmarshal(body, &m)
		if of := answer(m.Method, m.Params); of != "" {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,`+of+`}`)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL + u.Path
}

// TestCheckFinds: what a server does wrong on purpose is broken, and nothing else; what
// it does wrong with many subscriptions alone is held at rest.
func TestCheckFinds(t *testing.T) {
	t.Parallel()
	ready, _ := serveTargetWith(t, checkable)
	var subscribed atomic.Int64
	wrong := mended(t, ready.URL, func(method string, params map[string]json.RawMessage) string {
		var delivery struct{ URL, Secret string }
		_ = json.Unmarshal(params["delivery"], &delivery)
		name := string(params["name"])
		if method == "events/subscribe" && !strings.Contains(delivery.URL, "/h/check-") {
			subscribed.Add(1)
		}
		switch {
		case method == "events/poll" && strings.Contains(string(params["cursor"]), "eventmeter-stale") &&
			subscribed.Load() > 40: // 20 at rest, 30 more under load
			return `"error":{"code":-32603,"message":"busy"}`
		case method == "events/poll" && strings.Contains(name, "does-not-exist"):
			return `"error":{"code":-32603,"message":"no such event"}`
		case method == "events/subscribe" && strings.HasPrefix(delivery.URL, "http:"):
			return `"error":{"code":-32015,"message":"CallbackEndpointError","data":{"reason":"connection_refused"}}`
		case method == "events/subscribe" && delivery.Secret == "not-a-secret":
			return `"result":{"id":"sub_1","refreshBefore":"2100-01-01T00:00:00Z","cursor":null,"truncated":false}`
		case method == "events/subscribe" && string(params["ttlMs"]) == "0":
			return `"error":{"code":-32602,"message":"ttlMs is too small"}`
		}
		return ""
	})
	c, code := checked(t, "--target", wrong, "--token", "a", "--upstream-url", ready.Admin, "--subscriptions", "120")
	want := []string{
		"error-invalid-params",
		"removal-poll-not-found",
		"subscribe-secret-format",
		"subscribe-secret-rejected",
		"subscribe-url-non-https-rejected",
		"truncated-poll-never-an-error",
		"ttl-no-rejection-path",
	}
	if broken := brokenRows(t, c); !slices.Equal(broken, want) || c.Broken != len(want)-1 || c.UnderLoad != 1 || c.Must != 3 ||
		c.Rows[conform.TruncatedPollNeverAnError].Finding != results.RowBrokenUnderLoad {
		t.Errorf("broken are %v, want %v: %d, %d under load, %d must", broken, want, c.Broken, c.UnderLoad, c.Must)
	}
	if code != exitThreshold {
		t.Errorf("exit code %d", code)
	}
}

// TestCheckWithoutEvents: what a server without events shows is judged alone.
func TestCheckWithoutEvents(t *testing.T) {
	t.Parallel()
	tools := answersOnly(t, map[string]string{
		"server/discover": `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}`,
		"tools/list":      `{"tools":[]}`,
	})
	c, code := checked(t, "--target", tools)
	if code != 0 || c.Held != 1 || c.Broken != 0 || c.Rows[conform.FallbackMethodNotFound].Finding != results.RowHeld {
		t.Errorf("exit code %d, %d held, %d broken", code, c.Held, c.Broken)
	}
}

// TestCheckBadInput: one line says what is wrong.
func TestCheckBadInput(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"--limit 5s: want 1m to 1h":                {"--limit", "5s"},
		"--subscriptions 0: want 1":                {"--subscriptions", "0"},
		"--rate fast: want a rate":                 {"--rate", "fast"},
		"--duration 4m0s: want 1s":                 {"--duration", "4m"},
		"--event is for a server":                  {"--event", "x"},
		"--arguments [1]: want a JSON object":      {"--target", "http://127.0.0.1:1/mcp", "--event", "x", "--arguments", "[1]"},
		"--arguments does nothing without --event": {"--arguments", "{}"},
		"--denied 7: want a JSON object":           {"--denied", "x 7"},
		"a check is for lanes of the system":       {"--profile", "mixed"},
		"is not this machine":                      {"--target", "http://192.0.2.1/mcp", "--event", "x"},
	} {
		stdout, stderr, code := execute(t, append([]string{"check"}, args...)...)
		if code != exitUsage || !strings.Contains(stderr, want) || strings.Count(strings.TrimSpace(stderr), "\n") > 0 || stdout != "" {
			t.Errorf("%v: exit code %d, %q on standard error, want %q", args, code, stderr, want)
		}
	}
}

// TestCheckPlanted: of a server that breaks several rows, each in messages of its own,
// these are broken, and no other but those that follow from them.
func TestCheckPlanted(t *testing.T) {
	t.Parallel()
	planted := []string{
		"max-age-ms-floor",
		"occurrence-event-id",
		"ssrf-validate-callback-url",
		"subscribe-id-not-an-input",
		"subscribe-url-https-required",
		"truncated-returns-fresh-cursor",
		"ttl-null-only-when-requested",
		"verification-no-raw-endpoint-responses",
		"verification-uses-ssrf-hardened-path",
	}
	ready, _ := serveTargetWith(t, breaking(t, "break(row="+strings.Join(planted, "); break(row=")+"); refuse(code=-32025, every=5)"))
	c, _ := checked(t, "--target", ready.URL, "--token", "token-of-the-check", "--upstream-url", ready.Admin, "--subscriptions", "80")
	for _, row := range c.Rows { // a step whose call is refused for now asks again
		for _, of := range []*results.ConformanceRow{row.AtRest, row.UnderLoad} {
			if of != nil && strings.Contains(of.Why, "no room") {
				t.Errorf("%s is not judged: %s", of.Row, of.Why)
			}
		}
	}
	want := append(slices.Clone(planted), "cursor-consistency", "error-invalid-params", "subscribe-url-non-https-rejected")
	slices.Sort(want)
	got := brokenRows(t, c)
	if !slices.Contains(got, "cursor-consistency") { // only if a lane was given a cursor before
		want = slices.DeleteFunc(want, func(row string) bool { return row == "cursor-consistency" })
	}
	if !slices.Equal(got, want) {
		t.Errorf("broken are %v, want %v", got, want)
	}
}

// TestCheckOfABrokenList: what a server breaks before a subscription is open is a row,
// and no error alone.
func TestCheckOfABrokenList(t *testing.T) {
	t.Parallel()
	for row, mustEnd := range map[string]string{
		"list-implemented": "events/list: malformed", "descriptor-name": "does not offer the event",
		"stream-implemented": "answered without a stream",
	} {
		ready, _ := serveTargetWith(t, breaking(t, "break(row="+row+")"))
		c, code := checked(
			t,
			"--target",
			ready.URL,
			"--token",
			"token-of-the-check",
			"--upstream-url",
			ready.Admin,
			"--subscriptions",
			"80",
		)
		if got := brokenRows(t, c); !slices.Equal(got, []string{row}) || !strings.Contains(c.Stages[0].Ended, mustEnd) || code == 0 {
			t.Errorf("%s: broken are %v, the stages %+v, exit code %d", row, got, c.Stages, code)
		}
	}
}
