package issuer

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// server is an issuer behind HTTP.
func server(t *testing.T, o Options) (*Issuer, string) {
	t.Helper()
	s := New(o)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.Serve(w, r) {
			s.Refuse(w, r, "")
		}
	}))
	t.Cleanup(srv.Close)
	t.Cleanup(s.Close)
	return s, srv.URL
}

// ask posts a form, and returns the status and the members of the answer.
func ask(t *testing.T, address string, form ...string) (int, map[string]any) {
	t.Helper()
	v := url.Values{"client_id": {"c1"}, "client_secret": {"s"}}
	for i := 0; i < len(form); i += 2 {
		v.Set(form[i], form[i+1])
	}
	resp, err := http.PostForm(address, v)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var m map[string]any
	_ = json.NewDecoder(resp.Body).Decode(&m) // text has no members
	return resp.StatusCode, m
}

func TestRotation(t *testing.T) {
	s, at := server(t, Options{Life: time.Hour, Secret: "s"})
	status, first := ask(t, at+"/token", "grant_type", "client_credentials", "scope", "events offline_access")
	old, _ := first["refresh_token"].(string)
	if status != 200 || old == "" || first["expires_in"] != 3600.0 || first["token_type"] != "Bearer" {
		t.Fatalf("%d %v", status, first)
	}
	renew := func(token string, more ...string) (int, map[string]any) {
		return ask(t, at+"/token", append([]string{"grant_type", "refresh_token", "refresh_token", token}, more...)...)
	}
	status, second := renew(old)
	fresh, _ := second["refresh_token"].(string)
	access, _ := second["access_token"].(string)
	if id, _, ok := s.Client(access); status != 200 || fresh == "" || fresh == old || id != "c1" || !ok {
		t.Fatalf("%d %v", status, second)
	}
	for _, tt := range []struct {
		token, client, want string
	}{
		{fresh, "c2", "the refresh token is not known"}, // another client's
		{"rt-nobody", "c1", "the refresh token is not known"},
		{old, "c1", "the refresh token was used before"},
		{fresh, "c1", "the refresh token was revoked"}, // since the one before was stolen
	} {
		if status, m := renew(
			tt.token,
			"client_id",
			tt.client,
		); status != 400 || m["error"] != "invalid_grant" ||
			m["error_description"] != tt.want {
			t.Errorf("%s of %s: %d %v, want %s", tt.token, tt.client, status, m, tt.want)
		}
	}
	if _, _, ok := s.Client(access); ok {
		t.Error("the access token of a stolen refresh token is valid")
	}
	if got, want := s.Stats(), (Stats{Requests: 6, Issued: 1, Renewed: 1, Refused: 4}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestRevocationAndExpiry(t *testing.T) {
	s, at := server(t, Options{Life: time.Hour})
	get := func() string {
		_, m := ask(t, at+"/token", "grant_type", "client_credentials")
		return m["access_token"].(string)
	}
	valid := func(token string) bool { _, _, ok := s.Client(token); return ok }
	one, two := get(), get()
	if status, _ := ask(t, at+"/revoke", "token", one, "client_id", "c2"); status != 200 || !valid(one) {
		t.Errorf("%d: another client revoked it", status)
	}
	if status, _ := ask(t, at+"/revoke", "token", one); status != 200 || valid(one) || !valid(two) {
		t.Errorf("%d: revoked %v, the other %v", status, !valid(one), valid(two))
	}
	s.ExpireAll()
	if valid(two) || !valid(get()) {
		t.Error("not the old tokens have expired, or the new one has")
	}
	for range 2 * maxTokens {
		get()
	}
	if n := len(s.access); n > maxTokens+1 {
		t.Errorf("%d tokens of one client are kept", n)
	}
}

func TestRefusals(t *testing.T) {
	s, at := server(t, Options{Life: time.Hour, Secret: "right", DownEvery: 3})
	for _, tt := range []struct {
		form   []string
		status int
		code   any
	}{
		{[]string{"grant_type", "client_credentials"}, 401, "invalid_client"}, // the secret is s
		{[]string{"grant_type", "password", "client_secret", "right"}, 400, "unsupported_grant_type"},
		{[]string{"grant_type", "client_credentials", "client_secret", "right", "client_id", ""}, 401, "invalid_client"},
		{[]string{"grant_type", "client_credentials", "client_secret", "right"}, 200, nil},
		{[]string{"grant_type", "client_credentials", "client_secret", "right"}, 200, nil},
		{[]string{"grant_type", "client_credentials", "client_secret", "right"}, 503, nil},
	} {
		if status, m := ask(t, at+"/token", tt.form...); status != tt.status || m["error"] != tt.code {
			t.Errorf("%v: %d %v", tt.form, status, m)
		}
	}
	resp, err := http.Get(at + "/mcp")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if got := resp.Header.Get(
		"WWW-Authenticate",
	); resp.StatusCode != 401 ||
		!strings.HasSuffix(got, `/.well-known/oauth-protected-resource/mcp"`) {
		t.Errorf("%d %s", resp.StatusCode, got)
	}
	if got, want := s.Stats(), (Stats{Requests: 6, Issued: 1, Renewed: 1, Refused: 3, Down: 1, Unauthorized: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if New(Options{}) != nil || New(Options{}).Serve(nil, nil) || New(Options{}).Stats() != (Stats{}) {
		t.Error("there is an issuer without a life of tokens")
	}
}
