package interop

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/eventmeter/eventmeter/internal/wire"
)

// signed is a message as it is posted to a callback.
type signed struct {
	ID        string `json:"id"`
	Time      string `json:"time"`
	Signature string `json:"signature"`
	Body      string `json:"body"`
}

func (m signed) header() http.Header {
	return http.Header{wire.HeaderWebhookID: {m.ID}, wire.HeaderWebhookTimestamp: {m.Time}, wire.HeaderWebhookSignature: {m.Signature}}
}

// callback keeps what is posted to it, and answers challenges.
type callback struct {
	*httptest.Server
	mu    sync.Mutex
	posts []signed
}

func newCallback(t *testing.T) *callback {
	c := &callback{}
	c.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		c.mu.Lock()
		c.posts = append(
			c.posts,
			signed{r.Header.Get("Webhook-Id"), r.Header.Get("Webhook-Timestamp"), r.Header.Get("Webhook-Signature"), string(body)},
		)
		c.mu.Unlock()
		var in struct{ Challenge string }
		if json.Unmarshal(body, &in) == nil && in.Challenge != "" {
			_ = json.NewEncoder(w).Encode(in)
		}
	}))
	cert, key := certificate(t)
	pair, err := tls.LoadX509KeyPair(cert, key)
	must(t, err)
	c.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	c.StartTLS()
	t.Cleanup(c.Close)
	return c
}

func (c *callback) messages() []signed {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]signed(nil), c.posts...)
}

// subscribeTo subscribes, or refreshes with another secret.
func subscribeTo(t *testing.T, s *refserver.Server, url, secret string) {
	t.Helper()
	body := fmt.Sprintf(
		`{"jsonrpc":"2.0","id":1,"method":"events/subscribe","params":{"name":"chat.message","arguments":{},`+
			`"delivery":{"mode":"webhook","url":%q,"secret":%q},"cursor":null,%s}}`,
		url,
		secret,
		modernMeta,
	)
	answer := exchange(
		t,
		http.MethodPost,
		s.URL(),
		body,
		"Authorization",
		"Bearer alice",
		"Mcp-Protocol-Version",
		"2026-07-28",
		"Mcp-Method",
		"events/subscribe",
	)
	if m := messages(t, answer.Body)(); m["result"] == nil {
		t.Fatalf("subscribe: %v", m)
	}
}

var secrets = []string{secretOf("the first secret has its own bytes"), secretOf("\x00\x01\xfe\xff another one, of another length \x80\x81")}

func secretOf(text string) string {
	return wire.SecretPrefix + base64.StdEncoding.EncodeToString([]byte(text))
}

// judge asks standardwebhooks for its verdict on a message and on every message
// that differs from it in one byte.
func judge(t *testing.T, library *script, secret string, m signed) {
	t.Helper()
	var verdict struct {
		Accepted          bool
		Forgeries         int
		AcceptedForgeries map[string]string
	}
	ask := struct {
		signed
		Secret string `json:"secret"`
	}{m, secret}
	must(t, call(t.Context(), http.MethodPost, library.Control+"/verify", ask, &verdict))
	if want := len(
		m.ID,
	) + len(
		m.Time,
	) + len(
		m.Signature,
	) + utf8.RuneCountInString(
		m.Body,
	); !verdict.Accepted || verdict.Forgeries != want ||
		len(verdict.AcceptedForgeries) > 0 {
		t.Errorf("standardwebhooks on %+v: %+v, want it accepted and %d forgeries refused", m, verdict, want)
	}
}

