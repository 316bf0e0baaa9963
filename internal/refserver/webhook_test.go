package refserver

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const (
	testSecret  = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	otherSecret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
)

// roundTrip is a function as a transport.
type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func mustURL(text string) *url.URL {
	u, err := url.Parse(text)
	if err != nil {
		panic(err)
	}
	return u
}

// signature computes the standard's signature with crypto/hmac only.
func signature(t testing.TB, secret, id, timestamp string, body []byte) string {
	t.Helper()
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	must(t, err)
	mac := hmac.New(sha256.New, key)
	io.WriteString(mac, id+"."+timestamp+".")
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

func checkSignatures(t testing.TB, p received, secrets ...string) {
	t.Helper()
	id, at := p.header.Get("webhook-id"), p.header.Get("webhook-timestamp")
	var want []string
	for _, secret := range secrets {
		want = append(want, signature(t, secret, id, at, p.body))
	}
	if got := p.header.Get("webhook-signature"); got != strings.Join(want, " ") {
		t.Errorf("signature of %s: got %s, want %s", id, got, want)
	}
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > time.Minute {
		t.Errorf("timestamp %q", at)
	}
}

// fakeReceiver answers posts inside a synctest bubble.
type fakeReceiver struct {
	mu     sync.Mutex
	posts  []received
	at     []time.Time
	answer func(n int) int // status of the nth post that is no challenge
	n      int
}

func (f *fakeReceiver) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var in struct{ Type, Challenge string }
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	reply := func(status int, text string) (*http.Response, error) {
		return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(text))}, nil
	}
	if in.Type == "verification" {
		return reply(200, `{"challenge":"`+in.Challenge+`"}`)
	}
	h := http.Header{}
	for k, v := range r.Header {
		h[http.CanonicalHeaderKey(k)] = v
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.posts, f.at = append(f.posts, received{h, body}), append(f.at, time.Now())
	f.n++
	if f.answer != nil {
		return reply(f.answer(f.n-1), "")
	}
	return reply(204, "")
}

func (f *fakeReceiver) ids() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ids []string
	for _, p := range f.posts {
		id := p.header.Get("webhook-id")
		if strings.HasPrefix(id, "msg_") {
			id = id[:strings.LastIndexByte(id, '_')]
		}
		ids = append(ids, id)
	}
	return ids
}

// bubble runs a test against a server without listeners, in fake time.
func bubble(t *testing.T, opts Options, test func(t *testing.T, s *Server, f *fakeReceiver)) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(opts)
		must(t, err)
		f := &fakeReceiver{}
		s.hooks.poster.transport = f
		s.startBackground()
		test(t, s, f)
		closeServer(t, s)
	})
}

func subscription(name, secret, more string) string {
	return fmt.Sprintf(`{"name":%q,"delivery":{"mode":"webhook","url":"https://hook.example/h","secret":%q}%s}`, name, secret, more)
}

func TestRotationSignsWithBothForAWhile(t *testing.T) {
	bubble(t, Options{DualSignGrace: 10 * time.Second}, func(t *testing.T, s *Server, f *fakeReceiver) {
		first := result(t, s, "t", "events/subscribe", subscription("tick", testSecret, ""))
		send := func() received {
			publish(t, s, "tick", `{}`)
			synctest.Wait()
			return f.posts[len(f.posts)-1]
		}
		checkSignatures(t, send(), testSecret)
		second := result(t, s, "t", "events/subscribe", subscription("tick", otherSecret, ""))
		if first["id"] != second["id"] {
			t.Errorf("id changed from %v to %v", first["id"], second["id"])
		}
		checkSignatures(t, send(), otherSecret, testSecret)
		// The same secret again is no rotation, and does not end the grace
		// period.
		result(t, s, "t", "events/subscribe", subscription("tick", otherSecret, ""))
		checkSignatures(t, send(), otherSecret, testSecret)
		time.Sleep(11 * time.Second)
		checkSignatures(t, send(), otherSecret)
	})
}

// TestExpiryDuringARefresh: whether a grant is over is decided while no refresh can extend it.
func TestExpiryDuringARefresh(t *testing.T) {
	bubble(t, Options{TTLMin: time.Minute, TTLDefault: time.Minute}, func(t *testing.T, s *Server, _ *fakeReceiver) {
		result(t, s, "t", "events/subscribe", subscription("tick", testSecret, ""))
		hs := s.hooks
		for _, h := range hs.openHooks(func(*hook) bool { return true }) {
			hs.removeIf(h, func() bool {
				if hs.mu.TryLock() {
					hs.mu.Unlock()
					t.Error("a refresh can be granted between the condition and the removal")
				}
				return false
			}, nil)
		}
		if n := hs.count(); n != 1 {
			t.Errorf("%d subscriptions, want the one that was refreshed", n)
		}
		time.Sleep(61 * time.Second)
		if n := hs.count(); n != 0 {
			t.Errorf("%d subscriptions after the end of the grant", n)
		}
	})
}

