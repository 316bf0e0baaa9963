package refserver

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The methods of SEP-1803, and of the base protocol where it builds on them.
const (
	methodResourceSubscribe   = "resources/subscribe"
	methodResourceUnsubscribe = "resources/unsubscribe"
	methodRegister            = "resources/subscriptions/register"
	methodDeregister          = "resources/subscriptions/deregister"
)

// resources is SEP-1803: events as resources, delivered in band on a session's
// stream or to a webhook whose secret this server makes. It publishes nothing
// of its own: it reads the same topics as events/*.
type resources struct {
	server *Server
	pool   *pool[*resourceHook]

	mu       sync.Mutex
	sessions map[string]*resourceSession // by session id
	hooks    map[string]*resourceHook    // by subscription URI
	order    []*resourceHook             // of hooks, the oldest first
}

func newResources(s *Server) *resources {
	rs := &resources{server: s, sessions: make(map[string]*resourceSession), hooks: make(map[string]*resourceHook)}
	rs.pool = newPool(s.opts.Senders, rs.attempt)
	return rs
}

// takes looks whether a request is one of this system's. Subscribing to other
// resources is not.
func (rs *resources) takes(body []byte) (envelope, bool) {
	var e envelope
	if !bytes.Contains(body, []byte(`subscri`)) || json.Unmarshal(body, &e) != nil {
		return e, false
	}
	switch e.Method {
	case methodRegister, methodDeregister:
		return e, true
	case methodResourceSubscribe, methodResourceUnsubscribe:
		var p uriParams
		return e, json.Unmarshal(e.Params, &p) == nil && strings.HasPrefix(p.URI, eventScheme)
	case methodListen:
		var p listenParams
		if json.Unmarshal(e.Params, &p) != nil {
			return e, false
		}
		for _, uri := range p.Notifications.ResourceSubscriptions {
			if strings.HasPrefix(uri, eventScheme) {
				return e, true
			}
		}
	}
	return e, false
}

type uriParams struct {
	URI string `json:"uri"`
}

type listenParams struct {
	Notifications struct {
		ResourceSubscriptions []string `json:"resourceSubscriptions"`
	} `json:"notifications"`
}

// do answers one call; false means that it is none of this system.
func (rs *resources) do(w http.ResponseWriter, r *http.Request, c *call) bool {
	switch {
	case c.method == methodRegister:
		rs.register(w, c)
	case c.method == methodDeregister:
		rs.deregister(w, c)
	case c.method == methodListen && c.modern:
		rs.listen(w, r, c)
	case c.method == methodResourceSubscribe && !c.modern:
		rs.subscribe(w, r, c)
	case c.method == methodResourceUnsubscribe && !c.modern:
		rs.unsubscribe(w, r, c)
	default:
		return false
	}
	return true
}

// revoke ends what a principal has, without a word: the draft has no word for it.
// Streams of listeners notice by themselves.
func (rs *resources) revoke(principal string) {
	rs.mu.Lock()
	var sessions []*resourceSession
	for _, s := range rs.sessions {
		if s.principal == principal {
			sessions = append(sessions, s)
		}
	}
	var hooks []*resourceHook
	for _, h := range rs.hooks {
		if h.principal == principal {
			hooks = append(hooks, h)
		}
	}
	rs.mu.Unlock()
	for _, s := range sessions {
		s.clear()
	}
	for _, h := range hooks {
		rs.remove(h.uri, principal)
	}
}

// close stops deliveries and waits for those under way; the context of their
// requests is over by then.
func (rs *resources) close() { rs.pool.close(func() {}) }

// advertise completes the capabilities in the answer to a handshake: the SDK's
// type has no member for what SEP-1803 adds to "resources". done writes the
// answer and must be called when the handler has returned.
func advertise(w http.ResponseWriter, body []byte) (_ http.ResponseWriter, done func()) {
	if !bytes.Contains(body, []byte(`"initialize"`)) && !bytes.Contains(body, []byte(`"server/discover"`)) {
		return w, func() {}
	}
	a := &advertiser{ResponseWriter: w, status: http.StatusOK}
	return a, a.finish
}

