package mcpclient_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// TestTokenEndpointIsFound: the places in which metadata are looked for, and what
// is said where they are bad. Each server serves the documents of pages, with $
// for its own origin.
func TestTokenEndpointIsFound(t *testing.T) {
	const (
		resource = "/.well-known/oauth-protected-resource"
		server   = "/.well-known/oauth-authorization-server"
		openid   = "/.well-known/openid-configuration"
		root     = `{"authorization_servers":["$"]}`
		tenant   = `{"authorization_servers":["$/tenant"]}`
		meta     = `{"issuer":"$","token_endpoint":"$/tok"}`
		metaOf   = `{"issuer":"$/tenant","token_endpoint":"$/tok","token_endpoint_auth_methods_supported":["client_secret_post"]}`
	)
	for _, tt := range []struct {
		name, challenge string
		pages           map[string]string
		want            string // of the error; "" = a token
	}{
		{"named by the challenge", `Bearer resource_metadata="$/here"`, map[string]string{"/here": root, server: meta}, ""},
		{"at the endpoint's path", "", map[string]string{resource + "/mcp": root, server: meta}, ""},
		{"at the root", `Basic realm="x"`, map[string]string{resource: root, server: meta}, ""},
		{"openid", "", map[string]string{resource: root, openid: meta}, ""},
		{"an issuer with a path", "", map[string]string{resource: tenant, server + "/tenant": metaOf}, ""},
		{"openid with a path before it", "", map[string]string{resource: tenant, openid + "/tenant": metaOf}, ""},
		{"openid with a path behind it", "", map[string]string{resource: tenant, "/tenant" + openid: metaOf}, ""},
		{"nothing", "", nil, "http 404; the token endpoint can be given as target.oauth.tokenURL"},
		{"no server", "", map[string]string{resource: `{}`}, "names no authorization server"},
		{"no JSON", "", map[string]string{resource: `<html>`}, "invalid character"},
		{"another issuer", "", map[string]string{resource: root, server: metaOf}, "is about another issuer"},
		{"in the clear", "", map[string]string{resource: root,
			server: `{"issuer":"$","token_endpoint":"http://issuer.example/tok"}`},
			"would send secrets in the clear: use https"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var origin string
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				page, ok := tt.pages[r.URL.Path]
				switch {
				case ok:
					fmt.Fprint(w, strings.ReplaceAll(page, "$", origin))
				case r.URL.Path == "/tok":
					_, _, basic := r.BasicAuth()
					if form := strings.Contains(
						fmt.Sprint(tt.pages),
						"client_secret_post",
					); basic == form ||
						form && r.FormValue("client_secret") != "s3cret" {
						t.Errorf("credentials by basic %v, want in the form %v", basic, form)
					}
					fmt.Fprint(w, `{"access_token":"tok-1","token_type":"Bearer","expires_in":60}`)
				case r.URL.Path == "/mcp" && r.Header.Get("Authorization") != "Bearer tok-1":
					w.Header().Set("WWW-Authenticate", strings.ReplaceAll(tt.challenge, "$", origin))
					w.WriteHeader(http.StatusUnauthorized)
				default:
					http.NotFound(w, r)
				}
			}))
			defer srv.Close()
			origin = srv.URL
			ep, err := mcpclient.NewEndpoint(
				mcpclient.EndpointOptions{URL: srv.URL + "/mcp", Era: mcpclient.Modern, OAuth: &mcpclient.OAuth{
					Grant:      mcpclient.GrantCredentials,
					Principals: 1,
					ClientID:   func(int) string { return "c" },
					Secret:     "s3cret",
					RefreshAt:  1,
					Timeout:    time.Minute,
				}},
			)
			must(t, err)
			defer func() { _ = ep.Close(t.Context()) }()
			err = ep.Connect(t.Context()) // the servers are no MCP servers, beyond their tokens
			c, _ := ep.TokenCounts()
			switch {
			case tt.want == "" && (c.Issued != 1 || c.Failed != 0):
				t.Errorf("%+v: %v", c, err)
			case tt.want != "" && (c.Requests != 0 || err == nil || !strings.Contains(err.Error(), tt.want) ||
				!strings.HasPrefix(err.Error(), "oauth/token: ")):
				t.Errorf("%+v: %v, want %s", c, err, tt.want)
			}
		})
	}
}