func TestGrants(t *testing.T) {
	opts := Options{TTLMin: time.Minute, TTLDefault: time.Hour, TTLMax: 2 * time.Hour}
	for _, c := range []struct {
		ttl  string
		want time.Duration // 0 = null
	}{
		{``, time.Hour},
		{`,"ttlMs":null`, 0},
		{`,"ttlMs":1`, time.Minute},
		{`,"ttlMs":90000`, 90 * time.Second},
		{`,"ttlMs":99999999999999999`, 2 * time.Hour},
	} {
		bubble(t, opts, func(t *testing.T, s *Server, _ *fakeReceiver) {
			r := result(t, s, "t", "events/subscribe", subscription("tick", testSecret, c.ttl))
			if c.want == 0 {
				if before, there := r["refreshBefore"]; before != nil || !there {
					t.Errorf("ttl %q: refreshBefore = %v", c.ttl, before)
				}
				return
			}
			before, err := time.Parse(time.RFC3339Nano, r["refreshBefore"].(string))
			if err != nil || time.Until(before) != c.want {
				t.Errorf("ttl %q: granted %v, want %v (%v)", c.ttl, time.Until(before), c.want, err)
			}
		})
	}
}

func TestExpiryAndRefresh(t *testing.T) {
	bubble(t, Options{TTLMin: time.Second}, func(t *testing.T, s *Server, f *fakeReceiver) {
		wish := subscription("tick", testSecret, `,"ttlMs":10000`)
		result(t, s, "t", "events/subscribe", wish)
		time.Sleep(9 * time.Second)
		result(t, s, "t", "events/subscribe", wish)
		time.Sleep(9 * time.Second)
		publish(t, s, "tick", `{}`)
		synctest.Wait()
		if got := f.ids(); len(got) != 1 {
			t.Fatalf("after a refresh: delivered %v, want one event", got)
		}
		time.Sleep(2 * time.Second)
		publish(t, s, "tick", `{}`)
		synctest.Wait()
		if got := f.ids(); len(got) != 1 {
			t.Errorf("after the end: delivered %v", got)
		}
		if st := s.Stats(); st.Expired != 1 || st.Refreshes != 1 || st.Subscriptions.Webhook != 0 || s.subscriptions.Load() != 0 {
			t.Errorf("stats %+v, %d reserved", st, s.subscriptions.Load())
		}
	})
}

func TestRetriesAreBoundedAndHoldTheWatermark(t *testing.T) {
	bubble(t, Options{RetryMax: 2, RetryBase: time.Second, InFlight: 1}, func(t *testing.T, s *Server, f *fakeReceiver) {
		f.answer = func(n int) int {
			if n == 0 || n >= 2 && n <= 3 { // all attempts of e-1
				return 500
			}
			return 200
		}
		r := result(t, s, "t", "events/subscribe", subscription("tick", testSecret, ""))
		publish(t, s, "tick", `{}`)
		publish(t, s, "tick", `{}`)
		synctest.Wait()
		time.Sleep(time.Minute)
		publish(t, s, "tick", `{}`)
		synctest.Wait()
		if got, want := fmt.Sprint(f.ids()), "[e-1 e-2 e-1 e-1 e-3]"; got != want {
			t.Fatalf("delivered %s, want %s", got, want)
		}
		// e-1 waits while e-2 is sent, so e-2 may not claim it.
		prefix := strings.TrimSuffix(r["cursor"].(string), "0")
		for i, n := range []int{0, 0, 0, 0, 2} {
			var body struct{ Cursor string }
			if err := json.Unmarshal(f.posts[i].body, &body); err != nil || body.Cursor != prefix+strconv.Itoa(n) {
				t.Errorf("post %d: cursor %s, want …-%d", i, body.Cursor, n)
			}
		}
		for i, bounds := range [][2]time.Duration{{500 * time.Millisecond, time.Second}, {time.Second, 2 * time.Second}} {
			wait := f.at[2+i].Sub(f.at[[]int{0, 2}[i]])
			if wait < bounds[0] || wait > bounds[1] {
				t.Errorf("retry %d after %v, want %v", i+1, wait, bounds)
			}
		}
		if st := s.Stats(); st.Abandoned != 1 || st.Retries != 2 || st.Failures != 3 || st.Deliveries.Webhook != 2 {
			t.Errorf("stats %+v", st)
		}
		status := result(t, s, "t", "events/subscribe", subscription("tick", testSecret, ""))["deliveryStatus"].(map[string]any)
		if status["lastError"] != nil || status["active"] != true || status["lastDeliveryAt"] == nil {
			t.Errorf("deliveryStatus %v", status)
		}
	})
}

