package refserver

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
)

// listParams are the relevant params of all methods served here.
type listParams struct {
	Cursor string `json:"cursor"`
	URI    string `json:"uri"`
	Name   string `json:"name"`
	listenParams
}

// serveLists answers requests for this server's lists. If a request is not for
// them, it returns false: the SDK's own entries follow at the end of each list.
func (s *Server) serveLists(w http.ResponseWriter, r *http.Request, e envelope, body []byte, principal string) bool {
	ls := s.lists
	var p listParams
	if ls == nil || e.Method == "" || !validID(e.ID) || len(e.Params) > 0 && json.Unmarshal(e.Params, &p) != nil {
		return false
	}
	kind := slices.IndexFunc(listTable[:], func(of listSpelling) bool { return of.method == e.Method })
	var do func(*call) *rpcError
	switch {
	case kind < 0:
		if do = s.entryOf(e.Method, p); do == nil {
			return false
		}
	case p.Cursor == restCursor:
		body = withoutCursor(body)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		if ls.opts.Older || ls.opts.NoHints {
			s.serveRespelled(w, r, principal)
			return true
		}
		return false
	case p.Cursor != "" && !strings.HasPrefix(p.Cursor, cursorPrefix):
		return false
	default:
		do = func(c *call) *rpcError {
			members, ok := ls.all[kind].page(p.Cursor)
			if !ok {
				return invalidParams("the cursor %q is not, or no longer, one of this list", p.Cursor)
			}
			ls.countScope(p.Cursor == "")
			return c.answer(members)
		}
	}
	c := s.callOf(w, r, e, principal)
	if c == nil {
		return true
	}
	if c.modern {
		if rpcErr := checkName(r.Header, e.Method, p); rpcErr != nil {
			writeRPCError(w, http.StatusBadRequest, e.ID, rpcErr)
			return true
		}
	}
	c.serve(w, r, do)
	return true
}

// entryOf says how a call is answered that is about an entry of a list, or listens for
// changes; nil for one that is not answered here.
func (s *Server) entryOf(method string, p listParams) func(*call) *rpcError {
	ls := s.lists
	answer := func(known bool, members []byte) func(*call) *rpcError {
		if !known {
			return nil
		}
		return func(c *call) *rpcError { return c.answer(members) }
	}
	switch method {
	case "resources/read":
		members, ok := ls.content(p.URI)
		return answer(ok, members)
	case methodResourceSubscribe, methodResourceUnsubscribe:
		if _, item := ls.item(p.URI); item || p.URI == contentURI {
			return func(c *call) *rpcError { return s.subscribeItem(c, p.URI) }
		}
	case methodListen:
		want, items := p.lists(), ls.itemsOf(p.listenParams)
		if !p.Notifications.Types && (want != 0 || len(items) > 0) {
			return func(c *call) *rpcError { return s.listenLists(c, want, items) }
		}
	case "tools/call":
		text, ok := ls.all[listTools].describe(p.Name)
		return answer(ok, append(quote([]byte(`"content":[{"type":"text","text":`), text), "}]"...))
	case "prompts/get":
		text, ok := ls.all[listPrompts].describe(p.Name)
		return answer(ok, append(quote([]byte(`"messages":[{"role":"user","content":{"type":"text","text":`), text), "}}]"...))
	}
	return nil
}

// subscribeItem answers a session's request to subscribe to an item, or to unsubscribe.
func (s *Server) subscribeItem(c *call, uri string) *rpcError {
	session := c.r.Header.Get(headerSession)
	if session == "" {
		return invalidParams("%s needs a session", c.method)
	}
	on := c.method == methodResourceSubscribe
	if _, item := s.lists.item(uri); item && on {
		if rpcErr := s.faultInjector.refuse(faults.Updates, eventmeter.Push); rpcErr != nil {
			return rpcErr
		}
	}
	s.lists.listeners.subscribe(session, uri, on)
	return c.answer([]byte(`"_meta":{}`))
}

