package refserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/eventmeter/eventmeter"
)

// eventListChanged is the name under which a change of a list is injected. It
// is not an event type: nobody can subscribe to it.
const eventListChanged = "list.changed"

// ListOptions describes the lists of this server for SEP-2549: tools, prompts,
// resources, resource templates and the content of one resource, with a time to
// live. The zero value has none.
type ListOptions struct {
	// Entries is the number of entries of each list; 0 = no such lists.
	Entries int
	// Page is the number of entries of a page.
	Page int `default:"50" least:"1"`
	// TTL is the time to live of results; 0 = results are stale at once.
	TTL time.Duration `least:"0"`
	// Private marks results as private to a principal. Otherwise they are
	// public.
	Private bool
	// Older selects the spelling of the earlier draft: ttl in whole seconds,
	// and no scope.
	Older bool
	// Strict binds cursors to a state of the list: after a change, earlier
	// cursors fail with -32602.
	Strict bool

	// Uneven halves the time to live of every second page.
	Uneven bool
	// NoHints leaves the time to live and the scope out, which means 0 and
	// private.
	NoHints bool

	// otherScope gives results the scope that they should not have, for a fault.
	otherScope bool
	// otherFirst does so for the first page of a list only.
	otherFirst bool
	// ttlMs overrides the time to live of results, for a fault; nil = TTL.
	ttlMs *int
}

// listKind is one of the lists.
type listKind uint8

const (
	listTools listKind = iota
	listPrompts
	listResources
	listTemplates
	listContent // of one resource
	numLists
)

// listSpelling is how the protocol spells a list.
type listSpelling struct {
	name    string // as injected changes name it
	method  string // that reads it
	member  string // of the result
	changed string // the notification
	listen  string // the member that asks for it
}

// listTable has the lists. Templates have no notification of their own.
var listTable = [numLists]listSpelling{
	listTools:     {"tools", "tools/list", "tools", "notifications/tools/list_changed", "toolsListChanged"},
	listPrompts:   {"prompts", "prompts/list", "prompts", "notifications/prompts/list_changed", "promptsListChanged"},
	listResources: {"resources", "resources/list", "resources", "notifications/resources/list_changed", "resourcesListChanged"},
	listTemplates: {"templates", "resources/templates/list", "resourceTemplates", "", ""},
	listContent:   {"resource", "", "contents", "notifications/resources/updated", ""},
}

const (
	allLists   = "all" // as changes name them
	contentURI = "list://content"
	entryURI   = "list://entry/"
	itemURI    = "list://item/" // and a number
)

// lists holds the lists and their listeners. A nil *lists has none. It is safe
// for concurrent use.
type lists struct {
	opts          ListOptions
	faultInjector *faultInjector // nil without faults
	listeners     listListeners
	all           [numLists]*list
	items         *list // resources by number, whose content changes
}

func newLists(o ListOptions, m *faultInjector) *lists {
	if o.Entries == 0 {
		return nil
	}
	o = m.applyToLists(o)
	ls := &lists{opts: o, faultInjector: m}
	ls.listeners.oneByOne = m != nil
	for k := range ls.all {
		ls.all[k] = newList(listKind(k), o, o.Entries)
	}
	ls.all[listContent] = newList(listContent, o, 1)
	ls.items = newList(listContent, o, o.Entries)
	return ls
}

// cacheable gives the SDK's own results the same time to live. It is nil
// without lists.
func (ls *lists) cacheable() func(context.Context, mcp.Request, *mcp.Cacheable) {
	if ls == nil {
		return nil
	}
	return func(_ context.Context, req mcp.Request, c *mcp.Cacheable) {
		kind := listTools
		switch req.(type) {
		case *mcp.ListToolsRequest:
			ls.countScope(false)
		case *mcp.ListResourcesRequest:
			kind = listResources
		}
		c.TTLMs, c.CacheScope = int(ls.opts.ttlMillis(0)), ls.opts.scope(kind, 1)
	}
}

// errNoList says that a change names no list and no item.
var errNoList = errors.New("data.list is none of tools, prompts, resources, templates, resource, all, and data.uri is no list://item/N")

