package goldens

import (
	"strings"
	"time"

	"github.com/eventmeter/eventmeter"
)

const (
	runID      = 0x60 // of every run; shards and second sides have the next ones
	strangerID = 0x99 // of a run that is none of ours
)

// madeUp is a case: a made-up run with its profile, and what cannot be made up by a
// ledger.
type madeUp struct {
	name    string
	profile string
	history *history
	// figures says whether the figures of systems and upstreams have values, broken
	// whether rows of conformance are broken, and bottleneck whether the generator was.
	figures, broken, bottleneck bool
	ended                       string // why the run ended early; "" = it did not
	shard                       int    // its number among two, from 1; 0 = the run is whole
}

// head of every profile. The reports show it, and thresholds come from it.
const head = `target: {url: "http://127.0.0.1:8080/mcp", commit: 0123abcd}
upstream:
  kind: inject
  admin: http://127.0.0.1:8081
  sources: 2
  payload: {text: "{{.Probe}}"}
schedule: {kind: constant, rate: 20/s}
phases: {warmup: 500ms, measure: 4s, drain: 1s, late: 300ms}
`

const modesProfile = `name: modes
description: the three modes side by side
lanes:
  - {name: push, mode: push, subscriptions: 3, event: tick}
  - {name: poll, mode: poll, subscriptions: 3, event: tick}
  - {name: webhook, mode: webhook, subscriptions: 4, event: tick, sources: "{{mod .Index 2}}"}
thresholds:
  - "*.lostSilent == 0"
  - push.p99 < 50ms
  - poll.p50 < 1ms
  - run.conformance.must == 0
` + head

func modes() []group {
	return []group{
		{name: "push", system: "events", mode: eventmeter.Push, subscriptions: 3},
		{name: "poll", system: "events", mode: eventmeter.Poll, subscriptions: 3},
		{
			name: "webhook", system: "events", mode: eventmeter.Webhook, subscriptions: 4,
			owed: func(i int) []uint16 { return []uint16{uint16(i % sources)} },
		},
	}
}

// clean is a run without an incident.
func clean() *madeUp {
	h := newHistory(runID, 1, 1, modes())
	h.traffic()
	return &madeUp{name: "clean", profile: modesProfile, history: h}
}

const faultyProfile = `name: faulty
description: everything that can go wrong
lanes:
  - {name: push, mode: push, subscriptions: 6, event: tick}
  - {name: poll, mode: poll, subscriptions: 4, event: tick}
  - {name: webhook, mode: webhook, subscriptions: 4, event: tick, sources: "{{mod .Index 2}}"}
thresholds:
  - "*.lostSilent == 0"
  - "*.duplicates.rate < 0.1%"
  - push.p99 < 50ms
  - webhook.p99 < 10s
  - run.upstream.dropped == 0
  - run.conformance.must == 0
` + head

// faulty is a run in which every count is above 0.
func faulty() *madeUp {
	groups := modes()
	groups[0].subscriptions, groups[1].subscriptions = 6, 4
	groups[2].replay = true
	h := newHistory(runID, 2, 1, groups)
	h.publishBadly()
	h.misdeliver()
	h.loseForReasons()
	h.openAndEnd()
	h.traffic()
	h.trouble()
	return &madeUp{name: "faulty", profile: faultyProfile, history: h, figures: true, broken: true, bottleneck: true}
}

// publishBadly lets the upstream refuse, fail and not answer, and drops events.
func (h *history) publishBadly() {
	for n, o := range map[int]eventmeter.Outcome{
		35: eventmeter.Uncertain, 36: eventmeter.Refused, 37: eventmeter.Refused, 38: eventmeter.Pending, 3: eventmeter.Refused,
	} {
		h.emissions[n].outcome = o
	}
	for _, n := range []int{4, 45, 46} {
		h.emissions[n].dropped = true
		for lane := range h.came {
			for i := range h.came[lane] {
				h.lose(lane, i, n)
			}
		}
	}
	for lane := range h.came { // one that was refused comes all the same: it is recovered
		for i := range h.came[lane] {
			h.lose(lane, i, 3, 35, 38)
			if i > 0 {
				h.lose(lane, i, 36, 37)
			}
		}
	}
}

