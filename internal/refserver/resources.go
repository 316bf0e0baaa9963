package refserver

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver/breach"
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
// itself: it reads the same topics as events/*.
type resources struct {
	server *Server

	mu       sync.Mutex
	sessions map[string]*resourceSession // by session id
}

func newResources(s *Server) *resources {
	return &resources{server: s, sessions: make(map[string]*resourceSession)}
}

// serves reports whether a request belongs to this system. Subscriptions to
// other resources do not.
func (rs *resources) serves(e envelope) bool {
	switch e.Method {
	case methodRegister, methodDeregister:
		return true
	case methodResourceSubscribe, methodResourceUnsubscribe:
		var p uriParams
		return json.Unmarshal(e.Params, &p) == nil && strings.HasPrefix(p.URI, eventScheme)
	case methodListen:
		var p listenParams
		return json.Unmarshal(e.Params, &p) == nil &&
			slices.ContainsFunc(p.Notifications.URIs, func(uri string) bool { return strings.HasPrefix(uri, eventScheme) })
	}
	return false
}

type uriParams struct {
	URI string `json:"uri"`
}

// do answers one call.
func (rs *resources) do(c *call) *rpcError {
	switch {
	case c.method == methodRegister:
		return rs.register(c)
	case c.method == methodDeregister:
		return rs.deregister(c)
	case c.method == methodListen && c.modern:
		return rs.listen(c)
	case c.method == methodResourceSubscribe && !c.modern:
		return rs.subscribe(c)
	case c.method == methodResourceUnsubscribe && !c.modern:
		return rs.unsubscribe(c)
	}
	return methodNotFound(c.method)
}

// endAll ends the subscriptions of a principal's sessions without notice: the draft has
// no message for it. Listen streams end by themselves.
func (rs *resources) endAll(principal string) {
	rs.mu.Lock()
	all := slices.Collect(maps.Values(rs.sessions))
	rs.mu.Unlock()
	for _, s := range all {
		if principal == s.principal || principal == everybody {
			s.clear()
		}
	}
}

// advertise completes the capabilities in the answer to a handshake: the SDK's
// types have no member for the events capability, nor for what SEP-1803 adds to
// "resources". done writes the answer and must be called when the handler has
// returned.
func advertise(w http.ResponseWriter, body []byte, broken *breach.Set) (_ http.ResponseWriter, done func()) {
	if !bytes.Contains(body, []byte(`"initialize"`)) && !bytes.Contains(body, []byte(`"server/discover"`)) {
		return w, func() {}
	}
	b := holding(w)
	return b, func() {
		body := b.body.Bytes()
		if b.status == http.StatusOK {
			body = broken.Hello(withEvents(body))
			w.Header().Del("Content-Length")
		}
		b.send(body)
	}
}

// withEvents adds the capabilities to the result of initialize or
// server/discover, and keeps all other bytes. It returns other bodies
// unchanged. SEP-3415 puts the events capability among the extensions, where
// the SDK has written it; several clients read only the member "events", which
// is its place in the revisions before.
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
	fresh = append([]byte(`{"events":{"listChanged":true},`), fresh[1:]...)
	return bytes.Replace(body, answer.Result.Capabilities, fresh, 1)
}

// session returns the state of a session. It makes it if necessary.
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

// drop drops a session that has ended.
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

// subscribe answers resources/subscribe. A repeated call changes nothing.
func (rs *resources) subscribe(c *call) *rpcError {
	s, uri, rpcErr := rs.ofSession(c)
	if rpcErr == nil {
		rpcErr = s.add(uri)
	}
	if rpcErr != nil {
		return rpcErr
	}
	return c.answer(nil)
}

// unsubscribe answers resources/unsubscribe. An unknown subscription is no
// error.
func (rs *resources) unsubscribe(c *call) *rpcError {
	s, uri, rpcErr := rs.ofSession(c)
	if rpcErr != nil {
		return rpcErr
	}
	s.remove(uri)
	return c.answer(nil)
}

