package refserver

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
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
	if err != nil {
		t.Fatal(err)
	}
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
		if err != nil {
			t.Fatal(err)
		}
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
		result(t, s, "t", "events/subscribe", fmt.Sprintf(`{"name":"tick","delivery":{"mode":"webhook","url":"%s/%d","secret":"%s"}}`, r.URL, i, testSecret))
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
		if err != nil {
			t.Fatal(err)
		}
		p, err := newPoster(opts)
		if err != nil {
			t.Fatal(err)
		}
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
	return `{"name":"chat.message","arguments":` + arguments + `,"delivery":{"mode":"webhook","url":"` + url + `","secret":"` + testSecret + `"},"cursor":null}`
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
		if _, answer := rpc(t, s, "a", `{"jsonrpc":"2.0","id":1,"method":"events/subscribe","params":`+subscribeParamsOf(bad.URL+"/"+strconv.Itoa(i), `{}`)+`}`); !strings.Contains(answer, want) {
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
