package mcpevents

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/dialguard"
	"github.com/eventmeter/eventmeter/loadgen"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/sinks"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

const (
	// maxTopics is the most topics of a process.
	maxTopics = 1024
	// maxPlaces is the most subscriptions of all books together.
	maxPlaces = 1_000_000
	// bookSize is the least number of subscriptions of the first book of a
	// kind. Each further book has twice as many, up to maxBookSize.
	bookSize, maxBookSize = 64, 8192
	// topicShift puts an emission's topic above its number.
	topicShift = 48
)

// hub is what all VUs of the process share: one clock, one run, one numbering
// of emissions, and the books.
//
// A ledger has a fixed number of subscriptions and a script may open any
// number at any time, so there are several: a book for each kind of
// subscription, and another when it is full. A book records every emission
// of its topic, also those from before the book was made, and no emission of
// another topic.
type hub struct {
	eventmeter.Recorder // ignores all other calls: fire() returns the number of those dropped

	clock   *eventmeter.Clock
	run     uint32
	stamper *loadgen.Stamper
	life    lifetime
	lanes   atomic.Int64   // that shared a listener
	eras    mcpclient.Eras // of all targets: every Client has its own endpoint
	guard   *dialguard.Guard

	authority func() (*sinks.Authority, error) // of every listener; made when first used

	gauges sync.Map // tagged -> *gauge
	warned sync.Map // upstreams with a logged warning, by address

	mu        sync.RWMutex   // held for writing when a book is made
	all       *ledger.Ledger // of every topic's emissions, without subscriptions; nil until first used
	books     [maxTopics][]*book
	topics    map[string]uint16
	published [maxTopics]atomic.Uint32
	places    int // in all books
	emissions [maxTopics]inFlight
}

// inFlight is the emissions of a topic that are not resolved.
type inFlight struct {
	mu  sync.Mutex
	seq map[uint32]struct{}
}

func (u *inFlight) begin(seq uint32) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.seq == nil {
		u.seq = make(map[uint32]struct{})
	}
	u.seq[seq] = struct{}{}
}

func (u *inFlight) end(seq uint32) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.seq, seq)
}

// resolved returns a function that reports whether all emissions that are in
// flight now are resolved. Later emissions do not count, so that it becomes true
// also while events are published all the time.
func (u *inFlight) resolved() func() bool {
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
	mode   eventmeter.Mode
	event  string
	lane   string
	topic  uint16
	replay bool
	settle time.Duration
}

// owner is the borrower of a subscription of a book.
type owner interface {
	// judged gets the ledger's verdict on each delivery.
	judged(eventmeter.Delivery, ledger.Verdict)
}

// book is a ledger with one lane, whose subscriptions are lent to groups.
type book struct {
	kind
	ledger *ledger.Ledger
	owner  []atomic.Pointer[owner] // by index, for the ledger's observer

	mu   sync.Mutex
	free []uint32
}

func newHub() *hub {
	h := &hub{
		Recorder:  eventmeter.Tee(),
		clock:     eventmeter.NewClock(),
		guard:     dialguard.New(nil),
		run:       rand.Uint32(),
		topics:    map[string]uint16{},
		authority: sync.OnceValues(sinks.NewAuthority),
	}
	h.life.init()
	h.stamper = loadgen.NewStamper(h.clock, h, h.run, maxTopics)
	h.stamper.Assign(func(n uint64) uint16 { return uint16(n >> topicShift) })
	return h
}

// tagged is the tags that distinguish metrics.
type tagged struct{ system, mode, event, lane, more string }

// openOf counts the open subscriptions with the tags of a kind, and more.
func (h *hub) openOf(k kind, more ownTags) *gauge {
	n, _ := h.gauges.LoadOrStore(tagged{k.system, string(k.mode), k.event, k.lane, fmt.Sprint(more)}, new(gauge))
	return n.(*gauge)
}

// topic returns the number of a topic, which is the same for all VUs.
func (h *hub) topic(name string) (uint16, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n, ok := h.topics[name]
	if !ok {
		if len(h.topics) == maxTopics {
			return 0, fmt.Errorf("topic %q: %w", name, errTopics)
		}
		n = uint16(len(h.topics))
		h.topics[name] = n
	}
	return n, nil
}

// errTopics is the error of too many topics. It ends the run, because it would no
// longer be known which events are owed.
var errTopics error = &coded{codeLimit, fmt.Errorf("a process has at most %d topics: use fewer, or more processes", maxTopics)}