func (rs *resources) ofSession(c *call) (*resourceSession, string, *rpcError) {
	var p uriParams
	if rpcErr := c.decode(&p); rpcErr != nil {
		return nil, "", rpcErr
	}
	id := c.r.Header.Get(headerSession) // the MCP handler has checked that the session exists
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
// every event of the type, and event://NAME/{FIELD}, the events with that
// value. The latter are sub-resources of the former.

// eventResource resolves an event URI for a principal.
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

// appendEventURI appends the URI of the narrowest resource that an event
// belongs to.
func appendEventURI(dst []byte, e *event, kind *eventType) []byte {
	dst = append(dst, eventScheme...)
	dst = append(dst, kind.name...)
	if e.key == "" || kind.owned {
		return dst
	}
	return appendEscaped(append(dst, '/'), e.key)
}

// appendEscaped is the simple expansion of RFC 6570: it percent-encodes
// everything but the unreserved characters. The result is also safe in a JSON
// string.
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

// subscriptionPage is the number of subscription:// resources of a page.
const subscriptionPage = 1000

// subscriptionCursor is the prefix of the cursors of pages with subscriptions.
// They follow the last page of the SDK.
const subscriptionCursor = "subscriptions:"

// describe adds the event resources to the SDK's lists, and the principal's own
// subscriptions to its list.
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

// list appends the caller's subscriptions to the resources.
func (rs *resources) list(ctx context.Context, method string, req *mcp.ListResourcesRequest, next mcp.MethodHandler) (mcp.Result, error) {
	mine := rs.registered(principalOf(req))
	out := &mcp.ListResourcesResult{Resources: []*mcp.Resource{}}
	if req.Params != nil && strings.HasPrefix(req.Params.Cursor, subscriptionCursor) {
		last := strings.TrimPrefix(req.Params.Cursor, subscriptionCursor)
		for i, h := range mine {
			if h.id == last {
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
		copied := *list // the SDK's result may be shared
		copied.Resources = append([]*mcp.Resource(nil), list.Resources...)
		out = &copied
	}
	for i, h := range mine {
		if i == subscriptionPage {
			out.NextCursor = subscriptionCursor + mine[i-1].id
			break
		}
		out.Resources = append(out.Resources, &mcp.Resource{
			URI: h.id, Name: strings.TrimPrefix(h.id, subscriptionScheme), MIMEType: "application/json",
			Description: "An active webhook subscription.",
			Meta:        mcp.Meta{"eventUris": h.of.EventURIs, "targetUri": h.of.TargetURI},
		})
	}
	return out, nil
}

// read answers resources/read. A subscription returns its registration without
// the secret. An event returns its schema: its content is delivered, not read.
func (rs *resources) read(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	uri, principal := req.Params.URI, principalOf(req)
	var content any
	if strings.HasPrefix(uri, subscriptionScheme) {
		h := rs.hook(uri, principal)
		if h == nil {
			return nil, mcp.ResourceNotFoundError(uri)
		}
		content = h.of.registration
	} else {
		t, _, rpcErr := rs.eventResource(uri, principal)
		if rpcErr != nil {
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

// appendPositions appends the text of positions: the epoch of the server, and
// the positions in the order of the catalogue.
func (rs *resources) appendPositions(dst []byte, p positions) []byte {
	dst = append(dst, rs.epoch()...)
	for _, t := range rs.inBand() {
		dst = append(dst, '-')
		dst = strconv.AppendUint(dst, p[t], 10)
	}
	return dst
}

// epoch returns the epoch of the server as cursors spell it.
func (rs *resources) epoch() string {
	prefix := *rs.inBand()[0].prefix.Load()
	return prefix[:len(prefix)-1]
}

// readPositions parses a Last-Event-ID. For an id of another epoch it returns
// nil, because no event of that epoch is left. ok is false for an invalid id.
func (rs *resources) readPositions(text string) (p positions, ok bool) {
	parts := strings.Split(text, "-")
	order := rs.inBand()
	if len(parts) != len(order)+1 || !strings.HasPrefix(parts[0], "c") {
		return nil, false
	}
	p = make(positions, len(order))
	for i, t := range order {
		n, err := strconv.ParseUint(parts[i+1], 10, 64)
		if err != nil {
			return nil, false
		}
		p[t] = min(n, t.newest())
	}
	if parts[0] != rs.epoch() {
		return nil, true
	}
	return p, true
}

// available returns the URIs of a listen request that the principal may
// subscribe to, without duplicates.
func (rs *resources) available(uris []string, principal string) []string {
	out := []string{}
	for _, uri := range uris {
		if _, _, rpcErr := rs.eventResource(uri, principal); rpcErr == nil && !slices.Contains(out, uri) {
			out = append(out, uri)
		}
	}
	return out
}

// as returns the topic of a mode: with faults, each mode has its own topics.
func (rs *resources) as(mode eventmeter.Mode, t *topic) *topic {
	return rs.server.broker.topic(mode, t.kind.name)
}

// inBand are the topics that streams read, in the order of the catalogue.
func (rs *resources) inBand() []*topic {
	b := rs.server.broker
	if b.faultInjector == nil {
		return b.order
	}
	all := make([]*topic, len(b.order))
	for i, t := range b.order {
		all[i] = rs.as(eventmeter.Push, t)
	}
	return all
}
