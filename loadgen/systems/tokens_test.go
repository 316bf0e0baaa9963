package systems_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
)

// tokenWorld is a reference server that issues tokens, and a lane whose
// principals get theirs there.
type tokenWorld struct {
	*systemstest.World
	ep  *mcpclient.Endpoint
	d   driver.Driver
	rec *systemstest.Memory
	tag string
	src uint16
}

func newTokenWorld(t *testing.T, spec string, auth mcpclient.OAuth, era mcpclient.Era, o driver.Options) *tokenWorld {
	t.Helper()
	plan, err := faults.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	w := &tokenWorld{World: systemstest.NewWorld(t, refserver.Options{
		TokenLife: time.Hour, TokenSecret: "top-secret-1", NextPoll: 10 * time.Millisecond, Faults: plan,
	}), tag: t.Name(), src: uint16(systemstest.Sources.Add(1))}
	if auth.Grant == "" {
		auth.Grant = mcpclient.GrantCredentials
	}
	auth.ClientID = func(i int) string { return fmt.Sprintf("client-%d", i) }
	auth.RefreshAt, auth.Timeout = 1, time.Minute
	if auth.Secret == "" {
		auth.Secret = "top-secret-1"
	}
	e := mcpclient.EndpointOptions{URL: w.Srv.URL(), Era: era, OAuth: &auth}
	if o.HTTP == "2" {
		e.URL, e.Roots = w.Srv.TLSURL(), w.Roots()
	}
	if w.ep, err = mcpclient.NewEndpoint(e); err != nil {
		t.Fatal(err)
	}
	o.Arguments = func(int) json.RawMessage { return json.RawMessage(fmt.Sprintf(`{"channel":%q}`, w.tag)) }
	o.Poll = &driver.Poll{MinInterval: 5 * time.Millisecond}
	o.Push = driver.Push{Backoff: driver.Backoff{Min: time.Millisecond, Max: 10 * time.Millisecond}}
	o.Listener.Authority = w.Authority
	w.d, w.rec = systemstest.LaneAt(t, w.ep, o)
	return w
}

// hears publishes an event and waits until subscriptions 0 to n-1 have it.
func (w *tokenWorld) hears(t *testing.T, n int, seq uint32) {
	t.Helper()
	w.Fire(t, w.tag, w.src, seq)
	for i := range uint32(n) {
		w.rec.Wait(t, fmt.Sprintf("event %d", seq), func(m *systemstest.Memory) bool { return m.Seen(i, w.src)[seq] > 0 })
	}
}

// counts ends the requests for tokens, and compares what both ends counted.
func (w *tokenWorld) counts(t *testing.T) mcpclient.TokenCounts {
	t.Helper()
	w.ep.EndTokens()
	c, ok := w.ep.TokenCounts()
	s := w.Srv.Stats().Tokens
	if !ok || c.Requests != s.Requests || c.Issued != s.Issued || c.Renewed != s.Renewed || c.Failed != s.Refused+s.Down ||
		c.Requests != c.Issued+c.Renewed+c.Failed+c.Cut {
		t.Errorf("ours %+v, the issuer's %+v", c, s)
	}
	if c.Discovery != s.Metadata+1 { // and the request that was refused first
		t.Errorf("%d requests to discover, and %d for metadata", c.Discovery, s.Metadata)
	}
	var reported int
	w.rec.Mu.Lock()
	defer w.rec.Mu.Unlock()
	for _, call := range w.rec.Calls {
		if call.Cause != eventmeter.Token {
			continue
		}
		reported += call.Requests
		if call.Up == 0 || call.Down == 0 {
			t.Errorf("a request of no size: %+v", call)
		}
	}
	if want := int(c.Requests + c.Discovery + c.Repeated); reported != want {
		t.Errorf("%d requests reported as overhead of tokens, want %d: %+v", reported, want, c)
	}
	return c
}

