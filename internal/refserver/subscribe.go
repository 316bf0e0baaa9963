package refserver

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"golang.org/x/sync/singleflight"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver/state"
)

// subscribeParams are the params of events/subscribe and events/unsubscribe.
type subscribeParams struct {
	eventParams
	Delivery *struct {
		Mode   string `json:"mode"`
		URL    string `json:"url"`
		Secret string `json:"secret"`
	} `json:"delivery"`
	TTLMs json.RawMessage `json:"ttlMs"`
	// ID is the client's own name of the subscription, in the older revision.
	ID string `json:"id"`
}

// subscribeRequest is a checked call.
type subscribeRequest struct {
	subscribeParams
	fresh *hook // not registered yet
	sel   selection
	from  start
	ttl   time.Duration // 0 = no expiry
	key   *standardwebhooks.Webhook
}

// readSubscription reads what subscribe and unsubscribe have in common.
func (s *Server) readSubscription(c *call) (*subscribeRequest, *rpcError) {
	req := new(subscribeRequest)
	p := &req.subscribeParams
	s.admitAnonymous(c)
	if c.principal == "" {
		return nil, forbidden("authentication required")
	}
	if rpcErr := c.decode(p); rpcErr != nil {
		return nil, rpcErr
	}
	t, sel, canonical, rpcErr := s.resolve(eventmeter.Webhook, c, p.eventParams)
	if rpcErr != nil {
		return nil, rpcErr
	}
	if p.Delivery == nil {
		return nil, invalidParams("delivery is missing")
	}
	u, rpcErr := s.callbackOf(p.Delivery.URL)
	if rpcErr != nil {
		return nil, rpcErr
	}
	fresh := s.newHook(
		state.Subscription{Principal: c.principal, URL: p.Delivery.URL, Name: p.Name, Arguments: json.RawMessage(canonical)},
		u,
		t,
	)
	if c.rules.spellsOlder() && p.ID != "" {
		fresh.key, fresh.id = strings.Join([]string{c.principal, p.Delivery.URL, p.ID}, "\x00"), p.ID
	}
	if c.smithery() {
		fresh.makeDirect()
	}
	s.miskey(fresh, c, *p)
	req.fresh, req.sel = fresh, sel
	return req, nil
}

// newHook makes a subscription that is not registered yet.
func (s *Server) newHook(of state.Subscription, u *url.URL, t *topic) *hook {
	key := strings.Join([]string{of.Principal, of.URL, of.Name, string(of.Arguments)}, "\x00")
	return &hook{
		hooks: s.hooks, key: key, id: idOf(key),
		principal: of.Principal, url: u, topic: t, kept: of, opened: make(chan struct{}),
	}
}

func idOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return "sub_" + hex.EncodeToString(sum[:12])
}

func (s *Server) readSubscribe(c *call) (*subscribeRequest, *rpcError) {
	req, rpcErr := s.readSubscription(c)
	if rpcErr != nil {
		return nil, rpcErr
	}
	if req.Delivery.Mode != "webhook" && !s.breach.Breaks("subscribe-webhook-only") {
		return nil, unsupported("deliveryMode", req.Delivery.Mode)
	}
	if req.key, rpcErr = s.secretOf(req.Delivery.Secret); rpcErr != nil {
		return nil, rpcErr
	}
	if req.fresh.direct || req.fresh.older() { // such subscriptions ask for no time to live
		req.TTLMs = nil
	}
	if !req.fresh.direct {
		req.from = s.startOf(eventmeter.Webhook, c, req.fresh.topic, req.eventParams)
	}
	req.ttl, rpcErr = s.grantFor(req.TTLMs)
	return req, rpcErr
}