// TestWhatWeSign: every kind of message that the reference server posts, beside a
// message that is signed with wire's own key, passes standardwebhooks.
func TestWhatWeSign(t *testing.T) {
	t.Parallel()
	library, sink := start(t, "signatures.mjs", "--until-eof"), newCallback(t)
	spec, err := faults.Load("announce(every=3)")
	must(t, err)
	s, err := refserver.New(refserver.Options{AllowPrivateCallbacks: true, CallbackInsecure: true, Faults: spec})
	must(t, err)
	must(t, s.Start(t.Context()))
	defer s.Close(t.Context())
	publish := func(seq uint32, text string) {
		t.Helper()
		if _, err := s.Publish(
			"chat.message",
			fmt.Appendf(nil, `{"channel":"c","text":%q}`, text+eventmeter.Stamp{Run: 1, Source: 1, Seq: seq}.String()),
		); err != nil {
			t.Fatal(err)
		}
	}
	arrived := func(n int) {
		t.Helper()
		until(t, fmt.Sprint(n, " messages"), func() bool { return len(sink.messages()) >= n })
	}
	subscribeTo(t, s, sink.URL, secrets[0]) // the challenge
	publish(1, "")
	publish(2, "ünïcödé \u2028 ")
	publish(3, "") // a gap in its place
	arrived(4)
	subscribeTo(t, s, sink.URL, secrets[1])
	publish(4, "signed with two secrets")
	arrived(5)
	s.Revoke("alice") // terminated
	arrived(6)

	var kinds []string
	for i, m := range sink.messages() {
		kind := "event"
		if strings.HasPrefix(m.ID, "msg_") {
			kind = strings.Split(m.ID, "_")[1]
		}
		kinds = append(kinds, kind)
		signatures := strings.Split(m.Signature, " ")
		if i < 4 {
			judge(t, library, secrets[0], m)
			continue
		}
		if len(signatures) != 2 {
			t.Fatalf("signed %q after the change of secrets, want two signatures", m.Signature)
		}
		for j, signature := range signatures { // the newest secret comes first
			m.Signature = signature
			judge(t, library, secrets[1-j], m)
		}
	}
	if got, want := strings.Join(kinds, " "), "verification event event gap event terminated"; got != want {
		t.Errorf("the messages are %s, want %s", got, want)
	}
	at := time.Now()
	own := signed{ID: "m-1", Time: strconv.FormatInt(at.Unix(), 10), Body: "{}"}
	own.Signature = keyOf(t, secrets[0]).Sign(own.ID, at, []byte(own.Body))
	judge(t, library, secrets[0], own)
}

func keyOf(t *testing.T, secret string) *wire.Key {
	t.Helper()
	key, err := wire.ParseSecret(secret)
	must(t, err)
	return key
}

// TestWhatWeAccept: the check of the sinks accepts what standardwebhooks signs, and
// refuses it where one byte differs.
func TestWhatWeAccept(t *testing.T) {
	t.Parallel()
	library := start(t, "signatures.mjs", "--until-eof")
	now := time.Now()
	for i, body := range []string{`{"eventId":"e-1","data":{}}`, "", "{}\n", `{"text":"ünïcödé` + "\u2028" + `"}`, strings.Repeat("x", 300)} {
		secret := secrets[i%2]
		m := signed{ID: fmt.Sprint("evt_", i), Time: strconv.FormatInt(now.Unix(), 10), Body: body}
		ask := struct {
			signed
			Secret string `json:"secret"`
		}{m, secret}
		var answer struct{ Signature string }
		must(t, call(t.Context(), http.MethodPost, library.Control+"/sign", ask, &answer))
		m.Signature = answer.Signature
		key := keyOf(t, secret)
		accepted := func(m signed) bool { return wire.Verify(m.header(), []byte(m.Body), now, key) == nil }
		if !accepted(m) {
			t.Errorf("a message that standardwebhooks signs is refused: %+v", m)
		}
		both := m
		both.Signature = "v1a,AAAA v1," + strings.Repeat("A", 43) + "= " + m.Signature
		if !accepted(both) {
			t.Errorf("the third of three signatures is not found: %+v", both)
		}
		if wire.Verify(m.header(), []byte(m.Body), now, keyOf(t, secrets[1-i%2])) == nil {
			t.Errorf("another secret verifies %+v", m)
		}
		for part, text := range map[*string]string{&m.Body: m.Body, &m.ID: m.ID, &m.Time: m.Time, &m.Signature: m.Signature} {
			for at := range len(text) {
				*part = text[:at] + string(text[at]^1) + text[at+1:]
				if accepted(m) {
					t.Errorf("byte %d of %q changed to %q is accepted", at, text, *part)
				}
			}
			*part = text
		}
	}
}
