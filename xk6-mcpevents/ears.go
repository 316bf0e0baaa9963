package mcpevents

import (
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/grafana/sobek"
)

// waitingItems is how many items may wait for handlers.
const waitingItems = 1 << 16

// The items that handlers can ask for.
type itemKind uint8

const (
	onEvent itemKind = iota
	onGap
	onClosed
	onError
	itemKinds
)

var itemNames = [itemKinds]string{"event", "gap", "closed", "error"}

// item is something on its way to handlers.
type item struct {
	kind         itemKind
	subscription int
	// Of an event.
	seq     uint32
	latency time.Duration
	copied  bool
	bytes   int
	id      uint64
	// The event's message, a gap's detail, a closing's reason, an error's message.
	text string
	what string // kind of error
}

// ears are a group's handlers and what waits for them.
type ears struct {
	messages bool // events have their text

	earing   sync.Mutex
	handlers [itemKinds][]sobek.Callable
	items    []item
	unseen   []item // events whose text has not come yet
	skipped  int64  // items that found no room
}

// tell keeps an item for the handlers, if there are any of its kind.
func (g *group) tell(i item) {
	e := &g.ears
	e.earing.Lock()
	if len(e.handlers[i.kind]) == 0 {
		e.earing.Unlock()
		return
	}
	if len(e.items)+len(e.unseen) >= waitingItems {
		e.skipped++
		e.earing.Unlock()
		return
	}
	if i.kind == onEvent && e.messages {
		e.unseen = append(e.unseen, i)
		e.earing.Unlock()
		return
	}
	e.items = append(e.items, i)
	first := len(e.items) == 1
	e.earing.Unlock()
	if first {
		g.gate.knock()
	}
}

// observer is a group whose handlers want to see the events themselves.
type observer struct{ *group }

// Observed implements eventmeter.Observer: it comes right after Delivered.
func (o *observer) Observed(v eventmeter.Observation) {
	g, e := o.group, &o.ears
	e.earing.Lock()
	first := false
	for n := range e.unseen {
		if i := e.unseen[n]; i.subscription == int(v.Sub.Index) && i.id == v.EventID {
			i.text = string(v.Message)
			e.unseen = append(e.unseen[:n], e.unseen[n+1:]...)
			e.items = append(e.items, i)
			first = len(e.items) == 1
			break
		}
	}
	e.earing.Unlock()
	if first {
		g.gate.knock()
	}
}

// notice tells handlers of a notice.
func (g *group) notice(s *member, n eventmeter.Notice) {
	i := item{kind: onError, subscription: s.number, text: g.client.secrets.Scrub(n.Detail), what: n.Kind.String()}
	switch n.Kind {
	case eventmeter.Truncated:
		i.kind = onGap
	case eventmeter.Terminated, eventmeter.Reconnected: // the first is followed by Failed, which is told
		return
	}
	g.tell(i)
}

// handle calls the handlers; it runs on the event loop.
func (g *group) handle() error {
	e := &g.ears
	e.earing.Lock()
	list, handlers := e.items, e.handlers
	e.items = nil
	e.earing.Unlock()
	vu := g.client.m.vu
	for n := range list {
		if vu.Context().Err() != nil {
			return nil //nolint:nilerr // the iteration is over: scripts run no more
		}
		v := list[n].script(vu.Runtime(), e.messages)
		for _, f := range handlers[list[n].kind] {
			if _, err := f(sobek.Undefined(), v); err != nil {
				return err
			}
		}
	}
	return nil
}

// script is the form in which handlers get an item: an object whose properties
// have an order, so that it is printed the same way each time.
func (i *item) script(rt *sobek.Runtime, messages bool) *sobek.Object {
	out := rt.NewObject()
	set := func(name string, v any) { _ = out.Set(name, v) } // a new object takes everything
	set("subscription", i.subscription)
	switch i.kind {
	case onEvent:
		set("seq", i.seq)
		set("latency", float64(i.latency)/float64(time.Millisecond))
		set("duplicate", i.copied)
		set("bytes", i.bytes)
		if messages {
			set("message", i.text)
		}
	case onGap:
		set("detail", i.text)
	case onClosed:
		set("reason", i.text)
	case onError:
		set("kind", i.what)
		set("message", i.text)
	}
	return out
}
