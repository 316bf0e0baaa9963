package profiles

import (
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/loadgen/systems"
)

func TestOAuthErrors(t *testing.T) {
	const rest = `
lanes: [{name: a, mode: poll, subscriptions: 2, event: e}]
schedule: {rate: 1/s}
`
	const url = "target: {url: 'http://127.0.0.1:8/mcp', "
	for text, want := range map[string]string{
		url + `oauth: {clientId: "c{{.Index}}", principals: 3, secretEnv: S}}`:                       "",
		`target: {embedded: {tokenLife: 1m}, oauth: {clientId: "c{{.Index}}", principals: 3}}`:       "",
		url + `oauth: {clientId: c, secretEnv: S, tokenURL: 'https://i.example/token', auth: form}}`: "",
		url + `oauth: {clientId: c, grant: refreshToken, refreshTokenFile: f}}`:                      "",
		url + `oauth: {principals: 3, secretEnv: S}}`: `target.oauth.clientId: ` +
			`is missing; give a template such as "load-{{.Index}}"`,
		url + `oauth: {clientId: c, principals: 3, secretEnv: S}}`: `target.oauth.clientId: ` +
			`principals 0 and 1 are both "c"; use {{.Index}} in it, or lower principals`,
		url + `oauth: {clientId: "{{.Seq}}", secretEnv: S}}`: `target.oauth.clientId: ` +
			`no value .Seq here; `,
		url + `oauth: {clientId: "c\n", secretEnv: S}}`: `target.oauth.clientId: ` +
			`principal 0 would be "c\n"; give printable ASCII`,
		url + `oauth: {clientId: c}}`: "target.oauth.secretEnv: is missing; name " +
			"the environment variable",
		url + `oauth: {clientId: c, secretEnv: "A=B"}}`: `target.oauth.secretEnv: "A=B" cannot be ` +
			`a variable; write a name such as CLIENT_SECRET`,
		url + `tokens: [abc], oauth: {clientId: c, secretEnv: S}}`: "target.tokens: there " +
			"is oauth as well; give one of the two",
		url + `oauth: {clientId: c, secretEnv: S, grant: password}}`: `target.oauth.grant: no ` +
			`such grant "password"; `,
		url + `oauth: {clientId: c, secretEnv: S, refreshAt: 2}}`: "target.oauth.refreshAt: ",
		url + `oauth: {clientId: c, secretEnv: S, scopes: ["a b"]}}`: `target.oauth.scopes.0: ` +
			`"a b" is not a scope; `,
		url + `oauth: {clientId: c, secretEnv: S, refreshTokenFile: f}}`: "target.oauth.refreshTokenFile: belongs " +
			"to grant: refreshToken; ",
		url + `oauth: {clientId: c, secretEnv: S, auth: form}}`: "target.oauth.auth: has " +
			"no effect without tokenURL",
		url + `oauth: {clientId: c, secretEnv: S, tokenURL: 'http://i.example/token'}}`: "target.oauth.tokenURL: " +
			"would send secrets in the clear; use https",
		url + `oauth: {clientId: c, secretEnv: S, tokenURL: token}}`: "target.oauth.tokenURL: ",
		`target: {oauth: {clientId: c}}`: "target.oauth: the " +
			"embedded target issues tokens only with target.embedded.tokenLife; ",
		`target: {embedded: {tokenLife: 1m}}`: "target.embedded.tokenLife: there is no " +
			"target.oauth, so nobody gets a token; ",
		`target: {embedded: {tokenEndsStreams: true}}`: "target.embedded.tokenEndsStreams: there " +
			"is no tokenLife; give tokenLife too",
		`target: {command: server, oauth: {clientId: c, secretEnv: S}}`: "target.oauth: has no " +
			"effect over standard input and output",
	} {
		upstream := `upstream: {payload: {p: "{{.Probe}}"}}`
		if strings.HasPrefix(text, url) {
			upstream = `upstream: {admin: "http://127.0.0.1:9", payload: {p: "{{.Probe}}"}}`
		}
		_, err := Parse("p.yaml", []byte("name: p\n"+text+rest+upstream), nil, systems.Table)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Count(strings.TrimSpace(err.Error()), "\n") > 0):
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
