package refserver

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/eventmeter/eventmeter/internal/refserver/breach"
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

// isChallenge is the key of a context in which a challenge is posted.
type isChallenge struct{}

// refusePrivate is [refusePrivate], unless a row about it is broken.
func (p *poster) refusePrivate(ctx context.Context, network, address string, c syscall.RawConn) error {
	err := refusePrivate(network, address, c)
	unchecked := "ssrf-validate-at-delivery-time"
	if ctx.Value(isChallenge{}) != nil {
		unchecked = "verification-uses-ssrf-hardened-path"
	}
	if err != nil && (p.breach.Breaks("ssrf-reject-non-routable") || p.breach.Breaks(unchecked)) {
		return nil
	}
	return err
}

// notPublic are the networks of the IANA special-purpose address registries
// that no callback should use and that the netip predicates leave out. For
// IPv6, they are those within global unicast (2000::/3); isPublic refuses
// everything outside it.
var notPublic = prefixes(
	"0.0.0.0/8",       // this network
	"100.64.0.0/10",   // shared by carriers
	"192.0.0.0/24",    // IETF protocol assignments
	"192.0.2.0/24",    // documentation
	"192.31.196.0/24", // AS112
	"192.52.193.0/24", // AMT
	"192.88.99.0/24",  // 6to4 relays, deprecated
	"192.175.48.0/24", // AS112
	"198.18.0.0/15",   // benchmarks
	"198.51.100.0/24", // documentation
	"203.0.113.0/24",  // documentation
	"240.0.0.0/4",     // reserved

	"2001::/23",         // IETF protocol assignments, with Teredo, benchmarks and ORCHID
	"2001:db8::/32",     // documentation
	"2002::/16",         // 6to4, which holds an IPv4 address
	"2620:4f:8000::/48", // AS112
	"3fff::/20",         // documentation
)

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
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

