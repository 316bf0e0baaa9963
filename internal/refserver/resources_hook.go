package refserver

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/eventmeter/eventmeter"
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

// newSecret makes a secret, and the key that signs with it.
func newSecret(wish string) (s webhookSecret, key *standardwebhooks.Webhook, plain []byte) {
	random := make([]byte, 32)
	rand.Read(random) // never fails
	switch wish {
	case secretNone:
		return webhookSecret{Type: secretNone}, nil, nil
	case secretRaw:
		// The draft says "simple shared secret" and no more. Here its text is
		// the key of an HMAC over the timestamp, a dot and the body.
		value := hex.EncodeToString(random)
		return webhookSecret{Type: secretRaw, Value: value}, nil, []byte(value)
	}
	return webhookSecret{Type: secretStandard, Key: "whsec_" + base64.StdEncoding.EncodeToString(random)}, signer(random), nil
}

// register answers resources/subscriptions/register. Repeated calls are
// independent: each makes a subscription with a secret of its own, and
// deliveries may arrive before the answer.
func (rs *resources) register(c *call) *rpcError {
	h, secret, rpcErr := rs.readRegistration(c)
	if rpcErr == nil {
		rpcErr = rs.server.faultInjector.refuse("sep-1803", eventmeter.Webhook)
	}
	if rpcErr == nil {
		rpcErr = rs.server.reserve()
	}
	if rpcErr != nil {
		return rpcErr
	}
	reg := h.of.registration
	reg.Secret = &secret
	result, err := json.Marshal(map[string]any{"subscription": reg})
	if err != nil { // cannot fail: only strings
		rs.server.unreserve()
		return internal("")
	}
	hs, mix := rs.server.hooks, h.source.(*mixer)
	rs.server.deliverEarly(hs.ctx, &message{url: h.url, keys: h.keys(time.Now()), plain: h.of.key}, "")
	hs.claim(h)
	for _, uri := range h.of.EventURIs {
		if t, sel, rpcErr := rs.eventResource(uri, h.principal); rpcErr == nil {
			mix.add(rs.as(eventmeter.Webhook, t), sel, nil)
		}
	}
	if _, revoked := rs.server.principals.watch(h.principal); revoked { // revoke marks first and then lists the subscriptions
		hs.remove(h, nil)
	}
	rs.server.counts.Subscribed.Add(1)
	return c.answer(result[1 : len(result)-1])
}

func (rs *resources) readRegistration(c *call) (*hook, webhookSecret, *rpcError) {
	var p struct {
		URIs      []string                   `json:"uris"`
		TargetURI string                     `json:"targetUri"`
		Meta      map[string]json.RawMessage `json:"_meta"`
	}
	var none webhookSecret
	if c.principal == "" {
		return nil, none, forbidden("authentication required")
	}
	if rpcErr := c.decode(&p); rpcErr != nil {
		return nil, none, rpcErr
	}
	if len(p.URIs) == 0 {
		return nil, none, invalidParams("uris is empty")
	}
	of := &outOfBand{registration: registration{URI: subscriptionScheme + rand.Text(), TargetURI: p.TargetURI}}
	for _, uri := range p.URIs {
		if _, _, rpcErr := rs.eventResource(uri, c.principal); rpcErr != nil {
			return nil, none, rpcErr
		}
		if !slices.Contains(of.EventURIs, uri) {
			of.EventURIs = append(of.EventURIs, uri)
		}
	}
	u, rpcErr := parseCallback(p.TargetURI)
	if rpcErr != nil {
		return nil, none, invalidParams("targetUri must be https, with a host and without credentials")
	}
	var wish string
	if raw, ok := p.Meta[secretTypeKey]; ok && json.Unmarshal(raw, &wish) != nil {
		return nil, none, invalidParams("_meta %s is not a string", secretTypeKey)
	}
	h := &hook{
		hooks: rs.server.hooks, key: of.URI, id: of.URI, principal: c.principal, url: u, direct: true, of: of,
		opened: make(chan struct{}),
	}
	close(h.opened)
	h.source = &mixer{queueLen: rs.server.opts.QueueLen, wake: h.wake}
	made, key, plain := newSecret(wish)
	if of.key = plain; key != nil {
		h.secrets = []secret{{key: key}}
	}
	return h, made, nil
}

// deregister answers resources/subscriptions/deregister.
func (rs *resources) deregister(c *call) *rpcError {
	var p uriParams
	if rpcErr := c.decode(&p); rpcErr != nil {
		return rpcErr
	}
	if h := rs.hook(p.URI, c.principal); h == nil || !h.hooks.remove(h, nil) {
		return noResource(p.URI)
	}
	return c.answer(nil)
}

// hook returns the subscription of a URI, nil if the principal has none.
func (rs *resources) hook(uri, principal string) *hook {
	if h := rs.server.hooks.find(uri); h != nil && h.of != nil && h.principal == principal {
		return h
	}
	return nil
}

// registered lists a principal's subscriptions, the oldest first.
func (rs *resources) registered(principal string) []*hook {
	mine := rs.server.hooks.openHooks(func(h *hook) bool { return h.of != nil && h.principal == principal })
	slices.SortFunc(mine, func(a, b *hook) int { return a.number - b.number })
	return mine
}

// outOfBand is what distinguishes a subscription of SEP-1803. The draft has no expiry,
// cursors, handshake and envelopes.
type outOfBand struct {
	registration
	key []byte // of a raw secret; nil = of another type
}

// directBody is the body of an event in SEP-1803: its webhookType and its data, as
// Standard Webhooks advises.
func (d *delivery) directBody() []byte {
	e := d.event
	body := make([]byte, 0, len(e.data)+len(d.topic.kind.name)+64)
	body = append(append(body, `{"type":"`...), d.topic.kind.name...)
	body = append(body, `","timestamp":"`...)
	body = e.at.UTC().AppendFormat(body, timeLayout)
	body = append(body, `","data":`...)
	return append(append(body, e.data...), '}')
}
