package refserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// serveMCP is the MCP endpoint. It answers the methods of the event systems and
// passes everything else to the SDK.
func (s *Server) serveMCP(w http.ResponseWriter, r *http.Request) {
	if s.hooks.poster.serveKeys(w, r) {
		return
	}
	if r.URL.Path != "/mcp" && !s.issuer.Has(r.URL.Path) {
		http.NotFound(w, r)
		return
	}
	if !hostAllowed(r) {
		http.Error(w, fmt.Sprintf("Forbidden: Host %q is not loopback", r.Host), http.StatusForbidden)
		return
	}
	if !originAllowed(r) {
		http.Error(w, fmt.Sprintf("Forbidden: Origin %q is not loopback", r.Header.Get("Origin")), http.StatusForbidden)
		return
	}
	if s.issuer.Serve(w, r) {
		return
	}
	principal, ok := s.admit(w, r)
	if !ok {
		return
	}
	switch r.Method {
	case http.MethodPost:
		s.post(w, r, principal)
	case http.MethodGet:
		if resumesByID(r) {
			s.resumeByID(w, r, principal)
			return
		}
		// The stream of a session, which carries list_changed.
		r, stop := s.whileValid(r)
		defer stop()
		l, leave := s.typeListeners.join(w, nil)
		defer leave()
		ctx, end := context.WithCancel(r.Context())
		defer end()
		r = r.WithContext(ctx)
		defer s.notifySession(l, r.Header.Get(headerSession), end)()
		s.resources.stream(l, r, principal)
	default:
		s.base.serve(w, r, principal)
		if r.Method == http.MethodDelete {
			s.resources.drop(r.Header.Get(headerSession))
			s.lists.dropSession(r.Header.Get(headerSession))
			s.resumables.dropSession(r.Header.Get(headerSession))
		}
	}
}

// admit identifies the principal of a request. It answers and returns false if
// the token is unknown or the session belongs to another principal.
func (s *Server) admit(w http.ResponseWriter, r *http.Request) (principal string, ok bool) {
	principal = bearer(r)
	if issuer := s.issuer; issuer != nil {
		token := principal
		if principal, _, ok = issuer.Client(token); !ok {
			issuer.Refuse(w, r, token)
			return "", false
		}
	} else if !s.admits(principal) {
		w.Header().Set("WWW-Authenticate", `Bearer realm="mcp"`)
		http.Error(w, "Unauthorized: want a known bearer token", http.StatusUnauthorized)
		return "", false
	}
	if session := r.Header.Get(headerSession); session != "" {
		of, known := s.base.sessions.find(session)
		switch {
		case !known:
			http.Error(w, "session not found", http.StatusNotFound)
			return "", false
		case of.principal != principal:
			http.Error(w, "the session is another principal's", http.StatusForbidden)
			return "", false
		}
	}
	return principal, true
}

// post decides who answers a message: one of the systems, or the SDK.
func (s *Server) post(w http.ResponseWriter, r *http.Request, principal string) {
	body, _ := io.ReadAll(r.Body) // cannot fail: it has been read, and is in memory
	r.Body = io.NopCloser(bytes.NewReader(body))
	if s.opts.SSEAnswers {
		sse, end := s.sseAnswer(w)
		defer end()
		w = sse
	}
	var e envelope
	if json.Unmarshal(body, &e) != nil {
		e = envelope{} // the SDK answers with the error
	}
	w, done := advertise(w, body, s.breach)
	defer done()
	switch {
	case s.resources.serves(e):
		s.serveEvents(w, r, e, principal)
	case !s.serveResumable(w, r, e, body, principal):
		s.route(w, r, e, body, principal)
	}
}

// route is post for what cannot be resumed.
func (s *Server) route(w http.ResponseWriter, r *http.Request, e envelope, body []byte, principal string) {
	switch {
	case s.serveLists(w, r, e, body, principal):
	case isServedHere(e.Method):
		s.serveEvents(w, r, e, principal)
	case e.Method == methodListen && (wantsTypes(e.Params) || !s.rules.optIn):
		s.listen(w, r, e, principal)
	default:
		s.base.serve(w, r, principal)
	}
}

// serveEvents checks a request against the base protocol and answers it.
func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request, e envelope, principal string) {
	if c := s.check(w, r, e, principal); c != nil {
		s.do(w, r, c)
	}
}

// check checks a request against the base protocol. It returns nil if it has
// answered with an error.
func (s *Server) check(w http.ResponseWriter, r *http.Request, e envelope, principal string) *call {
	if !isJSON(r) {
		http.Error(w, "Content-Type must be 'application/json'", http.StatusUnsupportedMediaType)
		return nil
	}
	if !validID(e.ID) {
		writeRPCError(w, http.StatusBadRequest, nil, &rpcError{Code: codeInvalidRequest, Message: e.Method + " is a request: it needs an id"})
		return nil
	}
	return s.callOf(w, r, e, principal)
}

// callOf is check for a request with an id, whatever its media type.
func (s *Server) callOf(w http.ResponseWriter, r *http.Request, e envelope, principal string) *call {
	modern, status, rpcErr := s.era(r.Header, e)
	if rpcErr != nil {
		writeRPCError(w, status, e.ID, rpcErr)
		return nil
	}
	c := &call{w: w, r: r, method: e.Method, id: e.ID, params: e.Params, modern: modern, principal: principal}
	if c.rules = s.rulesOf(e.Method); c.rules != nil {
		c.breach = s.breach
	}
	return c
}

// supported are the versions that the SDK supports; events/* supports the same.
var supported = mcp.SupportedProtocolVersions()

