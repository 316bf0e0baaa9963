package refserver

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
)

// secretTypeKey is the _meta key under which a client may ask for a type of
// secret. The draft leaves the choice to the server. Without the key, and with
// an unknown type, it is "standard".
const secretTypeKey = "io.github.eventmeter/webhookSecret"

// The types of secrets.
const (
	secretRaw      = "raw"
	secretStandard = "standard"
	secretNone     = "none"
)

// webhookSecret is the secret as the client receives it, once.
type webhookSecret struct {
	Type  string `json:"type"`
	Value string `json:"value,omitempty"` // raw
	Key   string `json:"key,omitempty"`   // standard
}

// registration is the result of register, and, without the secret, the content
// of the subscription resource.
type registration struct {
	URI       string         `json:"uri"`
	EventURIs []string       `json:"eventUris"`
	TargetURI string         `json:"targetUri"`
	Secret    *webhookSecret `json:"webhookSecret,omitempty"`
}

// newSecret makes a secret and the function that adds its signature headers to
// a message.
func newSecret(wish string) (webhookSecret, func(h http.Header, id string, at time.Time, body []byte)) {
	random := make([]byte, 32)
	rand.Read(random) // never fails
	switch wish {
	case secretNone:
		return webhookSecret{Type: secretNone}, func(http.Header, string, time.Time, []byte) {}
	case secretRaw:
		// The draft says "simple shared secret" and no more. Here its text is
		// the key of an HMAC over the timestamp, a dot and the body.
		value := hex.EncodeToString(random)
		return webhookSecret{Type: secretRaw, Value: value}, func(h http.Header, _ string, at time.Time, body []byte) {
			stamp := strconv.FormatInt(at.Unix(), 10)
			mac := hmac.New(sha256.New, []byte(value))
			mac.Write(append([]byte(stamp), '.'))
			mac.Write(body)
			h["X-MCP-Timestamp"] = []string{stamp}
			h["X-MCP-Signature"] = []string{hex.EncodeToString(mac.Sum(nil))}
		}
	}
	key := "whsec_" + base64.StdEncoding.EncodeToString(random)
	return webhookSecret{Type: secretStandard, Key: key}, func(h http.Header, id string, at time.Time, body []byte) {
		signer, err := standardwebhooks.NewWebhookRaw(random)
		if err != nil {
			return // only an empty key is an error
		}
		signature, err := signer.Sign(id, at, body)
		if err != nil {
			return
		}
		h[standardwebhooks.HeaderWebhookSignature] = []string{signature}
	}
}

// register answers resources/subscriptions/register. Repeated calls are
// independent: each makes a subscription with a secret of its own, and
// deliveries may arrive before the answer.
func (rs *resources) register(w http.ResponseWriter, c *call) {
	h, secret, rpcErr := rs.readRegistration(c)
	if rpcErr == nil {
		rpcErr = rs.server.faultInjector.refuse("sep-1803", eventmeter.Webhook)
	}
	if rpcErr == nil {
		rpcErr = rs.server.reserve()
	}
	if rpcErr != nil {
		c.fail(w, rpcErr)
		return
	}
	reg := h.registration()
	reg.Secret = &secret
	result, err := json.Marshal(map[string]any{"subscription": reg})
	if err != nil { // cannot fail: only strings
		rs.server.unreserve()
		c.fail(w, &rpcError{Code: codeInternal, Message: "Internal error"})
		return
	}
	rs.deliverEarly(h)
	rs.mu.Lock()
	rs.hooks[h.uri] = h
	rs.order = append(rs.order, h)
	rs.mu.Unlock()
	for _, uri := range h.uris {
		if t, sel, rpcErr := rs.eventResource(uri, h.principal); rpcErr == nil {
			h.mix.add(rs.as(eventmeter.Webhook, t), sel, nil)
		}
	}
	if _, revoked := rs.server.principals.watch(h.principal); revoked { // revoke marks first and then lists the subscriptions
		rs.remove(h.uri, h.principal)
	}
	rs.server.counts.subscribed.Add(1)
	c.answer(w, result[1:len(result)-1])
}

