package upstream_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/upstream"
)

var (
	_ upstream.Recorded = (*upstream.GitHub)(nil)
	_ upstream.Recorded = (*upstream.Slack)(nil)
	_ upstream.Preparer = (*upstream.Slack)(nil)
	_ upstream.Recorded = (*upstream.Stripe)(nil)
)

// hexMAC is an HMAC in hexadecimal, made here and not by the code under test.
func hexMAC(secret, text string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}

// arrived is one request that reached the test's server.
type arrived struct {
	header http.Header
	body   string
}

// product is a server that takes webhooks.
type product struct {
	*httptest.Server
	mu     sync.Mutex
	got    []arrived
	answer func(w http.ResponseWriter, body []byte)
}

func newProduct(t *testing.T) *product {
	p := &product{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		p.mu.Lock()
		p.got = append(p.got, arrived{r.Header.Clone(), string(body)})
		answer := p.answer
		p.mu.Unlock()
		if answer != nil {
			answer(w, body)
		}
	}))
	t.Cleanup(p.Close)
	return p
}

func at(unix int64) func() time.Time { return func() time.Time { return time.Unix(unix, 0) } }

func fired(t *testing.T, u upstream.Upstream, want eventmeter.Outcome, s upstream.Emission) {
	t.Helper()
	t.Cleanup(func() { _ = u.Close() })
	if got := u.Fire(context.Background(), s); got != want {
		t.Fatalf("%v, want %v", got, want)
	}
}

// probes counts the probe ids in a text.
func probes(body string) int { return strings.Count(body, emission.Stamp.String()) }