// change applies a change {"list", "uri"}, with a probe id anywhere in it: of a
// list, of the content of an item, or of both. The description of one entry and the
// content of an item hold the newest probe of each source. When change returns,
// answers show the change, and the listeners are being notified.
func (ls *lists) change(data []byte) error {
	var in struct {
		List string `json:"list"`
		URI  string `json:"uri"`
	}
	if json.Unmarshal(data, &in) != nil {
		return errNoList
	}
	stamp, probed := eventmeter.FindStamp(data)
	if in.URI != "" {
		n, ok := ls.item(in.URI)
		if !ok {
			return errNoList
		}
		ls.applyItem(n, stamp, probed)
		if in.List == "" {
			return nil
		}
	}
	err := errNoList
	for k, l := range ls.all {
		if in.List == allLists || in.List == listTable[k].name {
			ls.apply(l, stamp, probed)
			err = nil
		}
	}
	return err
}

// applyEvent applies an event whose data also names a list or an item, so that tests can
// compare what clients learn from events and from lists.
func (ls *lists) applyEvent(data []byte) {
	if ls != nil && (bytes.Contains(data, []byte(`"list"`)) || bytes.Contains(data, []byte(itemURI))) {
		_ = ls.change(data) // "list" and "uri" may mean something else to the event
	}
}

// list is one list. Pages are rendered on demand and cached until they change.
type list struct {
	kind    listKind
	opts    ListOptions
	entries int

	mu         sync.RWMutex
	generation uint64
	revisions  []uint64
	probes     [][]eventmeter.Stamp // by entry: the newest of each source, sources ascending
	pages      [][]byte             // members of the result; nil = not rendered
}

func newList(k listKind, o ListOptions, entries int) *list {
	l := &list{kind: k, opts: o, entries: entries, revisions: make([]uint64, entries), probes: make([][]eventmeter.Stamp, entries)}
	l.pages = make([][]byte, (entries+l.perPage()-1)/l.perPage())
	return l
}

func (l *list) change(s eventmeter.Stamp, probed bool) {
	l.changeEntry(int(s.Source)%l.entries, s, probed)
}

func (l *list) changeEntry(at int, s eventmeter.Stamp, probed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.generation++
	l.revisions[at]++
	if l.opts.Strict { // every page holds a cursor
		clear(l.pages)
	} else {
		l.pages[at/l.perPage()] = nil
	}
	if !probed {
		return
	}
	known := l.probes[at]
	i, found := slices.BinarySearchFunc(known, s.Source, func(k eventmeter.Stamp, source uint16) int { return int(k.Source) - int(source) })
	switch {
	case !found:
		l.probes[at] = slices.Insert(known, i, s)
	case known[i].Run != s.Run || known[i].Seq < s.Seq: // concurrent changes may come in any order
		known[i] = s
	}
}

func (l *list) perPage() int {
	if l.kind == listContent {
		return 1
	}
	return l.opts.Page
}

