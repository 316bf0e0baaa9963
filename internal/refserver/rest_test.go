package refserver

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
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

func TestSmitheryExpiresWithoutAWord(t *testing.T) {
	call := func(t *testing.T, s *Server) string {
		return result(t, s, "t", smitheryPrefix+"subscribe", subscription("tick", testSecret, ""))["id"].(string)
	}
	bubble(t, Options{TTLMin: time.Second, TTLDefault: 10 * time.Second, QueueLen: 2, Window: 1, InFlight: 1, RetryBase: time.Second}, func(t *testing.T, s *Server, f *fakeReceiver) {
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
	})
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
		if err := s.Offer("tick", false); err != nil {
			t.Fatal(err)
		}
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
			_, answer := rpc(t, s, "t", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"events/subscribe","params":{"name":"tick","delivery":{"mode":"webhook","url":"%s/h/1","secret":"%s"}}}`, hook.URL, testSecret))
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