// grantFor decodes ttlMs: absent means the default, null no expiry.
func (s *Server) grantFor(ttl json.RawMessage) (time.Duration, *rpcError) {
	switch {
	case s.faultTTL() > 0:
		return s.faultTTL(), nil
	case len(ttl) == 0:
		return s.opts.TTLDefault, nil
	case string(ttl) == "null" && !s.breach.Breaks("ttl-no-rejection-path"):
		return 0, nil
	}
	var ms int64
	if err := json.Unmarshal(ttl, &ms); err != nil || ms < 0 {
		return 0, invalidParams("ttlMs is not a whole number of 0 or more")
	}
	grant := min(max(millis(ms), s.opts.TTLMin), s.opts.TTLMax)
	if grant != millis(ms) && s.breach.Breaks("ttl-no-rejection-path") {
		return 0, invalidParams("ttlMs is out of range")
	}
	return grant, nil
}

// subscribe answers events/subscribe: it opens a subscription after the
// callback has proved that it wants it, or refreshes an open one.
func (s *Server) subscribe(c *call) *rpcError {
	req, rpcErr := s.readSubscribe(c)
	for rpcErr == nil {
		h, made := s.hooks.claim(req.fresh)
		if made {
			var result []byte
			if result, rpcErr = s.openHook(c.r.Context(), h, req); rpcErr != nil {
				break
			}
			if rpcErr = s.flushState(); rpcErr != nil {
				s.hooks.remove(h, nil)
				break
			}
			return c.answer(result)
		}
		// Another call may be in the handshake of the same subscription.
		select {
		case <-h.opened:
		case <-c.r.Context().Done():
			return nil
		case <-s.closing:
			return &rpcError{Code: codeInternal, Message: "Shutting down"}
		}
		if s.breach.Breaks("verification-cached-per-principal-url") {
			s.challenge(c.r.Context(), h, req.key) // the outcome does not matter
		}
		if result, ok := s.refreshHook(h, req); ok {
			if rpcErr = s.flushState(); rpcErr != nil {
				break
			}
			s.counts.Refreshes.Add(1)
			return c.answer(result)
		}
	}
	return rpcErr
}

// openHook does the handshake of a new subscription and starts its deliveries.
func (s *Server) openHook(ctx context.Context, h *hook, req *subscribeRequest) ([]byte, *rpcError) {
	rpcErr := s.reserve()
	reserved := rpcErr == nil
	if rpcErr == nil {
		rpcErr = s.faultInjector.refuse(h.system(), eventmeter.Webhook)
	}
	if rpcErr == nil {
		if !h.direct {
			m := &message{url: h.url, subscriptionID: h.id, keys: []*standardwebhooks.Webhook{req.key}}
			s.deliverEarly(ctx, m, h.topic.kind.name)
		}
		rpcErr = s.prove(h, req.key)
	}
	hs := s.hooks
	hs.mu.Lock()
	// Revoke marks first and then lists the subscriptions, so that one of the
	// two sees a subscription that opens meanwhile. Offer works the same way.
	switch _, revoked := s.principals.watch(h.principal); {
	case rpcErr != nil:
	case revoked:
		rpcErr = forbidden(reasonRevoked)
	case h.topic.withdrawn.Load():
		rpcErr = noSuchEvent()
	}
	if rpcErr != nil && reserved {
		s.unreserve()
	}
	if rpcErr != nil {
		delete(hs.byKey, h.key)
		h.failed = rpcErr
		close(h.opened)
		hs.mu.Unlock()
		return nil, rpcErr
	}
	h.mu.Lock()
	now := time.Now()
	h.rotate(req.Delivery.Secret, req.key, now, 0)
	reader, position, truncated := h.topic.open(req.sel, req.from, s.opts.QueueLen, h.wake)
	h.source = reader
	if truncated && h.older() {
		h.announceGap(position)
	}
	h.mu.Unlock()
	expires := expiry(now, req.ttl)
	hs.record(h, expires)
	close(h.opened)
	hs.mu.Unlock()
	s.counts.Subscribed.Add(1)
	hs.grant(h, expires)
	h.wake() // for what is replayed
	return h.result(expires, position, truncated, nil), nil
}