// lend lends n subscriptions of a kind, all in one book.
func (h *hub) lend(k kind, n int) (*book, []uint32, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	size := bookSize
	for _, b := range h.books[k.topic] {
		if b.kind != k {
			continue
		}
		if got := b.take(n); got != nil {
			return b, got, nil
		}
		size = min(2*size, maxBookSize)
	}
	size = max(n, min(size, maxPlaces-h.places))
	if h.places+size > maxPlaces {
		return nil, nil, &coded{
			codeLimit,
			fmt.Errorf(
				"a process has at most %d subscriptions, and there are places for %d already: open fewer, or use more processes",
				maxPlaces,
				h.places,
			),
		}
	}
	b, err := h.begin(k, size)
	if err != nil {
		return nil, nil, err
	}
	return b, b.take(n), nil
}

// begin makes a book and records the emissions so far in it; the caller holds mu.
func (h *hub) begin(k kind, size int) (*book, error) {
	if err := h.remember(); err != nil {
		return nil, err
	}
	b := &book{kind: k, owner: make([]atomic.Pointer[owner], size), free: make([]uint32, size)}
	for i := range b.free {
		b.free[i] = uint32(size - 1 - i)
	}
	of, _ := systems.Table.Find(k.system)
	var err error
	b.ledger, err = ledger.New(ledger.Options{
		Clock: h.clock, Run: h.run, Sources: 1, DetachGrace: k.settle,
		Lanes: []ledger.LaneSpec{{
			Name: k.lane, System: k.system, Mode: k.mode, Subscriptions: size, Replay: k.replay,
			Ordered: k.mode != eventmeter.Webhook && !of.UsesLists,
		}},
		Observe: b.observe,
	})
	if err != nil {
		return nil, err
	}
	if err := h.catchUp(b); err != nil {
		return nil, err
	}
	h.books[k.topic] = append(h.books[k.topic], b)
	h.places += size
	return b, nil
}

// catchUp records the earlier emissions of its topic in a new book.
func (h *hub) catchUp(b *book) error {
	for seq := uint32(1); seq <= h.published[b.topic].Load(); seq++ {
		s := eventmeter.Stamp{Run: h.run, Source: b.topic, Seq: seq}
		e, outcome, ok := h.all.Emission(s)
		if !ok {
			return fmt.Errorf("emission %s is not known", s)
		}
		acked := max(h.all.AckedAt(s), e.Fired)
		e.Stamp = b.local(s)
		b.ledger.Fired(e)
		if outcome != eventmeter.Pending {
			// The time of the answer to an emission that was not accepted is
			// not stored, and nothing depends on it.
			b.ledger.Resolved(e.Stamp, outcome, acked)
		}
	}
	return nil
}

// remember makes the ledger of all emissions; the caller holds mu.
func (h *hub) remember() (err error) {
	if h.all == nil {
		h.all, err = ledger.New(ledger.Options{Clock: h.clock, Run: h.run, Sources: maxTopics})
	}
	return err
}

// ready makes the ledger of all emissions.
func (h *hub) ready() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.remember()
}

// Fired implements eventmeter.Recorder. The stamper calls it in order.
func (h *hub) Fired(e eventmeter.Emission) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	h.emissions[e.Source].begin(e.Seq)
	h.published[e.Source].Store(e.Seq)
	h.all.Fired(e)
	for _, b := range h.books[e.Source] {
		own := e
		own.Stamp = b.local(e.Stamp)
		b.ledger.Fired(own)
	}
}

// Resolved implements eventmeter.Recorder.
func (h *hub) Resolved(s eventmeter.Stamp, o eventmeter.Outcome, at eventmeter.Instant) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	h.all.Resolved(s, o, at)
	for _, b := range h.books[s.Source] {
		b.ledger.Resolved(b.local(s), o, at)
	}
	h.emissions[s.Source].end(s.Seq)
}

// local returns a stamp for the book's ledger: the book's topic is source 0, its
// only one, and events of other topics are unexpected.
func (b *book) local(s eventmeter.Stamp) eventmeter.Stamp {
	if s.Source == b.topic {
		s.Source = 0
	} else {
		s.Source = 1
	}
	return s
}

// take lends n subscriptions, or none if fewer are free.
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

// give returns subscriptions to the book. They must have ended.
func (b *book) give(list []uint32) {
	b.forget(list)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free = append(b.free, list...)
}

// forget removes the owner of subscriptions that are never lent again.
func (b *book) forget(list []uint32) {
	for _, i := range list {
		b.owner[i].Store(nil)
	}
}

// observe passes a verdict on to the owner of the subscription.
func (b *book) observe(d eventmeter.Delivery, v ledger.Verdict) {
	if o := b.owner[d.Sub.Index].Load(); o != nil {
		(*o).judged(d, v)
	}
}
