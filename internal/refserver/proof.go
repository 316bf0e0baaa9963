package refserver

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// How a callback proves that it wants to be one. See [Options.Proof].
const (
	// ProofChallenge: it repeats a challenge that is posted to it.
	ProofChallenge = "challenge"
	// ProofWellKnown: its origin names its path, or a prefix of it, among the
	// receivers of /.well-known/mcp-webhook-receiver.json.
	ProofWellKnown = "well-known"
)

const receiverDocument = "/.well-known/mcp-webhook-receiver.json"

// prove makes sure that a callback wants what is about to be delivered to it.
func (s *Server) prove(ctx context.Context, h *hook, key *standardwebhooks.Webhook) *rpcError {
	switch {
	case h.direct:
		return nil
	case s.opts.Proof == ProofWellKnown:
		return s.consult(ctx, h)
	}
	return s.verify(ctx, h, key)
}

// consult looks the callback up in its origin's document.
func (s *Server) consult(ctx context.Context, h *hook) *rpcError {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.hooks.ctx, cancel)()
	s.counts.verifications.Add(1)
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

// get fetches a document over the same guarded connections as deliveries take.
// Redirects are not followed. failure is "" when the answer was 2xx.
func (p *poster) get(ctx context.Context, from *url.URL) (status int, text []byte, failure string) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	resp, err := p.transport.RoundTrip((&http.Request{
		Method: http.MethodGet, URL: from, Host: from.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"User-Agent": {"eventmeter-target/0.1"}, "Accept": {"application/json"}},
	}).WithContext(ctx))
	if err != nil {
		return 0, nil, failureOf(err)
	}
	defer resp.Body.Close()
	text, err = io.ReadAll(io.LimitReader(resp.Body, maxReply))
	switch {
	case resp.StatusCode >= 500:
		return resp.StatusCode, nil, fail5xx
	case resp.StatusCode/100 != 2:
		return resp.StatusCode, nil, fail4xx
	case err != nil:
		return resp.StatusCode, nil, failureOf(err)
	}
	return resp.StatusCode, text, ""
}

// trials are the recent attempts of a subscription, by which its deliveries may
// be suspended.
type trials struct {
	since         time.Time
	count, failed int
	suspended     bool
}

// trialWindow and the share of failures are what reviewers of the draft named.
const trialWindow = time.Hour

// tried counts an attempt, and suspends when nearly all of at least `after`
// attempts failed.
func (t *trials) tried(now time.Time, ok bool, after int) {
	if now.Sub(t.since) > trialWindow {
		t.since, t.count, t.failed = now, 0, 0
	}
	t.count++
	if ok {
		return
	}
	t.failed++
	if after > 0 && t.count >= after && t.failed*100 > t.count*95 {
		t.suspended = true
	}
}

// resume lets deliveries go on, as a refresh does; the caller holds the lock.
func (h *hook) resume() {
	if h.status.suspended {
		h.status.trials = trials{}
	}
}
