package mcpclient

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"strings"

	"github.com/eventmeter/eventmeter"
)

// TokenCounts returns the counts so far; false if the principals have fixed tokens, or
// none.
func (e *Endpoint) TokenCounts() (TokenCounts, bool) {
	t := e.tokens
	if t == nil {
		return TokenCounts{}, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.counts
	c.Failures = maps.Clone(c.Failures)
	return c, true
}

// EndTokens cancels the requests for tokens that are under way, and waits for them. No
// token is requested afterwards.
func (e *Endpoint) EndTokens() {
	if e.tokens != nil {
		e.tokens.close()
	}
}

// SettleTokens waits for the requests for tokens that are under way. No token may be
// asked for meanwhile.
func (e *Endpoint) SettleTokens() {
	if e.tokens != nil {
		e.tokens.work.Wait()
	}
}

// LostFor counts a subscription that ended with err, if err says that its principal got
// no token.
func (c *Caller) LostFor(err *CallError) {
	if c.tokens != nil && err.NoToken() {
		c.tokens.mu.Lock()
		defer c.tokens.mu.Unlock()
		c.tokens.counts.Lost++
	}
}

// Renewing returns a transport that, if the target refuses a request with 401, gets a
// new token and sends the request again, once. report is called with the refused request
// and the requests for the new token, with the cause [eventmeter.Token]. If tokens do not
// expire, Renewing returns next.
func (e *Endpoint) Renewing(next http.RoundTripper, report func(eventmeter.Call)) http.RoundTripper {
	if e.tokens == nil {
		return next
	}
	return &renewing{next: next, of: e.tokens, report: report}
}

type renewing struct {
	next   http.RoundTripper
	of     *tokens
	report func(eventmeter.Call)
}

// RoundTrip implements [http.RoundTripper].
func (t *renewing) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(req)
	if err != nil || resp.StatusCode < http.StatusBadRequest {
		return resp, err
	}
	h, token := t.of.holderOf(req.Header)
	if h == nil {
		return resp, nil
	}
	if resp.StatusCode != http.StatusUnauthorized || req.Body != nil && req.GetBody == nil {
		return resp, hideToken(resp, token)
	}
	call := eventmeter.Call{
		Cause: eventmeter.Token, Requests: 1, Method: methodOf(req), Down: ResponseSize(resp),
		Up: RequestSize(req.Method, req.URL.RequestURI(), req.Header, req.ContentLength),
	}
	n, _ := io.Copy(io.Discard, io.LimitReader(resp.Body, MaxRefusal)) // to use the connection again
	_ = resp.Body.Close()
	call.Down += n
	fresh, failed := h.bearer(req.Context(), token, resp.Header, t.report)
	if failed != nil {
		copied := *failed
		copied.down = call.Down
		return nil, &copied
	}
	t.of.repeated(call, t.report)
	again := req.Clone(req.Context())
	again.Header.Set("Authorization", "Bearer "+fresh)
	if req.GetBody != nil {
		if again.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
	}
	if resp, err = t.next.RoundTrip(again); err == nil && resp.StatusCode >= http.StatusBadRequest {
		err = hideToken(resp, fresh)
	}
	return resp, err
}

// repeated counts and reports a request that is sent again.
func (t *tokens) repeated(call eventmeter.Call, report func(eventmeter.Call)) {
	t.mu.Lock()
	t.counts.Repeated++
	t.mu.Unlock()
	if report != nil {
		report(call)
	}
}

// methodOf names a request in reports.
func methodOf(req *http.Request) string {
	if m := req.Header.Get(HeaderMethod); m != "" {
		return m
	}
	return req.Method
}

// hideToken overwrites the token in the body of a refusal, whose first line is quoted in
// errors.
func hideToken(resp *http.Response, token string) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxRefusal+1))
	if err != nil {
		return err
	}
	body = HideToken(body, token)
	rest := resp.Body
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), rest), rest}
	return nil
}

// HideToken returns text with each occurrence of token overwritten by asterisks.
func HideToken(text []byte, token string) []byte {
	return bytes.ReplaceAll(text, []byte(token), []byte(strings.Repeat("*", len(token))))
}

// Renew gets a new token after the target refused one with 401, for a request that was
// not sent by a transport of [Endpoint.Renewing]. answer is the header of the refusal.
// If there is a new token, refusal is reported for the refused request. Renew returns
// false if the principal's token does not expire.
func (p *Principal) Renew(
	ctx context.Context,
	refused string,
	answer http.Header,
	refusal eventmeter.Call,
	report func(eventmeter.Call),
) (bool, *CallError) {
	if p.holder == nil {
		return false, nil
	}
	if _, err := p.holder.bearer(ctx, refused, answer, report); err != nil {
		return false, err
	}
	refusal.Cause = eventmeter.Token
	p.holder.of.repeated(refusal, report)
	return true, nil
}

// Current returns header fields with the principal's current token: h itself, or a copy
// if h has another token.
func (p *Principal) Current(h http.Header) http.Header {
	token := p.holder.current()
	if token == "" || token == Bearer(h) {
		return h
	}
	h = h.Clone()
	h.Set("Authorization", "Bearer "+token)
	return h
}