// refreshHook renews an open subscription. It returns false if the subscription
// is gone. A refresh ignores the cursor: the subscription keeps its own
// position.
func (s *Server) refreshHook(h *hook, req *subscribeRequest) ([]byte, bool) {
	hs := s.hooks
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if h.failed != nil || !hs.isCurrent(h) {
		return nil, false
	}
	now := time.Now()
	expires := expiry(now, req.ttl)
	h.mu.Lock()
	grace := s.opts.DualSignGrace
	if s.breach.Breaks("delivery-dual-sign-on-rotation") {
		grace = 0
	}
	if !s.breach.Breaks("subscribe-refresh-replaces-secret") {
		h.rotate(req.Delivery.Secret, req.key, now, grace)
	}
	st, position := h.status, h.watermark()
	if !s.breach.Breaks("subscribe-refresh-reactivates") {
		h.resume()
	}
	h.mu.Unlock()
	st.throttled = s.faultInjector.throttled(eventmeter.Webhook, now)
	hs.record(h, expires)
	hs.grant(h, expires)
	if st.suspended {
		h.wake()
	}
	return h.result(expires, position, false, &st), true
}

// expiry is when a grant ends, in whole milliseconds as the client sees it.
func expiry(now time.Time, ttl time.Duration) time.Time {
	if ttl == 0 {
		return time.Time{}
	}
	return now.Add(ttl).Truncate(time.Millisecond)
}

// result returns the members of subscribe's result.
func (h *hook) result(expires time.Time, position uint64, truncated bool, st *status) []byte {
	type deliveryStatus struct {
		Active         bool    `json:"active"`
		LastDeliveryAt *string `json:"lastDeliveryAt"`
		LastError      *string `json:"lastError"`
		FailedSince    *string `json:"failedSince,omitempty"`
		Throttled      bool    `json:"throttled,omitempty"`
		RetryAfter     int64   `json:"retryAfterMs,omitempty"`
	}
	out := struct {
		ID            string          `json:"id"`
		RefreshBefore *string         `json:"refreshBefore"`
		Cursor        json.RawMessage `json:"cursor,omitempty"`
		Truncated     *bool           `json:"truncated,omitempty"`
		Status        *deliveryStatus `json:"deliveryStatus,omitempty"`
	}{ID: h.id, RefreshBefore: instant(expires)}
	if !h.direct && !h.older() {
		out.Cursor, out.Truncated = h.topic.appendCursorValue(nil, position), &truncated
	}
	if st != nil && !h.direct {
		out.Status = &deliveryStatus{Active: !st.suspended, LastDeliveryAt: instant(st.lastDelivery), FailedSince: instant(st.failedSince)}
		if st.lastError != "" {
			out.Status.LastError = &st.lastError
		}
		if st.throttled > 0 {
			out.Status.Throttled, out.Status.RetryAfter = true, max(1, st.throttled.Milliseconds())
		}
	}
	b, err := json.Marshal(out)
	if err != nil { // strings and booleans always encode
		return nil
	}
	return b[1 : len(b)-1]
}

// unsubscribe answers events/unsubscribe.
func (s *Server) unsubscribe(c *call) *rpcError {
	want, rpcErr := s.readSubscription(c)
	if rpcErr != nil {
		return rpcErr
	}
	h := s.hooks.find(want.fresh.key)
	if h == nil || !h.isOpen() || !s.hooks.remove(h, nil) {
		return noSuchSubscription()
	}
	if rpcErr := s.flushState(); rpcErr != nil {
		return rpcErr
	}
	return c.answer(nil)
}

// proven names what a proof is about.
func (h *hook) proven() string { return h.principal + "\x00" + h.url.String() }

// openState opens the file of [Options.State]. Ids of events begin anew with a
// process: each start has a range of them, so that a receiver that drops what it
// has seen does not drop new events.
func (s *Server) openState() error {
	if s.opts.State == "" {
		return nil
	}
	f, err := state.Open(s.opts.State)
	if err != nil {
		return fmt.Errorf("target: State: %w", err)
	}
	s.state, s.hooks.state = f, f
	s.broker.ids.Store((f.Read().Starts - 1) << 32)
	return nil
}