// TestSignatureVectors checks our checks: published examples of GitHub's and
// Slack's documentation, and one of Stripe's scheme made with openssl.
func TestSignatureVectors(t *testing.T) {
	for name, c := range map[string]struct{ secret, text, want string }{
		"github": {"It's a Secret to Everybody", "Hello, World!", "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"},
		"slack": {"8f742231b10e8888abcd99yyyzzz85a5", "v0:1531420618:token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&" +
			"channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&" +
			"command=%2Fwebhook-collect&text=&" +
			"response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&" +
			"trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c",
			"a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"},
		"stripe": {"whsec_test_secret", `1492774577.{"id":"evt_1"}`, "799c4ba7bb339f3c8601adfd112f0e477c930a268be1243d341abb8286501c2f"},
	} {
		if got := hexMAC(c.secret, c.text); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestGitHubPush(t *testing.T) {
	p := newProduct(t)
	g, err := upstream.NewGitHub(
		upstream.GitHubOptions{WebhookOptions: upstream.WebhookOptions{URL: p.URL, Secret: "hush", Now: at(1_700_000_000)}},
	)
	must(t, err)
	fired(t, g, eventmeter.Accepted, emission)
	got := p.got[0]
	mac := hmac.New(sha1.New, []byte("hush"))
	mac.Write([]byte(got.body))
	for name, want := range map[string]string{
		"X-GitHub-Event":                         "push",
		"X-Hub-Signature-256":                    "sha256=" + hexMAC("hush", got.body),
		"X-Hub-Signature":                        "sha1=" + hex.EncodeToString(mac.Sum(nil)),
		"Content-Type":                           "application/json",
		"X-GitHub-Hook-Installation-Target-Type": "repository",
		"X-GitHub-Hook-Installation-Target-ID":   "700000003",
	} {
		if g := got.header.Get(name); g != want {
			t.Errorf("%s: %q, want %q", name, g, want)
		}
	}
	if ua := got.header.Get("User-Agent"); !strings.HasPrefix(ua, "GitHub-Hookshot/") {
		t.Errorf("User-Agent %q", ua)
	}
	if d := got.header.Get(
		"X-GitHub-Delivery",
	); !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).
		MatchString(d) {
		t.Errorf("X-GitHub-Delivery %q", d)
	}
	var push struct {
		Ref, Before, After string
		Repository         struct {
			FullName string `json:"full_name"`
			ID       int
		}
		Commits []struct{ ID, Message, Timestamp string }
		Head    struct{ ID, Message string } `json:"head_commit"`
		Pusher  struct{ Name string }
	}
	must(t, json.Unmarshal([]byte(got.body), &push))
	sha := regexp.MustCompile(`^[0-9a-f]{40}$`)
	if push.Ref != "refs/heads/main" || !sha.MatchString(push.Before) || !sha.MatchString(push.After) || push.Before == push.After ||
		push.Repository.FullName != "eventmeter/service-3" || push.Repository.ID != 700_000_003 || len(push.Commits) != 1 ||
		push.Commits[0].ID != push.After || push.Head.ID != push.After ||
		push.Commits[0].Timestamp != "2023-11-14T22:13:20Z" || push.Pusher.Name == "" {
		t.Errorf("%+v", push)
	}
	if want := "Retry deliveries that time out, step 9 (" + emission.Stamp.String() + ")"; push.Head.Message != want ||
		push.Commits[0].Message != want {
		t.Errorf("message %q", push.Head.Message)
	}
	if n := probes(got.body); n != 2 { // as in reality, the head commit is among the commits too
		t.Errorf("the probe stands in it %d times", n)
	}
	// The next push begins where this one ended.
	next := emission
	next.Seq++
	fired(t, g, eventmeter.Accepted, next)
	if !strings.Contains(p.got[1].body, `"before":"`+push.After+`"`) ||
		p.got[1].header.Get("X-GitHub-Delivery") == got.header.Get("X-GitHub-Delivery") {
		t.Error("the second push does not follow the first, or has its delivery id")
	}
}

func TestGitHubIssuesUnsigned(t *testing.T) {
	p := newProduct(t)
	g, err := upstream.NewGitHub(
		upstream.GitHubOptions{
			Event:      "issues",
			Repository: func(s int) string { return fmt.Sprintf("acme/r%d", s) },
			WebhookOptions: upstream.WebhookOptions{
				URL: p.URL, Text: func(_ int, _ uint32, probe string) string { return "broken <" + probe + ">" },
			},
		},
	)
	must(t, err)
	fired(t, g, eventmeter.Accepted, emission)
	got := p.got[0]
	if got.header.Get("X-GitHub-Event") != "issues" || got.header.Get("X-Hub-Signature-256") != "" ||
		got.header.Get("X-Hub-Signature") != "" {
		t.Errorf("%v", got.header)
	}
	var issue struct {
		Action string
		Issue  struct {
			Number int
			Title  string
			State  string
			URL    string `json:"html_url"`
		}
	}
	must(t, json.Unmarshal([]byte(got.body), &issue))
	if issue.Action != "opened" || issue.Issue.Number != 9 || issue.Issue.State != "open" ||
		issue.Issue.URL != "https://github.com/acme/r3/issues/9" ||
		issue.Issue.Title != "broken <"+emission.Stamp.String()+">" ||
		probes(got.body) != 1 {
		t.Errorf("%+v", issue)
	}
}

func TestSlack(t *testing.T) {
	p := newProduct(t)
	const secret = "8f742231b10e8888abcd99yyyzzz85a5"
	s, err := upstream.NewSlack(
		upstream.SlackOptions{WebhookOptions: upstream.WebhookOptions{URL: p.URL, Secret: secret, Now: at(1531420618)}},
	)
	must(t, err)
	p.answer = func(w http.ResponseWriter, body []byte) {
		var m struct{ Type, Challenge string }
		_ = json.Unmarshal(body, &m)
		if m.Type == "url_verification" {
			fmt.Fprint(w, m.Challenge)
		}
	}
	must(t, s.Prepare(context.Background()))
	fired(t, s, eventmeter.Accepted, emission)
	for i, got := range p.got {
		if got.header.Get("X-Slack-Request-Timestamp") != "1531420618" ||
			got.header.Get("X-Slack-Signature") != "v0="+hexMAC(secret, "v0:1531420618:"+got.body) ||
			got.header.Get("Content-Type") != "application/json" ||
			got.header.Get("X-Slack-Retry-Num") != "" {
			t.Errorf("request %d: %v", i, got.header)
		}
	}
	var handshake map[string]string
	if err := json.Unmarshal(
		[]byte(p.got[0].body),
		&handshake,
	); err != nil || handshake["type"] != "url_verification" || len(handshake["challenge"]) < 20 || handshake["token"] == "" ||
		len(handshake) != 3 {
		t.Errorf("%v, %v", handshake, err)
	}
	var m struct {
		Type    string
		EventID string `json:"event_id"`
		Time    int64  `json:"event_time"`
		Team    string `json:"team_id"`
		Event   struct {
			Type, Channel, Text, TS, User string
			EventTS                       string `json:"event_ts"`
		}
	}
	must(t, json.Unmarshal([]byte(p.got[1].body), &m))
	if m.Type != "event_callback" || !regexp.MustCompile(`^Ev[0-9A-F]{9}$`).MatchString(m.EventID) || m.Time != 1531420618 || m.Team == "" ||
		m.Event.Type != "message" || m.Event.Channel != "C0000000003" || m.Event.TS != "1531420618.000009" ||
		m.Event.EventTS != m.Event.TS ||
		m.Event.User == "" ||
		m.Event.Text != "deploy 9 is through, see "+emission.Stamp.String() ||
		probes(p.got[1].body) != 1 {
		t.Errorf("%+v", m)
	}
}

func TestSlackHandshakes(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter, challenge string)
		want   string
	}{
		"text":    {func(w http.ResponseWriter, c string) { fmt.Fprintln(w, c) }, ""},
		"JSON":    {func(w http.ResponseWriter, c string) { fmt.Fprintf(w, `{"challenge":%q}`, c) }, ""},
		"form":    {func(w http.ResponseWriter, c string) { fmt.Fprint(w, "challenge="+c) }, ""},
		"other":   {func(w http.ResponseWriter, c string) { fmt.Fprint(w, `{"challenge":"x"}`) }, "without its challenge"},
		"nothing": {func(http.ResponseWriter, string) {}, "without its challenge"},
		"refused": {func(w http.ResponseWriter, c string) {
			w.WriteHeader(401)
			fmt.Fprint(w, c, " is not signed with hush-hush")
		}, "); check the signing secret"},
		"challenges": {func(w http.ResponseWriter, c string) { fmt.Fprint(w, "challenge=x&challenge="+c) }, "without its challenge"},
	} {
		p := newProduct(t)
		p.answer = func(w http.ResponseWriter, body []byte) {
			var m struct{ Challenge string }
			_ = json.Unmarshal(body, &m)
			c.answer(w, m.Challenge)
		}
		s, err := upstream.NewSlack(upstream.SlackOptions{WebhookOptions: upstream.WebhookOptions{URL: p.URL, Secret: "hush-hush"}})
		must(t, err)
		err = s.Prepare(context.Background())
		if c.want == "" && err != nil ||
			c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hush-hush")) {
			t.Errorf("%s: %v", name, err)
		}
		_ = s.Close()
	}
	s, err := upstream.NewSlack(upstream.SlackOptions{WebhookOptions: upstream.WebhookOptions{URL: "http://127.0.0.1:1/", Secret: "hush"}})
	must(t, err)
	if err := s.Prepare(context.Background()); err == nil || !strings.Contains(err.Error(), "is the target up") {
		t.Error(err)
	}
}