// advertiser keeps an answer back until it is whole.
type advertiser struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

// WriteHeader implements [http.ResponseWriter].
func (a *advertiser) WriteHeader(status int) { a.status = status }

// Write implements [http.ResponseWriter].
func (a *advertiser) Write(b []byte) (int, error) { return a.body.Write(b) }

// Flush implements [http.Flusher]: there is nothing to flush before the end.
func (a *advertiser) Flush() {}

func (a *advertiser) finish() {
	body := a.body.Bytes()
	if a.status == http.StatusOK {
		body = withEvents(body)
		a.Header().Del("Content-Length")
	}
	a.ResponseWriter.WriteHeader(a.status)
	_, _ = a.ResponseWriter.Write(body) // the client may be gone
}

// withEvents adds the capability to the result of initialize or
// server/discover, and leaves the rest of it as it is to the byte. What is
// something else stays as it is.
func withEvents(body []byte) []byte {
	var answer struct {
		Result struct {
			Capabilities json.RawMessage `json:"capabilities"`
		} `json:"result"`
	}
	var caps, res map[string]json.RawMessage
	if json.Unmarshal(body, &answer) != nil || json.Unmarshal(answer.Result.Capabilities, &caps) != nil ||
		json.Unmarshal(caps["resources"], &res) != nil || res == nil { // the SDK always has resources here
		return body
	}
	res["events"], res["subscribe"] = json.RawMessage("true"), json.RawMessage("true")
	res["subscription"] = json.RawMessage(`["notification","webhook"]`)
	b, err := json.Marshal(res)
	if err != nil {
		return body
	}
	const member = `"resources":`
	fresh := bytes.Replace(answer.Result.Capabilities, append([]byte(member), caps["resources"]...), append([]byte(member), b...), 1)
	return bytes.Replace(body, answer.Result.Capabilities, fresh, 1)
}

// session returns what is known of a session, making it if need be.
func (rs *resources) session(id, principal string) *resourceSession {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	s := rs.sessions[id]
	if s == nil {
		s = &resourceSession{rs: rs, principal: principal, subs: make(map[string]*resourceSub)}
		rs.sessions[id] = s
	}
	return s
}

// drop forgets a session that has ended.
func (rs *resources) drop(id string) {
	rs.mu.Lock()
	s := rs.sessions[id]
	delete(rs.sessions, id)
	rs.mu.Unlock()
	if s == nil {
		return
	}
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.clear()
}

// subscribe answers resources/subscribe. Subscribing again changes nothing.
func (rs *resources) subscribe(w http.ResponseWriter, r *http.Request, c *call) {
	s, uri, wrong := rs.ofSession(r, c)
	if wrong == nil {
		wrong = s.add(uri)
	}
	if wrong != nil {
		c.fail(w, wrong)
		return
	}
	c.answer(w, nil)
}

// unsubscribe answers resources/unsubscribe. What was not subscribed to is
// left alone.
func (rs *resources) unsubscribe(w http.ResponseWriter, r *http.Request, c *call) {
	s, uri, wrong := rs.ofSession(r, c)
	if wrong != nil {
		c.fail(w, wrong)
		return
	}
	s.remove(uri)
	c.answer(w, nil)
}

func (rs *resources) ofSession(r *http.Request, c *call) (*resourceSession, string, *rpcError) {
	var p uriParams
	if wrong := decodeParams(c.params, &p); wrong != nil {
		return nil, "", wrong
	}
	id := r.Header.Get(headerSession) // the face has looked that there is one
	if id == "" {
		return nil, "", &rpcError{Code: codeInvalidRequest, Message: c.method + " needs a session: updates come on its stream"}
	}
	return rs.session(id, c.principal), p.URI, nil
}

