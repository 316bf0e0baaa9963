package run

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/witness"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
)

// hookServer is an MCP server that only webhooks know, written for these tests.
// It sends no challenge. Each subscription has a goroutine that posts its events
// in order and tries each several times. Publishing is a POST to /publish.
type hookServer struct {
	client   *http.Client
	attempts int
	// textKey signs with the secret's text, as many senders do by mistake.
	textKey bool
	// suspendAfter is how many events a subscription may fail to deliver in a
	// row until it is suspended; 0 = it never is. What is published meanwhile
	// is not delivered, ever.
	suspendAfter int
	// endAfter ends a subscription for a moment once it has delivered so many
	// events: a terminated envelope whose cause passes; 0 = never.
	endAfter int

	ctx  context.Context
	work sync.WaitGroup
	mu   sync.Mutex
	subs map[string]*hookSub
	n    int
	// untold counts the events that a subscription missed after its end, before its
	// receiver knew of it.
	untold int64
	// dials counts the connections that client opened, by address, and dialled those before the first
	// subscription ended.
	dials, dialled map[string]int64
}

type hookSub struct {
	url, secret, id string
	queue           chan hookEvent // closed by nobody: the server's context ends its goroutine

	failed, delivered int
	suspended, ended  bool
	telling           bool // of the end
}

type hookEvent struct {
	id   string
	body []byte
}

func (s *hookServer) start(t *testing.T) *httptest.Server {
	s.subs = map[string]*hookSub{}
	var cancel context.CancelFunc
	s.ctx, cancel = context.WithCancel(context.Background())
	srv := httptest.NewServer(s)
	t.Cleanup(func() {
		cancel()
		s.work.Wait()
		srv.Close()
		s.client.CloseIdleConnections()
	})
	return srv
}

func (s *hookServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if r.URL.Path == "/publish" {
		s.publish(string(body))
		w.WriteHeader(http.StatusAccepted)
		return
	}
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct{ Delivery struct{ URL, Secret string } }
	}
	_ = json.Unmarshal(body, &m)
	w.Header().Set("Content-Type", "application/json")
	switch m.Method {
	case "server/discover":
		fmt.Fprintf(
			w,
			`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],`+
				`"capabilities":{"events":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"hooks","version":"1"}}}}`,
			m.ID,
		)
	case "events/list":
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"events":[{"name":"log.line","delivery":["webhook"]}]}}`, m.ID)
	case "events/subscribe":
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, s.subscribe(m.Params.Delivery.URL, m.Params.Delivery.Secret))
	case "events/unsubscribe":
		s.mu.Lock()
		if s.dialled == nil {
			s.dialled = maps.Clone(s.dials)
		}
		delete(s.subs, m.Params.Delivery.URL)
		s.mu.Unlock()
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
	default:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID)
	}
}

func (s *hookServer) subscribe(url, secret string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub, status := s.subs[url], ""
	if sub == nil {
		sub = &hookSub{url: url, id: "s" + strconv.Itoa(len(s.subs)), queue: make(chan hookEvent, 1000)}
		s.subs[url] = sub
		s.work.Go(func() { s.serve(sub) })
	} else {
		status = fmt.Sprintf(`,"deliveryStatus":{"active":%t,"lastError":"http_4xx"}`, !sub.suspended)
	}
	sub.secret, sub.suspended, sub.ended, sub.failed = secret, false, false, 0
	return fmt.Sprintf(`{"id":"%s","refreshBefore":null,"cursor":null%s}`, sub.id, status)
}

func (s *hookServer) publish(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	quoted, _ := json.Marshal(text)
	e := hookEvent{
		"e" + strconv.Itoa(s.n),
		fmt.Appendf(nil, `{"eventId":"e%d","name":"log.line","timestamp":"2026-11-20T10:00:00Z","data":{"text":%s}}`, s.n, quoted),
	}
	for _, sub := range s.subs {
		switch {
		case !sub.suspended && !sub.ended:
			sub.queue <- e
		case sub.telling:
			s.untold++
		}
	}
}

// serve delivers the events of one subscription.
func (s *hookServer) serve(sub *hookSub) {
	for {
		select {
		case <-s.ctx.Done():
			return
		case e := <-sub.queue:
			ok := false
			for try := 0; try < s.attempts && !ok; try++ {
				ok = s.post(sub, e)
			}
			s.note(sub, ok)
		}
	}
}

// note keeps account of an event that was delivered, or not.
func (s *hookServer) note(sub *hookSub, ok bool) {
	s.mu.Lock()
	if ok {
		sub.failed, sub.delivered = 0, sub.delivered+1
	} else {
		sub.failed++
	}
	end := s.endAfter > 0 && sub.delivered == s.endAfter && !strings.HasSuffix(sub.url, "/w") // the witness does not come back
	sub.ended, sub.telling = sub.ended || end, end
	if s.suspendAfter > 0 && sub.failed >= s.suspendAfter {
		sub.suspended = true
		for len(sub.queue) > 0 { // published before, not delivered all the same
			<-sub.queue
		}
	}
	s.mu.Unlock()
	if end {
		s.post(sub, hookEvent{"msg_1", []byte(`{"type":"terminated","error":{"code":-32013,"message":"for a moment"}}`)})
		s.mu.Lock()
		sub.telling = false
		s.mu.Unlock()
	}
}

// post makes one attempt.
func (s *hookServer) post(sub *hookSub, e hookEvent) bool {
	s.mu.Lock()
	secret := sub.secret
	s.mu.Unlock()
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return false
	}
	if s.textKey {
		key = []byte(secret)
	}
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", e.id, stamp, e.body)
	req, err := http.NewRequestWithContext(s.ctx, http.MethodPost, sub.url, bytes.NewReader(e.body))
	if err != nil {
		return false
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Webhook-Id", e.id)
	req.Header.Set("Webhook-Timestamp", stamp)
	req.Header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	req.Header.Set("X-MCP-Subscription-Id", sub.id)
	resp, err := s.client.Do(req)
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	return resp.StatusCode/100 == 2
}

// hookWitness subscribes a witness at the server, over TLS, and returns a client
// for the server that trusts the witness's certificate and no other.
func hookWitness(t *testing.T) (w *witness.Witness, client *http.Client, subscribe func(server string)) {
	t.Helper()
	w, handler := witness.Webhook()
	srv := httptest.NewTLSServer(handler)
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	t.Cleanup(func() {
		srv.Close()
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w, &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}, func(server string) {
		secret := "whsec_" + base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))
		if err := witness.Subscribe(
			t.Context(),
			witness.Options{URL: server + "/mcp", Event: "log.line"},
			srv.URL+"/w",
			secret,
		); err != nil {
			t.Fatal(err)
		}
	}
}

// hookRun runs one lane of three subscriptions against a server, and a witness
// beside it, for 20 events.
func hookRun(t *testing.T, s *hookServer, lane string) (*results.Result, *witness.Witness) {
	t.Helper()
	w, client, subscribe := hookWitness(t)
	if s.client == nil {
		s.client = client
		client.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			s.mu.Lock()
			if s.dials == nil {
				s.dials = map[string]int64{}
			}
			s.dials[addr]++
			s.mu.Unlock()
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		}
	}
	srv := s.start(t)
	subscribe(srv.URL)
	p, err := profiles.Parse("test", []byte(fmt.Sprintf(`name: test
