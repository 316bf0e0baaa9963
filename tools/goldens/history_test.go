package goldens

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/eventmeter/eventmeter"
)

// The phases of every made-up run, on its clock. An event is published every 50 ms.
const (
	attached     = 200 * time.Millisecond
	warmUpFrom   = 500 * time.Millisecond
	measureFrom  = time.Second
	measureUntil = 5 * time.Second
	drained      = 6 * time.Second
	detached     = 6100 * time.Millisecond

	period  = 50 * time.Millisecond
	sources = 2
	warmUps = int((measureFrom - warmUpFrom) / period)
	events  = int((measureUntil - warmUpFrom) / period)
)

// group is a lane: subscriptions of one system in one mode.
type group struct {
	name, system  string
	mode          eventmeter.Mode
	subscriptions int
	replay        bool
	owed          func(subscription int) []uint16
}

func (g *group) owes(subscription int, source uint16) bool {
	return g.owed == nil || slices.Contains(g.owed(subscription), source)
}

// emission is an event of the schedule, and what the upstream answered.
type emission struct {
	eventmeter.Emission
	outcome  eventmeter.Outcome
	resolved time.Duration
	dropped  bool
	never    bool // the run ended before it was due
}

// subscription says when one was open. A failed one has no Active.
type subscription struct {
	attaching, active, detaching, detached time.Duration
	failed                                 string // why it ended; "" = it was closed
}

// history is a made-up run. Its parts may be changed before it is played.
type history struct {
	run       uint32
	groups    []group
	emissions []emission
	subs      [][]subscription    // by lane
	came      [][][]time.Duration // by lane, subscription and number of the event; 0 = it did not come
	rng       *rand.Rand
	calls     []call
}

// call is one thing that a recorder is told.
type call struct {
	at   time.Duration
	tell func(eventmeter.Recorder)
}

// newHistory makes a run without an incident: each event comes once to each
// subscription that is owed it, after a latency that is typical of its mode.
func newHistory(run uint32, seed uint64, slower float64, groups []group) *history {
	h := &history{run: run, groups: groups, rng: rand.New(rand.NewPCG(seed, 1))}
	for n := range events {
		due := warmUpFrom + time.Duration(n)*period
		fired := due + time.Duration(20+h.rng.IntN(400))*time.Microsecond
		h.emissions = append(h.emissions, emission{
			Emission: eventmeter.Emission{
				Number: uint64(n), Intended: eventmeter.Instant(due), Fired: eventmeter.Instant(fired), Measured: n >= warmUps,
				Stamp: eventmeter.Stamp{Run: run, Source: uint16(n % sources)},
			},
			outcome:  eventmeter.Accepted,
			resolved: fired + time.Duration(800+h.rng.IntN(900))*time.Microsecond,
		})
	}
	for _, g := range groups {
		var subs []subscription
		var came [][]time.Duration
		for i := range g.subscriptions {
			at := time.Duration(10+20*i) * time.Millisecond
			subs = append(subs, subscription{
				attaching: at, active: at + time.Duration(2000+h.rng.IntN(3000))*time.Microsecond,
				detaching: drained + time.Duration(i)*time.Millisecond, detached: drained + time.Duration(10+i)*time.Millisecond,
			})
			came = append(came, h.arrivals(&g, i, slower))
		}
		h.subs, h.came = append(h.subs, subs), append(h.came, came)
	}
	return h
}

// arrivals draws when each event comes to one subscription, in order.
func (h *history) arrivals(g *group, sub int, slower float64) []time.Duration {
	out := make([]time.Duration, events)
	last := time.Duration(0)
	for n := range h.emissions {
		e := &h.emissions[n]
		if !g.owes(sub, e.Source) {
			continue
		}
		var took float64 // milliseconds
		switch g.mode {
		case eventmeter.Poll:
			took = 5 + 240*h.rng.Float64()
		case eventmeter.Webhook:
			took = 4 - 8*math.Log(1-h.rng.Float64())
		default:
			took = 1 - 3*math.Log(1-h.rng.Float64())
		}
		at := time.Duration(e.Fired) + time.Duration(took*slower*1000)*time.Microsecond
		last = max(at, last+10*time.Microsecond)
		out[n] = last
	}
	return out
}

// tell adds a call.
func (h *history) tell(at time.Duration, f func(eventmeter.Recorder)) {
	h.calls = append(h.calls, call{at, f})
}

// lose keeps events from a subscription.
func (h *history) lose(lane, sub int, numbers ...int) {
	for _, n := range numbers {
		h.came[lane][sub][n] = 0
	}
}

// delivery returns a copy of event n, as the lane's system delivers it.
func (h *history) delivery(lane, sub, n int, at time.Duration) eventmeter.Delivery {
	e := &h.emissions[n]
	d := eventmeter.Delivery{
		Sub: eventmeter.Sub{Lane: uint16(lane), Index: uint32(sub)}, Stamp: e.Stamp, Probed: true,
		EventID: eventmeter.HashID(fmt.Appendf(nil, "evt-%d", n)), At: eventmeter.Instant(at), Bytes: 371,
	}
	if h.groups[lane].mode == eventmeter.Push {
		d.Kernel, d.Waited, d.Shared = true, time.Duration(40+n%7)*time.Microsecond, n%9 == 0
	}
	return d
}