const (
	eventScheme        = "event://"
	subscriptionScheme = "subscription://"
)

// The event resources of a type NAME with a filter FIELD are event://NAME,
// which is every event of it, and event://NAME/{FIELD}, the events with that
// value. The latter are sub-resources of the former.

// eventResource finds what an event URI means to a principal.
func (rs *resources) eventResource(uri, principal string) (*topic, selection, *rpcError) {
	rest, ok := strings.CutPrefix(uri, eventScheme)
	name, value, keyed := strings.Cut(rest, "/")
	t := rs.server.broker.topics[name]
	if !ok || t == nil || t.withdrawn.Load() || keyed && (t.kind.filter == "" || t.kind.owned) {
		return nil, selection{}, noResource(uri)
	}
	if t.kind.owned {
		if principal == "" {
			return nil, selection{}, forbidden("authentication required")
		}
		return t, selection{keyed: true, key: principal}, nil
	}
	if !keyed {
		return t, selection{}, nil
	}
	key, err := url.PathUnescape(value)
	if err != nil || strings.Contains(value, "/") {
		return nil, selection{}, noResource(uri)
	}
	return t, selection{keyed: true, key: key}, nil
}

func noResource(uri string) *rpcError {
	return &rpcError{Code: codeInvalidParams, Message: "Resource not found", Data: map[string]string{"uri": uri}}
}

// appendEventURI appends the URI of the most narrow resource that an event
// belongs to.
func appendEventURI(dst []byte, e *event, kind *eventType) []byte {
	dst = append(dst, eventScheme...)
	dst = append(dst, kind.name...)
	if e.key == "" || kind.owned {
		return dst
	}
	return appendEscaped(append(dst, '/'), e.key)
}

// appendEscaped is the simple expansion of RFC 6570: everything but the
// unreserved characters is percent-encoded. The result is safe in a JSON
// string, too.
func appendEscaped(dst []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-._~", c) >= 0:
			dst = append(dst, c)
		default:
			dst = append(dst, '%', hex[c>>4], hex[c&15])
		}
	}
	return dst
}

// subscriptionPage is how many subscription:// resources a page lists.
const subscriptionPage = 1000

// subscriptionCursor begins the cursors of the pages that hold them. They come
// after the last page of the SDK's own.
const subscriptionCursor = "subscriptions:"

// describe adds the event resources to the SDK's lists, and to each principal's
// list its own subscriptions.
func (rs *resources) describe(server *mcp.Server) {
	for _, t := range rs.server.broker.order {
		kind := t.kind
		uri := eventScheme + kind.name
		meta := mcp.Meta{"eventSchema": kind.payload, "webhookType": kind.name}
		server.AddResource(&mcp.Resource{
			URI: uri, Name: kind.name, Description: kind.description, MIMEType: "application/json", Meta: meta,
		}, rs.read)
		if kind.filter == "" || kind.owned {
			continue
		}
		server.AddResourceTemplate(&mcp.ResourceTemplate{
			URITemplate: uri + "/{" + kind.filter + "}", Name: kind.name, MIMEType: "application/json",
			Description: kind.description,
			Meta: mcp.Meta{"eventSchema": kind.payload, "webhookType": kind.name, "paramsSchema": map[string]any{
				"type": "object", "required": []string{kind.filter},
				"properties": map[string]any{kind.filter: map[string]any{"type": "string"}},
			}},
		}, rs.read)
	}
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			switch r := req.(type) {
			case *mcp.ListResourcesRequest:
				return rs.list(ctx, method, r, next)
			case *mcp.ReadResourceRequest:
				if r.Params != nil && strings.HasPrefix(r.Params.URI, subscriptionScheme) {
					return rs.read(ctx, r)
				}
			}
			return next(ctx, method, req)
		}
	})
}

func principalOf(req mcp.Request) string {
	extra := req.GetExtra()
	if extra == nil {
		return ""
	}
	return bearer(&http.Request{Header: extra.Header})
}

