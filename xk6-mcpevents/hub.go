package mcpevents

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpload/mcpload"
	"github.com/mcpload/mcpload/loadgen"
	"github.com/mcpload/mcpload/sinks"
)

const (
	// maxTopics is how many topics a process can tell apart.
	maxTopics = 64
	// bookSize is how many subscriptions a book has room for, at least.
	bookSize = 1024
	// topicShift puts a shot's topic above its number.
	topicShift = 48
)

// hub is what all VUs of the process share: one clock, one run, one numbering
// of emissions, and the books.
//
// A ledger has a fixed number of subscriptions and a script may open any
// number at any time, so there are several: a book for each kind of
// subscription, and another when it is full. Every book is told of every
// emission, also of those that were fired before it was begun.
type hub struct {
	clock   *mcpload.Clock
	run     uint32
	stamper *loadgen.Stamper
	life    lifetime
	lanes   atomic.Int64 // that shared a listener

	authority func() (*sinks.Authority, error) // of every listener; made when it is needed

	gauges sync.Map // tagged -> *atomic.Int64

	mu     sync.RWMutex // for writing when a book is begun
	books  []*book
	topics map[string]uint16
	fired  [maxTopics]atomic.Uint32
	shots  [maxTopics]underWay
}

// underWay is the shots of a topic that are not resolved.
type underWay struct {
	mu  sync.Mutex
	seq map[uint32]struct{}
}

func (u *underWay) begin(seq uint32) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.seq == nil {
		u.seq = make(map[uint32]struct{})
	}
	u.seq[seq] = struct{}{}
}

func (u *underWay) end(seq uint32) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.seq, seq)
}

// resolved returns a function that tells whether all shots that are under way
// now are resolved. What is fired later does not matter, so that it becomes
// true also while somebody fires all the time.
func (u *underWay) resolved() func() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	open := make([]uint32, 0, len(u.seq))
	for seq := range u.seq {
		open = append(open, seq)
	}
	return func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		for ; len(open) > 0; open = open[1:] {
			if _, still := u.seq[open[0]]; still {
				return false
			}
		}
		return true
	}
}

// kind is what the subscriptions of a book have in common.
type kind struct {
	system string
	mode   mcpload.Mode
	event  string
	lane   string
	topic  uint16
	replay bool
	settle time.Duration
}

// book is a ledger with one lane, whose subscriptions are lent to groups.
type book struct {
	kind
	ledger *sinks.Ledger
	owner  []atomic.Pointer[member] // by index, for the ledger's observer

	mu   sync.Mutex
	free []uint32
}

func newHub() *hub {
	h := &hub{clock: mcpload.NewClock(), run: rand.Uint32(), topics: map[string]uint16{}, authority: sync.OnceValues(sinks.NewAuthority)}
	h.life.init()
	h.stamper = loadgen.NewStamper(h.clock, h, h.run, maxTopics)
	h.stamper.Assign(func(n uint64) uint16 { return uint16(n >> topicShift) })
	return h
}

// tagged is what metrics are told apart by.
type tagged struct{ system, mode, event, lane string }

// openOf counts the open subscriptions with the tags of a kind.
func (h *hub) openOf(k kind) *atomic.Int64 {
	n, _ := h.gauges.LoadOrStore(tagged{k.system, string(k.mode), k.event, k.lane}, new(atomic.Int64))
	return n.(*atomic.Int64)
}

// topic returns the number of a topic, the same for everybody.
func (h *hub) topic(name string) (uint16, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n, ok := h.topics[name]
	if !ok {
		if len(h.topics) == maxTopics {
			return 0, fmt.Errorf("topic %q: a process has at most %d topics", name, maxTopics)
		}
		n = uint16(len(h.topics))
		h.topics[name] = n
	}
	return n, nil
}

// lend gives n subscriptions of a kind, all in one book.
func (h *hub) lend(k kind, n int) (*book, []uint32, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, b := range h.books {
		if b.kind != k {
			continue
		}
		if got := b.take(n); got != nil {
			return b, got, nil
		}
	}
	b, err := h.begin(k, max(n, bookSize))
	if err != nil {
		return nil, nil, err
	}
	return b, b.take(n), nil
}

