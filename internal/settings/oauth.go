package settings

import "time"

// OAuth defines how principals get access tokens that expire. Each is a client of an issuer.
type OAuth struct {
	// clientCredentials (the default) asks for every token with the client's own credentials.
	// refreshToken renews with a refresh token. The first refresh token comes from refreshTokenFile
	// or, without the file, with the first access token, which is requested with client
	// credentials.
	Grant string `json:"grant,omitempty" check:"clientCredentials|refreshToken"`
	// number of principals, default 1; subscription i uses principal i modulo their number
	Principals int `json:"principals,omitempty" check:"1..200000"`
	// client id of each principal: a template over .Index, the number of the principal
	ClientID string `json:"clientId"`
	// name of the environment variable that holds the secret of all clients; not needed with the
	// embedded target. The secret is never stored in a result.
	SecretEnv string `json:"secretEnv,omitempty"`
	// file with the first refresh token of each principal, one per line, for grant refreshToken
	RefreshTokenFile string   `json:"refreshTokenFile,omitempty"`
	Scopes           []string `json:"scopes,omitempty"` // scopes to ask for
	// URL of the token endpoint; empty = it is discovered from the target, as the base specification
	// says. It must be https, except on this machine.
	TokenURL string `json:"tokenURL,omitempty"`
	// how clients send their secret to tokenURL: basic (HTTP Basic, the default) or form (in the body)
	Auth string `json:"auth,omitempty" check:"|basic|form"`
	// share of a token's life after which it is renewed before its next use, default 0.8; 1 = it is
	// used until the target refuses it with 401
	RefreshAt float64 `json:"refreshAt,omitempty" check:"0.01..1"`
	// longest time for one attempt to get a token, discovery included, default 30s
	Timeout time.Duration `json:"timeout,omitempty" check:"1ms..1h"`
}

// Used reports whether principals get tokens that expire.
func (o *OAuth) Used() bool { return o.ClientID != "" }

// Fill sets the defaults if principals get tokens.
func (o *OAuth) Fill() {
	if !o.Used() {
		return
	}
	if o.Grant == "" {
		o.Grant = "clientCredentials"
	}
	if o.Principals == 0 {
		o.Principals = 1
	}
	if o.RefreshAt == 0 {
		o.RefreshAt = 0.8
	}
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
}