// era returns the protocol era of a request, and checks that the headers of a
// modern request mirror its body.
func (s *Server) era(h http.Header, e envelope) (modern bool, status int, rpcErr *rpcError) {
	header, meta := h.Get(headerVersion), requestMeta(e.Params)
	mismatch := func(format string, args ...any) (bool, int, *rpcError) {
		return true, http.StatusBadRequest, headerMismatch(fmt.Sprintf(format, args...))
	}
	for _, version := range []string{header, meta} {
		if version != "" && !slices.Contains(supported, version) {
			return true, http.StatusBadRequest, &rpcError{
				Code: codeUnsupportedVersion, Message: "Unsupported protocol version",
				Data: map[string]any{"supported": supported, "requested": version},
			}
		}
	}
	switch {
	case header < modernVersion && meta == "":
		return false, 0, nil
	case header == "":
		return mismatch("%s is required beside %s", headerVersion, protocolVersionKey)
	case meta == "":
		return true, http.StatusBadRequest, invalidParams("_meta lacks %s", protocolVersionKey)
	case header != meta:
		return mismatch("%s %q does not match %q of the body", headerVersion, header, meta)
	}
	switch method := h.Get(headerMethod); method {
	case e.Method:
	case "":
		return mismatch("%s is required", headerMethod)
	default:
		return mismatch("%s %q does not match method %q of the body", headerMethod, method, e.Method)
	}
	return true, 0, nil
}

// hostAllowed protects a server on loopback from web pages that rebind their
// name to loopback.
func hostAllowed(r *http.Request) bool {
	return !onLoopback(r) || isLoopback(r.Host)
}

// originAllowed protects a server on loopback from pages of other sites. Pages
// of this machine may send requests.
func originAllowed(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	if len(origins) == 0 || !onLoopback(r) {
		return true
	}
	u, err := url.Parse(origins[0])
	return err == nil && len(origins) == 1 && isLoopback(u.Host)
}

// onLoopback reports whether a request arrived over loopback.
func onLoopback(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && local != nil && isLoopback(local.String())
}

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = strings.Trim(address, "[]")
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// sseAnswer sends a JSON answer as an event stream of one message, which it holds back
// until end. Errors stay as they are, and everything else passes through. The stream ends
// a moment later, as with servers that flush a message separately.
func (s *Server) sseAnswer(w http.ResponseWriter) (sse *response, end func()) {
	sse = &response{ResponseWriter: w, begin: func(status int) bool {
		media, _, _ := mime.ParseMediaType(w.Header().Get("Content-Type"))
		return status == http.StatusOK && media == "application/json"
	}}
	return sse, func() {
		if !sse.held {
			return
		}
		s.streamHeader(w.Header())
		w.Header().Del("Content-Length")
		var b bytes.Buffer
		b.WriteString("event: message\n")
		for line := range bytes.Lines(sse.body.Bytes()) {
			b.WriteString("data: ")
			b.Write(bytes.TrimRight(line, "\r\n"))
			b.WriteByte('\n')
		}
		b.WriteByte('\n')
		sse.send(b.Bytes())
		_ = http.NewResponseController(w).Flush()
	}
}

// listen serves subscriptions/listen for a client that wants notifications of
// changed event types: alone, or with the SDK if the client wants more.
func (s *Server) listen(w http.ResponseWriter, r *http.Request, e envelope, principal string) {
	c := s.callOf(w, r, e, principal)
	if c == nil {
		return
	}
	var p listenParams
	if !c.modern || !validID(e.ID) || json.Unmarshal(e.Params, &p) != nil {
		s.base.serve(w, r, principal)
		return
	}
	l, leave := s.typeListeners.join(w, e.ID)
	defer leave()
	if n := p.Notifications; n.Tools || n.Prompts || n.Resources || len(n.URIs) > 0 {
		l.ackPending = s.rules.optIn
		s.base.serve(l, r, principal)
		return
	}
	c.w = l
	s.listenAlone(c)
}

// namespaces are the prefixes of the methods that this server answers itself.
// The SDK answers all others. Methods that share their names with the SDK's
// (resources, resumable requests, lists) are recognised earlier, in
// [Server.post].
var namespaces = []string{eventsPrefix, smitheryPrefix}

// methods are the calls in those namespaces. A system adds its own here. They
// are called after the checks of the base protocol, and never for a principal
// whose access was revoked.
var methods = map[string]func(*Server, *call) *rpcError{
	"events/list":                  (*Server).list,
	"events/poll":                  (*Server).poll,
	"events/stream":                (*Server).stream,
	"events/subscribe":             (*Server).subscribe,
	"events/unsubscribe":           (*Server).unsubscribe,
	smitheryPrefix + "list":        (*Server).list,
	smitheryPrefix + "subscribe":   (*Server).subscribe,
	smitheryPrefix + "unsubscribe": (*Server).unsubscribe,
}

// isServedHere reports whether this server, not the SDK, answers a method.
func isServedHere(method string) bool {
	return slices.ContainsFunc(namespaces, func(n string) bool { return strings.HasPrefix(method, n) })
}

// do answers one call of a system that this server implements itself.
func (s *Server) do(w http.ResponseWriter, r *http.Request, c *call) {
	c.serve(w, r, func(c *call) *rpcError {
		if _, revoked := s.principals.watch(c.principal); revoked {
			return forbidden(reasonRevoked)
		}
		if c.breach.Breaks("fallback-method-not-found", "") {
			return internal("")
		}
		if answer, ok := methods[c.method]; ok {
			return answer(s, c)
		}
		return s.resources.do(c)
	})
}