// checkName checks the header that mirrors a name or a URI.
func checkName(h http.Header, method string, p listParams) *rpcError {
	want := p.Name
	switch method {
	case "resources/read":
		want = p.URI
	case "tools/call", "prompts/get":
	default:
		return nil
	}
	if got := h.Get(headerName); got != want {
		return headerMismatch(headerName + " " + strconv.Quote(got) + " does not match the body")
	}
	return nil
}

// content returns the members of the result of reading a resource of the lists.
func (ls *lists) content(uri string) ([]byte, bool) {
	if uri == contentURI {
		return ls.all[listContent].page("")
	}
	if n, ok := ls.item(uri); ok {
		ls.items.mu.RLock()
		defer ls.items.mu.RUnlock()
		return ls.read(uri, ls.items.text(n)), true
	}
	name, ok := strings.CutPrefix(uri, entryURI)
	text, known := ls.all[listResources].describe(name)
	if !ok || !known {
		return nil, false
	}
	return ls.read(uri, text), true
}

// read returns the members of the result of reading a resource with one text.
func (ls *lists) read(uri, text string) []byte {
	return ls.opts.lifetime(append(appendContent([]byte(`"contents":[`), uri, text), "],"...), listContent, 0)
}

// withoutCursor returns the same request for the first page.
func withoutCursor(body []byte) []byte {
	var e, p map[string]json.RawMessage
	if json.Unmarshal(body, &e) != nil || json.Unmarshal(e["params"], &p) != nil {
		return body
	}
	delete(p, "cursor")
	var err error
	if e["params"], err = json.Marshal(p); err != nil {
		return body
	}
	out, err := json.Marshal(e)
	if err != nil {
		return body
	}
	return out
}

// serveRespelled lets the SDK answer, and converts the answer to the spelling of
// the earlier draft, or leaves the hints out.
func (s *Server) serveRespelled(w http.ResponseWriter, r *http.Request, principal string) {
	buffered := holding(w)
	s.base.serve(buffered, r, principal)
	if s.lists.opts.NoHints {
		buffered.send(hints.ReplaceAll(buffered.body.Bytes(), nil))
		return
	}
	older := []byte(`"ttl":` + strconv.FormatInt(int64(s.lists.opts.TTL.Seconds()), 10))
	buffered.send(newerLifetime.ReplaceAll(buffered.body.Bytes(), older))
}

var (
	newerLifetime = regexp.MustCompile(`"ttlMs":\d+,"cacheScope":"\w+"`)
	hints         = regexp.MustCompile(`,` + newerLifetime.String() + `|` + newerLifetime.String() + `,`)
)

// Items are resources that clients subscribe to by number, list://item/0 and so
// on, as many as a list has entries. They are not listed.

// item returns the number of an item.
func (ls *lists) item(uri string) (int, bool) {
	text, ok := strings.CutPrefix(uri, itemURI)
	n, err := strconv.Atoi(text)
	return n, ok && err == nil && n >= 0 && n < ls.items.entries && strconv.Itoa(n) == text
}

// itemsOf are the items of this server that a client listens for.
func (ls *lists) itemsOf(p listenParams) map[string]bool {
	var uris map[string]bool
	for _, uri := range p.Notifications.URIs {
		if _, ok := ls.item(uri); ok {
			if uris == nil {
				uris = make(map[string]bool)
			}
			uris[uri] = true
		}
	}
	return uris
}

// applyItem changes an item and notifies those who subscribed to it.
func (ls *lists) applyItem(n int, stamp eventmeter.Stamp, probed bool) {
	uri := itemURI + strconv.Itoa(n)
	ls.carryOut(faults.Updates, eventmeter.Push, stamp, probed,
		func() { ls.items.changeEntry(n, stamp, probed) }, func() { ls.listeners.notifyItem(uri) })
}

// forget ends the sessions that subscribed to items, as a load balancer does that
// no longer knows where a session is.
func (ls *lists) forget(b *base) {
	if ls == nil {
		return
	}
	ls.listeners.mu.Lock()
	defer ls.listeners.mu.Unlock()
	for session := range ls.listeners.sessions {
		b.sessions.drop(session)
	}
	clear(ls.listeners.sessions)
}
