package interop

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/exectest"
)

// sdkStats are the counts of the servers of the two SDKs.
type sdkStats struct {
	Updates, Subscribed, Unsubscribed, Sessions, Forgotten, OpenStreams, Refused int

	Requests map[string]int
	Sent     struct{ ResourceUpdated, ResourceListChanged, ToolListChanged int }
}

const (
	modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},` +
		`"clientInfo":{"name":"x","version":"1"}}}`
	subscribe = `{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"test://items/7"}}`
	listen    = `{"jsonrpc":"2.0","id":3,"method":"subscriptions/listen",` +
		`"params":{"notifications":{"toolsListChanged":true,"resourcesListChanged":true,` +
		`"resourceSubscriptions":["test://items/7"]},` + modernMeta + `}}`
)

// exchange sends a message over HTTP and returns the open answer.
func exchange(t *testing.T, method, url, body string, headers ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	must(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// messages returns the next message of a stream, of SSE or of lines, at each call.
func messages(t *testing.T, r io.Reader) func() map[string]any {
	lines := bufio.NewReader(r)
	return func() map[string]any {
		t.Helper()
		for {
			line, err := lines.ReadString('\n')
			var m map[string]any
			if json.Unmarshal([]byte(strings.TrimPrefix(strings.TrimSpace(line), "data:")), &m) == nil {
				return m
			}
			if err != nil {
				t.Fatalf("the stream ended: %v", err)
			}
		}
	}
}

func wantMethod(t *testing.T, m map[string]any, want string) {
	t.Helper()
	if m["method"] != want {
		t.Errorf("got the message %v, want %s", m, want)
	}
}

// change changes resource 7, the tools and the resources, and reads what a
// subscriber gets.
func (s *script) change(t *testing.T, next func() map[string]any) {
	t.Helper()
	s.control("update", map[string]any{"index": 7, "text": "hello"})
	updated := next()
	wantMethod(t, updated, "notifications/resources/updated")
	if params, _ := updated["params"].(map[string]any); params["uri"] != "test://items/7" {
		t.Errorf("updated: %v, want test://items/7", params)
	}
	s.control("update", map[string]any{"index": 8}) // nobody's
	s.control("change", map[string]any{"list": "tools"})
	wantMethod(t, next(), "notifications/tools/list_changed")
	s.control("change", map[string]any{"list": "resources"})
	wantMethod(t, next(), "notifications/resources/list_changed")
}

// sent checks that the server counts what one subscriber got.
func (s *script) sentToOne(t *testing.T) {
	t.Helper()
	var got sdkStats
	until(t, "the server's counts of what it sent", func() bool {
		got = stats[sdkStats](s)
		return got.Sent.ResourceListChanged > 0
	})
	if got.Sent.ResourceUpdated != 1 || got.Sent.ToolListChanged != 1 || got.Sent.ResourceListChanged != 1 || got.Updates != 2 {
		t.Errorf("the server counts %+v, want one of each and 2 updates", got)
	}
}

// TestSDKSessions drives the servers without events by hand, over Streamable HTTP
// of 2025-11-25.
func TestSDKSessions(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"sdk1.mjs", "sdk2.mjs"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, name, "--until-eof", "--resources", "10")
			id := exchange(t, http.MethodPost, s.URL, initialize).Header.Get("Mcp-Session-Id")
			session := []string{"Mcp-Session-Id", id, "Mcp-Protocol-Version", "2025-11-25"}
			exchange(t, http.MethodPost, s.URL, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, session...)
			if m := messages(t, exchange(t, http.MethodPost, s.URL, subscribe, session...).Body)(); m["result"] == nil {
				t.Errorf("subscribe: %v", m)
			}
			next := messages(t, exchange(t, http.MethodGet, s.URL, "", session...).Body)
			s.change(t, next)
			s.sentToOne(t)

			s.control("forget", map[string]any{"sessions": 1})
			if got := exchange(t, http.MethodPost, s.URL, subscribe, session...).StatusCode; got != http.StatusNotFound {
				t.Errorf("a session that was forgotten is answered %d, want 404", got)
			}
		})
	}
}

// TestSDKListen opens a listen stream of 2026-07-28, and one more than may be open.
func TestSDKListen(t *testing.T) {
	t.Parallel()
	s := start(t, "sdk2.mjs", "--until-eof", "--max-subscriptions", "1")
	headers := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen"}
	next := messages(t, exchange(t, http.MethodPost, s.URL, listen, headers...).Body)
	wantMethod(t, next(), "notifications/subscriptions/acknowledged")
	s.change(t, next)
	s.sentToOne(t)

	refused := exchange(t, http.MethodPost, s.URL, listen, headers...)
	e, _ := messages(t, refused.Body)()["error"].(map[string]any)
	if refused.StatusCode != http.StatusOK || e["code"] != -32603.0 || e["message"] != "Subscription limit reached" {
		t.Errorf("one stream too many: HTTP %d %v", refused.StatusCode, e)
	}
}

// TestSDKPipes drives the servers over standard input and output.
func TestSDKPipes(t *testing.T) {
	t.Parallel()
	const initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	for _, c := range []struct {
		name, server string
		send         []string
	}{
		{"sdk1", "sdk1.mjs", []string{initialize, initialized, subscribe}},
		{"sdk2 legacy", "sdk2.mjs", []string{initialize, initialized, subscribe}},
		{"sdk2 modern", "sdk2.mjs", []string{listen}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, next := startPiped(t, c.server)
			for _, m := range c.send {
				if _, err := io.WriteString(s.in, m+"\n"); err != nil {
					t.Fatal(err)
				}
				if strings.Contains(m, `"id"`) {
					if m := next(); m["error"] != nil {
						t.Fatal(m)
					}
				}
			}
			s.change(t, next)
			s.sentToOne(t)
		})
	}
}

// startPiped starts a server on standard input and output. Its first line is on
// standard error.
func startPiped(t *testing.T, name string) (*script, func() map[string]any) {
	t.Helper()
	needsPackages(t)
	cmd := exectest.Command("node", filepath.Join("testdata", name), "--stdio")
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	said, says, err := os.Pipe()
	must(t, err)
	cmd.Stderr = says
	must(t, cmd.Start())
	says.Close()
	t.Cleanup(func() {
		_ = in.Close()
		_, _ = io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		said.Close()
	})
	s := &script{t: t, in: in}
	if err := json.NewDecoder(said).Decode(s); err != nil {
		t.Fatalf("%s: first line: %v", name, err)
	}
	return s, messages(t, out)
}
