package refserver

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// The failures of a callback, as deliveryStatus.lastError and the reason of
// -32015 spell them. addressRefused is only a reason.
const (
	failRefused    = "connection_refused"
	failTimeout    = "timeout"
	failTLS        = "tls_error"
	fail4xx        = "http_4xx"
	fail5xx        = "http_5xx"
	failChallenge  = "challenge_failed"
	addressRefused = "address_refused"
)

// errAddress is wrapped by the dialer when a callback's address is not public.
var errAddress = errors.New("the address is not public")

const maxReply = 64 << 10 // bytes read of a callback's answer

// failureOf maps a transport error to one of the draft's words. An error that
// fits none is connection_refused: there was no connection.
func failureOf(err error) string {
	var network net.Error
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	switch {
	case errors.Is(err, errAddress):
		return addressRefused
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return failTimeout
	case errors.As(err, &certificate), errors.As(err, &record), errors.As(err, &alert), strings.Contains(err.Error(), "tls: "):
		return failTLS
	}
	return failRefused
}

// lastError is the spelling of a failure in deliveryStatus: the draft's list
// has no word for a refused address.
func lastError(failure string) string {
	if failure == addressRefused {
		return failRefused
	}
	return failure
}

// refusePrivate is a dialer's control function: it checks the address that is
// about to be dialled.
func refusePrivate(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || !isPublic(to.Addr()) {
		return fmt.Errorf("%s: %w", address, errAddress)
	}
	return nil
}

// notPublic are the networks of the IANA special-purpose address registries
// that no callback should use and that the netip predicates leave out. For
// IPv6, they are those within global unicast (2000::/3); isPublic refuses
// everything outside it.
var notPublic = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),       // this network
	netip.MustParsePrefix("100.64.0.0/10"),   // shared by carriers
	netip.MustParsePrefix("192.0.0.0/24"),    // IETF protocol assignments
	netip.MustParsePrefix("192.0.2.0/24"),    // documentation
	netip.MustParsePrefix("192.31.196.0/24"), // AS112
	netip.MustParsePrefix("192.52.193.0/24"), // AMT
	netip.MustParsePrefix("192.88.99.0/24"),  // 6to4 relays, deprecated
	netip.MustParsePrefix("192.175.48.0/24"), // AS112
	netip.MustParsePrefix("198.18.0.0/15"),   // benchmarks
	netip.MustParsePrefix("198.51.100.0/24"), // documentation
	netip.MustParsePrefix("203.0.113.0/24"),  // documentation
	netip.MustParsePrefix("240.0.0.0/4"),     // reserved

	netip.MustParsePrefix("2001::/23"),         // IETF protocol assignments, with Teredo, benchmarks and ORCHID
	netip.MustParsePrefix("2001:db8::/32"),     // documentation
	netip.MustParsePrefix("2002::/16"),         // 6to4, which holds an IPv4 address
	netip.MustParsePrefix("2620:4f:8000::/48"), // AS112
	netip.MustParsePrefix("3fff::/20"),         // documentation
}

// globalUnicast is the only part of IPv6 that is assigned to public hosts.
// Outside it are, among others, IPv4-compatible addresses (::/96), those
// translated to IPv4 (64:ff9b::/96, 64:ff9b:1::/48), discard-only (100::/64),
// SRv6 (5f00::/16), unique local (fc00::/7), link-local (fe80::/10) and
// site-local ones (fec0::/10).
var globalUnicast = netip.MustParsePrefix("2000::/3")

func isPublic(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	if !ip.IsGlobalUnicast() || ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast() {
		return false
	}
	if ip.Is6() && !globalUnicast.Contains(ip) {
		return false
	}
	return !slices.ContainsFunc(notPublic, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// parseCallback checks a callback's URL.
func parseCallback(raw string) (*url.URL, *rpcError) {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Hostname() == "":
		return nil, invalidParams("delivery.url is not a URL")
	case u.Scheme != "https":
		return nil, invalidParams("delivery.url must be https")
	case u.User != nil:
		return nil, invalidParams("delivery.url must not hold credentials")
	}
	u.Fragment = ""
	return u, nil
}

// parseSecret checks a signing secret: whsec_ and the base64 of 24 to 64 bytes.
func parseSecret(secret string) ([]byte, *rpcError) {
	text, ok := strings.CutPrefix(secret, "whsec_")
	key, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
	if !ok || err != nil || len(key) < 24 || len(key) > 64 {
		return nil, invalidParams("delivery.secret must be whsec_ and the base64 of 24 to 64 bytes")
	}
	return key, nil
}

const receiverDocument = "/.well-known/mcp-webhook-receiver.json"

// prove verifies that a callback wants the deliveries.
func (s *Server) prove(ctx context.Context, h *hook, key *standardwebhooks.Webhook) *rpcError {
	switch {
	case h.direct:
		return nil
	case s.opts.Proof == ProofWellKnown:
		return s.checkDocument(ctx, h)
	}
	return s.challenge(ctx, h, key)
}

// checkDocument looks the callback up in the document of its origin.
func (s *Server) checkDocument(ctx context.Context, h *hook) *rpcError {
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

// get fetches a document over the same guarded connections as deliveries.
// failure is "" for an answer of 2xx.
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

// trials are the recent attempts of a subscription, which decide whether its
// deliveries are suspended.
type trials struct {
	since         time.Time
	count, failed int
	suspended     bool
}

// trialWindow and the share of failures are the values that reviewers of the
// draft named.
const trialWindow = time.Hour

// tried counts an attempt, and suspends deliveries when nearly all of at least
// after attempts failed.
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

// resume ends a suspension, as a refresh does. The caller holds the lock.
func (h *hook) resume() {
	if h.status.suspended {
		h.status.trials = trials{}
	}
}
