package mcpclient

import (
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter/internal/wire"
)

// router passes each line that a server writes to the exchange that it belongs to: an
// answer by its JSON-RPC id, a notification by the subscription or request that it names.
// One goroutine calls route; the other methods are safe for concurrent use.
type router struct {
	// issued is the last id that was used. A line that names an id up to it which is
	// not open is late; a line that names another id is unknown.
	issued *atomic.Uint64
	// respond answers a request of the server. It must not block.
	respond func(m *wire.Message)
	counts  lineCounts

	mu        sync.Mutex
	open      map[uint64]*Exchange
	listeners []*Exchange // for notifications that name no subscription or request
	over      error       // why no more lines will come

	msg wire.Message // used by route only
}

// lineCounts count the lines of a server by what they were.
type lineCounts struct {
	lines, bytes                                             atomic.Int64
	late, unknown, unaddressed, requests, malformed, tooLong atomic.Int64
	routed                                                   atomic.Int64 // bytes
}

// Exchange is one request and every message that belongs to it.
type Exchange struct {
	Traffic *wire.Traffic // counts the bytes of its lines; nil = nothing does
	// Take is called with each line, on the goroutine that reads the pipe. It must not
	// block: every other exchange waits meanwhile. It may set Closed, and is not called
	// again then. l and m are valid until it returns.
	Take func(at time.Time, l wire.Line, m *wire.Message)
	// End is called once, on the same goroutine, when the server has ended and Closed
	// is not set.
	End func(cause error)

	mu     sync.Mutex // held while Take and End are called
	Closed bool
}

// Add opens an exchange for the request id. The error says that the server has ended.
func (r *router) Add(id uint64, x *Exchange) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over != nil {
		return r.over
	}
	if r.open == nil {
		r.open = map[uint64]*Exchange{}
	}
	r.open[id] = x
	return nil
}

// Remove closes an exchange. When it returns, Take is not running and will not be called
// again.
func (r *router) Remove(id uint64, x *Exchange) {
	r.mu.Lock()
	if r.open[id] == x {
		delete(r.open, id)
	}
	r.mu.Unlock()
	x.close()
}

func (x *Exchange) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.Closed = true
}

// listen opens an exchange without an id, for notifications that name no subscription
// and no request.
func (r *router) listen(x *Exchange) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over != nil {
		return r.over
	}
	r.listeners = append(r.listeners[:len(r.listeners):len(r.listeners)], x)
	return nil
}

// Unlisten closes an exchange without an id.
func (r *router) Unlisten(x *Exchange) {
	r.mu.Lock()
	r.listeners = slices.DeleteFunc(slices.Clone(r.listeners), func(h *Exchange) bool { return h == x })
	r.mu.Unlock()
	x.close()
}

// route handles one line, which was read at at. It may be an array of messages.
func (r *router) route(l wire.Line, at time.Time) {
	r.counts.lines.Add(1)
	r.counts.bytes.Add(int64(l.Size))
	if l.TooLong {
		r.counts.tooLong.Add(1)
		return
	}
	if !wire.EachMessage(l.Data, l.Size, func(text []byte, size int) bool {
		l.Data, l.Size = text, size
		r.message(l, at)
		return true
	}) {
		r.counts.malformed.Add(1)
	}
}

func (r *router) message(l wire.Line, at time.Time) {
	m := &r.msg
	if !wire.ScanMessage(l.Data, m) {
		r.counts.malformed.Add(1)
		return
	}
	name := m.ID
	if m.Method != nil {
		if IsRequest(m) {
			r.counts.requests.Add(1)
			r.respond(m)
			return
		}
		if name = m.SubscriptionID; name == nil {
			name = m.RequestID
		}
		if name == nil {
			r.announce(l, at, m)
			return
		}
	}
	id, ok := numberOf(name)
	if !ok {
		r.counts.unknown.Add(1)
		return
	}
	r.mu.Lock()
	x := r.open[id]
	r.mu.Unlock()
	switch {
	case x != nil && r.give(x, l, at, m, true):
	case id > 0 && id <= r.issued.Load():
		r.counts.late.Add(1)
	default:
		r.counts.unknown.Add(1)
	}
}

// give passes a line to an exchange, and charges the exchange for it if charge is true.
// It returns false if the exchange is closed.
func (r *router) give(x *Exchange, l wire.Line, at time.Time, m *wire.Message, charge bool) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.Closed {
		return false
	}
	if charge {
		r.counts.routed.Add(int64(l.Size))
		if x.Traffic != nil {
			x.Traffic.CountDown(l.Size)
		}
	}
	x.Take(at, l, m)
	return true
}

// announce passes a notification that names no subscription and no request to all
// listeners. The first one is charged for it.
func (r *router) announce(l wire.Line, at time.Time, m *wire.Message) {
	r.mu.Lock()
	listeners := r.listeners
	r.mu.Unlock()
	charge := true
	for _, x := range listeners {
		if r.give(x, l, at, m, charge) {
			charge = false
		}
	}
	if charge {
		r.counts.unaddressed.Add(1)
	}
}

// finish ends every exchange, after the last line.
func (r *router) finish(cause error) {
	r.mu.Lock()
	r.over = cause
	all := r.listeners
	for _, x := range r.open {
		all = append(all[:len(all):len(all)], x)
	}
	r.open, r.listeners = nil, nil
	r.mu.Unlock()
	for _, x := range all {
		x.mu.Lock()
		if !x.Closed {
			x.Closed = true
			x.End(cause)
		}
		x.mu.Unlock()
	}
}

// numberOf parses an id of this client: a number, or a string of the number, which some
// servers send back instead.
func numberOf(token []byte) (uint64, bool) {
	token = BareID(token)
	if len(token) == 0 || len(token) > 19 || token[0] == '0' {
		return 0, false
	}
	v, err := strconv.ParseUint(string(token), 10, 64)
	return v, err == nil
}
