package refserver

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
)

// methodKinds are the methods that read a list.
var methodKinds = map[string]listKind{
	"tools/list": listTools, "prompts/list": listPrompts, "resources/list": listResources, "resources/templates/list": listTemplates,
}

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
	if ls == nil || !validID(e.ID) || len(e.Params) > 0 && json.Unmarshal(e.Params, &p) != nil {
		return false
	}
	kind, isList := methodKinds[e.Method]
	switch {
	case isList && p.Cursor == restCursor:
		body = withoutCursor(body)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		if ls.opts.Older || ls.opts.NoHints {
			s.serveRespelled(w, r, principal)
			return true
		}
		return false
	case isList && p.Cursor != "" && !strings.HasPrefix(p.Cursor, cursorPrefix), !isList && !ls.serves(e.Method, p):
		return false
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
	c.serve(w, r, func(c *call) *rpcError {
		if !isList {
			return s.answerEntry(c, p)
		}
		members, ok := ls.all[kind].page(p.Cursor)
		if !ok {
			return invalidParams("the cursor %q is not, or no longer, one of this list", p.Cursor)
		}
		ls.countScope(p.Cursor == "")
		return c.answer(members)
	})
	return true
}

// serves reports whether a request that reads no list is answered here.
func (ls *lists) serves(method string, p listParams) bool {
	switch method {
	case "resources/read":
		_, ok := ls.content(p.URI)
		return ok
	case "resources/subscribe", "resources/unsubscribe":
		_, item := ls.item(p.URI)
		return p.URI == contentURI || item
	case methodListen:
		return !p.Notifications.Types && (p.lists() != 0 || len(ls.itemsOf(p.listenParams)) > 0)
	case "tools/call":
		_, ok := ls.all[listTools].describe(p.Name)
		return ok
	case "prompts/get":
		_, ok := ls.all[listPrompts].describe(p.Name)
		return ok
	}
	return false
}

// answerEntry answers a call that is about an entry of a list, or listens for changes.
func (s *Server) answerEntry(c *call, p listParams) *rpcError {
	ls := s.lists
	switch c.method {
	case "resources/read":
		members, _ := ls.content(p.URI)
		return c.answer(members)
	case "resources/subscribe", "resources/unsubscribe":
		session := c.r.Header.Get(headerSession)
		if session == "" {
			return invalidParams("%s needs a session", c.method)
		}
		on := c.method == "resources/subscribe"
		if rpcErr := ls.refuse(p.URI, on); rpcErr != nil {
			return rpcErr
		}
		ls.listeners.subscribe(session, p.URI, on)
		return c.answer([]byte(`"_meta":{}`))
	case methodListen:
		return s.listenLists(c, p.lists(), ls.itemsOf(p.listenParams))
	case "tools/call":
		text, _ := ls.all[listTools].describe(p.Name)
		return c.answer(append(quote([]byte(`"content":[{"type":"text","text":`), text), "}]"...))
	}
	text, _ := ls.all[listPrompts].describe(p.Name) // prompts/get
	return c.answer(append(quote([]byte(`"messages":[{"role":"user","content":{"type":"text","text":`), text), "}}]"...))
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

// refuse returns the error of a session's request to subscribe to an item, if a
// fault refuses it.
func (ls *lists) refuse(uri string, subscribes bool) *rpcError {
	if _, item := ls.item(uri); !item || !subscribes {
		return nil
	}
	return ls.faultInjector.refuse(faults.Updates, eventmeter.Push)
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