// misdeliver repeats, holds back, and delivers what nobody asked for.
func (h *history) misdeliver() {
	h.again(0, 0, 22, h.came[0][0][22]+time.Millisecond, nil)
	h.again(0, 0, 24, h.came[0][0][24]+time.Millisecond, func(d *eventmeter.Delivery) { d.EventID++ })
	// So many copies under other ids that those of the first are forgotten.
	for k := range 70 {
		at := h.came[1][0][26] + time.Duration(k+1)*time.Microsecond
		h.again(1, 0, 26, at, func(d *eventmeter.Delivery) { d.EventID += uint64(k) + 1 })
	}
	h.again(1, 0, 24, h.came[1][0][28]+time.Millisecond, func(d *eventmeter.Delivery) { d.EventID += 500 })
	// The webhook refuses a copy, and so requests another one.
	h.again(2, 0, 28, h.came[2][0][28]+20*time.Millisecond, nil)
	h.again(2, 0, 28, h.came[2][0][28]-time.Millisecond, func(d *eventmeter.Delivery) { d.Refused = true })

	h.came[0][1][50] += 150 * time.Millisecond // after the next ones: out of order, and in conflict with other streams
	h.came[0][2][60] += 400 * time.Millisecond // late, too

	unasked := func(at time.Duration, change func(*eventmeter.Delivery)) { h.again(0, 1, 55, at, change) }
	unasked(3*time.Second, func(d *eventmeter.Delivery) { d.Stamp.Run = strangerID })
	unasked(3*time.Second+1, func(d *eventmeter.Delivery) { d.Stamp.Seq = 9999 })
	unasked(3*time.Second+2, func(d *eventmeter.Delivery) { d.Stamp, d.Probed = eventmeter.Stamp{}, false })
	h.again(2, 0, 57, h.came[2][1][57]+time.Millisecond, nil) // of the other source
}

// loseForReasons loses events in each way that the ledger tells apart.
func (h *history) loseForReasons() {
	h.lose(0, 0, 20, 64, 66, 68) // in silence
	h.notice(0, 0, h.came[0][0][72], eventmeter.Notice{Kind: eventmeter.Claimed}, 70)

	h.lose(0, 1, 30, 32) // announced
	h.notice(0, 1, h.came[0][1][34]-time.Microsecond, eventmeter.Notice{Kind: eventmeter.Truncated, Detail: "2 skipped"}, -1)
	h.notice(1, 1, h.came[1][1][30]+1, eventmeter.Notice{Kind: eventmeter.Truncated, Detail: "a false alarm"}, -1)

	h.lose(0, 2, 41) // announced, perhaps: the next event was published before this one was answered
	h.emissions[41].resolved = time.Duration(h.emissions[43].Fired) + 5*time.Millisecond
	h.came[0][2][43] = h.emissions[41].resolved + time.Millisecond
	h.notice(0, 2, h.came[0][2][43]-time.Microsecond, eventmeter.Notice{Kind: eventmeter.Truncated, Detail: "1 skipped"}, -1)

	h.lose(0, 3, 84, 86, 88) // perhaps announced by an update that names no event
	at := time.Duration(h.emissions[88].Fired) + 10*time.Millisecond
	h.again(0, 3, 88, at, func(d *eventmeter.Delivery) { d.Stamp, d.Probed, d.Update = eventmeter.Stamp{}, false, true })

	h.lose(2, 0, 42) // every copy was refused
	h.notice(2, 0, time.Duration(h.emissions[42].Fired)+6*time.Millisecond,
		eventmeter.Notice{Kind: eventmeter.Rejected, Detail: "wrong signature", Refused: true}, 42)

	h.lose(2, 1, 49, 51) // the target suspended delivery
	h.notice(2, 1, h.came[2][1][53]-time.Microsecond, eventmeter.Notice{
		Kind: eventmeter.Suspended, Since: h.emissions[47].Fired + 1, Detail: "tls_error",
	}, -1)

	h.lose(2, 2, 82, 84, 86, 88) // the target could not connect
	for k := range 2 {
		h.notice(2, 2, 5200*time.Millisecond+time.Duration(k), eventmeter.Notice{
			Kind: eventmeter.Undeliverable, Detail: "bad certificate",
		}, -1)
	}
}

