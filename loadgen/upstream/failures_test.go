package upstream_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/upstream"
)

// explains requires that an upstream gave one reason for its failures.
func explains(t *testing.T, u upstream.Upstream, want string) {
	t.Helper()
	e, ok := u.(upstream.Explainer)
	if !ok {
		t.Errorf("%T does not say why events failed", u)
		return
	}
	if first, latest := e.Failures(); first != want || latest != want {
		t.Errorf("%T: first %q, latest %q, want %q", u, first, latest, want)
	}
}

// Each kind that sends requests says what it sent where, and what came back.
// The secrets of its URL stay out of it, even if the far side repeats them.
func TestFailuresOfRequests(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, fmt.Sprintf("\n  no such event at %s (not shh-shh)\nmore", r.URL), http.StatusNotFound)
	}))
	defer server.Close()
	const query = "?token=s3cr3t"
	withSecret := strings.Replace(server.URL, "http://", "http://me:hunter22@", 1)
	hooks := upstream.WebhookOptions{URL: withSecret + "/hook" + query, Secret: "shh-shh"}
	made := func(u upstream.Upstream, err error) upstream.Upstream {
		t.Helper()
		must(t, err)
		return u
	}
	request := func(_ int, _ uint32, probe string) (string, http.Header, []byte) {
		return withSecret + "/hook" + query, nil, []byte(probe)
	}
	text := eventmeter.Stamp{Run: 1, Seq: 1}.String()
	trace := []upstream.TraceEntry{{Event: "e", Payload: []byte(`{"text":"` + text + `"}`)}}
	at := func(method, path, secret string) string {
		return fmt.Sprintf("%s %s%s: 404 Not Found: no such event at %s (not %s)", method, server.URL, path, path, secret)
	}
	for _, c := range []struct {
		u    upstream.Upstream
		want string
	}{
		{made(upstream.NewHTTP(upstream.HTTPOptions{Method: "PUT", Request: request})), at("PUT", "/hook?token=…", "shh-shh")},
		{made(upstream.NewInject(upstream.InjectOptions{Admin: withSecret, Event: "e", Payload: payload})), at("POST", "/inject", "shh-shh")},
		{made(upstream.NewReplay(upstream.ReplayOptions{Trace: trace, URL: withSecret + "/hook" + query})),
			at("POST", "/hook?token=…", "shh-shh")},
		{made(upstream.NewGitHub(upstream.GitHubOptions{WebhookOptions: hooks})), at("POST", "/hook?token=…", "…")},
		{made(upstream.NewSlack(upstream.SlackOptions{WebhookOptions: hooks})), at("POST", "/hook?token=…", "…")},
		{made(upstream.NewStripe(upstream.StripeOptions{WebhookOptions: hooks})), at("POST", "/hook?token=…", "…")},
	} {
		if got := c.u.Fire(context.Background(), emission); got != eventmeter.Refused {
			t.Errorf("%T: %v", c.u, got)
		}
		explains(t, c.u, c.want)
		_ = c.u.Close()
	}
	slack := made(upstream.NewSlack(upstream.SlackOptions{WebhookOptions: hooks})).(*upstream.Slack)
	want := fmt.Sprintf(
		"upstream slack: url_verification at %s/hook?token=… was answered with HTTP 404 (no such event at /hook?token=… (not "+
			"…)); check the signing secret and the address",
		server.URL,
	)
	if err := slack.Prepare(context.Background()); err == nil || err.Error() != want {
		t.Errorf("prepare: %v", err)
	}
	_ = slack.Close()
}

// What came back, in each of its forms.
func TestFailuresOfAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    string // behind the URL; "" = accepted
	}{
		"accepted": {func(http.ResponseWriter, *http.Request) {}, ""},
		"no body":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) }, "502 Bad Gateway"},
		"odd code": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(499) }, "499"},
		"JSON": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "{\n \"error\": \"full\"\n}", http.StatusServiceUnavailable)
		},
			`503 Service Unavailable: {"error":"full"}`},
		"redirect": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/login?back=here")
			w.WriteHeader(302)
		}, "302 Found, Location /login?back=…"},
		"gzip": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			http.Error(w, "\x1f\x8b", 500)
		}, "500 Internal Server Error"},
		"hung up": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
		"no answer": {func(_ http.ResponseWriter, r *http.Request) {
			_,
				_ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}, "no answer within 200ms"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := newInject(t, "http://target.test", inMemory(t, c.handler))
				u.Fire(context.Background(), emission)
				want := c.want
				if want != "" {
					want = "POST http://target.test/inject: " + want
				}
				explains(t, u, want)
			})
		})
	}
	u := newInject(t, "http://127.0.0.1:1", patient)
	u.Fire(context.Background(), emission)
	explains(t, u, "POST http://127.0.0.1:1/inject: dial tcp 127.0.0.1:1: connect: connection refused")
	u2 := newHTTP(t, "ftp://me:hunter22@127.0.0.1", "", patient)
	u2.Fire(context.Background(), emission)
	explains(t, u2, `POST: "ftp://127.0.0.1/hooks/9?id=…" is not an http or https URL`)
}

// The first and the latest reason are kept.
func TestFailuresFirstAndLatest(t *testing.T) {
	status := http.StatusNotFound
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	defer server.Close()
	u := newInject(t, server.URL, patient)
	for _, status = range []int{404, 200, 409, 410, 200} {
		u.Fire(context.Background(), emission)
	}
	if first, latest := u.Failures(); !strings.HasSuffix(first, ": 404 Not Found") || !strings.HasSuffix(latest, ": 410 Gone") {
		t.Errorf("first %q, latest %q", first, latest)
	}
}

func TestFailuresOfTools(t *testing.T) {
	u, err := upstream.NewTool(upstream.ToolOptions{Arguments: payload, Call: func(context.Context, int, []byte) mcpclient.ToolAnswer {
		return mcpclient.ToolAnswer{
			Sent:     true,
			Answered: true,
			Code:     -32602,
			Failure:  "tool emit at http://127.0.0.1/mcp: tools/call: rpc -32602: no such tool",
		}
	}})
	must(t, err)
	u.Fire(context.Background(), emission)
	explains(t, u, "tool emit at http://127.0.0.1/mcp: tools/call: rpc -32602: no such tool")
}

func thisProgram(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	return self
}

func TestFailuresOfPrograms(t *testing.T) {
	for _, c := range []struct {
		how       string
		timeout   time.Duration
		emissions uint32
		want      string
	}{
		{"ack", time.Minute, 2, fmt.Sprintf(`PROGRAM said {"probe":"%s","ok":false}`, emissionOf(2, true).Stamp)},
		{"silent", 50 * time.Millisecond, 1, "PROGRAM did not acknowledge its line within 50ms"},
		{"die", time.Minute, 1, "PROGRAM ended: exit status 3: something came up"},
	} {
		e := newExec(t, c.how, upstream.ExecOptions{Ack: true, Timeout: c.timeout})
		for seq := range c.emissions {
			e.Fire(context.Background(), emissionOf(seq+1, true))
		}
		explains(t, e, strings.Replace(c.want, "PROGRAM", thisProgram(t), 1))
		_ = e.Close()
	}
}