// page returns the members of the result of one page. It returns false if the
// cursor is not, or no longer, one of this list.
func (l *list) page(cursor string) ([]byte, bool) {
	l.mu.RLock()
	n, ok := l.find(cursor)
	var b []byte
	if ok {
		b = l.pages[n]
	}
	l.mu.RUnlock()
	if !ok || b != nil {
		return b, ok
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if n, ok = l.find(cursor); !ok {
		return nil, false
	}
	if l.pages[n] == nil {
		l.pages[n] = l.render(n)
	}
	return l.pages[n], true
}

// cursorPrefix distinguishes the cursors of this server's lists from the SDK's.
// restCursor leads from the last page of a list to the SDK's entries.
const (
	cursorPrefix = "l:"
	restCursor   = "l:rest"
)

// find parses a cursor, "" for the first page. The caller holds the lock.
func (l *list) find(cursor string) (page int, ok bool) {
	if cursor == "" {
		return 0, true
	}
	number, generation, bound := strings.Cut(strings.TrimPrefix(cursor, cursorPrefix), ":")
	page, err := strconv.Atoi(number)
	if err != nil || page < 1 || page >= len(l.pages) || bound != l.opts.Strict {
		return 0, false
	}
	return page, !bound || generation == strconv.FormatUint(l.generation, 10)
}

func (l *list) cursor(page int) string {
	if page == len(l.pages) {
		return restCursor
	}
	c := cursorPrefix + strconv.Itoa(page)
	if l.opts.Strict {
		c += ":" + strconv.FormatUint(l.generation, 10)
	}
	return c
}

// render renders one page. The caller holds the lock.
func (l *list) render(page int) []byte {
	b := fmt.Appendf(nil, `"%s":[`, listTable[l.kind].member)
	from := page * l.perPage()
	for i := from; i < min(from+l.perPage(), l.entries); i++ {
		if i > from {
			b = append(b, ',')
		}
		b = l.entry(b, i)
	}
	b = append(b, ']')
	if l.kind != listContent {
		b = quote(append(b, `,"nextCursor":`...), l.cursor(page+1))
	}
	return l.opts.lifetime(append(b, ','), l.kind, page)
}

// scope is the cache scope of every page of a list. The last page of the
// resources may hold the principal's own subscriptions, so that all of its pages
// are private: SEP-2549 wants one scope for a list.
func (o ListOptions) scope(kind listKind, page int) string {
	other := o.otherScope || o.otherFirst && page == 0 && kind != listContent
	if (o.Private || kind == listResources) != other {
		return "private"
	}
	return "public"
}

// lifetime appends the members that say how long a page of a list may be kept.
// The last byte of b is the comma before them.
func (o ListOptions) lifetime(b []byte, kind listKind, page int) []byte {
	if o.NoHints {
		return b[:len(b)-1]
	}
	if o.Older {
		return fmt.Appendf(b, `"ttl":%d`, o.TTL/time.Second)
	}
	return fmt.Appendf(b, `"ttlMs":%d,"cacheScope":"%s"`, o.ttlMillis(page), o.scope(kind, page))
}

// entryName is the name of entry i, the same in every list.
func entryName(i int) string { return fmt.Sprintf("entry-%05d", i) }

// entry appends one entry. The caller holds the lock.
func (l *list) entry(b []byte, i int) []byte {
	name, text := entryName(i), quote(nil, l.text(i))
	switch l.kind {
	case listTools:
		return fmt.Appendf(b, `{"name":%q,"description":%s,"inputSchema":{"type":"object"}}`, name, text)
	case listPrompts:
		return fmt.Appendf(b, `{"name":%q,"description":%s}`, name, text)
	case listResources:
		uri := entryURI + name
		if i == 0 {
			uri = contentURI
		}
		return fmt.Appendf(b, `{"uri":%q,"name":%q,"description":%s,"mimeType":"text/plain"}`, uri, name, text)
	case listTemplates:
		return fmt.Appendf(b, `{"uriTemplate":"list://template/%s/{id}","name":%q,"description":%s}`, name, name, text)
	}
	return appendContent(b, contentURI, l.text(i))
}

func appendContent(b []byte, uri, text string) []byte {
	return fmt.Appendf(b, `{"uri":%s,"mimeType":"text/plain","text":%s}`, quote(nil, uri), quote(nil, text))
}

// text is the description of entry i. The caller holds the lock.
func (l *list) text(i int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "One of %d that this server has for load tests of lists, in revision %d.", l.entries, l.revisions[i])
	for _, s := range l.probes[i] {
		b.WriteByte(' ')
		b.WriteString(s.String())
	}
	return b.String()
}

// describe returns the description of the entry of that name.
func (l *list) describe(name string) (string, bool) {
	number, ok := strings.CutPrefix(name, "entry-")
	i, err := strconv.Atoi(number)
	if !ok || err != nil || i < 0 || i >= l.entries || entryName(i) != name {
		return "", false
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.text(i), true
}

// kinds is a set of lists.
type kinds uint8

func (k kinds) has(l listKind) bool { return k&(1<<l) != 0 }

// ttlMillis is the time to live of a page in milliseconds.
func (o ListOptions) ttlMillis(page int) int64 {
	switch {
	case o.ttlMs != nil:
		return int64(*o.ttlMs)
	case o.Uneven && page%2 == 1:
		return o.TTL.Milliseconds() / 2
	}
	return o.TTL.Milliseconds()
}

// listListeners are the streams that carry changes of lists and items. A stream
// never blocks a change: it has a set of pending notifications, so that changes that
// come faster than it writes are sent once.
type listListeners struct {
	oneByOne bool // every change is sent, however fast they come
	mu       sync.Mutex
	open     map[*listListener]struct{}
	sessions map[string]map[string]bool // by session: the URIs that it subscribed to
}

func (h *listListeners) join(l *listListener) (leave func()) {
	l.wakeup = make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open == nil {
		h.open = make(map[*listListener]struct{})
	}
	h.open[l] = struct{}{}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.open, l)
	}
}

