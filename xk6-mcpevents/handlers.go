package mcpevents

import (
	"slices"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/grafana/sobek"
)

// maxQueued is how many items may wait for handlers.
const maxQueued = 1 << 16

// The items that handlers can receive.
type itemKind uint8

const (
	onEvent itemKind = iota
	onGap
	onClosed
	onError
	itemKinds
)

var itemNames = [itemKinds]string{"event", "gap", "closed", "error"}

// item is the argument of one call of a handler.
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

// handler is a handler of a script.
type handler struct {
	call sobek.Callable
	self *sobek.Object // by which it is found again
	once bool
}

// handlers are the handlers of a group and the items that wait for them. They
// are safe for concurrent use.
type handlers struct {
	messages bool // events carry their message

	mu      sync.Mutex
	calls   [itemKinds][]handler // the lists are replaced, never changed
	items   []item
	pending []item // events whose message has not been observed yet
	skipped int64  // items that were dropped because the queue was full
}

// add adds a handler.
func (h *handlers) add(kind itemKind, f handler) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls[kind] = append(slices.Clip(h.calls[kind]), f)
}

// remove removes the handlers of a kind for which which is true, and reports whether
// any handler is left.
func (h *handlers) remove(kind itemKind, which func(handler) bool) (left bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls[kind] = slices.DeleteFunc(slices.Clone(h.calls[kind]), which)
	for _, list := range h.calls {
		left = left || len(list) > 0
	}
	if !left {
		h.items, h.pending = nil, nil
	}
	return left
}

// next returns the handlers of a kind for one item, and removes those that are called
// only once. left is false if none is left of any kind.
func (h *handlers) next(kind itemKind) (list []handler, left bool) {
	h.mu.Lock()
	list = h.calls[kind]
	h.mu.Unlock()
	if !slices.ContainsFunc(list, handler.isOnce) {
		return list, true
	}
	return list, h.remove(kind, handler.isOnce)
}

func (f handler) isOnce() bool { return f.once }

// queue keeps an item for the handlers, if there are any of its kind. It
// returns true if the handlers have to be woken.
func (h *handlers) queue(i item) (wake bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case len(h.calls[i.kind]) == 0:
		return false
	case len(h.items)+len(h.pending) >= maxQueued:
		h.skipped++
		return false
	case i.kind == onEvent && h.messages:
		h.pending = append(h.pending, i)
		return false
	}
	h.items = append(h.items, i)
	return len(h.items) == 1
}

// observed adds the message to the event that waits for it. It returns true if
// the handlers have to be woken.
func (h *handlers) observed(v eventmeter.Observation) (wake bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := slices.IndexFunc(h.pending, func(i item) bool { return i.subscription == int(v.Sub.Index) && i.id == v.EventID })
	if n < 0 {
		return false
	}
	i := h.pending[n]
	i.text = string(v.Message)
	h.pending = append(h.pending[:n], h.pending[n+1:]...)
	h.items = append(h.items, i)
	return len(h.items) == 1
}

// take returns the queue and empties it.
func (h *handlers) take() []item {
	h.mu.Lock()
	defer h.mu.Unlock()
	items := h.items
	h.items = nil
	return items
}

// any reports whether there is a handler.
func (h *handlers) any() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(h.calls[:], func(list []handler) bool { return len(list) > 0 })
}

// unhandled returns how many items were dropped.
func (h *handlers) unhandled() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.skipped
}

// script returns an item for handlers: an object whose properties have a fixed
// order, so that it is printed the same way each time.
func (i *item) script(rt *sobek.Runtime, messages bool) *sobek.Object {
	out := rt.NewObject()
	set := func(name string, v any) { _ = out.Set(name, v) } // a new object accepts every property
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
