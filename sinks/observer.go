package sinks

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/figure"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// ObservedFigures are the figures of lanes in a run that publishes nothing.
var ObservedFigures = figure.Table{Name: "observer", Figures: []figure.Figure{
	{Name: "observedEvents", Help: "event messages, all copies"},
	{Name: "observedDuplicates", Help: "second and later copies under an event id that the same subscription had seen"},
	{Name: "observedWithoutId", Help: "events without an id"},
	{Name: "observedWithoutTime", Help: "events whose timestamp was missing or could not be read"},
	{Name: "observedAhead", Help: "events that came before their own time, by two clocks"},
	{Name: "observedLeast", Rule: figure.Min, Help: "events of the subscription that received least"},
	{Name: "observedMost", Rule: figure.Max, Help: "events of the subscription that received most"},
	{Name: "observedPerSecond", Unit: "1/s", Help: "observedEvents over the measured time"},
	figure.Duration("observedAge", "from an event's own timestamp until it was received, by two clocks"),
}}

// ObserverOptions describe an [Observer]. Clock and Lanes must be set.
type ObserverOptions struct {
	Clock *eventmeter.Clock
	// Lanes has the number of subscriptions of each lane.
	Lanes []int
	// Remember is how many event ids are kept for each subscription. A second copy
	// that arrives after that many other events is not recognised. 0 = 1024.
	Remember int
	// Wall returns the wall clock, which events' own timestamps are compared with;
	// nil = time.Now.
	Wall func() time.Time
}

// Observer is a Recorder for events that this process has not published. It
// identifies them by the target's own ids and timestamps, so it can detect copies and
// measure ages, but not find missing events. It is called beside a [Ledger], and
// counts from Start until Stop. It is safe for concurrent use.
//
// Unlike the Ledger's, its Delivered may allocate: a subscription's memory grows with
// the events that it receives, to 24 bytes per kept id.
type Observer struct {
	recorder                    // ignores all other calls
	wall     time.Time          // the wall clock …
	at       eventmeter.Instant // … at this instant
	from, to atomic.Int64
	lanes    []observerLane
}

// recorder is an alias, so that the embedded field is not exported.
type recorder = eventmeter.Recorder

type observerLane struct {
	subs []observerSub

	mu     sync.Mutex
	age    ledger.Values // guarded by mu, like what follows
	ahead  int64
	noTime int64
}

type observerSub struct {
	mu        sync.Mutex
	known     idTable
	events    int64 // all events, whatever their id
	copies    int64
	withoutID int64
}

// Observed is what one lane received between Start and Stop.
type Observed struct {
	// Events = first copies + Copies + WithoutID.
	Events int64
	// Copies counts second and later copies under an id that the same subscription
	// had received before, even before Start.
	Copies int64
	// WithoutID counts events without an id.
	WithoutID int64
	// Least and Most are the numbers of events, without copies, of the subscriptions
	// that received the fewest and the most.
	Least, Most int64
	// Age is the time of receipt by this machine's wall clock minus the event's own
	// timestamp, of every copy that has one. Ahead counts negative ages; they are in
	// Age's Below.
	Age   ledger.Timing
	Ahead int64
	// WithoutTime counts copies whose timestamp was missing or unreadable.
	WithoutTime int64
}

// NewObserver returns an Observer that does not count yet.
func NewObserver(o ObserverOptions) (*Observer, error) {
	if o.Clock == nil || len(o.Lanes) == 0 {
		return nil, fmt.Errorf("observer: Clock and Lanes must be set")
	}
	if o.Remember <= 0 {
		o.Remember = 1024
	}
	if o.Wall == nil {
		o.Wall = time.Now
	}
	l := &Observer{recorder: eventmeter.Tee(), wall: o.Wall(), at: o.Clock.Now(), lanes: make([]observerLane, len(o.Lanes))}
	for i, n := range o.Lanes {
		l.lanes[i].subs = make([]observerSub, n)
		for k := range l.lanes[i].subs {
			l.lanes[i].subs[k].known.most = o.Remember
		}
	}
	return l, nil
}

// Start sets the instant from which events are counted.
func (l *Observer) Start(from eventmeter.Instant) { l.from.Store(int64(from)) }