// isHTTP reports whether a callback has a host that can be asked over http or https.
func isHTTP(u *url.URL) bool {
	return (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != ""
}

// hostListed reports whether a list of hosts, with or without a port, has the
// host of a callback.
func hostListed(list []string, u *url.URL) bool {
	return slices.ContainsFunc(list, func(h string) bool { return strings.EqualFold(h, u.Host) || strings.EqualFold(h, u.Hostname()) })
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

// poster posts webhook messages over kept connections.
type poster struct {
	transport http.RoundTripper
	timeout   time.Duration
	identity  ed25519.PrivateKey // signs beside the secrets; nil = it does not
	breach    *breach.Set        // nil = none
}

func newPoster(opts Options) (*poster, error) {
	roots, err := callbackRoots(opts)
	if err != nil {
		return nil, err
	}
	p := new(poster)
	dialer := &net.Dialer{Timeout: opts.AckTimeout, KeepAlive: 30 * time.Second}
	if !opts.AllowPrivateCallbacks {
		// The check is here, after name resolution: a name may resolve to
		// another address than when the subscription was made.
		dialer.ControlContext = p.refusePrivate
	}
	p.timeout, p.transport = opts.AckTimeout, &http.Transport{
		DialContext: dialer.DialContext,
		TLSClientConfig: &tls.Config{
			RootCAs:            roots,
			InsecureSkipVerify: opts.CallbackInsecure,
			MinVersion:         tls.VersionTLS12,
			ClientSessionCache: tls.NewLRUClientSessionCache(1024),
		},
		TLSHandshakeTimeout:   opts.AckTimeout,
		MaxIdleConnsPerHost:   opts.Senders,
		IdleConnTimeout:       90 * time.Second,
		DisableCompression:    true,
		ResponseHeaderTimeout: opts.AckTimeout,
	}
	return p, nil
}

// post signs a message for the current time and posts it.
func (p *poster) post(ctx context.Context, m *message) (status int, reply []byte, failure string) {
	now := time.Now()
	if m.breach != nil && !m.older {
		m.id, m.body = m.breach.Post(m.id, m.body)
	}
	header := m.signed(now, p.identity)
	if m.breach != nil && !m.older {
		m.body = m.breach.Sent(header, m.body)
	}
	return p.send(ctx, m.url, header, m.body)
}

// signed is the header of a message with its signatures for a time, as its fault says. The
// keys are spelled as in the standards; net/http sends them unchanged.
func (m *message) signed(now time.Time, identity ed25519.PrivateKey) http.Header {
	keys, plain := m.keys, m.plain
	switch m.sign {
	case "missing":
		keys, plain, identity = nil, nil, nil
	case "stale":
		now, keys, identity = now.Add(-time.Hour), keys[:min(len(keys), 1)], nil
	case "wrong":
		other := []byte("not the secret of this subscription")
		if identity = nil; plain != nil {
			plain = other
		}
		if len(keys) > 0 {
			keys = []*standardwebhooks.Webhook{signer(other)}
		}
	}
	at := strconv.FormatInt(now.Unix(), 10)
	h := http.Header{"Content-Type": {"application/json"}, "User-Agent": {userAgent}}
	if m.older {
		h["X-Mcp-Timestamp"] = []string{at}
		if plain != nil {
			h["X-Mcp-Signature"] = []string{"sha256=" + plainSignature(plain, at, m.body)}
		}
		return h
	}
	h[standardwebhooks.HeaderWebhookID], h[standardwebhooks.HeaderWebhookTimestamp] = []string{m.id}, []string{at}
	if plain != nil {
		h["X-MCP-Timestamp"], h["X-MCP-Signature"] = []string{at}, []string{plainSignature(plain, at, m.body)}
	}
	var signatures []string
	for _, key := range keys {
		if signature, err := key.Sign(m.id, now, m.body); err == nil { // always
			signatures = append(signatures, signature)
		}
	}
	if m.subscriptionID != "" {
		h["X-MCP-Subscription-Id"] = []string{m.subscriptionID}
		if identity != nil {
			text := append(fmt.Appendf(nil, "%s.%s.", m.id, at), m.body...)
			signatures = append(signatures, "v1a,"+base64.StdEncoding.EncodeToString(ed25519.Sign(identity, text)))
		}
	}
	if signatures != nil {
		h[standardwebhooks.HeaderWebhookSignature] = []string{strings.Join(signatures, " ")}
	}
	return h
}

// signer signs with a key; nil without one.
func signer(key []byte) *standardwebhooks.Webhook {
	w, _ := standardwebhooks.NewWebhookRaw(key) // only an empty key is an error
	return w
}

// plainSignature is the HMAC of a timestamp, a dot and a body.
func plainSignature(key []byte, at string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(at + "."))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

// plainKey is the key in a secret, or one that nobody knows.
func plainKey(secret string) []byte {
	key, rpcErr := parseSecret(secret)
	if rpcErr != nil {
		return []byte("not the secret of this subscription")
	}
	return key
}

// keysPath is where the public key of [SignBoth] is.
const keysPath = "/.well-known/mcp-webhook-jwks.json"

// serveKeys answers a request for the public key, as a set of JSON web keys. It
// returns false for every other request.
func (p *poster) serveKeys(w http.ResponseWriter, r *http.Request) bool {
	if p.identity == nil || r.URL.Path != keysPath || r.Method != http.MethodGet {
		return false
	}
	x := base64.RawURLEncoding.EncodeToString(p.identity.Public().(ed25519.PublicKey))
	writeJSON(w, http.StatusOK, []byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","use":"sig","alg":"EdDSA","x":"`+x+`"}]}`))
	return true
}

const userAgent = "eventmeter-target/0.1"

// get fetches a document over the same guarded connections as deliveries.
func (p *poster) get(ctx context.Context, from *url.URL) (status int, text []byte, failure string) {
	return p.send(ctx, from, http.Header{"User-Agent": {userAgent}, "Accept": {"application/json"}}, nil)
}

// send sends a request: a post of body, or a get if body is nil. It does not
// follow redirects. failure is "" for an answer of 2xx.
func (p *poster) send(ctx context.Context, to *url.URL, header http.Header, body []byte) (status int, reply []byte, failure string) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	r := &http.Request{
		Method: http.MethodGet, URL: to, Host: to.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	if body != nil {
		r.Method, r.ContentLength = http.MethodPost, int64(len(body))
		// Lets the transport repeat a post on a fresh connection if the
		// receiver closed the kept one before it read anything.
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		r.Body, _ = r.GetBody() // cannot fail
	}
	resp, err := p.transport.RoundTrip(r.WithContext(ctx))
	if err != nil {
		return 0, nil, failureOf(err)
	}
	defer resp.Body.Close()
	follows := "ssrf-no-redirects"
	if ctx.Value(isChallenge{}) != nil {
		follows = "verification-uses-ssrf-hardened-path"
	}
	if resp.StatusCode/100 == 3 && p.breach.Breaks(follows) {
		if next, err := to.Parse(resp.Header.Get("Location")); err == nil {
			return p.send(ctx, next, header, body)
		}
	}
	reply, err = io.ReadAll(io.LimitReader(resp.Body, maxReply))
	switch {
	case resp.StatusCode >= 500:
		return resp.StatusCode, nil, fail5xx
	case resp.StatusCode/100 != 2:
		return resp.StatusCode, nil, fail4xx
	case err != nil:
		return resp.StatusCode, nil, failureOf(err)
	}
	return resp.StatusCode, reply, ""
}

func (p *poster) close() {
	if t, ok := p.transport.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
}

// message is one webhook message, ready to be posted.
type message struct {
	url            *url.URL
	subscriptionID string // "" = of SEP-1803, where no header names it
	id             string
	body           []byte
	keys           []*standardwebhooks.Webhook // the newest first
	plain          []byte                      // the key of [plainSignature]; nil = none
	sign           string                      // how a fault signs it, "" = correctly
	older          bool                        // it has the header of the older revision
	breach         *breach.Set                 // nil = none
}

func callbackRoots(opts Options) (*x509.CertPool, error) {
	if opts.CallbackCAFile == "" {
		return opts.CallbackRoots, nil
	}
	pem, err := os.ReadFile(opts.CallbackCAFile)
	if err != nil {
		return nil, fmt.Errorf("target: CallbackCAFile: %w", err)
	}
	pool := x509.NewCertPool()
	if opts.CallbackRoots != nil {
		pool = opts.CallbackRoots.Clone()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("target: CallbackCAFile: %s holds no certificate in PEM", opts.CallbackCAFile)
	}
	return pool, nil
}
