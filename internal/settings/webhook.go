package settings

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// WebhookLane defines webhook subscriptions and their sink.
type WebhookLane struct {
	// requested time to live: a duration from 1s to 720h, "default" (request none; the default) or
	// "none" (no expiry)
	TTL string `json:"ttl,omitempty"`
	// share of the granted time after which a refresh is sent, 0.1 to 0.95, default 0.75
	RefreshAt float64 `json:"refreshAt,omitempty" check:"0.1..0.95"`
	// largest share of the granted time by which a refresh is sent earlier than refreshAt says, drawn
	// uniformly for each refresh, at most refreshAt - 0.05; default 0.05; 0 = none, so that
	// subscriptions which were opened together are refreshed together
	RefreshJitter float64 `json:"refreshJitter" check:"0..0.9"`
	// number of refreshes between two new secrets; 0 = never
	RotateEvery int `json:"rotateEvery,omitempty" check:"0.."`
	// secret accepted while it changes: both (the default; the old one until oldSecret after the
	// answer), early (only the new one, from when it is sent) or late (only the old one until the
	// answer)
	Secrets   string        `json:"secrets,omitempty" check:"both|early|late" needs:"rotateEvery: the secret does not change"`
	OldSecret time.Duration `json:"oldSecret,omitempty" check:"1ms.." needs:"rotateEvery: the secret does not change"` // how long the old secret is accepted, default 5m
	// how the sink answers shares of the events and of the challenges; the rest is answered 200 at
	// once
	Answer []WebhookAnswer `json:"answer,omitempty"`
	// one callback URL for all subscriptions of the lane. Deliveries are assigned to a subscription by
	// X-MCP-Subscription-Id. Subscriptions of the same principal must differ in their arguments.
	ShareURL bool `json:"shareUrl,omitempty"`
	// conditions that a delivery must meet; one that does not is answered 400: eventId (its webhook-id is
	// the event's id), zone (the event's timestamp has a time zone), name (it is of the subscribed event
	// type)
	Require []string `json:"require,omitempty"`
	// handling of a delivery while the answer to a subscribe or refresh is awaited: accept (the
	// default), or refuse with 503
	Pending string `json:"pending,omitempty" check:"|accept|refuse"`
	// handling of a delivery after the granted time is over: accept (the default), or refuse with 410
	Expired string `json:"expired,omitempty" check:"|accept|refuse"`
	// largest body in bytes, default 278528; a larger one is answered 413
	BodyLimit int `json:"bodyLimit,omitempty" check:"1024.."`
	// share of the subscriptions that end without an unsubscribe: the lane only stops refreshing them
	Silent float64 `json:"silent,omitempty" check:"0..1"`
	// sends delivery.mode in events/unsubscribe, beside delivery.url
	UnsubscribeMode bool `json:"unsubscribeMode,omitempty"`
	// handling of a delivery with an invalid signature: strict (the default) refuses it, report
	// accepts it and records the error
	Verify string `json:"verify,omitempty" check:"strict|report"`
	// URL under which the target reaches the sink, if it differs from the listener's own, e.g.
	// https://load-1.example:8443. On a loopback address it may be http: the listener then speaks
	// plain HTTP. Port 0 means the listener's own port, as in http://127.0.0.1:0.
	Callback string `json:"callback,omitempty"`
	// the target's operator allows the callback, so that deliveries need neither a challenge nor the
	// receiver document before them; default false
	Proven bool `json:"proven,omitempty"`
	// address of the listener; empty = a free port of 127.0.0.1
	Listen string `json:"listen,omitempty"`
	// certificate of the listener in PEM, for a target that must already trust it. Without it, the
	// listener has a certificate that only the embedded target trusts.
	CertFile string `json:"certFile,omitempty"`
	KeyFile  string `json:"keyFile,omitempty"` // key of the listener in PEM
}

// Values of secrets, which say which secret a sink accepts while it changes, and of
// verify, which say what it does with an invalid signature.
const (
	SecretsBoth  = "both"
	SecretsEarly = "early"
	SecretsLate  = "late"

	VerifyStrict = "strict"
	VerifyReport = "report"
)

// The values of ttl that are no duration, and the value of pending and expired that
// answers an error.
const (
	TTLDefault = "default"
	TTLNone    = "none"
	Refuse     = "refuse"
)

// DefaultWebhook returns the defaults.
func DefaultWebhook() WebhookLane {
	return WebhookLane{
		TTL:           TTLDefault,
		RefreshAt:     refreshAt,
		RefreshJitter: refreshJitter,
		Secrets:       SecretsBoth,
		OldSecret:     oldSecret,
		Verify:        VerifyStrict,
	}
}

// Key returns the key of the settings in a lane.
func (w *WebhookLane) Key() string { return "webhook" }

// Lifetime returns the requested time to live; 0 if ttl is not a duration.
func (w *WebhookLane) Lifetime() time.Duration {
	d, _ := time.ParseDuration(w.TTL) // Check has refused other texts
	return d
}

// NoExpiry reports whether a subscription without an end is requested.
func (w *WebhookLane) NoExpiry() bool { return w.TTL == TTLNone }