// openAndEnd opens subscriptions late, not at all, and ends them early.
func (h *history) openAndEnd() {
	for lane, sub := range []int{4, 2, 3} { // of each lane one is opened while events are published
		s := &h.subs[lane][sub]
		n := 42
		if lane == 2 {
			n = 55
		}
		s.attaching = time.Duration(h.emissions[n].Fired) - time.Millisecond
		s.active = time.Duration(h.emissions[n].Fired) + 300*time.Microsecond
		for k := range n {
			h.lose(lane, sub, k)
		}
		h.came[lane][sub][n] = time.Duration(h.emissions[n].Fired) + 2*time.Millisecond // in flight
		h.again(lane, sub, n-2, h.came[lane][sub][n]+time.Millisecond, nil)             // stale, or replayed
	}
	h.subs[0][5] = subscription{attaching: 110 * time.Millisecond, detached: 115 * time.Millisecond, failed: "http 503"}
	h.came[0][5] = make([]time.Duration, events)

	h.subs[1][0].detaching, h.subs[1][0].detached = 4*time.Second, 4010*time.Millisecond // its last events are excused
	h.subs[1][3].failed, h.subs[1][3].detached = "rpc -32013", 3*time.Second             // after it was active
	h.again(1, 3, 57, 3500*time.Millisecond, nil)                                        // after its end
	for n := range h.emissions {
		if h.came[1][0][n] > 3990*time.Millisecond {
			h.lose(1, 0, n)
		}
		if h.came[1][3][n] > 2990*time.Millisecond {
			h.lose(1, 3, n)
		}
	}
	// The first is opened again with its cursor, and gets nothing of what it missed.
	for k, state := range []eventmeter.State{eventmeter.Attaching, eventmeter.Active, eventmeter.Detaching, eventmeter.Detached} {
		at := []time.Duration{4200, 4201, 4470, 4471}[k] * time.Millisecond
		h.tell(at, func(r eventmeter.Recorder) {
			r.Changed(eventmeter.Transition{Sub: eventmeter.Sub{Lane: 1}, To: state, At: eventmeter.Instant(at)})
		})
	}
	h.notice(1, 0, 4202*time.Millisecond, eventmeter.Notice{Kind: eventmeter.Resumed}, -1)
	h.again(1, 0, 77, time.Duration(h.emissions[77].Fired)+5*time.Millisecond, nil)
}

// trouble tells every notice, and calls that fail.
func (h *history) trouble() {
	for kind := eventmeter.Reconnected; int(kind) < eventmeter.NoticeKinds; kind++ {
		if kind == eventmeter.Claimed || kind == eventmeter.Undeliverable || kind == eventmeter.Suspended {
			continue
		}
		for lane := range h.groups {
			for k := range int(kind) - lane {
				at := 4*time.Second + time.Duration(kind)*time.Millisecond + time.Duration(k)
				h.notice(lane, 0, at, eventmeter.Notice{Kind: kind, Detail: []string{"not JSON", "two ids"}[k%2]}, -1)
			}
		}
	}
	for lane, method := range []string{"events/stream", "events/poll", "events/subscribe"} {
		for k, failure := range []string{"rpc -32013", "http 429", "timeout", "connection refused", "http 429"} {
			h.called(lane, 2*time.Second+time.Duration(k), eventmeter.Call{
				Cause: eventmeter.Retry, Requests: 1, Up: 240, Down: 120, Connections: k % 2, Took: 3 * time.Millisecond, Method: method,
				Failure: failure,
			})
		}
	}
	h.called(2, 2*time.Second, eventmeter.Call{Cause: eventmeter.Control, Requests: 1, Up: 90, Down: 300, Method: "gap"})
	h.called(2, 2*time.Second, eventmeter.Call{Cause: eventmeter.Events, Requests: 1, Up: 60, Down: 371, Answered: 401})
	h.called(2, 2*time.Second, eventmeter.Call{Cause: eventmeter.Events, Requests: 1, Up: 60, Down: 371, Answered: 503})
	h.called(1, 2*time.Second, eventmeter.Call{Cause: eventmeter.Token, Requests: 2, Up: 700, Down: 900, Connections: 1})
}

// traffic tells the calls of every subscription by its mode, the same in every run.
func (h *history) traffic() {
	for lane, g := range h.groups {
		h.called(lane, 5*time.Millisecond, eventmeter.Call{
			Cause: eventmeter.Discovery, Requests: 1, Up: 310, Down: 900, Connections: 1, Took: 2 * time.Millisecond, Method: "events/list",
		})
		for i, s := range h.subs[lane] {
			subscribe := eventmeter.Call{
				Cause: eventmeter.Subscribe, Requests: 1, Up: 420, Down: 260, Connections: 1, Took: 2 * time.Millisecond,
			}
			h.called(lane, s.attaching, subscribe)
			for at := 1200 * time.Millisecond; at < measureUntil; at += time.Second {
				h.called(lane, at+time.Duration(i), running(g.mode))
			}
			switch g.mode {
			case eventmeter.Webhook:
				h.called(lane, s.attaching, eventmeter.Call{Cause: eventmeter.Verification, Requests: 1, Up: 80, Down: 330, Connections: 1})
				h.called(lane, s.detached, eventmeter.Call{Cause: eventmeter.Unsubscribe, Requests: 1, Up: 350, Down: 120})
			case eventmeter.Poll:
				h.called(lane, measureFrom+time.Duration(i), eventmeter.Call{Cause: eventmeter.Events, Requests: 16, Up: 6400, Down: 33000})
			}
		}
	}
}