func TestOverflowSendsAGapAloneAndFirst(t *testing.T) {
	bubble(t, Options{QueueLen: 3, Window: 1, RetryBase: time.Second, InFlight: 4}, func(t *testing.T, s *Server, f *fakeReceiver) {
		f.answer = func(n int) int {
			if n == 0 {
				return 503
			}
			return 200
		}
		result(t, s, "t", "events/subscribe", subscription("tick", testSecret, ""))
		for range 6 {
			publish(t, s, "tick", `{}`)
			synctest.Wait()
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got, want := fmt.Sprint(f.ids()), "[e-1 e-1 msg_gap e-4 e-5 e-6]"; got != want {
			t.Errorf("delivered %s, want %s", got, want)
		}
		if st := s.Stats(); st.QueueOverflow != 2 || st.Gaps != 1 {
			t.Errorf("overflow %d, gaps %d", st.QueueOverflow, st.Gaps)
		}
	})
}

func TestSubscribeTwiceAtOnceVerifiesOnce(t *testing.T) {
	r := newReceiver(t)
	s := startServer(t, Options{AllowPrivateCallbacks: true, CallbackRoots: r.roots})
	params := `{"name":"tick","delivery":{"mode":"webhook","url":"` + r.URL + `","secret":"` + testSecret + `"}}`
	var wg sync.WaitGroup
	ids := make([]any, 20)
	for i := range ids {
		wg.Go(func() { ids[i] = result(t, s, "t", "events/subscribe", params)["id"] })
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Errorf("ids differ: %v, %v", id, ids[0])
		}
	}
	if st := s.Stats(); st.Verifications != 1 || st.Subscribed != 1 || st.Refreshes != 19 {
		t.Errorf("stats %+v", st)
	}
}

func TestManySubscriptionsGetEverything(t *testing.T) {
	r := newReceiver(t)
	s := startServer(t, Options{AllowPrivateCallbacks: true, CallbackRoots: r.roots, Senders: 8, RetryBase: time.Millisecond})
	const subscriptions, events = 20, 30
	for i := range subscriptions {
		result(
			t,
			s,
			"t",
			"events/subscribe",
			fmt.Sprintf(`{"name":"tick","delivery":{"mode":"webhook","url":"%s/%d","secret":"%s"}}`, r.URL, i, testSecret),
		)
		r.next(t)
	}
	r.answer(503, 500, 429, 503)
	for range events {
		publish(t, s, "tick", `{}`)
	}
	seen := map[string]int{}
	for len(seen) < subscriptions*events {
		p := r.next(t)
		seen[p.header.Get("X-MCP-Subscription-Id")+" "+p.header.Get("webhook-id")]++
	}
	closeServer(t, s)
	extra := 0
	for _, n := range seen {
		extra += n - 1
	}
	if extra+len(r.posts) > 4 {
		t.Errorf("%d deliveries came again, want at most 4", extra+len(r.posts))
	}
}

func TestFailureWords(t *testing.T) {
	r := newReceiver(t)
	slow := roundTrip(func(q *http.Request) (*http.Response, error) { <-q.Context().Done(); return nil, q.Context().Err() })
	for _, c := range []struct {
		want string
		opts Options
		slow bool
	}{
		{"tls_error", Options{AllowPrivateCallbacks: true}, false},
		{"address_refused", Options{CallbackInsecure: true}, false},
		{"timeout", Options{AckTimeout: 10 * time.Millisecond}, true},
		{"", Options{AllowPrivateCallbacks: true, CallbackInsecure: true}, false},
	} {
		opts, err := c.opts.withDefaults()
		must(t, err)
		p, err := newPoster(opts)
		must(t, err)
		if c.slow {
			p.transport = slow
		}
		_, _, failure := p.post(context.Background(), &message{url: mustURL(r.URL), id: "e-1", body: []byte(`{}`)})
		p.close()
		if failure != c.want {
			t.Errorf("%+v: failure %q, want %q", c.opts, failure, c.want)
		}
	}
}

