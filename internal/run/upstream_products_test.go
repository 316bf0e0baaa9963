package run

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/internal/runtest"
)

func mac(secret, text string) string {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(text))
	return hex.EncodeToString(m.Sum(nil))
}

// bridge is what a server does with a product's webhooks: it checks the
// signature, finds the text, and publishes.
func bridge(
	t *testing.T,
	s *refserver.Server,
	genuine func(h http.Header, body string) bool,
	text func(body []byte) (source, text string),
) *httptest.Server {
	b := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || !genuine(r.Header, string(body)) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		var hello struct{ Type, Challenge string }
		if json.Unmarshal(body, &hello) == nil && hello.Type == "url_verification" {
			_, _ = io.WriteString(w, hello.Challenge)
			return
		}
		source, text := text(body)
		data, _ := json.Marshal(map[string]string{"channel": "channel-" + source, "text": text})
		if _, err := s.Publish("chat.message", data); err != nil {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(b.Close)
	return b
}

func TestProducts(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs a second for each product")
	}
	const secret = "whsec_hush"
	for kind, c := range map[string]struct {
		genuine func(h http.Header, body string) bool
		text    func(body []byte) (source, text string)
		extra   string
	}{
		"github": {
			func(h http.Header, body string) bool {
				return h.Get("X-GitHub-Event") == "issues" && h.Get("X-Hub-Signature-256") == "sha256="+mac(secret, body)
			},
			func(body []byte) (string, string) {
				var m struct {
					Issue      struct{ Title string }
					Repository struct{ Name string }
				}
				_ = json.Unmarshal(body, &m)
				return strings.TrimPrefix(m.Repository.Name, "r"), m.Issue.Title
			},
			`, event: issues, repository: "acme/r{{.Source}}"`,
		},
		"slack": {
			func(h http.Header, body string) bool {
				return h.Get("X-Slack-Signature") == "v0="+mac(secret, "v0:"+h.Get("X-Slack-Request-Timestamp")+":"+body)
			},
			func(body []byte) (string, string) {
				var m struct {
					Event struct{ Channel, Text string }
				}
				_ = json.Unmarshal(body, &m)
				return strings.TrimPrefix(m.Event.Channel, "C"), m.Event.Text
			},
			`, channel: "C{{.Source}}", text: "shipped {{.Probe}}"`,
		},
		"stripe": {
			func(h http.Header, body string) bool {
				stamp, sig, ok := strings.Cut(strings.TrimPrefix(h.Get("Stripe-Signature"), "t="), ",v1=")
				return ok && sig == mac(secret, stamp+"."+body)
			},
			func(body []byte) (string, string) {
				var m struct {
					Data struct {
						Object struct {
							Description string
							Metadata    map[string]string
						}
					}
				}
				_ = json.Unmarshal(body, &m)
				return m.Data.Object.Metadata["source"], m.Data.Object.Description
			},
			"",
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := runtest.StartTarget(t, refserver.Options{})
			b := bridge(t, s, c.genuine, c.text)
			out := runs(
				t,
				Options{
					Profile: profileOf(
						t,
						s.URL(),
						steady+fmt.Sprintf(
							"upstream: {kind: %s, sources: 2, %s: {url: %q, secret: %s%s}}\n",
							kind,
							kind,
							b.URL,
							secret,
							c.extra,
						),
					),
				},
			)
			clean(t, out.Result)
			var text bytes.Buffer
			if err := out.Result.Write(&text); err != nil || strings.Contains(text.String(), secret) {
				t.Errorf("the secret is in the result (%v)", err)
			}
			// A target with another secret lets none of it in.
			p := profileOf(
				t,
				s.URL(),
				steady+fmt.Sprintf("upstream: {kind: %s, sources: 2, %s: {url: %q, secret: other%s}}\n", kind, kind, b.URL, c.extra),
			)
			p.Phases.Drain = 0
			wrong, err := Run(t.Context(), Options{Profile: p})
			if kind == "slack" { // it is found out in the handshake
				if !errors.Is(err, ErrTarget) || !strings.Contains(err.Error(), "check the signing secret") {
					t.Errorf("%v", err)
				}
			} else if !errors.Is(err, ErrTarget) || !wrong.Result.Partial ||
				wrong.Result.Upstream.Refused != wrong.Result.Upstream.Published || wrong.Result.Upstream.Published == 0 {
				t.Errorf("%v, %+v", err, wrong)
			}
		})
	}
}
