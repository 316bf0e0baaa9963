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
	"github.com/eventmeter/eventmeter/internal/settings"
)

// The grants with which principals get tokens.
const (
	// GrantCredentials gets every token with the client's credentials.
	GrantCredentials = "clientCredentials"
	// GrantRefresh gets tokens with a refresh token. The first refresh token is that
	// of OAuth.RefreshTokens, or comes with the first access token, which client
	// credentials get.
	GrantRefresh = "refreshToken"
)

// OAuth describes how principals get access tokens that expire (RFC 6749). Every
// principal is a client of the issuer.
type OAuth struct {
	Grant string
	// Principals is the number of principals, at least 1. Subscription i uses
	// principal i modulo Principals.
	Principals int
	// ClientID returns the client id of principal i.
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
	// RefreshAt is the share of a token's life, above 0 and up to 1, after which it
	// is renewed before its next use; 1 = it is used until the target refuses it.
	RefreshAt float64
	// Timeout bounds one attempt to get a token, discovery included.
	Timeout time.Duration
}

// OAuthOf returns the OAuth of settings. ids returns the client id of principal i. The
// caller sets the secrets.
func OAuthOf(s *settings.OAuth, ids func(i int) string) *OAuth {
	return &OAuth{
		Grant: s.Grant, Principals: s.Principals, ClientID: ids, Scopes: s.Scopes, TokenURL: s.TokenURL, InForm: s.Auth == "form",
		RefreshAt: s.RefreshAt, Timeout: s.Timeout,
	}
}

// TokenCounts count what an endpoint's principals did to get tokens.
type TokenCounts struct {
	// Requests counts requests to the token endpoint. Issued counts first tokens,
	// Renewed later ones. Failed counts attempts that brought no token, Cut those that
	// the end of the run cut off; both include attempts that did not find the token
	// endpoint.
	Requests, Issued, Renewed, Failed, Cut int64
	// Discovery counts requests that looked for the token endpoint.
	Discovery int64
	// Repeated counts requests that were answered with 401 and sent again with a
	// new token.
	Repeated int64
	// Denied counts principals to which the issuer gives no more tokens, Lost the
	// subscriptions that ended because their principal got no token.
	Denied, Lost int64
	// Failures counts failed attempts by reason, such as "http 400 invalid_grant".
	Failures map[string]int64
	// FirstError is the text of the first failure.
	FirstError string
}

// tokens has the access tokens of all principals of an endpoint.
type tokens struct {
	endpoint  *Endpoint
	opts      OAuth
	secrets   *errtext.Secrets  // that were sent
	transport http.RoundTripper // to the issuer
	hangUp    func()
	finding   chan struct{} // holds a token while the token endpoint is looked for

	life context.Context // of everything under way
	end  context.CancelFunc
	work sync.WaitGroup

	mu       sync.Mutex
	counts   TokenCounts
	tokenURL string             // "" = not found yet
	inForm   bool               // credentials go in the form
	bearers  map[string]*holder // by the token in use, and by the one before
}

// holder is a principal's access token.
type holder struct {
	of    *tokens
	index int

	mu       sync.Mutex
	access   string
	former   string        // the access token before
	due      time.Time     // from when it is renewed before use; zero = only when it is refused
	expires  time.Time     // zero = not known
	refresh  string        // "" = there is none
	denied   *CallError    // why there will be no other token
	renewing *tokenRequest // the attempt under way; nil = none

	taken     time.Time  // when the token in use came
	earliest  time.Time  // of the next attempt
	fruitless int        // attempts in a row that brought no token, or one that was refused soon
	failed    *CallError // the last attempt's error; nil = it brought a token
}

// tokenRequest is one attempt to get a token, for all callers that wait for it.
type tokenRequest struct {
	done chan struct{}
	err  *CallError // valid when done
}

// bearer returns an access token other than refused. It requests one if there is none,
// or if the one in use is due. answer is the header of the refusal, if any. One request
// serves all concurrent callers; it goes on when ctx ends. Requests keep a distance that
// grows while they bring nothing of use: bearer waits for the next one until ctx ends.
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
		}
		inUse := valid && (h.expires.IsZero() || time.Now().Before(h.expires))
		if wait := time.Until(h.earliest); h.renewing == nil && wait > 0 {
			access, why := h.access, h.failed
			h.mu.Unlock()
			if inUse {
				return access, nil
			}
			if err := h.pause(ctx, wait, why); err != nil {
				return "", err
			}
			continue
		}
		if h.renewing == nil {
			h.renewing = h.begin(refused, answer, report)
		}
		under, access := h.renewing, h.access
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
		default: // the renewal failed for now, and the token is still valid
			return access, nil
		}
	}
}