// Stop sets the instant at which counting ends; events received at it are not
// counted.
func (l *Observer) Stop(to eventmeter.Instant) { l.to.Store(int64(to)) }

func (l *Observer) counts(at eventmeter.Instant) bool {
	from, to := l.from.Load(), l.to.Load()
	return from != 0 && int64(at) >= from && (to == 0 || int64(at) < to)
}

// Delivered implements [eventmeter.Recorder].
func (l *Observer) Delivered(d eventmeter.Delivery) {
	if int(d.Sub.Lane) >= len(l.lanes) || int(d.Sub.Index) >= len(l.lanes[d.Sub.Lane].subs) {
		return
	}
	s := &l.lanes[d.Sub.Lane].subs[d.Sub.Index]
	s.mu.Lock()
	defer s.mu.Unlock()
	again := d.EventID != 0 && s.known.add(d.EventID)
	if !l.counts(d.At) {
		return
	}
	s.events++
	switch {
	case d.EventID == 0:
		s.withoutID++
	case again:
		s.copies++
	}
}

// Observed implements [eventmeter.Observer].
func (l *Observer) Observed(o eventmeter.Observation) {
	if int(o.Sub.Lane) >= len(l.lanes) || !l.counts(o.At) {
		return
	}
	var own time.Time
	var age time.Duration
	err := own.UnmarshalText(o.Timestamp)
	if err == nil {
		age = l.wall.Add(o.At.Sub(l.at)).Sub(own)
	}
	lane := &l.lanes[o.Sub.Lane]
	lane.mu.Lock()
	defer lane.mu.Unlock()
	if err != nil {
		lane.noTime++
		return
	}
	if age < 0 {
		lane.ahead++
	}
	lane.age.Add(age)
}

// Lane returns what a lane has received so far.
func (l *Observer) Lane(i int) Observed {
	lane := &l.lanes[i]
	var out Observed
	for k := range lane.subs {
		s := &lane.subs[k]
		s.mu.Lock()
		out.Events += s.events
		out.Copies += s.copies
		out.WithoutID += s.withoutID
		received := s.events - s.copies
		s.mu.Unlock()
		if k == 0 || received < out.Least {
			out.Least = received
		}
		out.Most = max(out.Most, received)
	}
	lane.mu.Lock()
	defer lane.mu.Unlock()
	out.Ahead, out.WithoutTime = lane.ahead, lane.noTime
	out.Age = lane.age.Timing()
	return out
}

// idTable is a set of the newest ids: a hash table with open addressing, and a ring
// with their order. The zero id is not stored.
type idTable struct {
	most  int
	ring  []uint64
	next  int // in the ring, once it is full
	table []uint64
}

// add stores id and reports whether it was stored before.
func (t *idTable) add(id uint64) bool {
	if len(t.table) > 0 && t.table[t.slot(id)] == id {
		return true
	}
	if len(t.ring) < t.most {
		t.ring = append(t.ring, id)
		if 2*len(t.ring) > len(t.table) {
			t.rebuild(max(16, 2*len(t.table)))
			return false
		}
	} else {
		t.remove(t.ring[t.next])
		t.ring[t.next] = id
		t.next = (t.next + 1) % len(t.ring)
	}
	t.table[t.slot(id)] = id
	return false
}

// slot returns the place of id, or the place where it would be stored.
func (t *idTable) slot(id uint64) int {
	mask := len(t.table) - 1
	i := int(id) & mask
	for t.table[i] != 0 && t.table[i] != id {
		i = (i + 1) & mask
	}
	return i
}

// remove takes id out and closes the gap behind it.
func (t *idTable) remove(id uint64) {
	mask := len(t.table) - 1
	gap := t.slot(id)
	t.table[gap] = 0
	for i := (gap + 1) & mask; t.table[i] != 0; i = (i + 1) & mask {
		home := int(t.table[i]) & mask
		if (i-home)&mask >= (i-gap)&mask { // it may stand in the gap
			t.table[gap], t.table[i] = t.table[i], 0
			gap = i
		}
	}
}

func (t *idTable) rebuild(size int) {
	t.table = make([]uint64, size)
	for _, id := range t.ring {
		t.table[t.slot(id)] = id
	}
}
