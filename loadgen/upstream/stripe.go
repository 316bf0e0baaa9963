package upstream

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strconv"
)

// StripeOptions describe a [Stripe].
type StripeOptions struct {
	WebhookOptions
	// Type of the events: payment_intent.succeeded (also "") or
	// customer.updated.
	Type string
}

// Stripe sends webhook events as Stripe does, in test mode: an event object
// with the probe in the description of the payment or the customer, signed in
// Stripe-Signature with the endpoint's secret (whsec_…). Each source is an
// account's metadata.source.
type Stripe struct{ poster }

// NewStripe checks the options. It does not connect.
func NewStripe(o StripeOptions) (*Stripe, error) {
	switch o.Type {
	case "":
		o.Type = "payment_intent.succeeded"
	case "payment_intent.succeeded", "customer.updated":
	default:
		return nil, fmt.Errorf("upstream stripe: type %q: want payment_intent.succeeded or customer.updated", o.Type)
	}
	if o.Secret == "" {
		return nil, fmt.Errorf("upstream stripe: %w", errNoSecret)
	}
	p, err := newPoster("stripe", o.WebhookOptions, func(_ int, seq uint32, probe string) string {
		return fmt.Sprintf("Order %d, reference %s", seq, probe)
	})
	if err != nil {
		return nil, err
	}
	s := &Stripe{p}
	s.event, s.header, s.body = o.Type, s.headerOf, s.bodyOf
	return s, nil
}

func (s *Stripe) headerOf(_ Emission, body []byte) http.Header {
	stamp := strconv.FormatInt(s.now().Unix(), 10)
	return http.Header{
		"Accept":           {"*/*; q=0.5, application/json"},
		"Cache-Control":    {"no-cache"},
		"Content-Type":     {"application/json; charset=utf-8"},
		"User-Agent":       {"Stripe/1.0 (eventmeter)"},
		"Stripe-Signature": {"t=" + stamp + ",v1=" + sign(sha256.New, s.secret, []byte(stamp+"."), body)},
	}
}

func (s *Stripe) bodyOf(emission Emission) []byte {
	source, probe := int(emission.Source), emission.Stamp.String()
	return fill("stripe_"+s.event, map[string]any{
		"source": source, "order": emission.Seq, "now": s.now().Unix(), "text": s.text.of(emission),
		"event": digest(24, "event", probe), "request": digest(14, "request", probe),
		"customer": digest(14, "customer", strconv.Itoa(source)),
		// Used only by payment_intent.succeeded.
		"payment": digest(24, "payment", probe), "charge": digest(24, "charge", probe),
	})
}
