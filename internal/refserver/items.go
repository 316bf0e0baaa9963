package refserver

import (
	"strconv"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
)

// Items are resources that clients subscribe to by number, list://item/0 and so
// on, as many as a list has entries. They are not listed.

func newItems(o ListOptions) *list {
	return &list{
		kind: listContent, opts: o, entries: o.Entries,
		revisions: make([]uint64, o.Entries), probes: make([][]eventmeter.Stamp, o.Entries), pages: make([][]byte, o.Entries),
	}
}

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

// itemContent returns the members of the result of reading an item.
func (ls *lists) itemContent(uri string, n int) []byte {
	l := ls.items
	l.mu.RLock()
	text := l.text(n)
	l.mu.RUnlock()
	b := quote([]byte(`"contents":[{"uri":`), uri)
	b = quote(append(b, `,"mimeType":"text/plain","text":`...), text)
	return ls.opts.lifetime(append(b, "}],"...))
}

// applyItem changes an item and notifies those who subscribed to it, as the
// change's fault says. Delayed notifications are sent in the order of their due
// times.
func (ls *lists) applyItem(n int, stamp eventmeter.Stamp, probed bool) {
	var f faults.Fault
	if m := ls.faultInjector; m != nil && probed {
		var hit bool
		if f, hit = m.spec.Event(eventmeter.Push, stamp); hit {
			m.countIn(faults.Updates, f)
		}
	}
	ls.items.changeEntry(n, stamp, probed)
	uri := itemURI + strconv.Itoa(n)
	notify := func() { ls.listeners.notifyItem(uri) }
	switch f.Kind {
	case faults.Drop:
	case faults.Duplicate:
		notify()
		notify()
	case faults.Delay:
		ls.faultInjector.agenda.at(time.Now().Add(f.DelayOf(stamp)), notify)
	default:
		notify()
	}
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