// subscribe records whether a session subscribes to a resource.
func (h *listListeners) subscribe(session, uri string, on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !on {
		delete(h.sessions[session], uri)
		return
	}
	if h.sessions == nil {
		h.sessions = make(map[string]map[string]bool)
	}
	if h.sessions[session] == nil {
		h.sessions[session] = make(map[string]bool)
	}
	h.sessions[session][uri] = true
}

// drop forgets the subscriptions of a session.
func (h *listListeners) drop(session string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.sessions, session)
}

// notify queues a notification for the listeners of a list.
func (h *listListeners) notify(k listKind) {
	bit := changes(k)
	h.queue(func(l *listListener) bool {
		return l.want&bit != 0 && (l.session == "" || k != listContent || h.sessions[l.session][contentURI])
	}, func(c *changeSet) { c.lists |= bit })
}

// notifyItem queues a notification for the listeners of an item.
func (h *listListeners) notifyItem(uri string) {
	h.queue(func(l *listListener) bool {
		return l.items[uri] || l.session != "" && h.sessions[l.session][uri]
	}, func(c *changeSet) {
		if !slices.Contains(c.items, uri) {
			c.items = append(c.items, uri)
		}
	})
}

func (h *listListeners) queue(wants func(*listListener) bool, add func(*changeSet)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.open {
		if !wants(l) {
			continue
		}
		if len(l.pending) == 0 || h.oneByOne {
			l.pending = append(l.pending, changeSet{})
		}
		add(&l.pending[len(l.pending)-1])
		signal(l.wakeup)
	}
}

// take returns the pending notifications of a listener.
func (h *listListeners) take(l *listListener) []changeSet {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := l.pending
	l.pending = nil
	return p
}

type listListener struct {
	session string // legacy
	want    kinds
	items   map[string]bool // modern: the URIs of items
	wakeup  chan struct{}
	pending []changeSet // under the lock of listListeners; one element unless listListeners.oneByOne
}

// changeSet is what changed.
type changeSet struct {
	lists kinds
	items []string // URIs
}

// framesOf returns the frames of several sets of changes. A request id makes them
// part of the answer to that request.
func framesOf(sets []changeSet, id []byte) (dst []byte) {
	for _, c := range sets {
		for l := range numLists {
			if c.lists.has(l) {
				dst = appendChange(dst, listTable[l].changed, [numLists]string{listContent: contentURI}[l], id)
			}
		}
		for _, uri := range c.items {
			dst = appendChange(dst, listTable[listContent].changed, uri, id)
		}
	}
	return dst
}

// appendChange appends one frame; uri is "" for a list.
func appendChange(dst []byte, method, uri string, id []byte) []byte {
	dst = fmt.Appendf(dst, `data: {"jsonrpc":"2.0","method":"%s"`, method)
	switch {
	case uri != "" && id != nil:
		dst = fmt.Appendf(dst, `,"params":{"uri":%s%s%s}}`, quote(nil, uri), frameMeta, id)
	case uri != "":
		dst = fmt.Appendf(dst, `,"params":{"uri":%s}`, quote(nil, uri))
	case id != nil:
		dst = fmt.Appendf(dst, `,"params":{%s%s}}`, frameMeta[1:], id)
	}
	return append(dst, "}\n\n"...)
}

// agreed returns the lists and items as the acknowledgement names them.
func (l *listListener) agreed() []byte {
	var b []byte
	for k, of := range listTable {
		if of.listen != "" && l.want.has(listKind(k)) {
			b = fmt.Appendf(b, `"%s":true,`, of.listen)
		}
	}
	uris := slices.Sorted(maps.Keys(l.items))
	if l.want.has(listContent) {
		uris = append(uris, contentURI)
	}
	if len(uris) > 0 {
		b = append(b, `"resourceSubscriptions":[`...)
		for _, uri := range uris {
			b = append(quote(b, uri), ',')
		}
		b = append(b[:len(b)-1], "],"...)
	}
	return b[:max(len(b)-1, 0)]
}

// changes returns the notifications for a list. Templates have none of their
// own: the resources' is used.
func changes(k listKind) kinds {
	if k == listTemplates {
		k = listResources
	}
	return 1 << k
}