func TestIsPublic(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1": false, "::1": false, "10.1.2.3": false, "172.16.0.1": false, "192.168.1.1": false,
		"169.254.169.254": false, "0.0.0.0": false, "0.1.2.3": false, "::": false, "fe80::1%eth0": false,
		"fc00::1": false, "224.0.0.1": false, "100.64.1.1": false, "198.18.0.1": false, "255.255.255.255": false,
		"::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false, "64:ff9b::7f00:1": false, "2002:7f00:1::": false,
		"8.8.8.8": true, "2606:4700::1": true, "::ffff:8.8.8.8": true,
	} {
		if got := isPublic(netip.MustParseAddr(address)); got != want {
			t.Errorf("isPublic(%s) = %v", address, got)
		}
	}
}

// subscribeParamsOf are the params of a subscribe call to a callback.
func subscribeParamsOf(url, arguments string) string {
	return `{"name":"chat.message","arguments":` + arguments + `,"delivery":{"mode":"webhook","url":"` + url +
		`","secret":"` + testSecret + `"},"cursor":null}`
}

// TestVerificationIsShared: calls for the same principal and URL share one
// challenge, whatever their arguments; another principal needs its own.
func TestVerificationIsShared(t *testing.T) {
	r := newReceiver(t)
	s := startServer(t, Options{AllowPrivateCallbacks: true, CallbackRoots: r.roots})
	var wait sync.WaitGroup
	for i := range 20 {
		wait.Go(func() {
			result(t, s, "a", "events/subscribe", subscribeParamsOf(r.URL, `{"channel":"`+strconv.Itoa(i)+`"}`))
		})
	}
	wait.Wait()
	if got := s.Stats(); got.Verifications != 1 || got.Subscriptions.Webhook != 20 {
		t.Errorf("%d verifications of %d subscriptions, want 1 of 20", got.Verifications, got.Subscriptions.Webhook)
	}
	for _, c := range []struct{ token, url string }{{"b", r.URL}, {"a", r.URL + "/other"}} {
		before := s.Stats().Verifications
		result(t, s, c.token, "events/subscribe", subscribeParamsOf(c.url, `{}`))
		if got := s.Stats().Verifications - before; got != 1 {
			t.Errorf("%s at %s: %d verifications, want 1", c.token, c.url, got)
		}
	}
}

// TestFailedVerificationsAreBounded: a host whose callbacks fail is not asked
// without end, and another host is not affected.
func TestFailedVerificationsAreBounded(t *testing.T) {
	bad, good := newReceiver(t), newReceiver(t)
	bad.silent = true
	bad.roots.AddCert(good.Certificate())
	s := startServer(t, Options{AllowPrivateCallbacks: true, CallbackRoots: bad.roots, VerifyFailures: 2})
	for i, want := range []string{`"challenge_failed"`, `"challenge_failed"`, `"limit":"verification_rate","max":2,"retryAfterMs":`} {
		if _, answer := rpc(
			t,
			s,
			"a",
			`{"jsonrpc":"2.0","id":1,"method":"events/subscribe","params":`+subscribeParamsOf(bad.URL+"/"+strconv.Itoa(i), `{}`)+`}`,
		); !strings.Contains(
			answer,
			want,
		) {
			t.Errorf("call %d: %s, want %s", i+1, answer, want)
		}
	}
	if got := s.Stats().Verifications; got != 2 {
		t.Errorf("the host was asked %d times, want 2", got)
	}
	result(t, s, "a", "events/subscribe", subscribeParamsOf(good.URL, `{}`))
}

// TestFailuresOfAMinute: the bound is of a minute.
func TestFailuresOfAMinute(t *testing.T) {
	now := time.Now()
	p := &proofs{most: 1, held: map[string]bool{}, failed: map[string]*failures{}}
	p.note("s", "h", false, now)
	if got := p.wait("h", now.Add(20*time.Second)); got != 40*time.Second {
		t.Errorf("wait %v, want 40s", got)
	}
	if got := p.wait("h", now.Add(time.Minute)); got != 0 {
		t.Errorf("wait %v after a minute", got)
	}
	p.note("s", "h", false, now.Add(2*time.Minute))
	if f := p.failed["h"]; f.count != 1 {
		t.Errorf("%d failures are counted in the second minute", f.count)
	}
}

