package refserver

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver/breach"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/eventmeter/eventmeter/internal/refserver/issuer"
)

// flushAfter is how long an event that is held back waits for later ones.
const flushAfter = 2 * time.Second

// refusalPause is the pause that a temporary refusal asks of the client.
const refusalPause = 20 * time.Millisecond

// faultInjector applies the faults of a server. A server without faults has
// none.
type faultInjector struct {
	spec   faults.Spec
	stages map[eventmeter.Mode]*stage
	agenda *agenda
	breach *breach.Set

	mu      sync.Mutex
	first   time.Time // of the first event; zero before it
	applied map[string]int64
	calls   map[string]uint32 // subscribe calls by system and mode, for refusals
}

// modes are the delivery modes, in the order in which events reach them.
var modes = []eventmeter.Mode{eventmeter.Poll, eventmeter.Push, eventmeter.Webhook}

func newFaultInjector(spec faults.Spec, a *agenda) *faultInjector {
	return &faultInjector{
		spec:    spec,
		agenda:  a,
		stages:  map[eventmeter.Mode]*stage{},
		applied: map[string]int64{},
		calls:   map[string]uint32{},
	}
}

// count counts a fault that was applied in a mode.
func (m *faultInjector) count(f faults.Fault, mode eventmeter.Mode) { m.countIn(string(mode), f) }

// countIn counts a fault that was applied in a system with faults of its own.
func (m *faultInjector) countIn(system string, f faults.Fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.applied[system+"."+string(f.Kind)]++
}

func (m *faultInjector) appliedFaults() map[string]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := maps.Clone(m.applied)
	for row, n := range m.breach.Broken() {
		all["break."+row] = n
	}
	return all
}

// hit returns the fault of an event, and counts it for a system or a mode.
func (m *faultInjector) hit(of string, mode eventmeter.Mode, stamp eventmeter.Stamp, probed bool) (f faults.Fault) {
	if m == nil || !probed {
		return f
	}
	f, hit := m.spec.Event(mode, stamp)
	if hit {
		m.countIn(of, f)
	}
	return f
}

// begin records the first event, from which faults count that strike once. They
// are scheduled then.
func (m *faultInjector) begin(now time.Time, strikes map[faults.Kind]func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.first.IsZero() {
		return
	}
	m.first = now
	m.breach.Begin(now)
	for kind, strike := range strikes {
		if f, ok := m.spec.Server(kind, ""); ok {
			m.agenda.at(now.Add(f.At), func() {
				strike()
				m.count(f, "")
			})
		}
	}
}

// newIssuer makes the issuer of tokens, with its faults; nil without
// [Options.TokenLife].
func (s *Server) newIssuer() *issuer.Issuer {
	refuse, _ := s.fault(faults.TokenRefuse, "")
	down, _ := s.fault(faults.TokenDown, "")
	slow, _ := s.fault(faults.TokenSlow, "")
	return issuer.New(issuer.Options{
		Life: s.opts.TokenLife, Secret: s.opts.TokenSecret,
		RefuseEvery: int(refuse.Every), DownEvery: int(down.Every), Delay: slow.Over,
	})
}