func TestTokensExpire(t *testing.T) {
	const principals, subs, rounds = 2, 6, 3
	for _, mode := range []eventmeter.Mode{eventmeter.Poll, eventmeter.Push, eventmeter.Webhook} {
		for _, grant := range []string{mcpclient.GrantCredentials, mcpclient.GrantRefresh} {
			for _, era := range []mcpclient.Era{mcpclient.Modern, mcpclient.Legacy} {
				t.Run(fmt.Sprintf("%s/%s/%s", mode, grant, era), func(t *testing.T) {
					t.Parallel()
					w := newTokenWorld(
						t,
						"",
						mcpclient.OAuth{Grant: grant, Principals: principals, Scopes: []string{"events", "offline_access"}},
						era,
						driver.Options{Mode: mode, Subscriptions: subs},
					)
					systemstest.Attach(t, w.d, subs)
					w.hears(t, subs, 1)
					for round := range uint32(rounds) {
						w.Admin(t, "/tokens/expire", "{}")
						for i := range subs {
							if mode == eventmeter.Poll {
								continue // the next poll meets the refusal
							}
							if err := w.d.Detach(t.Context(), i); err != nil {
								t.Error(err)
							}
							if err := w.d.Attach(t.Context(), i); err != nil {
								t.Error(err)
							}
						}
						w.hears(t, subs, 2+round)
						w.rec.Wait(t, "a new token for all", func(*systemstest.Memory) bool {
							c, _ := w.ep.TokenCounts()
							return c.Renewed == principals*int64(round+1)
						})
					}
					c := w.counts(t)
					if c.Issued != principals || c.Renewed != principals*rounds || c.Failed+c.Cut+c.Lost+c.Denied != 0 ||
						c.Repeated < principals*rounds {
						t.Errorf("%+v", c)
					}
					for i := range subs {
						if w.rec.CountNotices(eventmeter.Terminated) > 0 {
							t.Errorf("subscription %d was lost", i)
						}
					}
				})
			}
		}
	}
}

// TestTokenRefused: a principal that the issuer lets in no more loses its
// subscriptions, and asks no second time.
func TestTokenRefused(t *testing.T) {
	for _, mode := range []eventmeter.Mode{eventmeter.Poll, eventmeter.Push} {
		t.Run(string(mode), func(t *testing.T) {
			const subs = 4
			o := driver.Options{Mode: mode, Subscriptions: subs}
			w := newTokenWorld(t, "tokenrefuse(every=1)", mcpclient.OAuth{Principals: 2}, mcpclient.Modern, o)
			systemstest.Attach(t, w.d, subs)
			w.hears(t, subs, 1)
			w.Admin(t, "/tokens/expire", "{}")
			want := int64(subs)
			if mode == eventmeter.Push {
				want = 0 // streams that are open stay so
				for i := range subs {
					if err := w.d.Detach(t.Context(), i); err != nil {
						t.Error(err)
					}
					err := w.d.Attach(t.Context(), i)
					if err == nil ||
						!strings.Contains(
							err.Error(),
							"oauth/token: http 400 invalid_grant: invalid_grant: this client is no longer let in: check target.oauth",
						) {
						t.Errorf("%v", err)
					}
				}
			} else {
				w.rec.Wait(t, "all to be lost", func(m *systemstest.Memory) bool { return m.CountNotices(eventmeter.Terminated) == subs })
			}
			c := w.counts(t)
			if c.Issued != 2 || c.Failed != 2 || c.Denied != 2 || c.Lost != want || c.Failures["http 400 invalid_grant"] != 2 ||
				!strings.Contains(c.FirstError, "no longer let in") {
				t.Errorf("%+v", c)
			}
		})
	}
}