func (rs *resources) readRegistration(c *call) (*resourceHook, webhookSecret, *rpcError) {
	var p struct {
		URIs      []string                   `json:"uris"`
		TargetURI string                     `json:"targetUri"`
		Meta      map[string]json.RawMessage `json:"_meta"`
	}
	var none webhookSecret
	if c.principal == "" {
		return nil, none, forbidden("authentication required")
	}
	if rpcErr := decodeParams(c.params, &p); rpcErr != nil {
		return nil, none, rpcErr
	}
	if len(p.URIs) == 0 {
		return nil, none, invalidParams("uris is empty")
	}
	h := &resourceHook{rs: rs, principal: c.principal, uri: subscriptionScheme + rand.Text()}
	for _, uri := range p.URIs {
		if _, _, rpcErr := rs.eventResource(uri, c.principal); rpcErr != nil {
			return nil, none, rpcErr
		}
		if !slices.Contains(h.uris, uri) {
			h.uris = append(h.uris, uri)
		}
	}
	u, err := url.Parse(p.TargetURI)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return nil, none, invalidParams("targetUri must be https, with a host and without credentials")
	}
	u.Fragment = ""
	h.target, h.url = p.TargetURI, u
	h.mix.queueLen, h.mix.wake = rs.server.opts.QueueLen, h.wake
	var wish string
	if raw, ok := p.Meta[secretTypeKey]; ok && json.Unmarshal(raw, &wish) != nil {
		return nil, none, invalidParams("_meta %s is not a string", secretTypeKey)
	}
	secret, sign := newSecret(wish)
	h.sign, h.secretType = sign, wish
	return h, secret, nil
}

// deregister answers resources/subscriptions/deregister.
func (rs *resources) deregister(w http.ResponseWriter, c *call) {
	var p uriParams
	if rpcErr := decodeParams(c.params, &p); rpcErr != nil {
		c.fail(w, rpcErr)
		return
	}
	if !rs.remove(p.URI, c.principal) {
		c.fail(w, noResource(p.URI))
		return
	}
	c.answer(w, nil)
}

// remove ends a principal's subscription. It returns false if there is none.
func (rs *resources) remove(uri, principal string) bool {
	rs.mu.Lock()
	h := rs.hooks[uri]
	if h == nil || h.principal != principal {
		rs.mu.Unlock()
		return false
	}
	delete(rs.hooks, uri)
	rs.order = slices.DeleteFunc(rs.order, func(o *resourceHook) bool { return o == h })
	rs.mu.Unlock()
	h.end()
	rs.server.unreserve()
	return true
}

// registered lists a principal's subscriptions, the oldest first.
func (rs *resources) registered(principal string) []*resourceHook {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	var mine []*resourceHook
	for _, h := range rs.order {
		if h.principal == principal {
			mine = append(mine, h)
		}
	}
	return mine
}

func (rs *resources) count() int {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return len(rs.hooks)
}

// attempt makes one attempt for a hook that spent a token on it. It returns the
// token, or queues the hook again with it.
func (rs *resources) attempt(h *resourceHook) {
	p := h.next()
	if p == nil {
		h.tokens.Add(-1)
		if h.ready() { // events that arrived meanwhile found no free token
			h.wake()
		}
		return
	}
	if h.ready() {
		h.wake()
	}
	counts := rs.server.counts
	counts.attempts.Add(1)
	if p.attempts > 0 {
		counts.retries.Add(1)
	}
	m := h.message(p)
	status, failure := rs.post(rs.server.hooks.ctx, h, m)
	if f := p.event.fault; failure == "" && f != nil && f.Kind == faults.Repeat {
		rs.post(rs.server.hooks.ctx, h, m) // the outcome does not matter
	}
	if failure == "" {
		counts.posted.Add(1)
	} else {
		counts.failures.Add(1)
	}
	if h.settle(p, status, failure) {
		rs.server.hooks.agenda.at(time.Now().Add(rs.server.hooks.backoff(p.attempts)), func() { h.retry(p) })
	}
	rs.pool.push(h) // keeps its token
}