// list adds the caller's subscriptions behind the resources.
func (rs *resources) list(ctx context.Context, method string, req *mcp.ListResourcesRequest, next mcp.MethodHandler) (mcp.Result, error) {
	mine := rs.registered(principalOf(req))
	out := &mcp.ListResourcesResult{Resources: []*mcp.Resource{}}
	if req.Params != nil && strings.HasPrefix(req.Params.Cursor, subscriptionCursor) {
		last := strings.TrimPrefix(req.Params.Cursor, subscriptionCursor)
		for i, h := range mine {
			if h.uri == last {
				mine = mine[i+1:]
				break
			}
		}
	} else {
		result, err := next(ctx, method, req)
		list, ok := result.(*mcp.ListResourcesResult)
		if err != nil || !ok || list.NextCursor != "" || len(mine) == 0 {
			return result, err
		}
		copied := *list // the SDK's may be shared
		copied.Resources = append([]*mcp.Resource(nil), list.Resources...)
		out = &copied
	}
	for i, h := range mine {
		if i == subscriptionPage {
			out.NextCursor = subscriptionCursor + mine[i-1].uri
			break
		}
		out.Resources = append(out.Resources, &mcp.Resource{
			URI: h.uri, Name: strings.TrimPrefix(h.uri, subscriptionScheme), MIMEType: "application/json",
			Description: "An active webhook subscription.",
			Meta:        mcp.Meta{"eventUris": h.uris, "targetUri": h.target},
		})
	}
	return out, nil
}

// read answers resources/read: of a subscription what was registered, without
// the secret; of an event, whose content is what is delivered, its schema.
func (rs *resources) read(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	uri, principal := req.Params.URI, principalOf(req)
	var content any
	if strings.HasPrefix(uri, subscriptionScheme) {
		rs.mu.Lock()
		h := rs.hooks[uri]
		rs.mu.Unlock()
		if h == nil || h.principal != principal {
			return nil, mcp.ResourceNotFoundError(uri)
		}
		content = h.registration()
	} else {
		t, _, wrong := rs.eventResource(uri, principal)
		if wrong != nil {
			return nil, mcp.ResourceNotFoundError(uri)
		}
		content = map[string]any{"name": t.kind.name, "eventSchema": t.kind.payload}
	}
	text, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, MIMEType: "application/json", Text: string(text)}}}, nil
}

// appendPlace appends the text of a place: the server's life, and the positions
// in the order of the catalogue.
func (rs *resources) appendPlace(dst []byte, p place) []byte {
	dst = append(dst, rs.life()...)
	for _, t := range rs.inBand() {
		dst = append(dst, '-')
		dst = strconv.AppendUint(dst, p[t], 10)
	}
	return dst
}

// life names this life of the server, as cursors do.
func (rs *resources) life() string {
	prefix := *rs.inBand()[0].prefix.Load()
	return prefix[:len(prefix)-1]
}

// readPlace reads a Last-Event-ID. One of another life of the server is no
// place, since nothing of that life is left; ok is false for what is no id of
// ours at all.
func (rs *resources) readPlace(text string) (p place, ok bool) {
	parts := strings.Split(text, "-")
	order := rs.inBand()
	if len(parts) != len(order)+1 || !strings.HasPrefix(parts[0], "c") {
		return nil, false
	}
	p = make(place, len(order))
	for i, t := range order {
		n, err := strconv.ParseUint(parts[i+1], 10, 64)
		if err != nil {
			return nil, false
		}
		p[t] = min(n, t.newest())
	}
	if parts[0] != rs.life() {
		return nil, true
	}
	return p, true
}

// honoured are the URIs of a request to listen that can be had, each once.
func (rs *resources) honoured(uris []string, principal string) []string {
	out := []string{}
	for _, uri := range uris {
		if _, _, wrong := rs.eventResource(uri, principal); wrong == nil && !slices.Contains(out, uri) {
			out = append(out, uri)
		}
	}
	return out
}
