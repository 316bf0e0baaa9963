package mcpclient

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/errtext"
)

// The grants by which tokens are had.
const (
	// GrantCredentials asks with the client's own credentials, each time.
	GrantCredentials = "clientCredentials"
	// GrantRefresh asks with a refresh token. The first one comes from
	// OAuth.RefreshTokens, or with the first access token, by client credentials.
	GrantRefresh = "refreshToken"
)

// OAuth says how principals get access tokens, which expire (RFC 6749). Every
// principal is a client of the issuer.
type OAuth struct {
	Grant string
	// Principals is how many there are: subscription i uses principal i modulo
	// their number.
	Principals int
	// ClientID is the id of principal i.
	ClientID func(i int) string
	Secret   string // of all clients
	// RefreshTokens are the first refresh tokens, one per principal; nil = there
	// are none.
	RefreshTokens []string
	Scopes        []string
	// TokenURL is the token endpoint; "" = it is discovered as the base
	// specification says, from the target's answer to a request without a token.
	TokenURL string
	// InForm sends id and secret in the form instead of HTTP Basic.
	InForm bool
	// RefreshAt is the share of a token's life after which it is renewed before
	// it is used again; 1 = it is used until the target refuses it.
	RefreshAt float64
	// Timeout bounds one attempt to get a token, discovery included.
	Timeout time.Duration
}

// TokenCounts are what an endpoint's principals did to have tokens.
type TokenCounts struct {
	// Requests to the token endpoint. Issued and Renewed brought a token, Failed
	// did not, Cut were given up at the end of the run; the last two also count
	// attempts that did not find the token endpoint.
	Requests, Issued, Renewed, Failed, Cut int64
	// Discovery counts requests that looked for the token endpoint.
	Discovery int64
	// Repeated counts requests that were answered with 401 and sent again with a
	// new token.
	Repeated int64
	// Denied counts principals that the issuer lets in no more, Lost the
	// subscriptions that ended because no token could be had.
	Denied, Lost int64
	// Failures counts what Failed comes from, such as "http 400 invalid_grant".
	Failures map[string]int64
	// FirstError is the text of the first of them.
	FirstError string
}

// tokens are those of all principals of an endpoint.
type tokens struct {
	endpoint  *Endpoint
	opts      OAuth
	transport http.RoundTripper // to the issuer
	hangUp    func()
	finding   chan struct{} // held while the token endpoint is looked for

	life context.Context // of everything under way
	end  context.CancelFunc
	work sync.WaitGroup

	mu       sync.Mutex
	counts   TokenCounts
	tokenURL string             // "" = not found yet
	inForm   bool               // how the client proves itself there
	bearers  map[string]*holder // by the token in use, and the one before
}

// holder is a principal's access token.
type holder struct {
	of    *tokens
	index int

	mu       sync.Mutex
	access   string
	former   string        // the access token before
	due      time.Time     // when it is renewed before it is used; zero = not before it is refused
	expires  time.Time     // zero = not known
	refresh  string        // "" = there is none
	denied   *CallError    // why there will be no other token
	renewing *tokenRequest // under way; nil = none
}

// tokenRequest is one attempt to get a token, for all who wait for it.
type tokenRequest struct {
	done chan struct{}
	err  *CallError // valid when done
}

// bearer returns an access token that is not the refused one, and gets one where
// there is none or where it is due. answer is the header of the refusal, if any.
// One request serves all who ask meanwhile; it goes on when ctx is over.
func (h *holder) bearer(ctx context.Context, refused string, answer http.Header, report func(eventmeter.Call)) (string, *CallError) {
	for {
		h.mu.Lock()
		valid := h.access != "" && h.access != refused
		switch {
		case h.denied != nil:
			defer h.mu.Unlock()
			return "", h.denied
		case valid && (h.due.IsZero() || time.Now().Before(h.due)):
			defer h.mu.Unlock()
			return h.access, nil
		case h.renewing == nil && h.of.life.Err() != nil: // the run is over
			defer h.mu.Unlock()
			return "", TransportError(h.of.life, h.of.life.Err()).of(methodToken)
		case h.renewing == nil:
			h.renewing = h.begin(answer, report)
		}
		under, access := h.renewing, h.access
		inUse := valid && (h.expires.IsZero() || time.Now().Before(h.expires))
		h.mu.Unlock()
		select {
		case <-under.done:
		case <-ctx.Done():
			return "", TransportError(ctx, ctx.Err()).of(methodToken)
		}
		switch {
		case under.err == nil:
		case under.err.denied || !inUse:
			return "", under.err
		default: // it failed for now, and the token is still good
			return access, nil
		}
	}
}