// running is what a subscription costs each second without an event.
func running(mode eventmeter.Mode) eventmeter.Call {
	switch mode {
	case eventmeter.Poll:
		return eventmeter.Call{Cause: eventmeter.EmptyPoll, Requests: 1, Up: 400, Down: 180, Took: time.Millisecond, Method: "events/poll"}
	case eventmeter.Webhook:
		return eventmeter.Call{Cause: eventmeter.Refresh, Requests: 1, Up: 450, Down: 250, Took: time.Millisecond, Method: "events/subscribe"}
	}
	return eventmeter.Call{Cause: eventmeter.Heartbeat, Down: 90}
}

// partial is the faulty run, interrupted in the middle of the measured phase.
func partial() *madeUp {
	c := faulty()
	c.name, c.ended, c.bottleneck = "partial", "interrupted", false
	c.history.stop(3100 * time.Millisecond)
	return c
}

// shards are the two parts of a run.
func shards() [2]*madeUp {
	var out [2]*madeUp
	for i := range out {
		h := newHistory(uint32(runID+i), uint64(10+i), 1, modes())
		h.lose(0, i, 20+i, 22+i)
		h.again(1, 0, 30, h.came[1][0][30]+time.Millisecond, nil)
		for k := range 12 { // copies of what the other shard publishes
			other := eventmeter.Stamp{Run: uint32(runID + 1 - i), Source: uint16(k % sources), Seq: uint32(k + 1)}
			h.again(0, 2, 40+k, 3*time.Second+time.Duration(k), func(d *eventmeter.Delivery) { d.Stamp = other })
		}
		h.traffic()
		out[i] = &madeUp{name: "shard", profile: modesProfile, history: h, figures: true, broken: i == 1, shard: i + 1}
	}
	return out
}

// pair are two runs of the same events, of which the second one is slower by half and
// loses some.
func pair(seed uint64) [2]*madeUp {
	var out [2]*madeUp
	for i, slower := range []float64{1, 1.5} {
		h := newHistory(runID+uint32(seed)+uint32(i), seed+uint64(i), slower, modes())
		if i == 1 {
			h.lose(0, 1, 50, 52, 54)
		}
		h.traffic()
		out[i] = &madeUp{name: "pair", profile: modesProfile, history: h}
	}
	return out
}

const oneProfile = `name: one
lanes:
  - {name: webhook, mode: webhook, subscriptions: 2, event: tick}
` + head

// one is a run of a single lane without a threshold.
func one() *madeUp {
	h := newHistory(runID, 5, 1, []group{{name: "webhook", system: "events", mode: eventmeter.Webhook, subscriptions: 2}})
	h.traffic()
	return &madeUp{name: "one", profile: oneProfile, history: h}
}

var systemsProfile = `name: systems
description: a lane of each system besides MCP Events
lanes:
  - {name: triggers, system: smithery, mode: webhook, subscriptions: 2, event: list.changed}
  - {name: resources, system: sep-1803, mode: push, subscriptions: 2, event: list.changed}
  - {name: requests, system: sep-975, mode: push, subscriptions: 2}
  - {name: lists, system: sep-2549, mode: poll, subscriptions: 2}
  - {name: updates, system: updates, mode: push, subscriptions: 2}
  - {name: bystanders, system: requests, mode: poll, subscriptions: 2}
thresholds:
  - lists.figures.pageReads > 0
` + strings.NewReplacer("kind: inject", "kind: inject\n  event: list.changed", "drain: 1s", "drain: 10s").Replace(head)

// systemsRun has a lane of every system but MCP Events, with its own figures.
func systemsRun() *madeUp {
	none := func(int) []uint16 { return []uint16{} }
	h := newHistory(runID, 6, 1, []group{
		{name: "triggers", system: "smithery", mode: eventmeter.Webhook, subscriptions: 2},
		{name: "resources", system: "sep-1803", mode: eventmeter.Push, subscriptions: 2},
		{name: "requests", system: "sep-975", mode: eventmeter.Push, subscriptions: 2, owed: none},
		{name: "lists", system: "sep-2549", mode: eventmeter.Poll, subscriptions: 2},
		{name: "updates", system: "updates", mode: eventmeter.Push, subscriptions: 2},
		{name: "bystanders", system: "requests", mode: eventmeter.Poll, subscriptions: 2, owed: none},
	})
	h.traffic()
	return &madeUp{name: "systems", profile: systemsProfile, history: h, figures: true}
}
