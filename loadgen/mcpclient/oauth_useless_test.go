package mcpclient_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// TestTokensOfNoUse: an issuer whose tokens cannot be used is asked again at a distance, and the
// time that the caller gives ends it.
func TestTokensOfNoUse(t *testing.T) {
	for _, tt := range []struct {
		name, token string // %d = the number of the request
		lets        bool   // the target lets tokens in
		most        int64
		want        string
	}{
		{"expired on arrival", `{"access_token":"t%d","token_type":"Bearer","expires_in":-1}`, true, 2, "had expired when it came"},
		{"the same after a refusal", `{"token_type":"Bearer","access_token":"same","number":%d}`, false, 3, "had just refused"},
		{"another one, refused like it", `{"access_token":"t%d","token_type":"Bearer"}`, false, 3, "does not let this principal in"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path == "/token":
					w.Header().Set("Content-Type", "application/json")
					fmt.Fprintf(w, tt.token, asked.Add(1))
				case !tt.lets:
					w.WriteHeader(http.StatusUnauthorized)
				default:
					http.NotFound(w, r)
				}
			}))
			defer srv.Close()
			ep, err := mcpclient.NewEndpoint(mcpclient.EndpointOptions{
				URL: srv.URL + "/mcp", Era: mcpclient.Modern,
				OAuth: &mcpclient.OAuth{
					Grant: mcpclient.GrantCredentials, Principals: 1, ClientID: func(int) string { return "c" }, Secret: "s3cret",
					TokenURL: srv.URL + "/token", RefreshAt: 0.5, Timeout: time.Minute,
				},
			})
			must(t, err)
			defer func() { _ = ep.Close(context.WithoutCancel(t.Context())) }()
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			said := ""
			for ctx.Err() == nil {
				if err := ep.Connect(ctx); err != nil {
					said += err.Error() + "\n"
				}
			}
			if n := asked.Load(); n < 1 || n > tt.most {
				t.Errorf("%d requests for a token, want at most %d", n, tt.most)
			}
			if !strings.Contains(said, tt.want) {
				t.Errorf("said %s, want %s", said, tt.want)
			}
		})
	}
}