// again delivers another copy of event n.
func (h *history) again(lane, sub, n int, at time.Duration, change func(*eventmeter.Delivery)) {
	h.tell(at, func(r eventmeter.Recorder) {
		d := h.delivery(lane, sub, n, at)
		if change != nil {
			change(&d)
		}
		r.Delivered(d)
	})
}

// notice tells a notice of a subscription. stamped is the number of the event that it is
// about, -1 for none.
func (h *history) notice(lane, sub int, at time.Duration, n eventmeter.Notice, stamped int) {
	h.tell(at, func(r eventmeter.Recorder) {
		n.Sub, n.At = eventmeter.Sub{Lane: uint16(lane), Index: uint32(sub)}, eventmeter.Instant(at)
		if stamped >= 0 {
			n.Stamp = h.emissions[stamped].Stamp
		}
		r.Noticed(n)
	})
}

// called tells a call of a lane.
func (h *history) called(lane int, at time.Duration, c eventmeter.Call) {
	h.tell(at, func(r eventmeter.Recorder) {
		c.Lane, c.At = uint16(lane), eventmeter.Instant(at)
		r.Called(c)
	})
}

// number gives the published events the sequence numbers of their sources.
func (h *history) number() {
	var next [sources]uint32
	for n := range h.emissions {
		if e := &h.emissions[n]; !e.dropped {
			next[e.Source]++
			e.Seq = next[e.Source]
		}
	}
}

// stop ends the run early: nothing is published or received after at, and the
// subscriptions are closed.
func (h *history) stop(at time.Duration) {
	for n := range h.emissions {
		h.emissions[n].never = time.Duration(h.emissions[n].Intended) >= at
	}
	for lane := range h.subs {
		for i := range h.subs[lane] {
			s := &h.subs[lane][i]
			if s.attaching >= at {
				*s = subscription{}
			}
			s.detaching, s.detached = min(s.detaching, at+time.Millisecond), min(s.detached, at+2*time.Millisecond)
			for n, came := range h.came[lane][i] {
				if came > at {
					h.came[lane][i][n] = 0
				}
			}
		}
	}
	h.calls = slices.DeleteFunc(h.calls, func(c call) bool { return c.at > at })
}

// play tells everything to a recorder, in order of time, until the given moment. It
// waits for each moment of the clock, so call it where time is fake.
func (h *history) play(r eventmeter.Recorder, clock *eventmeter.Clock, until time.Duration) {
	h.number()
	all := slices.Clone(h.calls)
	add := func(at time.Duration, f func(eventmeter.Recorder)) { all = append(all, call{at, f}) }
	for lane := range h.groups {
		for i := range h.subs[lane] {
			h.states(lane, i, add)
		}
	}
	for n := range h.emissions {
		e := h.emissions[n]
		if e.never {
			break
		}
		if e.dropped {
			add(time.Duration(e.Intended), func(r eventmeter.Recorder) {
				r.Dropped(eventmeter.Drop{Emission: e.Number, Source: e.Source, Intended: e.Intended, Measured: e.Measured})
			})
			continue
		}
		add(time.Duration(e.Fired), func(r eventmeter.Recorder) { r.Fired(e.Emission) })
		if e.outcome != eventmeter.Pending {
			add(e.resolved, func(r eventmeter.Recorder) { r.Resolved(e.Stamp, e.outcome, eventmeter.Instant(e.resolved)) })
		}
		for lane := range h.groups {
			for i, came := range h.came[lane] {
				if at := came[n]; at > 0 {
					add(at, func(r eventmeter.Recorder) { r.Delivered(h.delivery(lane, i, n, at)) })
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b call) int { return cmp.Compare(a.at, b.at) })
	for _, c := range all {
		if c.at > until {
			break
		}
		time.Sleep(eventmeter.Instant(c.at).Sub(clock.Now()))
		c.tell(r)
	}
	time.Sleep(eventmeter.Instant(until).Sub(clock.Now()))
}

// states adds the states of a subscription. A poller says when it last asked.
func (h *history) states(lane, sub int, add func(time.Duration, func(eventmeter.Recorder))) {
	s := h.subs[lane][sub]
	to := func(at time.Duration, state eventmeter.State, reason string) {
		if at == 0 {
			return
		}
		t := eventmeter.Transition{
			Sub: eventmeter.Sub{Lane: uint16(lane), Index: uint32(sub)}, To: state, At: eventmeter.Instant(at), Reason: reason,
		}
		if state == eventmeter.Detaching && h.groups[lane].mode == eventmeter.Poll {
			t.Seen = eventmeter.Instant(at - 5*time.Millisecond)
		}
		add(at, func(r eventmeter.Recorder) { r.Changed(t) })
	}
	to(s.attaching, eventmeter.Attaching, "")
	to(s.active, eventmeter.Active, "")
	if s.failed != "" {
		to(s.detached, eventmeter.Failed, s.failed)
		return
	}
	to(s.detaching, eventmeter.Detaching, "")
	to(s.detached, eventmeter.Detached, "")
}