target: {url: "%s/mcp"}
lanes:
  - {name: hooks, mode: webhook, subscriptions: 3, event: log.line%s}
upstream: {kind: http, http: {url: "%s/publish", body: '{{.Probe}}'}}
schedule: {kind: burst, burst: 4, every: 100ms}
phases: {warmup: 0, measure: 500ms, drain: 3s}
`, srv.URL, lane, srv.URL)), nil, systems.Table)
	must(t, err)
	r := runs(t, Options{Profile: p}).Result
	if r.Upstream.Accepted == 0 || r.Upstream.Accepted != r.Upstream.Published {
		t.Fatalf("%d of %d accepted", r.Upstream.Accepted, r.Upstream.Published)
	}
	if n := caughtUp(w, r.Upstream.Accepted); n != r.Upstream.Accepted {
		t.Fatalf("the witness saw %d of %d", n, r.Upstream.Accepted)
	}
	if l := r.Lanes[0]; l.Expected != 3*r.Upstream.Accepted {
		t.Fatalf("expected %d, of %d events", l.Expected, r.Upstream.Accepted)
	}
	for method, n := range r.Lanes[0].Failures {
		t.Errorf("%d failed calls of the target: %s", n, method)
	}
	return r, w
}

// warningOf returns the text of the lane's warning with a code; empty if there is
// none.
func warningOf(r *results.Result, code string) string {
	for _, w := range r.Warnings {
		if w.Code == code {
			return w.Text
		}
	}
	return ""
}

// A target that does not trust the listener's certificate has lost nothing: the
// witness, whose certificate it trusts, gets every event.
func TestWebhookWithACertificateThatTheTargetDoesNotTrust(t *testing.T) {
	t.Parallel() // it mostly waits
	s := &hookServer{attempts: 2}
	r, _ := hookRun(t, s, "")
	l := r.Lanes[0]
	if l.LostSilent != 0 || l.LostUndeliverable != l.Expected || l.Lost() != l.Expected {
		t.Errorf("%d expected: %d silent loss, %d undeliverable here", l.Expected, l.LostSilent, l.LostUndeliverable)
	}
	// Two attempts each, of which a slow machine makes some after the end. One of each subscription
	// may be under way then.
	s.mu.Lock()
	defer s.mu.Unlock()
	dialled := false
	for addr, n := range s.dials {
		dialled = dialled || s.dialled[addr]-3 <= l.Detail.Undeliverable && l.Detail.Undeliverable <= n
	}
	if d := l.Detail; !dialled || d.Undeliverable < l.Expected ||
		d.UndeliverableBy["TLS handshake: remote error: tls: bad certificate"] != d.Undeliverable {
		t.Errorf("%d connections failed: %v; dialled %v", d.Undeliverable, d.UndeliverableBy, s.dials)
	}
	if text := warningOf(r, "undeliverable"); !strings.Contains(text, "webhook.certFile") || !strings.Contains(text, "bad certificate") {
		t.Errorf("warned %q", text)
	}
}

// The same target on the same machine, called back over plain HTTP.
func TestWebhookOverPlainHTTPOnLoopback(t *testing.T) {
	t.Parallel() // it mostly waits
	r, _ := hookRun(t, &hookServer{attempts: 1}, `, webhook: {callback: "http://127.0.0.1:0"}`)
	if l := r.Lanes[0]; l.Delivered != l.Expected || l.Lost() != 0 || l.Detail.Undeliverable != 0 {
		t.Errorf("%d expected, %d delivered, %d lost", l.Expected, l.Delivered, l.Lost())
	}
}

// A sender that signs with the text of the secret: every copy comes and is
// refused, and the mistake is named.
func TestWebhookSignedWithTheText(t *testing.T) {
	t.Parallel() // it mostly waits
	const mistake = "wrong signature: the key is the secret's text, whsec_ included, and not the bytes that it stands for"
	t.Run("strict", func(t *testing.T) {
		t.Parallel()
		r, _ := hookRun(t, &hookServer{attempts: 2, textKey: true}, `, webhook: {callback: "http://127.0.0.1:0"}`)
		l := r.Lanes[0]
		if l.LostRefused != l.Expected || l.LostSilent != 0 {
			t.Errorf("%d expected: %d refused, %d silent loss", l.Expected, l.LostRefused, l.LostSilent)
		}
		if d := l.Detail; d.Rejected != 2*l.Expected || d.RejectedBy[mistake] != d.Rejected || d.AnsweredBy["http 401"] != d.Rejected {
			t.Errorf("%d rejected: %v, answered %v", d.Rejected, d.RejectedBy, d.AnsweredBy)
		}
		if text := warningOf(r, "rejected"); !strings.Contains(text, mistake) || !strings.Contains(text, "webhook.verify: report") {
			t.Errorf("warned %q", text)
		}
	})
	t.Run("report", func(t *testing.T) {
		t.Parallel()
		r, _ := hookRun(t, &hookServer{attempts: 2, textKey: true}, `, webhook: {callback: "http://127.0.0.1:0", verify: report}`)
		l := r.Lanes[0]
		if l.Delivered != l.Expected || l.Lost() != 0 || l.Detail.MalformedBy["taken by verify: report: "+mistake] != l.Expected {
			t.Errorf("%d expected, %d delivered, %v", l.Expected, l.Delivered, l.Detail.MalformedBy)
		}
	})
}

// A target that suspends a subscription whose deliveries fail, and says so when
// it is asked: what it was published meanwhile is a row of its own.
func TestWebhookLostAfterSuspension(t *testing.T) {
	t.Parallel() // it mostly waits
	r, _ := hookRun(t, &hookServer{attempts: 1, textKey: true, suspendAfter: 4}, `, webhook: {callback: "http://127.0.0.1:0"}`)
	l := r.Lanes[0]
	if l.LostSilent != 0 || l.LostRefused != 3*4 || l.LostSuspended != l.Expected-3*4 {
		t.Errorf("%d expected: %d refused, %d after suspension, %d silent loss", l.Expected, l.LostRefused, l.LostSuspended, l.LostSilent)
	}
	if d := l.Detail; d.Suspended != 3 || d.SuspendedBy["deliveryStatus: http_4xx"] != 3 {
		t.Errorf("suspended %d times: %v", d.Suspended, d.SuspendedBy)
	}
	if text := warningOf(r, "suspended"); !strings.Contains(text, "http_4xx") || !strings.Contains(text, "subscribed again") {
		t.Errorf("warned %q", text)
	}
}

// A subscription that is ended for a moment costs a request to be opened again,
// and nothing to open it.
func TestWebhookEndedForAMoment(t *testing.T) {
	t.Parallel() // it mostly waits
	s := &hookServer{attempts: 1, endAfter: 8}
	r, _ := hookRun(t, s, `, webhook: {callback: "http://127.0.0.1:0"}`)
	l := r.Lanes[0]
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.LostSilent > s.untold || l.Detail.Suspended != 3 || l.Delivered+l.LostSuspended+l.LostSilent != l.Expected {
		t.Errorf(
			"%d expected, %d delivered, %d after suspension, %d silent loss, %d before it was told; suspended %d times",
			l.Expected,
			l.Delivered,
			l.LostSuspended,
			l.LostSilent,
			s.untold,
			l.Detail.Suspended,
		)
	}
	c := l.Overhead.Causes
	if c["control"].Requests != 3 || c["verification"].Requests != 0 || l.Overhead.PerSubscription.Requests != 2 {
		t.Errorf(
			"%d control envelopes, %d verifications, %v requests to open one",
			c["control"].Requests,
			c["verification"].Requests,
			l.Overhead.PerSubscription.Requests,
		)
	}
}