// makeIdentity makes the key of [SignBoth], or takes that of the state.
func (s *Server) makeIdentity() error {
	if s.opts.Signature != SignBoth {
		return nil
	}
	seed := s.state.Read().Identity
	if len(seed) != ed25519.SeedSize {
		seed = make([]byte, ed25519.SeedSize)
		_, _ = rand.Read(seed) // never fails
		s.state.SetIdentity(seed)
		if err := s.state.Flush(); err != nil {
			return fmt.Errorf("target: State: %w", err)
		}
	}
	s.hooks.poster.identity = ed25519.NewKeyFromSeed(seed)
	return nil
}

// flushState returns when the state is in its file.
func (s *Server) flushState() *rpcError {
	if err := s.state.Flush(); err != nil {
		s.opts.Logger.Error("state", "error", err)
		return internal(": the server cannot keep this over a restart")
	}
	return nil
}

// restore opens the subscriptions of the state again.
func (s *Server) restore() {
	for id, r := range s.state.Read().Subscriptions {
		if !r.Expires.IsZero() && !time.Now().Before(r.Expires) {
			s.state.DropSubscription(id)
			continue
		}
		if err := s.restoreHook(r); err != nil {
			s.opts.Logger.Error("state: a subscription is left out", "id", id, "error", err)
		}
	}
	s.resumables.restore()
}

// restoreHook opens one subscription again. Its callback counts as verified.
// Events may have come since it was recorded, so it begins with a gap. If its
// type is gone, or not its principal's any more, it is terminated.
func (s *Server) restoreHook(r state.Subscription) error {
	u, rpcErr := parseCallback(r.URL)
	if rpcErr != nil {
		return rpcErr
	}
	if rpcErr := s.reserve(); rpcErr != nil {
		return rpcErr
	}
	c := &call{method: eventsPrefix + "subscribe", principal: r.Principal}
	t, sel, _, refusal := s.resolve(eventmeter.Webhook, c, eventParams{Name: r.Name, Arguments: r.Arguments})
	switch {
	case s.opts.Proof == ProofAllowList && !hostListed(s.opts.CallbackHosts, u):
		refusal = callbackError(failChallenge)
	case s.issuer == nil && !s.admits(r.Principal):
		refusal = forbidden(reasonRevoked)
	}
	secrets, expires := r.Secrets, r.Expires
	r.Secrets = nil
	h := s.newHook(r, u, t)
	if err := h.restoreSecrets(secrets); err != nil {
		s.unreserve()
		return err
	}
	s.hooks.claim(h) // keys of a document differ
	close(h.opened)
	if refusal != nil {
		s.terminate(h, refusal, false)
		return nil
	}
	if s.breach.Breaks("verification-persisted-for-no-expiry") {
		s.challenge(s.hooks.ctx, h, h.secrets[0].key) // the outcome does not matter
	}
	s.hooks.proofs.note(h.proven(), u.Host, true, time.Now())
	h.mu.Lock()
	reader, position, _ := t.open(sel, start{}, s.opts.QueueLen, h.wake)
	h.source = reader
	if !t.kind.noReplay {
		h.announceGap(position)
	}
	h.mu.Unlock()
	s.hooks.grant(h, expires)
	h.wake()
	return nil
}

func (h *hook) restoreSecrets(kept []state.Secret) error {
	for _, k := range kept {
		key, rpcErr := parseSecret(k.Text)
		if rpcErr != nil {
			return rpcErr
		}
		h.secrets = append(h.secrets, secret{text: k.Text, key: signer(key), until: k.Until})
	}
	return nil
}

