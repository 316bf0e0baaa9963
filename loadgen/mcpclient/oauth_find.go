package mcpclient

import (
	"bytes"
	"context"
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
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/wire"
)

// The requests of discovery, as reports name them.
const (
	methodChallenge = "oauth/challenge"
	methodMetadata  = "oauth/metadata"
)

// maxIssuerAnswer bounds an answer of an issuer, in bytes.
const maxIssuerAnswer = 256 << 10

// client returns an HTTP client whose requests are reported under a method. It
// follows no redirect.
func (t *tokens) client(method string, report func(eventmeter.Call)) *http.Client {
	return &http.Client{Transport: &issuerTransport{t, method, report}, CheckRedirect: noRedirect}
}

// issuerTransport counts and reports requests to an issuer, and bounds their answers.
type issuerTransport struct {
	of     *tokens
	method string
	report func(eventmeter.Call)
}

// RoundTrip implements [http.RoundTripper].
func (s *issuerTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	t := s.of
	t.mu.Lock()
	if s.method == methodToken {
		t.counts.Requests++
	} else {
		t.counts.Discovery++
	}
	t.mu.Unlock()
	call := eventmeter.Call{
		Cause: eventmeter.Token, Requests: 1, Method: s.method,
		Up: RequestSize(req.Method, req.URL.RequestURI(), req.Header, req.ContentLength),
	}
	start := time.Now()
	resp, err := t.transport.RoundTrip(req)
	if err == nil {
		call.Down = ResponseSize(resp)
		var body []byte
		body, err = io.ReadAll(io.LimitReader(resp.Body, maxIssuerAnswer+1))
		_ = resp.Body.Close()
		if len(body) > maxIssuerAnswer {
			err = wire.ErrTooLarge
		}
		call.Down += int64(len(body))
		resp.Body = io.NopCloser(bytes.NewReader(body))
	}
	call.Took, call.Connections = time.Since(start), t.endpoint.traffic.TakeOpened()
	switch {
	case err != nil && t.life.Err() == nil:
		call.Failure = KindOf(err)
	case err == nil && resp.StatusCode >= 400 && s.method == methodToken:
		call.Failure = fmt.Sprintf("http %d", resp.StatusCode)
	}
	if s.report != nil {
		s.report(call)
	}
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// find returns the token endpoint, and whether clients send their credentials in the
// form. If the endpoint is not known, find discovers it as the base specification
// says: the target's refusal names its metadata (RFC 9728), which name an
// authorization server, whose metadata (RFC 8414, or OpenID Connect Discovery) name
// the endpoint. answer is the header of that refusal; nil = ask for one.
func (t *tokens) find(ctx context.Context, answer http.Header, report func(eventmeter.Call)) (address string, inForm bool, err error) {
	select {
	case t.finding <- struct{}{}:
		defer func() { <-t.finding }()
	case <-ctx.Done():
		return "", false, ctx.Err()
	}
	t.mu.Lock()
	address, inForm = t.tokenURL, t.inForm
	t.mu.Unlock()
	if address != "" {
		return address, inForm, nil
	}
	if answer == nil {
		if answer, err = t.challenge(ctx, report); err != nil {
			return "", false, err
		}
	}
	issuer, err := t.issuer(ctx, answer, report)
	if err != nil {
		return "", false, err
	}
	if address, inForm, err = t.endpointOf(ctx, issuer, report); err != nil {
		return "", false, err
	}
	t.mu.Lock()
	t.tokenURL, t.inForm = address, inForm
	t.mu.Unlock()
	return address, inForm, nil
}

// undiscovered returns the error for a token endpoint that was not found.
func undiscovered(format string, args ...any) error {
	return &CallError{
		Method:  methodToken,
		Kind:    KindProtocol,
		Message: errtext.Of(fmt.Sprintf(format, args...) + "; the token endpoint can be given as target.oauth.tokenURL"),
	}
}

// challenge returns the header of the target's answer to a request without a token.
func (t *tokens) challenge(ctx context.Context, report func(eventmeter.Call)) (http.Header, error) {
	e := t.endpoint
	body := wire.Request(e.NextID(), methodDiscover, []byte("{}"))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header, req.Host = e.header.Clone(), e.host
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := t.client(methodChallenge, report).Do(req)
	if err != nil {
		return nil, err
	}
	return resp.Header, resp.Body.Close()
}

// issuer returns the authorization server that the target names.
func (t *tokens) issuer(ctx context.Context, answer http.Header, report func(eventmeter.Call)) (string, error) {
	root := *t.endpoint.url
	root.Path, root.RawPath, root.RawQuery, root.User = "", "", "", nil
	const wellKnown = "/.well-known/oauth-protected-resource"
	places := []string{root.String() + wellKnown + strings.TrimRight(t.endpoint.url.EscapedPath(), "/"), root.String() + wellKnown}
	challenges, _ := oauthex.ParseWWWAuthenticate(answer.Values("WWW-Authenticate")) // a malformed one names nothing
	for _, c := range challenges {
		if at := c.Params["resource_metadata"]; c.Scheme == "bearer" && at != "" {
			places = []string{at}
			break
		}
	}
	var last error
	for _, at := range slices.Compact(places) {
		var m struct {
			Servers []string `json:"authorization_servers"`
		}
		if last = t.metadata(ctx, at, &m, report); last != nil {
			continue
		}
		if len(m.Servers) == 0 {
			return "", undiscovered("%s names no authorization server", errtext.Address(at))
		}
		return m.Servers[0], nil
	}
	return "", last
}

// endpointOf returns the token endpoint of an authorization server.
func (t *tokens) endpointOf(ctx context.Context, issuer string, report func(eventmeter.Call)) (address string, inForm bool, err error) {
	u, err := url.Parse(issuer)
	if err != nil || u.Host == "" {
		return "", false, undiscovered("the authorization server %q is not a URL", errtext.Address(issuer))
	}
	path := strings.Trim(u.EscapedPath(), "/")
	origin := u.Scheme + "://" + u.Host
	if path != "" {
		path = "/" + path
	}
	places := []string{origin + "/.well-known/oauth-authorization-server" + path, origin + "/.well-known/openid-configuration" + path}
	if path != "" {
		places = append(places, origin+path+"/.well-known/openid-configuration")
	}
	for _, at := range places {
		var m struct {
			Issuer string   `json:"issuer"`
			Token  string   `json:"token_endpoint"`
			Auth   []string `json:"token_endpoint_auth_methods_supported"`
		}
		if err = t.metadata(ctx, at, &m, report); err != nil {
			continue
		}
		switch {
		case strings.TrimRight(m.Issuer, "/") != strings.TrimRight(issuer, "/"):
			return "", false, undiscovered("%s is about another issuer, %q", errtext.Address(at), errtext.Address(m.Issuer))
		case safeIssuer(m.Token) != nil:
			return "", false, undiscovered("%s: token_endpoint: %v", errtext.Address(at), safeIssuer(m.Token))
		}
		return m.Token, len(m.Auth) > 0 && !slices.Contains(m.Auth, "client_secret_basic") &&
			slices.Contains(m.Auth, "client_secret_post"), nil
	}
	return "", false, err
}

// metadata fetches a metadata document and decodes it.
func (t *tokens) metadata(ctx context.Context, address string, into any, report func(eventmeter.Call)) error {
	if err := safeIssuer(address); err != nil {
		return undiscovered("metadata: %v", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := t.client(methodMetadata, report).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return undiscovered("%s: http %d", errtext.Address(address), resp.StatusCode)
	}
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return undiscovered("%s: %v", errtext.Address(address), err)
	}
	return nil
}

// safeIssuer returns an error unless the address is a URL of https, or of http on this
// machine: secrets are sent there.
func safeIssuer(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("%q is not a URL: use https://host/path", errtext.Address(address))
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		return fmt.Errorf("%s would send secrets in the clear: use https", errtext.Address(address))
	}
	return nil
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// newTokens checks the options and makes the endpoint's principals. It requests no
// token.
func newTokens(e *Endpoint, o OAuth) (*tokens, error) {
	switch {
	case o.Grant != GrantCredentials && o.Grant != GrantRefresh:
		return nil, fmt.Errorf("endpoint: grant %q is not known: use %s or %s", o.Grant, GrantCredentials, GrantRefresh)
	case o.Principals < 1 || o.ClientID == nil:
		return nil, errors.New("endpoint: OAuth needs Principals and ClientID")
	case o.RefreshTokens != nil && len(o.RefreshTokens) != o.Principals:
		return nil, fmt.Errorf("endpoint: there are %d refresh tokens for %d principals: give one each", len(o.RefreshTokens), o.Principals)
	case o.RefreshAt <= 0 || o.RefreshAt > 1 || o.Timeout <= 0:
		return nil, errors.New("endpoint: OAuth needs a Timeout, and a RefreshAt above 0 and up to 1")
	}
	if o.TokenURL != "" {
		if err := safeIssuer(o.TokenURL); err != nil {
			return nil, fmt.Errorf("endpoint: the token endpoint %w", err)
		}
	}
	t := &tokens{
		endpoint: e,
		opts:     o,
		secrets:  errtext.NewSecrets(append([]string{o.Secret}, o.RefreshTokens...)...),
		tokenURL: o.TokenURL,
		inForm:   o.InForm,
		finding:  make(chan struct{}, 1),
		bearers:  map[string]*holder{},
	}
	t.life, t.end = context.WithCancel(context.Background())
	tls := e.tlsConfig()
	tls.ServerName = ""                      // the issuer may be another host
	dial := e.opts.Guard.Dial(&net.Dialer{}) // not from LocalAddrs: they may not lead to the issuer
	if e.opts.Resolve != nil {
		dial = e.dialer()
	}
	transport := &http.Transport{
		DialContext:            e.traffic.Dial(dial),
		TLSClientConfig:        tls,
		TLSHandshakeTimeout:    20 * time.Second,
		MaxIdleConnsPerHost:    64,
		MaxConnsPerHost:        64,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: maxHead,
		DisableCompression:     true,
	}
	t.transport, t.hangUp = transport, transport.CloseIdleConnections
	for i := range o.Principals {
		h := &holder{of: t, index: i}
		if o.RefreshTokens != nil {
			h.refresh = o.RefreshTokens[i]
		}
		e.principals = append(e.principals, &Principal{endpoint: e, Index: i, holder: h})
	}
	return t, nil
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
