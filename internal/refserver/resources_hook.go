package refserver

import (
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
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/eventmeter/eventmeter"
)

// secretWish is the _meta key under which a client may say what type of secret
// it would like. The draft leaves the choice to the server and gives the client
// no word in it; without the key, and with an unknown type, it is "standard".
const secretWish = "io.github.eventmeter/webhookSecret"

// The types of secrets.
const (
	secretRaw      = "raw"
	secretStandard = "standard"
	secretNone     = "none"
)

// webhookSecret is the secret as its client is told, once.
type webhookSecret struct {
	Type  string `json:"type"`
	Value string `json:"value,omitempty"` // raw
	Key   string `json:"key,omitempty"`   // standard
}

// registration is the answer to register, and, without its secret, what can be
// read of a subscription.
type registration struct {
	URI       string         `json:"uri"`
	EventURIs []string       `json:"eventUris"`
	TargetURI string         `json:"targetUri"`
	Secret    *webhookSecret `json:"webhookSecret,omitempty"`
}

// newSecret makes a secret and what signs with it: the headers that it adds to
// a message.
func newSecret(wish string) (webhookSecret, func(h http.Header, id string, at time.Time, body []byte)) {
	random := make([]byte, 32)
	rand.Read(random) // it never fails
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

// register answers resources/subscriptions/register. Nothing makes two calls
// one: each makes a subscription with a secret of its own, and its deliveries
// may arrive before this answer does.
func (rs *resources) register(w http.ResponseWriter, c *call) {
	h, secret, wrong := rs.readRegistration(c)
	if wrong == nil {
		wrong = rs.server.faultInjector.refuses("sep-1803", eventmeter.Webhook)
	}
	if wrong == nil {
		wrong = rs.server.reserve()
	}
	if wrong != nil {
		c.fail(w, wrong)
		return
	}
	told := h.registration()
	told.Secret = &secret
	result, err := json.Marshal(map[string]any{"subscription": told})
	if err != nil { // only strings are in it
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
		if t, sel, wrong := rs.eventResource(uri, h.principal); wrong == nil {
			h.mix.add(rs.as(eventmeter.Webhook, t), sel, nil)
		}
	}
	if _, revoked := rs.server.principals.watch(h.principal); revoked { // revoke marks first and looks then
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
	if wrong := decodeParams(c.params, &p); wrong != nil {
		return nil, none, wrong
	}
	if len(p.URIs) == 0 {
		return nil, none, invalidParams("uris is empty")
	}
	h := &resourceHook{rs: rs, principal: c.principal, uri: subscriptionScheme + rand.Text()}
	for _, uri := range p.URIs {
		if _, _, wrong := rs.eventResource(uri, c.principal); wrong != nil {
			return nil, none, wrong
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
	h.mix.queueLen, h.mix.woken = rs.server.opts.QueueLen, h.wake
	var wish string
	if raw, ok := p.Meta[secretWish]; ok && json.Unmarshal(raw, &wish) != nil {
		return nil, none, invalidParams("_meta %s is not a string", secretWish)
	}
	secret, sign := newSecret(wish)
	h.sign, h.wish = sign, wish
	return h, secret, nil
}

// deregister answers resources/subscriptions/deregister.
func (rs *resources) deregister(w http.ResponseWriter, c *call) {
	var p uriParams
	if wrong := decodeParams(c.params, &p); wrong != nil {
		c.fail(w, wrong)
		return
	}
	if !rs.remove(p.URI, c.principal) {
		c.fail(w, noResource(p.URI))
		return
	}
	c.answer(w, nil)
}

// remove ends a principal's subscription; false if there is none.
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
