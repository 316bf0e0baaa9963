package refserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventmeter/eventmeter/internal/refserver/faults"
)

func TestSuspension(t *testing.T) {
	opts := Options{SuspendAfter: 3, RetryMax: 1, RetryBase: time.Second, InFlight: 1}
	bubble(t, opts, func(t *testing.T, s *Server, f *fakeReceiver) {
		broken := true
		f.answer = func(int) int {
			if broken {
				return 500
			}
			return 200
		}
		wish := subscription("tick", testSecret, "")
		result(t, s, "t", "events/subscribe", wish)
		for range 5 {
			publish(t, s, "tick", `{}`)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := len(f.ids()); got != 3 {
			t.Fatalf("%d attempts, want 3: %v", got, f.ids())
		}
		broken = false
		status := result(t, s, "t", "events/subscribe", wish)["deliveryStatus"].(map[string]any)
		if status["active"] != false || status["lastError"] != "http_5xx" || status["failedSince"] == nil {
			t.Errorf("deliveryStatus %v", status)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		// After the refresh, all events come that were not given up.
		rest := f.ids()[3:]
		slices.Sort(rest)
		if got, want := fmt.Sprint(rest), "[e-1 e-2 e-3 e-4 e-5]"; got != want {
			t.Errorf("after the refresh: %s, want %s", got, want)
		}
		status = result(t, s, "t", "events/subscribe", wish)["deliveryStatus"].(map[string]any)
		if status["active"] != true || status["lastError"] != nil {
			t.Errorf("deliveryStatus %v", status)
		}
	})
}

func TestSmitheryExpiresUnannounced(t *testing.T) {
	call := func(t *testing.T, s *Server) string {
		return result(t, s, "t", smitheryPrefix+"subscribe", subscription("tick", testSecret, ""))["id"].(string)
	}
	bubble(
		t,
		Options{
			FreshIDs:   true,
			TTLMin:     time.Second,
			TTLDefault: 10 * time.Second,
			QueueLen:   2,
			Window:     1,
			InFlight:   1,
			RetryBase:  time.Second,
		},
		func(t *testing.T, s *Server, f *fakeReceiver) {
			first := call(t, s)
			time.Sleep(9 * time.Second)
			if again := call(t, s); again != first {
				t.Errorf("a refresh changed the id from %s to %s", first, again)
			}
			// A slow receiver loses events without notice.
			f.answer = func(n int) int {
				if n == 0 {
					return 503
				}
				return 200
			}
			for range 6 {
				publish(t, s, "tick", `{}`)
				synctest.Wait()
			}
			time.Sleep(5 * time.Second)
			synctest.Wait()
			if got, want := fmt.Sprint(f.ids()), "[e-1 e-1 e-5 e-6]"; got != want {
				t.Errorf("delivered %s, want %s", got, want)
			}
			time.Sleep(6 * time.Second)
			s.Revoke("somebody else")
			if fresh := call(t, s); fresh == first {
				t.Error("a subscription that had ended is not a new one")
			}
			s.Revoke("t")
			synctest.Wait()
			if got := len(f.ids()); got != 4 {
				t.Errorf("delivered %v", f.ids())
			}
			if st := s.Stats(); st.Expired != 1 || st.Verifications != 0 || st.Gaps != 0 || st.Subscriptions.Webhook != 0 {
				t.Errorf("stats %+v", st)
			}
		},
	)
}

// Subscriptions of two systems to the same callback are independent.
func TestSmitheryBesideEvents(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Server, f *fakeReceiver) {
		wish := subscription("tick", testSecret, "")
		one := result(t, s, "t", "events/subscribe", wish)["id"]
		two := result(t, s, "t", smitheryPrefix+"subscribe", wish)["id"]
		if one == two {
			t.Errorf("both are %v", one)
		}
		publish(t, s, "tick", `{}`)
		synctest.Wait()
		if got := f.ids(); len(got) != 2 {
			t.Errorf("delivered %v", got)
		}
	})
}