// Check reports what is wrong with the settings, beyond what their tags check.
func (w *WebhookLane) Check(l Lane) {
	const shortest, longest = time.Second, 720 * time.Hour
	switch w.TTL {
	case TTLDefault:
	case TTLNone:
		if w.RotateEvery > 0 {
			l.Bad("webhook.rotateEvery", "secrets change at a refresh, and ttl none has none", "give a ttl")
		}
	default:
		ttl, err := ParseDuration(w.TTL)
		if err != nil {
			what, _, _ := strings.Cut(err.Error(), "; ")
			l.Bad("webhook.ttl", what, "write a duration like 300s, or default, or none")
		} else if what, fix := Span(ttl, shortest, longest); what != "" {
			l.Bad("webhook.ttl", what, fix)
		}
	}
	if most := w.RefreshAt - soonestRefresh; w.RefreshJitter > most+1e-9 {
		l.Bad(
			"webhook.refreshJitter",
			fmt.Sprintf("%g would refresh before %g of the grant is over", w.RefreshJitter, soonestRefresh),
			fmt.Sprintf("give at most %.2g, or raise webhook.refreshAt", most),
		)
	}
	w.checkAnswers(l)
	w.checkListener(l)
	for i, word := range w.Require {
		if !slices.Contains([]string{"eventId", "zone", "name"}, word) {
			l.Bad("webhook.require."+strconv.Itoa(i), Quote(word)+" is not known", "use eventId, zone or name")
		}
	}
	if w.ShareURL && l.Revision == "older" {
		l.Bad("webhook.shareUrl", "revision older has no X-MCP-Subscription-Id to route by", "remove it, or set another target.revision")
	}
}

// checkListener checks the addresses and the certificate.
func (w *WebhookLane) checkListener(l Lane) {
	if w.Callback != "" {
		u, what, fix := Address(w.Callback, "https", "http")
		if what != "" {
			l.Bad("webhook.callback", what, fix)
		} else if u.Scheme == "http" {
			w.checkPlain(l, u)
		}
	}
	if (w.CertFile == "") != (w.KeyFile == "") {
		l.Bad("webhook.certFile", "a certificate requires its key", "give certFile and keyFile, or neither")
	}
	if w.Listen != "" && !Listenable(w.Listen) {
		l.Bad("webhook.listen", Quote(w.Listen)+" is not an address to listen on", "write it like 127.0.0.1:8443")
	}
}

// checkPlain checks a callback without TLS.
func (w *WebhookLane) checkPlain(l Lane, u *url.URL) {
	host, _, _ := net.SplitHostPort(w.Listen)
	switch {
	case !Loopback(u.Hostname()) || w.Listen != "" && !Loopback(host):
		l.Bad(
			"webhook.callback",
			"plain http is for loopback only, on both ends",
			"use https, or http://127.0.0.1:0 and no other listen address",
		)
	case w.CertFile != "":
		l.Bad("webhook.certFile", "has no effect on a callback over http", "remove it, or use https")
	}
}

// WebhookAnswer is how the sink answers a share of the events, or of the challenges. Give at most
// one of status, hang and reset. Without them, an event is accepted, and a challenge is answered
// wrongly, with another challenge.
type WebhookAnswer struct {
	// HTTP status. 200 to 299 accepts the event, every other status refuses it. 300 to 399 redirects to
	// the same callback. 410 and 413 ask the target not to send the event again.
	Status int `json:"status,omitempty" check:"200..599"`
	// never answers
	Hang bool `json:"hang,omitempty"`
	// closes the connection without an answer
	Reset bool `json:"reset,omitempty"`
	// answers challenges instead of events; share is then a share of the subscriptions
	Challenge bool `json:"challenge,omitempty"`
	// share of the events, or of the subscriptions; by default what the other entries leave
	Share float64 `json:"share,omitempty" check:"0..1"`
	// copies of an event, or challenges of a subscription, that are refused, default 1
	Times int `json:"times,omitempty" check:"1.."`
	// wait before the answer
	Delay time.Duration `json:"delay,omitempty" check:"0..1h"`
	// longest wait: each wait is random, from delay to delayTo; by default it is delay
	DelayTo time.Duration `json:"delayTo,omitempty" check:"0..1h"`
	// header field Retry-After of the answer
	RetryAfter time.Duration `json:"retryAfter,omitempty" check:"0..1h"`
}

// Accepts reports whether the answer accepts an event.
func (a *WebhookAnswer) Accepts() bool {
	return !a.Challenge && !a.Hang && !a.Reset && a.Status < 300
}

// checkAnswers checks how the sink answers.
func (w *WebhookLane) checkAnswers(l Lane) {
	sum, rest := map[bool]float64{}, map[bool]int{}
	for i := range w.Answer {
		a, here := &w.Answer[i], fmt.Sprintf("webhook.answer.%d", i)
		said := 0
		for _, key := range []string{"status", "hang", "reset"} {
			if l.Given(here + "." + key) {
				said++
			}
		}
		switch {
		case said > 1:
			l.Bad(here, "says several things at once", "give one of status, hang and reset")
		case a.DelayTo != 0 && a.DelayTo < a.Delay:
			l.Bad(here+".delayTo", fmt.Sprintf("%v is below delay, which is %v", a.DelayTo, a.Delay), "raise it")
		case a.Times != 0 && a.Accepts():
			l.Bad(here+".times", "has no effect on an answer that accepts the event", "remove it")
		case a.Hang && (a.Delay != 0 || a.DelayTo != 0):
			l.Bad(here+".delay", "has no effect on an answer that never comes", "remove it")
		}
		if sum[a.Challenge] += a.Share; a.Share == 0 {
			if rest[a.Challenge]++; rest[a.Challenge] == 2 {
				l.Bad(here+".share", "is missing here and in another answer", "give one of them a share")
			}
		}
	}
	for _, total := range sum {
		if total > 1+1e-9 {
			l.Bad("webhook.answer", fmt.Sprintf("the shares add up to %g", total), "make them at most 1")
		}
	}
}