// stalledUntil is the end of the current stall; zero if there is none.
func (m *faultInjector) stalledUntil(now time.Time) time.Time {
	if m == nil {
		return time.Time{}
	}
	f, ok := m.spec.Server(faults.Stall, "")
	if !ok {
		return time.Time{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	from := m.first.Add(f.At)
	if m.first.IsZero() || now.Before(from) || !now.Before(from.Add(f.For)) {
		return time.Time{}
	}
	return from.Add(f.For)
}

// refuse counts a subscribe call and returns the error if a fault refuses it.
func (m *faultInjector) refuse(system string, mode eventmeter.Mode) *rpcError {
	if m == nil {
		return nil
	}
	f, ok := m.spec.Server(faults.Refuse, mode)
	if !ok {
		return nil
	}
	m.mu.Lock()
	key := system + " " + string(mode)
	m.calls[key]++
	hit := m.calls[key]%f.Every == 0
	m.mu.Unlock()
	if !hit {
		return nil
	}
	m.count(f, mode)
	rpcErr := &rpcError{Code: f.Code, Message: "refused by a fault"}
	if f.Passing() {
		rpcErr.Data = map[string]any{"limit": "subscriptions", "retryAfterMs": refusalPause.Milliseconds()}
	}
	return rpcErr
}

// admitAnonymous gives a call without a principal one, if a fault says so.
func (s *Server) admitAnonymous(c *call) {
	if c.principal != "" {
		return
	}
	if f, ok := s.fault(faults.Anonymous, eventmeter.Webhook); ok {
		s.faultInjector.count(f, eventmeter.Webhook)
	} else if !s.breach.Breaks("subscribe-auth-required") {
		return
	}
	c.principal = "anonymous"
}

// serverFault returns the fault of a kind that concerns the whole server.
func (m *faultInjector) serverFault(kind faults.Kind, mode eventmeter.Mode) (faults.Fault, bool) {
	if m == nil {
		return faults.Fault{}, false
	}
	return m.spec.Server(kind, mode)
}

// fault returns the fault of a kind that concerns the whole server.
func (s *Server) fault(kind faults.Kind, mode eventmeter.Mode) (faults.Fault, bool) {
	return s.faultInjector.serverFault(kind, mode)
}

// stage applies the event faults of one mode. Each mode has its own topics, so
// a fault affects every subscriber of the mode alike.
type stage struct {
	mode     eventmeter.Mode
	injector *faultInjector
	topics   map[string]*topic
	newID    func() string

	mu      sync.Mutex
	held    map[uint16][]*heldBack // by source
	last    map[uint16]time.Time   // when the newest event of a source is due
	waiting map[uint16]int         // how many events of a source are delayed
	allowed time.Time              // when a throttle lets the next event through
}

// heldBack is an event that waits until later ones of its source have passed
// it.
type heldBack struct {
	left int
	emit func()
	out  bool
}

// put takes an event that was just published.
func (g *stage) put(name, id, key string, data []byte) {
	now := time.Now()
	stamp, probed := eventmeter.FindStamp(data)
	f := g.injector.hit(string(g.mode), g.mode, stamp, probed)
	g.mu.Lock()
	defer g.mu.Unlock()
	due := g.due(now, f, stamp)
	// A delay reorders nothing within a source: events behind a delayed one
	// wait for it, even if it is overdue.
	if last := g.last[stamp.Source]; due.Before(last) {
		due = last.Add(time.Microsecond)
	}
	delayed := due.After(now) || g.waiting[stamp.Source] > 0
	if delayed {
		g.last[stamp.Source] = due
		g.waiting[stamp.Source]++
	}
	emit := func() { g.append(g.topics[name], f, id, key, data) }
	pass := func() {
		if f.Kind == faults.Reorder {
			h := &heldBack{left: f.By, emit: emit}
			g.held[stamp.Source] = append(g.held[stamp.Source], h)
			g.injector.agenda.at(time.Now().Add(flushAfter), func() { g.flush(h) })
			return
		}
		emit()
		g.passed(stamp.Source)
	}
	if !delayed {
		pass()
		return
	}
	g.injector.agenda.at(due, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.waiting[stamp.Source]--
		pass()
	})
}

// due is when an event may pass, as far as its own faults are concerned.
func (g *stage) due(now time.Time, f faults.Fault, stamp eventmeter.Stamp) time.Time {
	due := now
	if until := g.injector.stalledUntil(now); until.After(due) {
		due = until
	}
	if f.Kind == faults.Delay {
		due = due.Add(f.DelayOf(stamp))
	}
	if t, ok := g.injector.spec.Server(faults.Throttle, g.mode); ok {
		if g.allowed.After(due) {
			due = g.allowed
		}
		g.allowed = due.Add(pace(t))
	}
	return due
}

// throttled is how long a throttle needs to release all events that it holds
// now; 0 if it holds none.
func (m *faultInjector) throttled(mode eventmeter.Mode, now time.Time) time.Duration {
	t, ok := m.serverFault(faults.Throttle, mode)
	if !ok {
		return 0
	}
	g := m.stages[mode]
	g.mu.Lock()
	defer g.mu.Unlock()
	return max(0, g.allowed.Sub(now)-pace(t)) // the newest was admitted one interval before
}

// pace is the time between two events that a throttle lets through.
func pace(t faults.Fault) time.Duration {
	return time.Duration(float64(time.Second) / t.PerSecond)
}

// passed releases the events that waited for this event of the source. The
// caller holds g.mu.
func (g *stage) passed(source uint16) {
	list := g.held[source]
	for _, h := range list {
		if h.left--; h.left == 0 && !h.out {
			h.out = true
			h.emit()
		}
	}
	g.held[source] = slices.DeleteFunc(list, func(h *heldBack) bool { return h.out })
}

func (g *stage) flush(h *heldBack) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !h.out {
		h.out = true
		h.emit()
	}
}

