package profiles

import (
	"fmt"
	"strings"
	"time"
)

// OAuth defines how principals get access tokens that expire. Each is a client of an issuer.
type OAuth struct {
	// clientCredentials (the default): every token is asked for with the client's own credentials.
	// refreshToken: with a refresh token, of which the first is from refreshTokenFile or comes with
	// the first access token, which is then asked for by client credentials.
	Grant string `yaml:"grant,omitempty" json:"grant,omitempty" check:"clientCredentials|refreshToken"`
	// number of principals, default 1; subscription i uses principal i modulo their number
	Principals int `yaml:"principals,omitempty" json:"principals,omitempty" check:"1..200000"`
	// client id of each principal: a template over .Index, the number of the principal
	ClientID string `yaml:"clientId" json:"clientId"`
	// name of the environment variable that holds the secret of all clients; not needed with the
	// embedded target. The secret is never stored in a result.
	SecretEnv string `yaml:"secretEnv,omitempty" json:"secretEnv,omitempty"`
	// file with the first refresh token of each principal, one per line, for grant refreshToken
	RefreshTokenFile string   `yaml:"refreshTokenFile,omitempty" json:"refreshTokenFile,omitempty"`
	Scopes           []string `yaml:"scopes,omitempty" json:"scopes,omitempty"` // scopes to ask for
	// URL of the token endpoint; empty = it is discovered from the target, as the base specification
	// says. It must be https, except on this machine.
	TokenURL string `yaml:"tokenURL,omitempty" json:"tokenURL,omitempty"`
	// how clients prove themselves at tokenURL: basic (the default) or form
	Auth string `yaml:"auth,omitempty" json:"auth,omitempty" check:"|basic|form"`
	// share of a token's life after which it is renewed before it is used again, default 0.8; 1 = it
	// is used until the target refuses it with 401
	RefreshAt float64 `yaml:"refreshAt,omitempty" json:"refreshAt,omitempty" check:"0.01..1"`
	// longest time for one attempt to get a token, discovery included, default 30s
	Timeout time.Duration `yaml:"timeout,omitempty" json:"timeout,omitempty" check:"1ms..1h"`
}

// Used reports whether principals get tokens that expire.
func (o *OAuth) Used() bool { return o.ClientID != "" }

func (o *OAuth) fill() {
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

// ClientIDs compiles the template of client ids. The function that it returns is safe for concurrent
// use.
func (o *OAuth) ClientIDs() (func(i int) string, error) {
	c := compiler{scope: perSubscription}
	parts, err := c.text(o.ClientID)
	if err != nil {
		return nil, err
	}
	return func(i int) string { return string(c.run(nil, parts, &env{Index: i})) }, nil
}

// oauth checks how principals get tokens.
func (c *checker) oauth() {
	t := &c.p.Target
	o := &t.OAuth
	const here = "target.oauth"
	life := t.Embedded.TokenLife > 0
	if !c.given(here) {
		if life {
			c.bad("target.embedded.tokenLife", "there is no target.oauth, so nobody gets a token", "give target.oauth too")
		}
		return
	}
	if o.ClientID == "" {
		c.missing(here+".clientId", `give a template such as "load-{{.Index}}"`)
		return
	}
	c.reject("target", []string{"tokens", "tokenFile"}, "there is oauth as well", "give one of the two")
	if t.OverStdio() {
		c.bad(here, "has no effect over standard input and output, which has one principal", "remove it")
	}
	if t.IsEmbedded() && !life {
		c.bad(here, "the embedded target issues tokens only with target.embedded.tokenLife", "give that too, such as tokenLife: 1m")
	}
	c.clientID(o)
	switch refresh := o.Grant == "refreshToken"; {
	case !refresh && c.given(here+".refreshTokenFile"):
		c.bad(here+".refreshTokenFile", "belongs to grant: refreshToken", "remove it, or set that grant")
	case o.SecretEnv == "" && !t.IsEmbedded() && (!refresh || o.RefreshTokenFile == ""):
		c.missing(here+".secretEnv", "name the environment variable that holds the client's secret")
	}
	if strings.ContainsAny(o.SecretEnv, "= \x00") {
		c.bad(here+".secretEnv", quote(o.SecretEnv)+" cannot be a variable", "write a name such as CLIENT_SECRET")
	}
	for i, scope := range o.Scopes {
		if scope == "" || strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) {
			c.bad(fmt.Sprintf("%s.scopes.%d", here, i), quote(scope)+" is not a scope", "give printable ASCII without spaces and quotes, one scope each")
		}
	}
	switch {
	case o.TokenURL != "":
		if u := c.web(here+".tokenURL", o.TokenURL, "https", "http"); u != nil && u.Scheme == "http" && !loopback(u.Hostname()) {
			c.bad(here+".tokenURL", "would send secrets in the clear", "use https")
		}
	case o.Auth != "":
		c.bad(here+".auth", "has no effect without tokenURL: the issuer's metadata say it", "remove it, or give tokenURL too")
	}
}

// clientID checks that principals differ.
func (c *checker) clientID(o *OAuth) {
	const path = "target.oauth.clientId"
	ids, err := o.ClientIDs()
	if err != nil {
		c.fail2(path, err)
		return
	}
	seen := make(map[string]int, min(o.Principals, 200_000))
	for i := range min(o.Principals, 200_000) {
		id := ids(i)
		before, twice := seen[id]
		switch {
		case id == "" || strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || r > '~' }):
			c.bad(path, fmt.Sprintf("principal %d would be %s", i, quote(id)), "give printable ASCII")
			return
		case twice:
			c.bad(path, fmt.Sprintf("principals %d and %d are both %s", before, i, quote(id)), "use {{.Index}} in it, or lower principals")
			return
		}
		seen[id] = i
	}
}