// prove verifies that a callback wants the deliveries to a principal. Calls for
// the same two share one verification, whose success holds from then on.
func (s *Server) prove(h *hook, key *standardwebhooks.Webhook) *rpcError {
	if h.direct || h.older() {
		return nil
	}
	proofs, subject := s.hooks.proofs, h.proven()
	if s.opts.Proof == ProofAllowList {
		if !hostListed(s.opts.CallbackHosts, h.url) {
			return callbackError(failChallenge) // the draft has no other word for it
		}
		return nil
	}
	if proofs.holds(subject) {
		return nil
	}
	if wait := proofs.wait(h.url.Host, time.Now()); wait > 0 {
		e := exhausted("verification_rate", s.opts.VerifyFailures)
		e.Data.(map[string]any)["retryAfterMs"] = wait.Milliseconds() + 1
		return e
	}
	outcome, _, _ := proofs.group.Do(subject, func() (any, error) {
		var rpcErr *rpcError
		// The first of the calls must not end it for the others: the context is
		// not that of a request.
		if s.opts.Proof == ProofWellKnown {
			rpcErr = s.checkDocument(s.hooks.ctx, h)
		} else {
			rpcErr = s.challenge(s.hooks.ctx, h, key)
		}
		proofs.note(subject, h.url.Host, rpcErr == nil, time.Now())
		return rpcErr, nil
	})
	rpcErr, _ := outcome.(*rpcError)
	return rpcErr
}

// proofs are the verifications of callbacks: those that hold, and how many
// failed at each host, which bounds how often a host is asked.
type proofs struct {
	most  int // failures per host and minute; -1 = no bound
	group singleflight.Group

	mu     sync.Mutex
	held   map[string]bool // principal and URL
	failed map[string]*failures
}

// failures counts the failures at a host within a minute.
type failures struct {
	since time.Time
	count int
}

// maxProofs bounds the verifications that are kept. Beyond it all are made
// anew.
const maxProofs = 200_000

func (p *proofs) holds(subject string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held[subject]
}

// wait is how long a host may not be asked; 0 = it may be asked now.
func (p *proofs) wait(host string, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.failed[host]
	if f == nil || p.most < 0 || f.count < p.most {
		return 0
	}
	return max(0, f.since.Add(time.Minute).Sub(now))
}

func (p *proofs) note(subject, host string, ok bool, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ok {
		if len(p.held) >= maxProofs {
			clear(p.held)
		}
		p.held[subject] = true
		return
	}
	f := p.failed[host]
	if f == nil || now.Sub(f.since) > time.Minute {
		if len(p.failed) >= maxProofs {
			clear(p.failed)
		}
		f = &failures{since: now}
		p.failed[host] = f
	}
	f.count++
}

// forget drops every verification, as a restart does.
func (p *proofs) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.held)
}

// challenge asks the callback to repeat a challenge.
func (s *Server) challenge(ctx context.Context, h *hook, key *standardwebhooks.Webhook) *rpcError {
	challenge := rand.Text()
	body, err := json.Marshal(map[string]string{"type": "verification", "challenge": challenge})
	if err != nil {
		return callbackError(failChallenge)
	}
	if !isHTTP(h.url) { // accepted to break a row
		return nil
	}
	s.counts.Verifications.Add(1)
	_, reply, failure := s.hooks.poster.post(context.WithValue(ctx, isChallenge{}, true), &message{
		url: h.url, subscriptionID: h.id, id: envelopeID("verification"), body: body,
		keys: []*standardwebhooks.Webhook{key}, breach: s.breach,
	})
	var answer struct {
		Challenge string `json:"challenge"`
	}
	switch {
	case failure != "":
		return callbackError(failure)
	case json.Unmarshal(reply, &answer) == nil && answer.Challenge == challenge:
		return nil
	}
	return s.unproved(reply)
}

// checkDocument looks the callback up in the document of its origin.
func (s *Server) checkDocument(ctx context.Context, h *hook) *rpcError {
	s.counts.Verifications.Add(1)
	status, text, failure := s.hooks.poster.get(ctx, &url.URL{Scheme: h.url.Scheme, Host: h.url.Host, Path: receiverDocument})
	var document struct {
		Receivers []string `json:"receivers"`
	}
	switch {
	case status == http.StatusNotFound:
		return callbackError(failChallenge)
	case failure != "":
		return callbackError(failure)
	case json.Unmarshal(text, &document) != nil:
		return callbackError(failChallenge)
	}
	for _, prefix := range document.Receivers {
		if strings.HasPrefix(prefix, "/") && strings.HasPrefix(h.url.EscapedPath(), prefix) {
			return nil
		}
	}
	return callbackError(failChallenge)
}

const receiverDocument = "/.well-known/mcp-webhook-receiver.json"