// append puts an event into its topic, as its fault says.
func (g *stage) append(t *topic, f faults.Fault, id, key string, data []byte) {
	same := func() string { return id }
	if f.Kind == "" && g.injector.breach.Breaks("occurrence-event-id-from-upstream", g.mode) {
		f.Kind = faults.Reid
	}
	switch f.Kind {
	case faults.Drop:
	case faults.Announce:
		if f.Over > 0 {
			g.injector.agenda.at(time.Now().Add(f.Over), func() { t.publishGap(same, key) })
			break
		}
		t.publishGap(same, key)
	case faults.Duplicate:
		t.publish(same, key, data)
		t.publish(same, key, data)
	case faults.Reid:
		t.publish(same, key, data)
		t.publish(g.newID, key, data)
	case faults.Misdeliver:
		t.publish(same, key, data)
		if other, ok := t.otherKey(key); ok {
			t.publish(same, other, data)
		}
	case faults.UTF8:
		broken := append(slices.Clone(data[:len(data)-1]), ",\"broken\":\"\xff\xfe\"}"...)
		t.publish(same, key, broken)
	case faults.Swap, faults.Malformed, faults.Drip, faults.Oversize, faults.Cut, faults.Signature, faults.Repeat, faults.Trouble:
		t.publishFaulty(same, key, data, f)
	default:
		t.publish(same, key, data)
	}
}

// plan is the answer to GET /faults.
type plan struct {
	Spec   string        `json:"spec"`
	Faults []plannedHits `json:"faults"`
	// Executed counts the faults applied so far, by mode and kind.
	Executed map[string]int64 `json:"executed"`
}

// plannedHits are the sequence numbers that one fault hits in one mode and
// source.
type plannedHits struct {
	Fault  string          `json:"fault"`
	Mode   eventmeter.Mode `json:"mode"`
	Source uint16          `json:"source"`
	Seqs   []uint32        `json:"seqs"`
}

// plan lists the sequence numbers from 1 to upTo that faults hit in each
// source.
func (m *faultInjector) plan(sources int, upTo uint32) plan {
	p := plan{Faults: []plannedHits{}, Executed: map[string]int64{}}
	if m == nil {
		return p
	}
	p.Spec, p.Executed = m.spec.String(), m.appliedFaults()
	for _, mode := range modes {
		for source := range sources {
			hits := map[string][]uint32{}
			for seq := uint32(1); seq <= upTo; seq++ {
				if f, ok := m.spec.Event(mode, eventmeter.Stamp{Source: uint16(source), Seq: seq}); ok {
					hits[f.String()] = append(hits[f.String()], seq)
				}
			}
			for _, name := range slices.Sorted(maps.Keys(hits)) {
				p.Faults = append(p.Faults, plannedHits{Fault: name, Mode: mode, Source: uint16(source), Seqs: hits[name]})
			}
		}
	}
	return p
}