// pause waits for the next attempt to get a token. why is the error of the last one; nil =
// the target refused the token that it brought.
func (h *holder) pause(ctx context.Context, wait time.Duration, why *CallError) *CallError {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-h.of.life.Done():
		return TransportError(h.of.life, h.of.life.Err()).of(methodToken)
	case <-ctx.Done():
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return TransportError(ctx, ctx.Err()).of(methodToken)
	}
	if why == nil {
		why = &CallError{
			Method: methodToken, Kind: KindProtocol,
			Message: "the target refuses the tokens that the issuer issues: do they agree on audience and scopes?",
		}
	}
	return why
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

// begin starts a request for a token other than refused. The caller holds the holder's lock.
func (h *holder) begin(refused string, answer http.Header, report func(eventmeter.Call)) *tokenRequest {
	req := &tokenRequest{done: make(chan struct{})}
	refresh, first := h.refresh, h.access == ""
	if h.failed == nil && time.Since(h.taken) > h.distance() {
		h.fruitless = 0
	}
	h.of.work.Go(func() {
		defer crash.Guard()
		ctx, cancel := context.WithTimeout(h.of.life, h.of.opts.Timeout)
		defer cancel()
		got, err := h.of.get(ctx, h.index, refresh, answer, report)
		if err == nil {
			err = useless(got, refused)
		}
		req.err = h.of.account(err, first)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.renewing, h.failed = nil, req.err
		if req.err != nil || !first { // a first token may be renewed at once
			h.earliest = time.Now().Add(h.distance())
			h.fruitless++
		}
		if req.err == nil {
			h.take(got)
		} else {
			h.postpone(req.err)
		}
		close(req.done)
	})
	return req
}

// useless returns why a token that has just come cannot be used; nil if it can.
func useless(got *oauth2.Token, refused string) error {
	var text errtext.Said
	switch {
	case got.AccessToken == refused:
		text = "the issuer returned the token that the target had just refused"
	case !got.Expiry.IsZero() && !got.Expiry.After(time.Now()):
		text = "the issuer's token had expired when it came: look at its expires_in"
	default:
		return nil
	}
	return &CallError{Method: methodToken, Kind: KindProtocol, Message: text}
}

// distance returns the time from the end of an attempt to the next one. The caller holds
// the holder's lock.
func (h *holder) distance() time.Duration { return renewPause << min(h.fruitless, maxDoublings) }

// take makes got the token in use. The caller holds the holder's lock.
func (h *holder) take(got *oauth2.Token) {
	h.taken = time.Now()
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

const (
	// renewPause is the shortest time between two requests for a principal's token. It
	// doubles with each request that brings nothing of use.
	renewPause = time.Second
	// maxDoublings bounds it to 32 s.
	maxDoublings = 5
)

// postpone handles a failed attempt: there is another one later, or never. The caller
// holds the holder's lock.
func (h *holder) postpone(err *CallError) {
	if err.denied {
		h.denied = err
		return
	}
	if at := time.Now().Add(err.RetryAfter); at.After(h.earliest) {
		h.earliest = at
	}
}

// known makes h the holder of a token, and forgets the token before the last.
func (t *tokens) known(h *holder, before, token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if before != "" && t.bearers[before] == h {
		delete(t.bearers, before)
	}
	t.bearers[token] = h
}

// holderOf returns the token of a request and its holder; nil if the token is not
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

// errNoRefresh is the error of a principal whose grant needs a refresh token, which
// the issuer did not give.
var errNoRefresh = errors.New(
	"the issuer gave no refresh token: ask for a scope that has one, such as offline_access, or set grant: clientCredentials",
)

// get requests a token for principal i; with refresh, if it is not empty.
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

// account counts the result of an attempt to get a token, and returns its error. An
// attempt that the end of the run cut off is no failure. first is true for the
// principal's first token.
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

// passing are the error codes of a token endpoint that may pass with time.
var passing = map[string]bool{"temporarily_unavailable": true, "server_error": true, "slow_down": true}

// failure converts the error of an attempt to a CallError.
func (t *tokens) failure(err error) *CallError {
	var own *CallError
	var said *oauth2.RetrieveError
	switch {
	case errors.As(err, &own):
		return own
	case errors.Is(err, errNoRefresh):
		return &CallError{Method: methodToken, Kind: KindProtocol, Message: errtext.Of(err.Error()), denied: true}
	case !errors.As(err, &said) || said.Response == nil:
		e := &CallError{Method: methodToken, Kind: KindProtocol, Cause: t.secrets.ScrubError(err)}
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
	if to := said.Response.Header.Get("Location"); text == "" && to != "" {
		text = redirected(to)
	}
	if text == "" {
		text = errtext.FirstLine(said.Body[:min(len(said.Body), maxQuoted)])
	}
	e.Message = errtext.Of(t.secrets.Hide(text))
	e.denied = e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden || said.ErrorCode != "" && !passing[said.ErrorCode]
	return e
}

// close cancels the requests under way, waits for them, and closes the connections.
func (t *tokens) close() {
	t.end()
	t.work.Wait()
	t.hangUp()
}
