package upstream

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strconv"

	"github.com/eventmeter/eventmeter"
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
type Stripe struct {
	poster
	kind string
}

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
	return &Stripe{poster: p, kind: o.Type}, nil
}

// Fire implements [Upstream].
func (s *Stripe) Fire(ctx context.Context, emission Emission) eventmeter.Outcome {
	body := s.body(emission)
	return s.post(ctx, s.header(body), body)
}

// Content implements [Recorded].
func (s *Stripe) Content(emission Emission) (string, []byte) { return s.kind, s.body(emission) }

func (s *Stripe) header(body []byte) http.Header {
	stamp := strconv.FormatInt(s.now().Unix(), 10)
	return http.Header{
		"Accept":           {"*/*; q=0.5, application/json"},
		"Cache-Control":    {"no-cache"},
		"Content-Type":     {"application/json; charset=utf-8"},
		"User-Agent":       {"Stripe/1.0 (eventmeter)"},
		"Stripe-Signature": {"t=" + stamp + ",v1=" + sign(sha256.New, s.secret, []byte(stamp+"."), body)},
	}
}

type (
	stripeEvent struct {
		ID       string        `json:"id"`
		Object   string        `json:"object"`
		Version  string        `json:"api_version"`
		Created  int64         `json:"created"`
		Data     stripeData    `json:"data"`
		Live     bool          `json:"livemode"`
		Pending  int           `json:"pending_webhooks"`
		Request  stripeRequest `json:"request"`
		TypeName string        `json:"type"`
	}
	stripeData struct {
		Object any `json:"object"`
	}
	stripeRequest struct {
		ID  string  `json:"id"`
		Key *string `json:"idempotency_key"`
	}
	stripeMetadata struct {
		Source string `json:"source"`
		Order  string `json:"order"`
	}
	stripePayment struct {
		ID          string         `json:"id"`
		Object      string         `json:"object"`
		Amount      int            `json:"amount"`
		Received    int            `json:"amount_received"`
		Capture     string         `json:"capture_method"`
		Created     int64          `json:"created"`
		Currency    string         `json:"currency"`
		Customer    string         `json:"customer"`
		Description string         `json:"description"`
		Charge      string         `json:"latest_charge"`
		Live        bool           `json:"livemode"`
		Metadata    stripeMetadata `json:"metadata"`
		Methods     []string       `json:"payment_method_types"`
		Status      string         `json:"status"`
	}
	stripeCustomer struct {
		ID          string         `json:"id"`
		Object      string         `json:"object"`
		Balance     int            `json:"balance"`
		Created     int64          `json:"created"`
		Currency    string         `json:"currency"`
		Delinquent  bool           `json:"delinquent"`
		Description string         `json:"description"`
		Email       string         `json:"email"`
		Live        bool           `json:"livemode"`
		Metadata    stripeMetadata `json:"metadata"`
		Name        string         `json:"name"`
	}
)

func (s *Stripe) body(emission Emission) []byte {
	source, seq, probe := int(emission.Source), emission.Seq, emission.Stamp.String()
	now := s.now().Unix()
	text := s.text(source, seq, probe)
	metadata := stripeMetadata{Source: strconv.Itoa(source), Order: strconv.FormatUint(uint64(seq), 10)}
	customer := "cus_" + digest(14, "customer", metadata.Source)
	var object any = stripePayment{
		ID: "pi_" + digest(24, "payment", probe), Object: "payment_intent", Amount: 2000, Received: 2000, Capture: "automatic",
		Created: now, Currency: "usd", Customer: customer, Description: text, Charge: "ch_" + digest(24, "charge", probe),
		Metadata: metadata, Methods: []string{"card"}, Status: "succeeded",
	}
	if s.kind == "customer.updated" {
		object = stripeCustomer{
			ID: customer, Object: "customer", Created: now, Currency: "usd", Description: text,
			Email: "customer-" + metadata.Source + "@example.com", Metadata: metadata, Name: "Customer " + metadata.Source,
		}
	}
	// Stripe's bodies are indented, and the signature is over them as they are.
	return encode(stripeEvent{
		ID: "evt_" + digest(24, "event", probe), Object: "event", Version: "2024-06-20", Created: now, Data: stripeData{object}, Pending: 1,
		Request: stripeRequest{ID: "req_" + digest(14, "request", probe)}, TypeName: s.kind,
	}, "  ")
}