// verifyStripe is what a server does, by the book: the pairs of the header, the
// age, and the MAC over timestamp, point and raw body.
func verifyStripe(header, body, secret string, now time.Time) error {
	var stamp, sig string
	for pair := range strings.SplitSeq(header, ",") {
		switch k, v, _ := strings.Cut(pair, "="); k {
		case "t":
			stamp = v
		case "v1":
			sig = v
		}
	}
	sec, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || math.Abs(now.Sub(time.Unix(sec, 0)).Seconds()) > 300 {
		return fmt.Errorf("timestamp %q", stamp)
	}
	if !hmac.Equal([]byte(sig), []byte(hexMAC(secret, stamp+"."+body))) {
		return fmt.Errorf("signature %q", sig)
	}
	return nil
}

func TestStripe(t *testing.T) {
	p := newProduct(t)
	const secret = "whsec_test_secret"
	s, err := upstream.NewStripe(upstream.StripeOptions{WebhookOptions: upstream.WebhookOptions{URL: p.URL, Secret: secret}})
	must(t, err)
	fired(t, s, eventmeter.Accepted, emission)
	got := p.got[0]
	if err := verifyStripe(got.header.Get("Stripe-Signature"), got.body, secret, time.Now()); err != nil {
		t.Error(err)
	}
	if verifyStripe(got.header.Get("Stripe-Signature"), got.body+" ", secret, time.Now()) == nil {
		t.Error("a changed body passes")
	}
	var e struct {
		ID, Object, Type string
		Livemode         bool
		Data             struct {
			Object struct {
				ID, Object, Description, Status string
				Metadata                        map[string]string
			}
		}
	}
	must(t, json.Unmarshal([]byte(got.body), &e))
	o := e.Data.Object
	if !regexp.MustCompile(`^evt_[0-9a-f]{24}$`).MatchString(e.ID) || e.Object != "event" ||
		e.Type != "payment_intent.succeeded" || e.Livemode ||
		!strings.HasPrefix(o.ID, "pi_") || o.Object != "payment_intent" || o.Status != "succeeded" ||
		o.Metadata["source"] != "3" ||
		o.Metadata["order"] != "9" ||
		o.Description != "Order 9, reference "+emission.Stamp.String() ||
		probes(got.body) != 1 {
		t.Errorf("%+v", e)
	}
	c, err := upstream.NewStripe(
		upstream.StripeOptions{Type: "customer.updated", WebhookOptions: upstream.WebhookOptions{URL: p.URL, Secret: secret}},
	)
	must(t, err)
	fired(t, c, eventmeter.Accepted, emission)
	if b := p.got[1].body; !strings.Contains(b, `"type": "customer.updated"`) || !strings.Contains(b, `"object": "customer"`) ||
		probes(b) != 1 {
		t.Error(b)
	}
}