// TestIssuerDown: what passes is tried again, and no subscription is lost.
func TestIssuerDown(t *testing.T) {
	const subs = 3
	w := newTokenWorld(
		t,
		"tokendown(every=2)",
		mcpclient.OAuth{Principals: 1},
		mcpclient.Modern,
		driver.Options{Mode: eventmeter.Poll, Subscriptions: subs},
	)
	systemstest.Attach(t, w.d, subs)
	w.hears(t, subs, 1)
	w.Admin(t, "/tokens/expire", "{}")
	w.hears(t, subs, 2)
	c := w.counts(t)
	if c.Issued != 1 || c.Renewed != 1 || c.Failed != 1 || c.Failures["http 503"] != 1 || c.Lost != 0 ||
		w.rec.CountNotices(eventmeter.Terminated) != 0 {
		t.Errorf("%+v", c)
	}
}

// TestTokenOfManySubscriptions: one request serves all subscriptions of a
// principal.
func TestTokenOfManySubscriptions(t *testing.T) {
	const subs = 50
	w := newTokenWorld(t, "", mcpclient.OAuth{Principals: 1}, mcpclient.Modern, driver.Options{Mode: eventmeter.Poll, Subscriptions: subs})
	systemstest.Attach(t, w.d, subs)
	w.Admin(t, "/tokens/expire", "{}")
	w.hears(t, subs, 1)
	if c := w.counts(t); c.Issued != 1 || c.Renewed != 1 || c.Failed != 0 {
		t.Errorf("%+v", c)
	}
}

// TestTokenCutByTheEnd: a request that the end of the run cuts is nobody's
// failure.
func TestTokenCutByTheEnd(t *testing.T) {
	w := newTokenWorld(t, "tokenslow(over=1h)", mcpclient.OAuth{Principals: 1}, mcpclient.Modern, driver.Options{Mode: eventmeter.Poll})
	ctx, cancel := context.WithCancel(t.Context())
	attached := make(chan error, 1)
	go func() { attached <- w.d.Attach(ctx, 0) }()
	w.rec.Wait(t, "the request", func(*systemstest.Memory) bool { return w.Srv.Stats().Tokens.Requests == 1 })
	cancel()
	if err := <-attached; err == nil {
		t.Error("attached without a token")
	}
	w.ep.EndTokens()
	c, _ := w.ep.TokenCounts()
	if c.Requests != 1 || c.Cut != 1 || c.Failed != 0 || c.FirstError != "" {
		t.Errorf("%+v", c)
	}
	for _, call := range w.rec.Calls {
		if call.Failure != "" {
			t.Errorf("%+v", call)
		}
	}
}

func TestClientSecretRefused(t *testing.T) {
	w := newTokenWorld(
		t,
		"",
		mcpclient.OAuth{Principals: 1, Secret: "another-secret"},
		mcpclient.Auto,
		driver.Options{Mode: eventmeter.Poll},
	)
	err := w.ep.Connect(t.Context())
	if err == nil || !strings.Contains(err.Error(), "oauth/token: http 401 invalid_client: ") ||
		strings.Contains(err.Error(), "another-secret") {
		t.Errorf("%v", err)
	}
}

// A stream of another system whose token has expired is opened again with a new
// one, too.
func TestTokensOfAnyStreamExpire(t *testing.T) {
	const subs = 2
	for _, era := range []mcpclient.Era{mcpclient.Modern, mcpclient.Legacy} {
		t.Run(string(era), func(t *testing.T) {
			t.Parallel()
			w := newTokenWorld(
				t,
				"",
				mcpclient.OAuth{Principals: 1, Scopes: []string{"events"}},
				era,
				driver.Options{System: "sep-1803", Mode: eventmeter.Push, Subscriptions: subs},
			)
			systemstest.Attach(t, w.d, subs)
			w.hears(t, subs, 1)
			w.Admin(t, "/tokens/expire", "{}")
			for i := range subs {
				if err := w.d.Detach(t.Context(), i); err != nil {
					t.Error(err)
				}
				if err := w.d.Attach(t.Context(), i); err != nil {
					t.Error(err)
				}
			}
			w.hears(t, subs, 2)
			if c, _ := w.ep.TokenCounts(); c.Renewed != 1 {
				t.Errorf("%+v", c)
			}
		})
	}
}
