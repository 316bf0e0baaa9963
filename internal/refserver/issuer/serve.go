package issuer

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	pathResource = "/.well-known/oauth-protected-resource"
	pathServer   = "/.well-known/oauth-authorization-server"
	pathToken    = "/token"
	pathRevoke   = "/revoke"

	// maxForm bounds the body of a request, in bytes.
	maxForm = 16 << 10
)

// Has reports whether a path is the issuer's.
func (s *Issuer) Has(path string) bool {
	return s != nil && slices.Contains([]string{pathResource, pathResource + "/mcp", pathServer, pathToken, pathRevoke}, path)
}

// Serve answers a request to the issuer. It returns false, and answers nothing,
// for any other request.
func (s *Issuer) Serve(w http.ResponseWriter, r *http.Request) bool {
	if s == nil {
		return false
	}
	origin := originOf(r)
	switch r.URL.Path {
	case pathResource, pathResource + "/mcp":
		s.counts.Metadata.Add(1)
		writeJSON(w, http.StatusOK, map[string]any{
			"resource": origin + "/mcp", "authorization_servers": []string{origin}, "bearer_methods_supported": []string{"header"},
		})
	case pathServer:
		s.counts.Metadata.Add(1)
		writeJSON(w, http.StatusOK, map[string]any{
			"issuer": origin, "token_endpoint": origin + pathToken, "revocation_endpoint": origin + pathRevoke,
			"response_types_supported":              []string{},
			"grant_types_supported":                 []string{"client_credentials", "refresh_token"},
			"token_endpoint_auth_methods_supported": []string{"client_secret_basic", "client_secret_post"},
		})
	case pathToken:
		s.counts.Requests.Add(1)
		s.token(w, r)
	case pathRevoke:
		s.counts.Revocations.Add(1)
		if id, ok := s.form(w, r); ok {
			s.revoke(id, r.PostForm.Get("token"))
			w.WriteHeader(http.StatusOK)
		}
	default:
		return false
	}
	return true
}

// Refuse answers a request of the MCP endpoint whose token is not valid.
func (s *Issuer) Refuse(w http.ResponseWriter, r *http.Request, token string) {
	s.counts.Unauthorized.Add(1)
	challenge := `Bearer resource_metadata="` + originOf(r) + pathResource + `/mcp"`
	if token != "" {
		challenge += `, error="invalid_token", error_description="the access token is not valid or has expired"`
	}
	w.Header().Set("WWW-Authenticate", challenge)
	http.Error(w, "Unauthorized: want a valid access token", http.StatusUnauthorized)
}

// Until returns a context that ends with the validity of a token.
func (s *Issuer) Until(ctx context.Context, token string) (context.Context, context.CancelFunc) {
	_, until, _ := s.Client(token)
	return context.WithDeadline(ctx, until)
}

// token answers a request for tokens.
func (s *Issuer) token(w http.ResponseWriter, r *http.Request) {
	if s.opts.Delay > 0 {
		wait := time.NewTimer(s.opts.Delay)
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-r.Context().Done():
		case <-s.closed:
		}
	}
	id, ok := s.form(w, r)
	if !ok {
		s.counts.Refused.Add(1)
		return
	}
	var t tokens
	var renewal bool
	var no *refusal
	switch grant := r.PostForm.Get("grant_type"); grant {
	case "client_credentials":
		scope := r.PostForm.Get("scope")
		t, renewal, no = s.credentials(id, scope, slices.Contains(strings.Fields(scope), "offline_access"))
	case "refresh_token":
		t, renewal, no = s.rotate(id, r.PostForm.Get("refresh_token"))
	default:
		no = &refusal{http.StatusBadRequest, "unsupported_grant_type", "want client_credentials or refresh_token"}
	}
	switch {
	case no != nil && no.code == "":
		s.counts.Down.Add(1)
		http.Error(w, no.text, no.status)
	case no != nil:
		s.counts.Refused.Add(1)
		no.write(w)
	default:
		if renewal {
			s.counts.Renewed.Add(1)
		} else {
			s.counts.Issued.Add(1)
		}
		writeJSON(w, http.StatusOK, t)
	}
}

// form reads the form of a client that proves itself by HTTP Basic or in the
// form. It has answered if it returns false.
func (s *Issuer) form(w http.ResponseWriter, r *http.Request) (id string, ok bool) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if r.Method != http.MethodPost || r.ParseForm() != nil {
		(&refusal{http.StatusBadRequest, "invalid_request", "want a form, by POST"}).write(w)
		return "", false
	}
	id, secret := r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	if user, password, basic := r.BasicAuth(); basic { // both are encoded as in a form (RFC 6749, section 2.3.1)
		var badID, badSecret error
		id, badID = url.QueryUnescape(user)
		secret, badSecret = url.QueryUnescape(password)
		if badID != nil || badSecret != nil {
			id = ""
		}
	}
	if !s.knows(id, secret) {
		w.Header().Set("WWW-Authenticate", `Basic realm="issuer"`)
		(&refusal{http.StatusUnauthorized, "invalid_client", "the client is not known, or its secret is wrong"}).write(w)
		return "", false
	}
	return id, true
}

func (e *refusal) write(w http.ResponseWriter) {
	writeJSON(w, e.status, map[string]string{"error": e.code, "error_description": e.text})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client may be gone
}

// originOf is the origin that a request was sent to.
func originOf(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + r.Host
}