// current returns the access token; "" if there is none yet, or h is nil.
func (h *holder) current() string {
	if h == nil {
		return ""
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.access
}

// begin starts a request for a token. The caller holds the holder's lock.
func (h *holder) begin(answer http.Header, report func(eventmeter.Call)) *tokenRequest {
	req := &tokenRequest{done: make(chan struct{})}
	refresh, first := h.refresh, h.access == ""
	h.of.work.Go(func() {
		defer crash.Guard()
		ctx, cancel := context.WithTimeout(h.of.life, h.of.opts.Timeout)
		defer cancel()
		got, err := h.of.get(ctx, h.index, refresh, answer, report)
		req.err = h.of.account(err, first)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.renewing = nil
		if req.err == nil {
			h.take(got)
		} else {
			h.postpone(req.err)
		}
		close(req.done)
	})
	return req
}

// take makes a token the one in use.
func (h *holder) take(got *oauth2.Token) {
	h.of.known(h, h.former, got.AccessToken)
	h.former, h.access = h.access, got.AccessToken
	if got.RefreshToken != "" {
		h.refresh = got.RefreshToken
	}
	h.due = time.Time{}
	if h.expires = got.Expiry; h.expires.IsZero() {
		return
	}
	if at := h.of.opts.RefreshAt; at < 1 {
		h.due = time.Now().Add(time.Duration(float64(time.Until(h.expires)) * at))
	}
}

// renewPause is the least wait before a renewal that failed is tried again while
// the token is still valid.
const renewPause = time.Second

// postpone notes that there is no new token.
func (h *holder) postpone(err *CallError) {
	if err.denied {
		h.denied = err
		return
	}
	if !h.due.IsZero() {
		h.due = time.Now().Add(max(err.RetryAfter, renewPause))
	}
}

// known has requests with a token be those of its holder, and forgets the one
// before the last.
func (t *tokens) known(h *holder, before, token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if before != "" && t.bearers[before] == h {
		delete(t.bearers, before)
	}
	t.bearers[token] = h
}

// holderOf returns whose the token of a request is; nil for one that is not
// known.
func (t *tokens) holderOf(header http.Header) (*holder, string) {
	token, ok := strings.CutPrefix(header.Get("Authorization"), "Bearer ")
	if !ok {
		return nil, ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bearers[token], token
}

// errNoRefresh is why a principal has no token any more that was to have a
// refresh token.
var errNoRefresh = errors.New("the issuer gave no refresh token: ask for a scope that has one, such as offline_access, or set grant: clientCredentials")

// get asks for a token.
func (t *tokens) get(ctx context.Context, i int, refresh string, answer http.Header, report func(eventmeter.Call)) (*oauth2.Token, error) {
	address, inForm, err := t.find(ctx, answer, report)
	if err != nil {
		return nil, err
	}
	style := oauth2.AuthStyleInHeader
	if inForm {
		style = oauth2.AuthStyleInParams
	}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, t.client(methodToken, report))
	id := t.opts.ClientID(i)
	if refresh != "" {
		c := oauth2.Config{ClientID: id, ClientSecret: t.opts.Secret, Endpoint: oauth2.Endpoint{TokenURL: address, AuthStyle: style}}
		return c.TokenSource(ctx, &oauth2.Token{RefreshToken: refresh}).Token()
	}
	c := clientcredentials.Config{ClientID: id, ClientSecret: t.opts.Secret, TokenURL: address, Scopes: t.opts.Scopes, AuthStyle: style}
	got, err := c.Token(ctx)
	if err == nil && t.opts.Grant == GrantRefresh && got.RefreshToken == "" {
		err = errNoRefresh
	}
	return got, err
}

// account counts what came of a request for a token, and makes an error of it.
// Where the end of the run cut it, nobody failed.
func (t *tokens) account(err error, first bool) *CallError {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err == nil && first:
		t.counts.Issued++
		return nil
	case err == nil:
		t.counts.Renewed++
		return nil
	case t.life.Err() != nil:
		t.counts.Cut++
		return &CallError{Method: methodToken, Kind: KindOf(context.Canceled), Cause: context.Canceled}
	}
	e := t.failure(err)
	t.counts.Failed++
	if e.denied {
		t.counts.Denied++
	}
	if t.counts.Failures == nil {
		t.counts.Failures = map[string]int64{}
	}
	t.counts.Failures[e.Failure()]++
	if t.counts.FirstError == "" {
		t.counts.FirstError = e.Error()
	}
	return e
}

// passing are the errors of a token endpoint that time may mend.
var passing = map[string]bool{"temporarily_unavailable": true, "server_error": true, "slow_down": true}

// failure makes an error of why there is no token.
func (t *tokens) failure(err error) *CallError {
	var own *CallError
	var said *oauth2.RetrieveError
	switch {
	case errors.As(err, &own):
		return own
	case errors.Is(err, errNoRefresh):
		return &CallError{Method: methodToken, Kind: KindProtocol, Message: errtext.Of(err.Error()), denied: true}
	case !errors.As(err, &said) || said.Response == nil:
		e := &CallError{Method: methodToken, Kind: KindProtocol, Cause: errors.New(t.hide(err.Error()))}
		var sending *url.Error
		if errors.As(err, &sending) || errors.Is(err, context.DeadlineExceeded) {
			e.Kind = KindOf(err)
		}
		return e
	}
	e := &CallError{Method: methodToken, Status: said.Response.StatusCode, RetryAfter: retryAfter(said.Response.Header, time.Now())}
	if len(said.ErrorCode) < 40 && strings.Trim(said.ErrorCode, "abcdefghijklmnopqrstuvwxyz_") == "" {
		e.oauth = said.ErrorCode
	}
	text := said.ErrorCode
	if said.ErrorDescription != "" {
		text += ": " + said.ErrorDescription
	}
	if text == "" {
		text = errtext.FirstLine(said.Body[:min(len(said.Body), maxQuoted)])
	}
	e.Message = errtext.Of(t.hide(text))
	e.denied = e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden || said.ErrorCode != "" && !passing[said.ErrorCode]
	return e
}

// hide takes out of a text what this side sent and must not be shown.
func (t *tokens) hide(text string) string {
	for _, secret := range append([]string{t.opts.Secret}, t.opts.RefreshTokens...) {
		if len(secret) >= errtext.MinSecret {
			text = strings.ReplaceAll(text, secret, "…")
		}
	}
	return text
}

// close ends what is under way, and waits for it.
func (t *tokens) close() {
	t.end()
	t.work.Wait()
	t.hangUp()
}