// begin makes a book and tells it what was fired so far; the caller holds mu.
func (h *hub) begin(k kind, size int) (*book, error) {
	b := &book{kind: k, owner: make([]atomic.Pointer[member], size), free: make([]uint32, size)}
	for i := range b.free {
		b.free[i] = uint32(size - 1 - i)
	}
	hears := []uint16{k.topic}
	var err error
	b.ledger, err = sinks.NewLedger(sinks.LedgerOptions{
		Clock: h.clock, Run: h.run, Sources: maxTopics, DetachGrace: k.settle,
		Lanes: []sinks.LaneSpec{{
			Name: k.lane, System: k.system, Mode: k.mode, Subscriptions: size, Replay: k.replay,
			Hears: func(int) []uint16 { return hears }, Ordered: k.mode != mcpload.Webhook,
		}},
		Observe: b.observe,
	})
	if err != nil {
		return nil, err
	}
	if len(h.books) > 0 {
		if err := h.retell(b.ledger); err != nil {
			return nil, err
		}
	} else if h.anyFired() {
		return nil, errors.New("the first book came after the first shot")
	}
	h.books = append(h.books, b)
	return b, nil
}

func (h *hub) anyFired() bool {
	for i := range h.fired {
		if h.fired[i].Load() > 0 {
			return true
		}
	}
	return false
}

// retell tells a new ledger what the first one knows of every emission.
func (h *hub) retell(to *sinks.Ledger) error {
	from := h.books[0].ledger
	for source := range h.fired {
		for seq := uint32(1); seq <= h.fired[source].Load(); seq++ {
			s := mcpload.Stamp{Run: h.run, Source: uint16(source), Seq: seq}
			e, outcome, ok := from.Emission(s)
			if !ok {
				return fmt.Errorf("emission %s is not known", s)
			}
			to.Fired(e)
			if outcome != mcpload.Pending {
				// When one that was not accepted was answered is not kept, and
				// nothing depends on it.
				to.Resolved(s, outcome, max(from.AckedAt(s), e.Fired))
			}
		}
	}
	return nil
}

// ready sees to it that there is a book that keeps what is fired.
func (h *hub) ready() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.books) > 0 {
		return nil
	}
	_, err := h.begin(kind{}, 1)
	return err
}

// Fired implements mcpload.Recorder. The stamper calls it in order.
func (h *hub) Fired(e mcpload.Emission) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	h.shots[e.Source].begin(e.Seq)
	h.fired[e.Source].Store(e.Seq)
	for _, b := range h.books {
		b.ledger.Fired(e)
	}
}

// Resolved implements mcpload.Recorder.
func (h *hub) Resolved(s mcpload.Stamp, o mcpload.Outcome, at mcpload.Instant) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for _, b := range h.books {
		b.ledger.Resolved(s, o, at)
	}
	h.shots[s.Source].end(s.Seq)
}

// Dropped implements mcpload.Recorder.
func (h *hub) Dropped(d mcpload.Drop) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for _, b := range h.books {
		b.ledger.Dropped(d)
	}
}

// Delivered implements mcpload.Recorder; upstreams have none of the following.
func (h *hub) Delivered(mcpload.Delivery) {}

// Noticed implements mcpload.Recorder.
func (h *hub) Noticed(mcpload.Notice) {}

// Changed implements mcpload.Recorder.
func (h *hub) Changed(mcpload.Transition) {}

// Called implements mcpload.Recorder.
func (h *hub) Called(mcpload.Call) {}

// take lends n subscriptions, or none when there are not as many.
func (b *book) take(n int) []uint32 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.free) < n {
		return nil
	}
	rest := len(b.free) - n
	out := append([]uint32(nil), b.free[rest:]...)
	b.free = b.free[:rest]
	return out
}

// give takes subscriptions back, which must be over.
func (b *book) give(list []uint32) {
	b.forget(list)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free = append(b.free, list...)
}

// forget takes the owner off subscriptions that are never lent again.
func (b *book) forget(list []uint32) {
	for _, i := range list {
		b.owner[i].Store(nil)
	}
}

// observe passes a verdict on to whoever has the subscription.
func (b *book) observe(d mcpload.Delivery, v sinks.Verdict) {
	if m := b.owner[d.Sub.Index].Load(); m != nil {
		m.group.observe(m, d, v)
	}
}
