package refserver

import (
	"net/http"
	"slices"
	"time"

	"github.com/eventmeter/eventmeter/internal/crash"
)

// listWishes is what a client wants to hear of.
type listWishes struct{ wanted }

// lists are the lists of this server that the client listens for.
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
	defer s.lists.listeners.join(l)()
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
		case <-l.wakeup:
			open = send(appendAll(nil, s.lists.listeners.take(l), c.id))
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

// dropSession drops the content subscription of a session that ends.
func (ls *lists) dropSession(session string) {
	if ls != nil {
		ls.listeners.subscribe(session, false)
	}
}

// notifySession writes changes to the stream of a legacy session until leave is
// called. leave waits for a write in progress.
func (ls *lists) notifySession(w http.ResponseWriter, session string) (leave func()) {
	l, wrapped := w.(*typeListener)
	if ls == nil || session == "" || !wrapped {
		return func() {}
	}
	me := &listListener{session: session, want: 1<<numLists - 1}
	gone := ls.listeners.join(me)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer crash.Guard()
		defer close(done)
		for {
			select {
			case <-me.wakeup:
				l.send(appendAll(nil, ls.listeners.take(me), nil))
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