// post signs a message for the current time and posts it.
func (rs *resources) post(ctx context.Context, h *resourceHook, m *message) (status int, failure string) {
	now := time.Now()
	header := webhookHeader(m.id, now)
	h.signMessage(m, header, now)
	status, _, failure = rs.server.hooks.poster.send(ctx, h.url, header, m.body)
	return status, failure
}

// resourceHook is one out-of-band subscription. It works like a webhook
// subscription of events/*, without the features that the draft lacks: expiry,
// cursors, a handshake and envelopes.
type resourceHook struct {
	rs         *resources
	uri        string // subscription://…
	principal  string
	uris       []string // of the events
	target     string   // as given by the client
	url        *url.URL
	sign       func(h http.Header, id string, at time.Time, body []byte)
	secretType string // the type of the secret that the client asked for
	mix        mixer

	tokens atomic.Int32 // places in the pool's queue

	mu      sync.Mutex
	over    bool
	waiting int             // events that are neither acknowledged nor given up
	due     []*resourcePost // events whose retry is due
}

// resourcePost is one event with its retries.
type resourcePost struct {
	event    *event
	kind     *eventType
	attempts int
}

func (h *resourceHook) registration() registration {
	return registration{URI: h.uri, EventURIs: slices.Clone(h.uris), TargetURI: h.target}
}

// wake queues an attempt if the subscription has one free. Publishers call it.
func (h *resourceHook) wake() {
	for {
		n := h.tokens.Load()
		if int(n) >= h.rs.server.opts.InFlight {
			return
		}
		if h.tokens.CompareAndSwap(n, n+1) {
			h.rs.pool.push(h)
			return
		}
	}
}

// next returns the next delivery, or nil.
func (h *resourceHook) next() *resourcePost {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return nil
	}
	if len(h.due) > 0 {
		p := h.due[0]
		h.due = h.due[1:]
		return p
	}
	if h.waiting >= h.rs.server.opts.Window {
		return nil
	}
	var one [1]*event
	events, t := h.mix.take(one[:0], 1)
	if t == nil {
		return nil
	}
	h.waiting++
	return &resourcePost{event: events[0], kind: &t.kind}
}

// ready reports whether next would find a delivery.
func (h *resourceHook) ready() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over || len(h.due) > 0 {
		return !h.over
	}
	return h.waiting < h.rs.server.opts.Window && h.mix.pending()
}

// settle records the end of an attempt and reports whether to try again.
func (h *resourceHook) settle(p *resourcePost, status int, failure string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	p.attempts++
	final := failure == "" || status == http.StatusGone || status == http.StatusRequestEntityTooLarge ||
		p.attempts > h.rs.server.hooks.retryMax
	if !final && !h.over {
		return true
	}
	if failure != "" {
		h.rs.server.counts.abandoned.Add(1)
	}
	h.waiting--
	return false
}

// retry puts an event back in line.
func (h *resourceHook) retry(p *resourcePost) {
	h.mu.Lock()
	if !h.over {
		h.due = append(h.due, p)
	}
	h.mu.Unlock()
	h.wake()
}

// end stops the subscription. Attempts in flight may still arrive.
func (h *resourceHook) end() {
	h.mu.Lock()
	h.over, h.due = true, nil
	h.mu.Unlock()
	h.mix.close()
}

// message builds the message of an event: its webhookType and its data, as
// Standard Webhooks advises.
func (h *resourceHook) message(p *resourcePost) *message {
	e := p.event
	body := make([]byte, 0, len(e.data)+len(p.kind.name)+64)
	body = append(body, `{"type":"`...)
	body = append(body, p.kind.name...)
	body = append(body, `","timestamp":"`...)
	body = e.at.UTC().AppendFormat(body, timeLayout)
	body = append(body, `","data":`...)
	body = append(append(body, e.data...), '}')
	m := &message{id: e.id, body: body}
	m.applyFault(e.fault, p.attempts)
	return m
}