// A subscription without an expiry whose callback fails for long is dropped,
// with one terminated envelope, even if its deliveries are suspended. One with
// an expiry stays until then, and so does one whose callback recovers.
func TestDroppedAfterLongFailure(t *testing.T) {
	for name, c := range map[string]struct {
		more      string
		recovers  bool
		dropped   bool
		envelopes int
	}{
		"no expiry": {more: `,"ttlMs":null`, dropped: true, envelopes: 1},
		"an expiry": {more: `,"ttlMs":86400000`},
		"recovers":  {more: `,"ttlMs":null`, recovers: true},
	} {
		t.Run(name, func(t *testing.T) {
			opts := Options{DropAfter: time.Hour, SuspendAfter: 2, RetryMax: 5, RetryBase: time.Second, State: t.TempDir() + "/state.json"}
			bubble(t, opts, func(t *testing.T, s *Server, f *fakeReceiver) {
				fails := true
				f.answer = func(int) int {
					if fails {
						return 503
					}
					return 204
				}
				wish := subscription("tick", testSecret, c.more)
				result(t, s, "t", "events/subscribe", wish)
				publish(t, s, "tick", `{}`)
				time.Sleep(59 * time.Minute)
				if s.hooks.count() != 1 || len(f.ids()) != 2 {
					t.Fatalf("%d subscriptions after 59 minutes, attempts %v", s.hooks.count(), f.ids())
				}
				if c.recovers {
					fails = false
					result(t, s, "t", "events/subscribe", wish)
				}
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				if got := s.hooks.count(); (got == 0) != c.dropped {
					t.Errorf("%d subscriptions in the end", got)
				}
				if got := len(s.state.Read().Subscriptions); (got == 0) != c.dropped {
					t.Errorf("%d subscriptions are kept", got)
				}
				var last []received
				for _, p := range f.posts {
					if strings.Contains(string(p.body), `"terminated"`) {
						last = append(last, p)
					}
				}
				if len(last) != c.envelopes {
					t.Fatalf("%d terminated envelopes, want %d", len(last), c.envelopes)
				}
				for _, p := range last {
					if want := signature(
						t,
						testSecret,
						p.header.Get("webhook-id"),
						p.header.Get("webhook-timestamp"),
						p.body,
					); p.header.Get(
						"webhook-signature",
					) != want {
						t.Errorf("headers %v, want the signature %s", p.header, want)
					}
					if got, want := string(
						p.body,
					), `{"error":{"code":-32027,"message":"Callback endpoint error","data":{"reason":"http_5xx"}},"type":"terminated"}`; got != want {
						t.Errorf("envelope %s, want %s", got, want)
					}
				}
			})
		})
	}
}

// Without a file that can be written, a server does not promise what it cannot
// keep.
func TestSubscriptionsThatCannotBeKept(t *testing.T) {
	dir := t.TempDir() + "/gone"
	must(t, os.Mkdir(dir, 0o700))
	bubble(t, Options{State: dir + "/state.json"}, func(t *testing.T, s *Server, f *fakeReceiver) {
		wish := subscription("tick", testSecret, `,"ttlMs":null`)
		result(t, s, "t", "events/subscribe", wish)
		must(t, os.Rename(dir, dir+"-away"))
		other := subscription("tick", testSecret, `,"ttlMs":null,"arguments":{}`)
		for _, params := range []string{wish, strings.Replace(other, "/h", "/i", 1)} {
			_, text := rpc(t, s, "t", `{"jsonrpc":"2.0","id":1,"method":"events/subscribe","params":`+params+`}`)
			if !strings.Contains(text, `"code":-32603`) || !strings.Contains(text, "cannot keep this") {
				t.Errorf("answer %s", text)
			}
		}
		if got := s.hooks.count(); got != 1 {
			t.Errorf("%d subscriptions, want the first alone", got)
		}
		must(t, os.Rename(dir+"-away", dir))
		result(t, s, "t", "events/subscribe", wish)
	})
}

