// Package issuer is the reference server's authorization server: it says where
// it is, issues access tokens that expire, and rotates refresh tokens. Its
// clients need no registration.
//
// It serves on the origin of the MCP endpoint:
//
//	/.well-known/oauth-protected-resource[/mcp]  RFC 9728
//	/.well-known/oauth-authorization-server      RFC 8414
//	/token   grants client_credentials and refresh_token (RFC 6749)
//	/revoke  RFC 7009
//
// A client that asks for the scope offline_access gets a refresh token as well.
// Each refresh token works once; a second use revokes what came of it, because
// one of the two users has stolen it (RFC 9700, section 4.14).
package issuer

import (
	"crypto/rand"
	"crypto/subtle"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter/internal/figure"
)

// Options configures an [Issuer].
type Options struct {
	// Life is how long an access token is valid. 0 = there is no issuer.
	Life time.Duration
	// Secret is what every client proves itself with. "" = any secret that is
	// not empty.
	Secret string
	// RefuseEvery refuses every so manieth renewal of a client with
	// invalid_grant: the client has to be let in anew. A renewal is any request
	// after a client's first. 0 = none.
	RefuseEvery int
	// DownEvery answers every so manieth request of a client with 503. 0 = none.
	DownEvery int
	// Delay is how long every answer of the token endpoint takes.
	Delay time.Duration
}

// Stats counts what an issuer did.
type Stats = counts[int64]

// counts are the counters of [Stats] as an N: int64, or [atomic.Int64] while they grow.
// Requests is the sum of Issued, Renewed, Refused and Down.
type counts[N any] struct {
	// Requests to the token endpoint.
	Requests N `json:"requests"`
	// Issued and Renewed count tokens: the first of a client, and all others.
	Issued  N `json:"issued"`
	Renewed N `json:"renewed"`
	// Refused counts requests that were answered with an OAuth error, Down those
	// answered with 503.
	Refused N `json:"refused"`
	Down    N `json:"down"`
	// Metadata counts requests for metadata, Revocations those to revoke.
	Metadata    N `json:"metadata"`
	Revocations N `json:"revocations"`
	// Unauthorized counts requests of the MCP endpoint that were answered with
	// 401, because they had no valid token.
	Unauthorized N `json:"unauthorized"`
}

// The bounds of what is kept.
const (
	maxClients = 200_000
	// maxTokens is how many valid access tokens a client may have. One more makes
	// the oldest invalid.
	maxTokens = 64
)

// Issuer issues tokens. Its methods are safe for concurrent use. A nil Issuer
// issues nothing.
type Issuer struct {
	opts   Options
	closed chan struct{}
	once   sync.Once

	counts counts[atomic.Int64]

	mu      sync.Mutex
	clients map[string]*client
	access  map[string]access
	refresh map[string]*family
}

// client is what is known of a client id. The issuer's lock guards it.
type client struct {
	requests int
	renewals int
	tokens   []string // access tokens, oldest first
}

// access is what an access token stands for.
type access struct {
	client string
	until  time.Time
	family *family // nil without a refresh token
}

// family is a chain of refresh tokens, of which only the last is valid.
type family struct {
	client, scope     string
	current, previous string
	revoked           bool
}

// New makes an issuer, or nil if o has no Life.
func New(o Options) *Issuer {
	if o.Life <= 0 {
		return nil
	}
	return &Issuer{
		opts: o, closed: make(chan struct{}),
		clients: map[string]*client{}, access: map[string]access{}, refresh: map[string]*family{},
	}
}

// Close ends answers that are delayed.
func (s *Issuer) Close() {
	if s != nil {
		s.once.Do(func() { close(s.closed) })
	}
}

// Client returns whose an access token is, and until when it is valid; false for
// one that is not valid.
func (s *Issuer) Client(token string) (id string, until time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, ok := s.access[token]
	if !ok || !time.Now().Before(a.until) || a.family != nil && a.family.revoked {
		return "", time.Time{}, false
	}
	return a.client, a.until, true
}

// Stats reads the counters. Those of a nil Issuer are zero.
func (s *Issuer) Stats() (out Stats) {
	if s != nil {
		figure.Read(&out, &s.counts)
	}
	return out
}

// ExpireAll makes every access token expire now. Refresh tokens stay valid.
func (s *Issuer) ExpireAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for token, a := range s.access {
		a.until = now
		s.access[token] = a
	}
}

