package profiles

import (
	"fmt"
	"strings"

	"github.com/eventmeter/eventmeter/internal/settings"
)

// ClientIDs compiles the template of client ids. The function that it returns is safe for concurrent
// use.
func ClientIDs(o *settings.OAuth) (func(i int) string, error) {
	parts, err := compiler{scope: perSubscription}.text(o.ClientID)
	if err != nil {
		return nil, err
	}
	return func(i int) string { return string(run(nil, parts, &env{Index: i})) }, nil
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
		c.bad(here+".secretEnv", settings.Quote(o.SecretEnv)+" cannot be a variable", "write a name such as CLIENT_SECRET")
	}
	for i, scope := range o.Scopes {
		if scope == "" || strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) {
			c.bad(
				fmt.Sprintf("%s.scopes.%d", here, i),
				settings.Quote(scope)+" is not a scope",
				"give printable ASCII without spaces and quotes, one scope each",
			)
		}
	}
	switch {
	case o.TokenURL != "":
		if u := c.web(here+".tokenURL", o.TokenURL, "https", "http"); u != nil && u.Scheme == "http" && !settings.Loopback(u.Hostname()) {
			c.bad(here+".tokenURL", "would send secrets in the clear", "use https")
		}
	case o.Auth != "":
		c.bad(here+".auth", "has no effect without tokenURL: the issuer's metadata say it", "remove it, or give tokenURL too")
	}
}

// clientID checks that principals differ.
func (c *checker) clientID(o *settings.OAuth) {
	const path = "target.oauth.clientId"
	ids, err := ClientIDs(o)
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
			c.bad(path, fmt.Sprintf("principal %d would be %s", i, settings.Quote(id)), "give printable ASCII")
			return
		case twice:
			c.bad(
				path,
				fmt.Sprintf("principals %d and %d are both %s", before, i, settings.Quote(id)),
				"use {{.Index}} in it, or lower principals",
			)
			return
		}
		seen[id] = i
	}
}
