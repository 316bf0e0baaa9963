package calibrate

import (
	"net/http"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// askedAgain counts the requests that are refused because there is no room: the
// client makes each of them again, and that is a request, too.
func (m *expectedCounts) askedAgain() (n int64) {
	f, ok := m.spec.Server(faults.Refuse, m.mode)
	if !ok || !f.Passing() || f.Every == 1 {
		return 0
	}
	request := uint32(0)
	for range m.settings.Subscriptions {
		for request++; request%f.Every == 0; request++ {
			n++
		}
	}
	return n
}

// subscription is the plan of one.
func (m *expectedCounts) subscription(i int) planned {
	var p planned
	if m.refused(i) || m.system.refuses != nil && m.system.refuses(m) {
		return p
	}
	if m.system.hearsNothing {
		return p
	}
	if m.system.source != nil {
		for _, s := range m.heard(i) {
			m.system.source(m, &p, int(s))
		}
		return p
	}
	if _, ok := m.spec.Server(faults.Early, m.mode); ok && m.system.early {
		p.early = 1
	}
	if m.hits(faults.Cut) > 0 && m.forgetful() {
		p.lossy = true
	}
	for _, kind := range []faults.Kind{faults.Forget, faults.Expire} {
		if _, ok := m.spec.Server(kind, m.mode); ok {
			p.lossy = true
		}
	}
	if _, ok := m.end(); ok {
		p.lossy, p.ended = true, true
	}
	for _, s := range m.heard(i) {
		m.source(&p, int(s), m.gaps[i])
		before := (int(s) + len(m.sources) - 1) % len(m.sources)
		for _, e := range m.sources[before] {
			if f, ok := m.spec.Event(m.mode, e.Stamp); ok && f.Kind == faults.Misdeliver && e.Measured && before != int(s) {
				p.unexpected++
			}
		}
	}
	return p
}

// source adds what one source's emissions come to for a subscription that read
// announcements at these instants.
func (m *expectedCounts) source(p *planned, source int, gaps []eventmeter.Instant) {
	_, noRetry := m.spec.Server(faults.NoRetry, m.mode)
	refused := m.refuses()
	if noRetry {
		refused = 0 // and none comes again
	}
	end, ends := m.end()
	missing := missingRun{gaps: gaps}
	for i, e := range m.sources[source] {
		f, _ := m.spec.Event(m.mode, e.Stamp)
		if lost, announced := m.loses(f); lost {
			missing.add(e, announced)
		} else if noRetry && f.Kind == faults.Signature && m.mode == eventmeter.Webhook {
			missing.refuse(e)
		} else {
			missing.close(p)
			if e.Measured {
				p.delivered++
			}
		}
		if !e.Measured || ends && e.Fired >= end {
			continue
		}
		p.expected++
		switch f.Kind {
		case faults.Duplicate, faults.Repeat:
			if m.positioned() {
				p.sameEmission++
			} else {
				p.sameEvent++
			}
		case faults.Reid:
			p.sameEmission++
		case faults.Reorder:
			if m.overtaken(source, i, f.By) {
				p.outOfOrder++
			}
		}
		p.requested += refused
	}
	missing.close(p)
}

// refuses says how many copies of each event the sink refuses that come again: the
// target must not send an event again after 410 and 413. A refused event has
// arrived all the same.
func (m *expectedCounts) refuses() int64 {
	for _, a := range m.settings.Webhook.Answer {
		if !a.Challenge && (a.Hang || a.Reset || a.Status >= 300) && a.Status != http.StatusGone && a.Status != http.StatusRequestEntityTooLarge {
			return int64(max(a.Times, 1))
		}
	}
	return 0
}

// loses says whether a fault keeps an event from a subscription for good.
func (m *expectedCounts) loses(f faults.Fault) (lost, announced bool) {
	switch f.Kind {
	case faults.Drop, faults.Oversize:
		return true, false
	case faults.Announce:
		return true, true
	case faults.Malformed:
		return m.mode != eventmeter.Webhook, false
	case faults.Cut:
		return !f.Replay, false
	}
	return false, false
}

// overtaken says whether one of the next by emissions of the source happened
// for sure after emission i, which is held back for them.
func (m *expectedCounts) overtaken(source, i, by int) bool {
	list := m.sources[source]
	for j := i + 1; j < len(list) && j <= i+by; j++ {
		if f, _ := m.spec.Event(m.mode, list[j].Stamp); f.Kind != faults.Reorder && list[i].acked < list[j].Fired {
			return true
		}
	}
	return false
}

// lane are the figures that a lane has and a subscription has not.
func (m *expectedCounts) lane(a *ledger.LaneAccount) []Check {
	subs := int64(m.settings.Subscriptions)
	var refused, early int64
	for i := range m.settings.Subscriptions {
		if m.refused(i) {
			refused++
		}
		early += m.subscription(i).early
	}
	out := []Check{
		exactly("rejected", m.hits(faults.Signature), a.Rejected),
		exactly("malformed", m.hits(faults.Malformed, faults.Oversize)+early, a.Malformed),
		exactly("ready.failed", refused, a.Ready.Failed),
		exactly("terminated", m.ended(), a.Terminated),
	}
	has := func(kind faults.Kind) (faults.Fault, bool) { return m.spec.Server(kind, m.mode) }
	if m.hits(faults.Trouble) > 0 {
		out = append(out, exactly("transientErrors", m.hits(faults.Trouble), a.TransientErrors))
	}
	out = append(out, m.orderConflicts(a)...)
	reconnects := exactly("reconnects", m.hits(faults.Cut), a.Reconnects)
	if n := m.merged(); n > 0 {
		reconnects = atLeast("reconnects", m.hits(faults.Cut)-n, a.Reconnects)
	}
	if _, ok := has(faults.Forget); ok && m.mode == eventmeter.Push {
		reconnects = atLeast("reconnects", subs, a.Reconnects)
	}
	if _, ok := has(faults.Heartbeats); ok {
		reconnects = atLeast("deadStreams", subs, a.DeadStreams)
	}
	out = append(append(out, reconnects), m.renewals()...)
	if _, ok := has(faults.Forget); ok && (m.mode == eventmeter.Webhook || m.positioned() && m.legacy) {
		out = append(out, atLeast("lostSilent", subs, a.LostSilent))
	}
	if _, ok := has(faults.Expire); ok {
		out = append(out, atLeast("lostSilent", subs, a.LostSilent))
	}
	if f, ok := has(faults.Refuse); ok && f.Passing() {
		out = append(out, exactly("asked again", m.askedAgain(), a.Traffic[eventmeter.Retry].Requests))
	}
	if _, ok := has(faults.TTL); ok {
		out = append(out, atLeast("refreshes", subs, a.Traffic[eventmeter.Refresh].Requests))
	}
	if m.forgetful() {
		out = append(out, atLeast("lostSilent", m.hits(faults.Cut)-m.warm(faults.Cut), a.LostSilent))
	}
	if m.system.own != nil {
		out = append(out, m.system.own(m)...)
	}
	if m.system.source != nil {
		return out
	}
	return append(out, m.latency(results.Summarise(a.Latency.FromIntended))...)
}

// merged counts cuts for good that follow another cut with nothing between
// them: the two are one when the stream is not back by then.
func (m *expectedCounts) merged() (n int64) {
	for i := range m.settings.Subscriptions {
		if m.refused(i) {
			continue
		}
		for _, s := range m.heard(i) {
			cut := false
			for _, e := range m.sources[s] {
				switch f, _ := m.spec.Event(m.mode, e.Stamp); {
				case f.Kind == faults.Drop:
				case f.Kind == faults.Cut:
					if cut && !f.Replay {
						n++
					}
					cut = true
				default:
					cut = false
				}
			}
		}
	}
	return n
}

// ending are the faults that end every subscription once, in so many words.
var ending = []faults.Kind{faults.Revoke, faults.Withdraw, faults.Change}

// end is when the target ends the subscriptions, at the earliest.
func (m *expectedCounts) end() (at eventmeter.Instant, ok bool) {
	for _, kind := range ending {
		f, hit := m.spec.Server(kind, m.mode)
		if !hit {
			continue
		}
		var first eventmeter.Instant
		for _, list := range m.sources {
			for _, e := range list {
				if first == 0 || e.Fired < first {
					first = e.Fired
				}
			}
		}
		return first + eventmeter.Instant(f.At), true
	}
	return 0, false
}

// ended is how many subscriptions the target ends.
func (m *expectedCounts) ended() int64 {
	if _, ok := m.end(); ok {
		return int64(m.settings.Subscriptions)
	}
	return 0
}

// orderConflicts are those of streams and pollers, to which one order is promised.
// Of each pair of events that half of the streams get the other way round, one
// half or the other counts one. Events of two sources with the same number may be
// such a pair, so that the number is a lower bound.
func (m *expectedCounts) orderConflicts(a *ledger.LaneAccount) []Check {
	if m.system.ordered == nil || !m.system.ordered(m) {
		return nil
	}
	numbers := map[uint32]bool{}
	for _, list := range m.sources {
		for _, e := range list {
			if f, _ := m.spec.Event(m.mode, e.Stamp); f.Kind == faults.Swap && e.Measured {
				numbers[e.Stamp.Seq] = true
			}
		}
	}
	if len(numbers) == 0 {
		return []Check{exactly("orderConflicts", 0, a.OrderConflicts)}
	}
	return []Check{atLeast("orderConflicts", int64(len(numbers)*(m.settings.Subscriptions/2)), a.OrderConflicts)}
}

// latency is what faults that hold events back must show at the least.
func (m *expectedCounts) latency(q results.Quantiles) []Check {
	var out []Check
	for _, f := range m.spec {
		if f.Mode != "" && f.Mode != m.mode {
			continue
		}
		switch f.Kind {
		case faults.Delay:
			least := max(f.Fixed, f.Least, f.Pareto).Milliseconds()
			if f.Every == 1 || f.Rate == 1 {
				out = append(out, atLeast("fromIntended.min, ms", least-1, millis(q.Min))) // HDR's lower bucket edge
			}
			if f.Fixed == 0 {
				out = append(out, atLeast("fromIntended.max, ms", m.longest(f)-1, millis(q.Max)))
			}
		case faults.Drip:
			if m.mode == eventmeter.Push {
				out = append(out, atLeast("fromIntended.max, ms", f.Over.Milliseconds()-1, millis(q.Max)))
			}
		case faults.Stall:
			// The first emission of the stall waits for nearly all of it.
			out = append(out, atLeast("fromIntended.max, ms", f.For.Milliseconds()*3/4, millis(q.Max)))
		}
	}
	return out
}

// longest is the longest delay that a fault gave to anything measured.
func (m *expectedCounts) longest(f faults.Fault) int64 {
	var d int64
	for _, list := range m.sources {
		for _, e := range list {
			// An earlier fault of the plan may hit the event instead.
			if hit, _ := m.spec.Event(m.mode, e.Stamp); e.Measured && hit == f {
				d = max(d, f.DelayOf(e.Stamp).Milliseconds())
			}
		}
	}
	return d
}

// renewals compares what this side did to have tokens with what the issuer did.
// How many there were depends on time; none may be missing, and no subscription
// may end for want of one. A fault of the issuer must have been met.
func (m *expectedCounts) renewals() []Check {
	t, own := m.tokens, m.applied.Tokens
	if t == nil {
		return nil
	}
	least := int64(0)
	if _, down := m.spec.Server(faults.TokenDown, m.mode); down {
		least = 1
	}
	same := func(name string, ours, theirs int64) Check {
		return exactly(name+" beyond the issuer's", 0, ours-theirs)
	}
	requests := same("token requests", t.Requests, own.Requests)
	requests.Notice = true
	out := []Check{
		requests, same("tokens issued", t.Issued, own.Issued), same("tokens renewed", t.Renewed, own.Renewed),
		same("token failures", t.Failed, own.Refused+own.Down),
		atLeast("tokens renewed", 1, t.Renewed), atLeast("token failures", least, t.Failed),
		exactly("tokens denied", 0, t.Denied), exactly("lost for want of a token", 0, t.Lost),
	}
	if least == 0 {
		out = append(out, exactly("token failures", 0, t.Failed))
	}
	return out
}