// refusal is an error of the token endpoint (RFC 6749, section 5.2).
type refusal struct {
	status     int
	code, text string // no code: the issuer is not available
}

func invalidGrant(text string) *refusal {
	return &refusal{http.StatusBadRequest, "invalid_grant", text}
}

func unavailable(text string) *refusal { return &refusal{http.StatusServiceUnavailable, "", text} }

// tokens are the answer to a request for tokens.
type tokens struct {
	Access    string `json:"access_token"`
	Type      string `json:"token_type"`
	ExpiresIn int64  `json:"expires_in"`
	Refresh   string `json:"refresh_token,omitempty"`
	Scope     string `json:"scope,omitempty"`
}

// knows reports whether a client proved itself.
func (s *Issuer) knows(id, secret string) bool {
	if id == "" || secret == "" {
		return false
	}
	return s.opts.Secret == "" || subtle.ConstantTimeCompare([]byte(secret), []byte(s.opts.Secret)) == 1
}

// begin counts a request of a client, and refuses it if a fault says so.
func (s *Issuer) begin(id string) (c *client, renewal bool, no *refusal) {
	c = s.clients[id]
	if c == nil {
		if len(s.clients) >= maxClients {
			return nil, false, unavailable("there are too many clients")
		}
		c = &client{}
		s.clients[id] = c
	}
	c.requests++
	if n := s.opts.DownEvery; n > 0 && c.requests%n == 0 {
		return nil, false, unavailable("the issuer is down")
	}
	if renewal = len(c.tokens) > 0; renewal {
		c.renewals++
		if n := s.opts.RefuseEvery; n > 0 && c.renewals%n == 0 {
			return nil, false, invalidGrant("this client is no longer let in")
		}
	}
	return c, renewal, nil
}

// grant issues an access token, and a refresh token if f is not nil.
func (s *Issuer) grant(id string, c *client, f *family) tokens {
	now := time.Now()
	s.forget(c, now)
	t := tokens{Access: "at-" + rand.Text(), Type: "Bearer", ExpiresIn: max(int64(s.opts.Life/time.Second), 1)}
	s.access[t.Access] = access{client: id, until: now.Add(s.opts.Life), family: f}
	c.tokens = append(c.tokens, t.Access)
	if f != nil {
		delete(s.refresh, f.previous)
		f.previous, f.current = f.current, "rt-"+rand.Text()
		s.refresh[f.current] = f
		t.Refresh, t.Scope = f.current, f.scope
	}
	return t
}

// forget drops the oldest tokens of a client: those that have expired, and those
// beyond the bound. The newest stays: a client that had a token renews.
func (s *Issuer) forget(c *client, now time.Time) {
	drop := max(len(c.tokens)-maxTokens, 0)
	for drop < len(c.tokens)-1 && now.After(s.access[c.tokens[drop]].until) {
		drop++
	}
	for _, old := range c.tokens[:drop] {
		delete(s.access, old)
	}
	c.tokens = append([]string(nil), c.tokens[drop:]...)
}

// credentials answers the grant client_credentials.
func (s *Issuer) credentials(id, scope string, offline bool) (t tokens, renewal bool, no *refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, renewal, no := s.begin(id)
	if no != nil {
		return t, renewal, no
	}
	var f *family
	if offline {
		f = &family{client: id, scope: scope}
	}
	t = s.grant(id, c, f)
	t.Scope = scope
	return t, renewal, nil
}

// rotate answers the grant refresh_token.
func (s *Issuer) rotate(id, token string) (t tokens, renewal bool, no *refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, renewal, no := s.begin(id)
	if no != nil {
		return t, renewal, no
	}
	f := s.refresh[token]
	switch {
	case f == nil || f.client != id:
		return t, renewal, invalidGrant("the refresh token is not known")
	case f.revoked:
		return t, renewal, invalidGrant("the refresh token was revoked")
	case f.current != token:
		f.revoked = true
		return t, renewal, invalidGrant("the refresh token was used before")
	}
	return s.grant(id, c, f), renewal, nil
}

// revoke makes a token of a client invalid; with a refresh token, its access
// tokens too. A token that is not known is none that would have to be revoked.
func (s *Issuer) revoke(id, token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.refresh[token]; f != nil && f.client == id {
		f.revoked = true
	}
	if a, ok := s.access[token]; ok && a.client == id {
		a.until = time.Time{} // the entry stays until the client's next token
		s.access[token] = a
	}
}