func TestOffer(t *testing.T) {
	bubble(t, Options{TypesEvery: time.Second}, func(t *testing.T, s *Server, _ *fakeReceiver) {
		names := func() string {
			var all []string
			for _, e := range result(t, s, "", "events/list", "{}")["events"].([]any) {
				all = append(all, e.(map[string]any)["name"].(string))
			}
			return strings.Join(all, " ")
		}
		const always = "chat.message ticket.moved tick private.note"
		for i, want := range []string{always + " seasonal", always, always + " seasonal", always} {
			if got := names(); got != want {
				t.Errorf("after %d changes: %s", i, got)
			}
			time.Sleep(time.Second)
			synctest.Wait()
		}
		if err := s.Offer("no.such", true); !errors.Is(err, errUnknownEvent) {
			t.Errorf("Offer of nothing: %v", err)
		}
		must(t, s.Offer("tick", false))
		if _, err := s.Publish("tick", []byte(`{}`)); !errors.Is(err, errUnknownEvent) {
			t.Errorf("Publish of what is withdrawn: %v", err)
		}
	})
}

func TestWellKnownProof(t *testing.T) {
	for _, c := range []struct {
		name, text, want string
		status           int
	}{
		{"named", `{"receivers":["/other/","/h/"]}`, "", 200},
		{"not named", `{"receivers":["/other/"]}`, "challenge_failed", 200},
		{"no path", `{"receivers":["","h"]}`, "challenge_failed", 200},
		{"no document", ``, "challenge_failed", 404},
		{"no JSON", `receivers`, "challenge_failed", 200},
		{"moved", ``, "http_4xx", 302},
		{"broken", ``, "http_5xx", 500},
	} {
		t.Run(c.name, func(t *testing.T) {
			posts := make(chan string, 8)
			hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet && r.URL.Path == receiverDocument {
					w.WriteHeader(c.status)
					_, _ = w.Write([]byte(c.text))
					return
				}
				posts <- r.Header.Get("webhook-id")
			}))
			defer hook.Close()
			s := startServer(t, Options{AllowPrivateCallbacks: true, CallbackInsecure: true, Proof: ProofWellKnown})
			_, answer := rpc(
				t,
				s,
				"t",
				fmt.Sprintf(
					`{"jsonrpc":"2.0","id":1,"method":"events/subscribe","params":{"name":"tick","delivery":{"mode":"webhook",`+
						`"url":"%s/h/1","secret":"%s"}}}`,
					hook.URL,
					testSecret,
				),
			)
			if c.want != "" {
				if !strings.Contains(answer, `"reason":"`+c.want+`"`) {
					t.Errorf("answer %s, want %s", answer, c.want)
				}
				return
			}
			if !strings.Contains(answer, `"result"`) {
				t.Fatalf("answer %s", answer)
			}
			id := publish(t, s, "tick", `{}`)
			if got := <-posts; got != id {
				t.Errorf("the first post is %s, want %s", got, id)
			}
		})
	}
	for _, bad := range []Options{{Proof: "word of honour"}, {Revision: "newest"}, {WebhookID: "none"}, {TypesPage: -1}} {
		if _, err := New(bad); err == nil {
			t.Errorf("%+v will do", bad)
		}
	}
}

// TestSmitheryIDsFollowFromTheKey: a subscription that is made anew has the id
// that it had, and another one has another.
func TestSmitheryIDsFollowFromTheKey(t *testing.T) {
	id := func(s *Server, principal, arguments string) any {
		return result(t, s, principal, smitheryPrefix+"subscribe", subscribeParamsOf("https://127.0.0.1:1/", arguments))["id"]
	}
	first, second := startServer(t, Options{AllowPrivateCallbacks: true}), startServer(t, Options{AllowPrivateCallbacks: true})
	if a, b := id(first, "p", `{}`), id(second, "p", `{}`); a != b {
		t.Errorf("one subscription has the ids %v and %v", a, b)
	}
	if a, b := id(first, "p", `{}`), id(first, "q", `{}`); a == b {
		t.Errorf("two principals share the id %v", a)
	}
	fresh := startServer(t, Options{AllowPrivateCallbacks: true, FreshIDs: true})
	if a, b := id(first, "p", `{}`), id(fresh, "p", `{}`); a == b {
		t.Errorf("%v is no fresh id", b)
	}
}