// What is no longer right at a restart is not opened again: the subscription is
// terminated, or was over.
func TestRestartsLookAgain(t *testing.T) {
	for name, c := range map[string]struct {
		name, more string
		change     func(*Options)
		after      time.Duration
		body       string
	}{
		"type gone":  {name: "presence.changed", more: `,"ttlMs":null`, change: func(o *Options) { o.Presence = false }, body: `"code":-32023`},
		"token gone": {name: "tick", more: `,"ttlMs":null`, change: func(o *Options) { o.Tokens = []string{"other"} }, body: `"code":-32024`},
		"host gone": {name: "tick", more: `,"ttlMs":null`,
			change: func(o *Options) { o.Proof, o.CallbackHosts = ProofAllowList, []string{"other.example"} },
			body:   `"code":-32027`},
		"expired":      {name: "tick", more: `,"ttlMs":600000`, after: time.Hour},
		"not expired":  {name: "tick", more: `,"ttlMs":86400000`, after: time.Hour, body: `"type":"gap"`},
		"has no gaps":  {name: "presence.changed", more: `,"ttlMs":null`},
		"after a fall": {name: "tick", more: `,"ttlMs":null`, body: `"type":"gap"`},
	} {
		t.Run(name, func(t *testing.T) {
			opts := Options{Presence: true, State: t.TempDir() + "/state.json"}
			bubble(t, opts, func(t *testing.T, s *Server, _ *fakeReceiver) {
				result(t, s, "t", "events/subscribe", subscription(c.name, testSecret, c.more))
			})
			if c.change != nil {
				c.change(&opts)
			}
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(c.after)
				s, err := New(opts)
				must(t, err)
				f := &fakeReceiver{}
				s.hooks.poster.transport = f
				s.startBackground()
				synctest.Wait()
				f.mu.Lock()
				defer f.mu.Unlock()
				switch {
				case c.body == "" && len(f.posts) > 0,
					c.body != "" && (len(f.posts) != 1 || !strings.Contains(string(f.posts[0].body), c.body)):
					t.Errorf("posts %v, want one with %q", f.posts, c.body)
				}
				closeServer(t, s)
			})
		})
	}
}

// With both signatures, the second is of the key that the server shows, over the
// same bytes. It signs nothing else, and a restart keeps it.
func TestServersOwnSignature(t *testing.T) {
	r := newReceiver(t)
	opts := Options{Signature: SignBoth, State: t.TempDir() + "/state.json", AllowPrivateCallbacks: true, CallbackRoots: r.roots}
	var shown [2]string
	for start := range 2 {
		s, err := New(opts)
		must(t, err)
		must(t, s.Start(t.Context()))
		shown[start] = shownKey(t, s)
		x, err := base64.RawURLEncoding.DecodeString(shown[start])
		if err != nil || len(x) != ed25519.PublicKeySize {
			t.Fatalf("key %q: %v", shown[start], err)
		}
		if start == 0 {
			result(
				t,
				s,
				"t",
				"events/subscribe",
				strings.Replace(subscription("tick", testSecret, `,"ttlMs":null`), "https://hook.example", r.URL, 1),
			)
		}
		publish(t, s, "tick", `{}`)
		for range 2 { // the challenge or the gap, and the event
			p := r.next(t)
			id, at := p.header.Get("webhook-id"), p.header.Get("webhook-timestamp")
			first, second, _ := strings.Cut(p.header.Get("webhook-signature"), " ")
			if want := signature(t, testSecret, id, at, p.body); first != want {
				t.Errorf("the first signature is %s, want %s", first, want)
			}
			signed, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(second, "v1a,"))
			text := []byte(id + "." + at + "." + string(p.body))
			if err != nil || !strings.HasPrefix(second, "v1a,") || !ed25519.Verify(x, text, signed) {
				t.Errorf("%s is not signed by the key: %q, %v", text, second, err)
			}
			text[len(text)-2] ^= 1
			if ed25519.Verify(x, text, signed) {
				t.Error("another text has the same signature")
			}
		}
		closeServer(t, s)
	}
	if shown[0] != shown[1] {
		t.Errorf("the key changed from %s to %s", shown[0], shown[1])
	}
}

// shownKey is the public key of a server, as it shows it to everybody.
func shownKey(t *testing.T, s *Server) string {
	t.Helper()
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/.well-known/mcp-webhook-jwks.json", nil))
	var set struct {
		Keys []struct{ Kty, Crv, X string }
	}
	if err := json.Unmarshal(
		w.Body.Bytes(),
		&set,
	); err != nil || w.Code != 200 || len(set.Keys) != 1 || set.Keys[0].Kty != "OKP" ||
		set.Keys[0].Crv != "Ed25519" {
		t.Fatalf("keys: HTTP %d %s, %v", w.Code, w.Body, err)
	}
	return set.Keys[0].X
}

func TestNoKeyWithoutItsSignature(t *testing.T) {
	s := startServer(t, Options{})
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/.well-known/mcp-webhook-jwks.json", nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("HTTP %d %s", w.Code, w.Body)
	}
}

// must ends the test if a step of it has failed.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