// Outcomes follow the answer, and what a product cannot do is said at once.
func TestProductsOutcomesAndOptions(t *testing.T) {
	for status, want := range map[int]eventmeter.Outcome{200: eventmeter.Accepted, 204: eventmeter.Accepted,
		302: eventmeter.Refused, 401: eventmeter.Refused, 500: eventmeter.Uncertain} {
		p := newProduct(t)
		p.answer = func(w http.ResponseWriter, _ []byte) { w.WriteHeader(status) }
		o := upstream.WebhookOptions{URL: p.URL, Secret: "s"}
		g, _ := upstream.NewGitHub(upstream.GitHubOptions{WebhookOptions: o})
		s, _ := upstream.NewSlack(upstream.SlackOptions{WebhookOptions: o})
		st, _ := upstream.NewStripe(upstream.StripeOptions{WebhookOptions: o})
		for _, u := range []upstream.Upstream{g, s, st} {
			fired(t, u, want, emission)
		}
	}
	ok := upstream.WebhookOptions{URL: "http://127.0.0.1:1/hooks", Secret: "s"}
	g, err := upstream.NewGitHub(upstream.GitHubOptions{WebhookOptions: ok})
	must(t, err)
	fired(t, g, eventmeter.Refused, emission)
	for name, err := range map[string]error{
		"want push or issues":    second(upstream.NewGitHub(upstream.GitHubOptions{WebhookOptions: ok, Event: "star"})),
		"want a URL such as":     second(upstream.NewGitHub(upstream.GitHubOptions{WebhookOptions: upstream.WebhookOptions{URL: "x"}})),
		"upstream slack: no":     second(upstream.NewSlack(upstream.SlackOptions{WebhookOptions: upstream.WebhookOptions{URL: ok.URL}})),
		"upstream stripe: no":    second(upstream.NewStripe(upstream.StripeOptions{WebhookOptions: upstream.WebhookOptions{URL: ok.URL}})),
		"want payment_intent.su": second(upstream.NewStripe(upstream.StripeOptions{WebhookOptions: ok, Type: "x"})),
	} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func BenchmarkGitHub(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer server.Close()
	g, err := upstream.NewGitHub(upstream.GitHubOptions{WebhookOptions: upstream.WebhookOptions{URL: server.URL, Secret: "hush"}})
	if err != nil {
		b.Fatal(err)
	}
	defer g.Close()
	b.ReportAllocs()
	for b.Loop() {
		if g.Fire(context.Background(), emission) != eventmeter.Accepted {
			b.Fatal("not accepted")
		}
	}
}

// must ends the test if a step of it has failed.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