// TestEventIDsComeFromUpstream: what has an id keeps it, on every path.
func TestEventIDsComeFromUpstream(t *testing.T) {
	for _, opts := range []Options{{}, {Faults: faults.Spec{{Kind: faults.NoRetry}}}} {
		s := startServer(t, opts)
		for id, want := range map[string]string{"up-7:1": "up-7:1", "": "e-", "two words": "e-", "line\nbreak": "e-",
			`quo"te`: "e-", strings.Repeat("x", 129): "e-"} {
			cursor := result(t, s, "", "events/poll", `{"name":"tick","cursor":null}`)["cursor"].(string)
			got, err := s.PublishAs(id, "tick", []byte(`{}`))
			if err != nil || !strings.HasPrefix(got, want) {
				t.Errorf("%q became %q, %v", id, got, err)
			}
			events := result(t, s, "", "events/poll", `{"name":"tick","cursor":"`+cursor+`"}`)["events"].([]any)
			if len(events) != 1 || events[0].(map[string]any)["eventId"] != got {
				t.Errorf("%q was delivered as %v", got, events)
			}
		}
	}
}

// modernResult sends a request of the modern era and returns the result.
func modernResult(t *testing.T, s *Server, method, more string) map[string]any {
	t.Helper()
	params := `{"_meta":{"` + protocolVersionKey + `":"` + modernVersion +
		`","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{}}` + more + `}`
	req := httptest.NewRequest(
		http.MethodPost,
		"/mcp",
		strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`),
	)
	for name, value := range map[string]string{"Content-Type": "application/json",
		"Accept": "application/json, text/event-stream", headerVersion: modernVersion, headerMethod: method} {
		req.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, req)
	var answer struct{ Result map[string]any }
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || answer.Result == nil {
		t.Fatalf("%s: %v: %s", method, err, w.Body)
	}
	return answer.Result
}

// TestPagesOfAList: all pages of a list have one scope, though the times to
// live of pages may differ, and may be left out.
func TestPagesOfAList(t *testing.T) {
	for want, o := range map[string]ListOptions{
		"[4000 2000 4000 4000]":     {Uneven: true},
		"[<nil> <nil> <nil> <nil>]": {NoHints: true},
	} {
		o.Entries, o.Page, o.TTL = 5, 2, 4*time.Second
		s := startServer(t, Options{Lists: o})
		for _, method := range []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"} {
			scopes, ttls := map[any]bool{}, []any{}
			for cursor, more := "", true; more; {
				r := modernResult(t, s, method, `,"cursor":`+strconv.Quote(cursor))
				scopes[r["cacheScope"]] = true
				ttls = append(ttls, r["ttlMs"])
				cursor, more = r["nextCursor"].(string)
			}
			if len(scopes) != 1 || scopes[nil] != o.NoHints {
				t.Errorf("%s: the pages have the scopes %v", method, scopes)
			}
			if got := fmt.Sprint(ttls); got != want {
				t.Errorf("%s: times to live %s, want %s", method, got, want)
			}
		}
	}
}

func TestHintsOfDiscover(t *testing.T) {
	s := startServer(t, Options{Lists: ListOptions{Entries: 5, TTL: 4 * time.Second}})
	if r := modernResult(t, s, "server/discover", ""); r["ttlMs"] != 4000.0 || r["cacheScope"] != "public" {
		t.Errorf("server/discover says %v, %v", r["ttlMs"], r["cacheScope"])
	}
}
