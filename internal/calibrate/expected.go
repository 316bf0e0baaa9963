package calibrate

import (
	"net/http"
	"slices"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/eventmeter/eventmeter/internal/settings"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// askedAgain counts the requests that are refused because there is no room. The
// client repeats each of them, which is one more request.
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

// subscription returns the plan of subscription i.
func (m *expectedCounts) subscription(i int) planned {
	var p planned
	if m.refused(i) || m.system.refuses != nil && m.system.refuses(m) {
		return p
	}
	if m.system.noSources {
		return p
	}
	if m.system.source != nil {
		for _, s := range m.owed(i) {
			m.system.source(m, &p, int(s))
		}
		return p
	}
	if m.early() && m.settings.Webhook.Pending != settings.Refuse {
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
	if m.overflows() {
		p.lossy = true
	}
	if m.ends() {
		p.lossy, p.ended = true, true
	}
	for _, s := range m.owed(i) {
		m.source(&p, int(s), i)
		before := (int(s) + len(m.sources) - 1) % len(m.sources)
		for _, e := range m.sources[before] {
			if f, ok := m.spec.Event(m.mode, e.Stamp); ok && f.Kind == faults.Misdeliver && e.Measured && before != int(s) {
				p.unexpected++
			}
		}
	}
	return p
}

// source adds the expected counts for one source's emissions at a subscription.
func (m *expectedCounts) source(p *planned, source, sub int) {
	_, noRetry := m.spec.Server(faults.NoRetry, m.mode)
	refused := m.refuses()
	if noRetry {
		refused = 0 // the target sends none of them again
	}
	missing := missingRun{gaps: m.gaps[sub], webhook: m.mode == eventmeter.Webhook}
	for i, e := range m.sources[source] {
		f, _ := m.spec.Event(m.mode, e.Stamp)
		if lost, announced := m.loses(f); lost || i > 0 && m.gone() {
			missing.add(e, announced)
		} else if m.unfit() || noRetry && f.Kind == faults.Signature && m.mode == eventmeter.Webhook {
			missing.refuse(e)
		} else {
			missing.close(p)
			if e.Measured {
				p.delivered++
			}
		}
		if !e.Measured || m.ends() && !m.before(e, sub) {
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

// refuses returns how many copies of each event the sink refuses and the target sends
// again. After 410 and 413 the target must not send an event again. A refused event
// has arrived all the same.
func (m *expectedCounts) refuses() int64 {
	for _, a := range m.settings.Webhook.Answer {
		if !a.Challenge && (a.Hang || a.Reset || a.Status >= 300) && a.Status != http.StatusGone &&
			a.Status != http.StatusRequestEntityTooLarge {
			return int64(max(a.Times, 1))
		}
	}
	return 0
}

// loses reports whether a fault keeps an event from a subscription for good, and
// whether that loss is announced.
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

// overtaken reports whether one of the next by emissions of the source certainly
// happened after emission i, which is held back for them.
func (m *expectedCounts) overtaken(source, i, by int) bool {
	list := m.sources[source]
	for j := i + 1; j < len(list) && j <= i+by; j++ {
		if f, _ := m.spec.Event(m.mode, list[j].Stamp); f.Kind != faults.Reorder && list[i].acked < list[j].Fired {
			return true
		}
	}
	return false
}

// lane returns the checks that exist for lanes and not for subscriptions.
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
		exactly("rejected", m.hits(faults.Signature)+m.judged(), a.Rejected),
		exactly("malformed", m.hits(faults.Malformed, faults.Oversize)+early, a.Malformed),
		exactly("ready.failed", refused, a.Ready.Failed),
		exactly("terminated", m.ended(), a.Terminated),
	}
	has := func(kind faults.Kind) (faults.Fault, bool) { return m.spec.Server(kind, m.mode) }
	if m.hits(faults.Oversize) > 0 {
		out = append(out, exactly("oversized", m.hits(faults.Oversize), a.Oversized))
	}
	if m.hits(faults.Trouble) > 0 {
		out = append(out, exactly("transientErrors", m.hits(faults.Trouble), a.TransientErrors))
	}
	out = append(out, m.orderConflicts(a)...)
	if m.gone() {
		out = append(
			out,
			exactly("subscriptions that 410 ended", m.receivers, m.applied.Executed[string(eventmeter.Webhook)+"."+string(faults.Gone)]),
		)
	}
	out = append(out, m.proofs(a, refused)...)
	reconnects := exactly("reconnects", m.hits(faults.Cut), a.Reconnects)
	if m.target.Embedded.TokenEndsStreams && m.mode == eventmeter.Push && !m.denied() {
		reconnects = atLeast("reconnects", subs, a.Reconnects)
	}
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
	out = append(out, m.forgotten(a)...)
	if f, ok := has(faults.Refuse); ok && f.Passing() {
		out = append(out, exactly("asked again", m.askedAgain(), a.Traffic[eventmeter.Retry].Requests))
	}
	if _, ok := has(faults.TTL); ok && !m.denied() {
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

// proofs are the figures of callbacks that prove nothing to the target, or need not.
func (m *expectedCounts) proofs(a *ledger.LaneAccount, refused int64) (out []Check) {
	if m.unproven() {
		unopened := m.applied.Verified - m.applied.Subscribed
		out = append(
			out,
			m.figure("challengesFailed", unopened),
			exactly("not opened by the target", unopened, refused),
			atLeast("not opened by the target", 1, unopened),
		)
	}
	if m.mode == eventmeter.Webhook && m.target.Embedded.Proof == "allow-list" {
		out = append(
			out,
			exactly("challenges", 0, a.Traffic[eventmeter.Verification].Requests),
			exactly("not opened by the target", refused, int64(m.settings.Subscriptions)-m.applied.Subscribed),
		)
	}
	return out
}

// forgotten are the figures of subscriptions that the target forgets or ends early.
func (m *expectedCounts) forgotten(a *ledger.LaneAccount) (out []Check) {
	subs := int64(m.settings.Subscriptions)
	has := func(kind faults.Kind) bool {
		_, ok := m.spec.Server(kind, m.mode)
		return ok
	}
	if m.beginsAnew() {
		// The target takes no cursor of before, and what that passes over is announced.
		announced := 0
		for _, gaps := range m.gaps {
			announced += len(gaps)
		}
		out = append(out, atLeast("announcements", subs, int64(announced)), exactly("lostSilent", 0, a.LostSilent))
	}
	if has(faults.Forget) && (m.mode == eventmeter.Webhook && !m.beginsAnew() || m.positioned() && m.legacy) {
		out = append(out, atLeast("lostSilent", subs, a.LostSilent))
	}
	if has(faults.Expire) {
		out = append(out, atLeast("lostSilent", subs, a.LostSilent))
	}
	return out
}

// beginsAnew says whether each subscription finds out that the target has forgotten it,
// and then begins anew, as the older revision has it: a webhook at its next refresh.
func (m *expectedCounts) beginsAnew() bool {
	_, forgets := m.spec.Server(faults.Forget, m.mode)
	_, refreshed := m.spec.Server(faults.TTL, m.mode)
	return forgets && m.target.Revision == "older" && (m.mode != eventmeter.Webhook || refreshed)
}

// merged counts cuts for good that follow another cut with nothing between
// them: the two are one when the stream is not back by then.
func (m *expectedCounts) merged() (n int64) {
	for i := range m.settings.Subscriptions {
		if m.refused(i) {
			continue
		}
		for _, s := range m.owed(i) {
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

// ending are the faults that end every subscription once with an explicit message.
var ending = []faults.Kind{faults.Revoke, faults.Withdraw, faults.Change}

// ends reports whether every subscription ends early.
func (m *expectedCounts) ends() bool {
	return m.denied() || m.dropped() || slices.ContainsFunc(ending, func(kind faults.Kind) bool {
		_, ok := m.spec.Server(kind, m.mode)
		return ok
	})
}

// denied reports whether the issuer refuses every principal a new token, so that each
// subscription ends when it next needs one.
func (m *expectedCounts) denied() bool {
	f, ok := m.spec.Server(faults.TokenRefuse, m.mode)
	return ok && f.Every == 1
}

// before says whether an event was published for sure before its subscription
// ended: at the time of the fault, or, where the client has no token or the target
// gives its callback up, when the client said so.
func (m *expectedCounts) before(e *taped, sub int) bool {
	if m.denied() || m.dropped() {
		return e.acked < m.over[sub]
	}
	var first eventmeter.Instant
	for _, list := range m.sources {
		for _, e := range list {
			if first == 0 || e.Fired < first {
				first = e.Fired
			}
		}
	}
	for _, kind := range ending {
		if f, ok := m.spec.Server(kind, m.mode); ok {
			return e.Fired < first+eventmeter.Instant(f.At)
		}
	}
	return true
}

// ended returns how many subscriptions end.
func (m *expectedCounts) ended() int64 {
	if m.ends() {
		return int64(m.settings.Subscriptions)
	}
	return 0
}

// gone reports whether 410 ends a subscription: the sink answers it to the first
// event, and receives none after that. The target has at most one delivery in flight.
func (m *expectedCounts) gone() bool {
	_, ok := m.spec.Server(faults.Gone, m.mode)
	return ok && slices.ContainsFunc(m.settings.Webhook.Answer, func(a settings.WebhookAnswer) bool { return a.Status == http.StatusGone })
}

// orderConflicts checks the conflicts of streams and pollers, which are promised one
// order. Of each pair of events that half of the streams receive in reverse, one half
// or the other counts a conflict. Events of two sources with the same number may be
// such a pair, so the number is a lower bound.
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

// latency checks the least latency that faults which hold events back must cause.
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
				out = append(out, atLeast("fromIntended.min, ms", least-1, millis(q.Min))) // the minimum is the lower edge of its bucket
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

// longest returns the longest delay that a fault gave to a measured event.
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

// renewals compares the client's counts of tokens with the issuer's. The number
// depends on time; but none may be missing, no subscription may end for want of a
// token, and a fault of the issuer must have occurred.
func (m *expectedCounts) renewals() []Check {
	t, own := m.tokens, m.applied.Tokens
	if t == nil {
		return nil
	}
	least, renewed, denied, lost := int64(0), int64(1), int64(0), int64(0)
	if _, down := m.spec.Server(faults.TokenDown, m.mode); down {
		least = 1
	}
	if m.denied() {
		renewed, denied, lost = 0, int64(m.target.OAuth.Principals), m.everyone
		least = denied
	}
	same := func(name string, ours, theirs int64) Check {
		return exactly(name+" beyond the issuer's", 0, ours-theirs)
	}
	requests := same("token requests", t.Requests, own.Requests)
	requests.Notice = true
	out := []Check{
		requests, same("tokens issued", t.Issued, own.Issued), same("tokens renewed", t.Renewed, own.Renewed),
		same("token failures", t.Failed, own.Refused+own.Down),
		atLeast("tokens renewed", renewed, t.Renewed), atLeast("token failures", least, t.Failed),
		exactly("tokens denied", denied, t.Denied), exactly("lost for want of a token", lost, t.Lost),
	}
	if least == denied {
		out = append(out, exactly("token failures", least, t.Failed))
	}
	return out
}
