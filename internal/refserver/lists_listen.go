package refserver

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter/internal/crash"
)

// kinds is a set of lists.
type kinds uint8

func (k kinds) has(l listKind) bool { return k&(1<<l) != 0 }

// changes is what a stream is told of: bits of listTools, listPrompts,
// listResources and listContent. Templates have no notification of their own:
// theirs is that of the resources.
func changes(k listKind) kinds {
	if k == listTemplates {
		k = listResources
	}
	return 1 << k
}

// changeMethods are the notifications, by list.
var changeMethods = [numLists]string{
	listTools: "notifications/tools/list_changed", listPrompts: "notifications/prompts/list_changed",
	listResources: "notifications/resources/list_changed", listContent: "notifications/resources/updated",
}

// listeners is everybody who is told of changes. Nobody waits for them: each
// has a set of what it has not been told yet, so that changes that come faster
// than a stream takes them are told once.
type listeners struct {
	each     bool // changes are told one by one, however fast they come
	mu       sync.Mutex
	open     map[*listListener]struct{}
	sessions map[string]bool // that subscribed to the content
}

type listListener struct {
	session string // legacy
	want    kinds
	woken   chan struct{}
	pending []kinds // under the lock of listeners; of one element unless listeners.each
}

func (h *listeners) join(l *listListener) (leave func()) {
	l.woken = make(chan struct{}, 1)
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

// subscribe notes that a session wants to hear of the content, or no longer.
func (h *listeners) subscribe(session string, on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !on {
		delete(h.sessions, session)
		return
	}
	if h.sessions == nil {
		h.sessions = make(map[string]bool)
	}
	h.sessions[session] = true
}

// tell tells everybody who wants to know of a list.
func (h *listeners) tell(k listKind) {
	bit := changes(k)
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.open {
		if l.want&bit == 0 || l.session != "" && k == listContent && !h.sessions[l.session] {
			continue
		}
		if len(l.pending) == 0 || h.each {
			l.pending = append(l.pending, 0)
		}
		l.pending[len(l.pending)-1] |= bit
		nudge(l.woken)
	}
}

// take returns what a listener has to be told.
func (h *listeners) take(l *listListener) []kinds {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := l.pending
	l.pending = nil
	return p
}

// appendAll writes the frames of several sets of lists.
func appendAll(dst []byte, sets []kinds, id []byte) []byte {
	for _, k := range sets {
		dst = appendChanges(dst, k, id)
	}
	return dst
}

// appendChanges writes a frame for each of the lists. A request id makes them
// part of the answer to that request.
func appendChanges(dst []byte, k kinds, id []byte) []byte {
	for l := range numLists {
		if !k.has(l) {
			continue
		}
		dst = append(dst, `data: {"jsonrpc":"2.0","method":"`...)
		dst = append(dst, changeMethods[l]...)
		dst = append(dst, '"')
		if l == listContent || id != nil {
			dst = append(dst, `,"params":{`...)
			if l == listContent {
				dst = append(dst, `"uri":"`+contentURI+`"`...)
			}
			if id != nil {
				if l == listContent {
					dst = append(dst, ',')
				}
				dst = append(dst, `"_meta":{"`+subscriptionIDKey+`":`...)
				dst = append(append(dst, id...), '}')
			}
			dst = append(dst, '}')
		}
		dst = append(dst, "}\n\n"...)
	}
	return dst
}

// listWishes is what a client wants to hear of.
type listWishes struct{ wanted }

// wants is the part of it that is served here.
func (p listWishes) wants() (k kinds) {
	n := p.Notifications
	for _, w := range []struct {
		on   bool
		list listKind
	}{{n.Tools, listTools}, {n.Prompts, listPrompts}, {n.Resources, listResources}, {slices.Contains(n.URIs, contentURI), listContent}} {
		if w.on {
			k |= 1 << w.list
		}
	}
	return k
}

// agreed is the acknowledgement's list of what is served.
func (k kinds) agreed() (text string) {
	for _, w := range []struct {
		list listKind
		text string
	}{
		{listTools, `"toolsListChanged":true`}, {listPrompts, `"promptsListChanged":true`}, {listResources, `"resourcesListChanged":true`},
		{listContent, `"resourceSubscriptions":["` + contentURI + `"]`},
	} {
		if !k.has(w.list) {
			continue
		}
		if text != "" {
			text += ","
		}
		text += w.text
	}
	return text
}

// listenLists serves subscriptions/listen.
func (s *Server) listenLists(w http.ResponseWriter, r *http.Request, c *call, want kinds) {
	if !c.modern {
		c.fail(w, &rpcError{Code: codeMethodNotFound, Message: "Method not found: " + c.method})
		return
	}
	if wrong := s.reserve(); wrong != nil {
		c.fail(w, wrong)
		return
	}
	defer s.unreserve()
	l := &listListener{want: want}
	defer s.lists.hub.join(l)()
	s.streamHeader(w.Header())
	flush := http.NewResponseController(w).Flush
	send := func(b []byte) bool {
		_, err := w.Write(b)
		return err == nil && flush() == nil
	}
	meta := `"_meta":{"` + subscriptionIDKey + `":` + string(c.id) + `}`
	open := send([]byte(`data: {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{` + want.agreed() + `},` + meta + "}}\n\n"))
	alive := time.NewTicker(s.opts.Heartbeat)
	defer alive.Stop()
	for open {
		revoked, gone := s.principals.watch(c.principal)
		if gone {
			return
		}
		select {
		case <-l.woken:
			open = send(appendAll(nil, s.lists.hub.take(l), c.id))
		case <-alive.C:
			open = send([]byte(":\n\n"))
		case <-revoked:
		case <-s.closing:
			send(append(c.resultOpen([]byte("data: ")), meta+"}}\n\n"...))
			return
		case <-r.Context().Done():
			return
		}
	}
}

// forget drops what a session that ends had subscribed to.
func (ls *lists) forget(session string) {
	if ls != nil {
		ls.hub.subscribe(session, false)
	}
}

// attend tells the stream of a legacy session of changes until leave is called,
// which waits for what is being written.
func (ls *lists) attend(w http.ResponseWriter, session string) (leave func()) {
	l, wrapped := w.(*hearer)
	if ls == nil || session == "" || !wrapped {
		return func() {}
	}
	me := &listListener{session: session, want: 1<<numLists - 1}
	gone := ls.hub.join(me)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer crash.Guard()
		defer close(done)
		for {
			select {
			case <-me.woken:
				l.send(appendAll(nil, ls.hub.take(me), nil))
			case <-stop:
				return
			}
		}
	}()
	return func() {
		gone()
		close(stop)
		<-done
	}
}
