package calibrate

import (
	"slices"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks"
)

// forecast says what the ledger must count on one lane. It knows the faults and
// what was fired, and nothing of how the ledger works.
type expectedCounts struct {
	spec      faults.Spec
	mode      eventmeter.Mode
	settings  profiles.Lane
	templates *profiles.LaneTemplates
	sources   [][]*taped
	gaps      [][]eventmeter.Instant // when each subscription read that there was a gap
	legacy    bool                   // the era of sessions
	lists     profiles.EmbeddedLists
	result    results.Lane // for the figures that only the system has
	applied   appliedFaults
}

func newExpectedCounts(p *profiles.Profile, lane int, spec faults.Spec, t *tape) (*expectedCounts, error) {
	l := p.Lanes[lane]
	templates, err := profiles.CompileLane(l)
	if err != nil {
		return nil, err
	}
	m := &expectedCounts{
		spec: spec, mode: eventmeter.Mode(l.Mode), settings: l, templates: templates,
		legacy: p.Target.Era == "legacy", lists: p.Target.Embedded.Lists,
	}
	m.gaps = t.gapsOf(lane, l.Subscriptions)
	for s := range p.Upstream.Sources {
		m.sources = append(m.sources, t.of(uint16(s)))
	}
	return m, nil
}

// planned are the counts of one subscription, or of several added up.
type planned struct {
	expected, delivered                 int64
	lostSilent, lostAnnounced           int64
	lostRefused                         int64
	sameEvent, sameEmission, requested  int64
	outOfOrder, unexpected, gaps, early int64
	// lossy: what is lost depends on when, so that only sums can be checked.
	lossy bool
}

func (p *planned) plus(q planned) {
	p.expected += q.expected
	p.delivered += q.delivered
	p.lostSilent += q.lostSilent
	p.lostAnnounced += q.lostAnnounced
	p.lostRefused += q.lostRefused
	p.sameEvent += q.sameEvent
	p.sameEmission += q.sameEmission
	p.requested += q.requested
	p.outOfOrder += q.outOfOrder
	p.unexpected += q.unexpected
	p.gaps += q.gaps
	p.early += q.early
	p.lossy = p.lossy || q.lossy
}

// against compares the plan with what the ledger counted.
func (p *planned) against(c *sinks.SubCounts, mode eventmeter.Mode) []Check {
	sum := exactly("delivered + lost", c.Expected, c.Delivered+c.Lost())
	sum.Notice = false
	out := []Check{
		exactly("expected", p.expected, c.Expected), sum,
		exactly("unexpected", p.unexpected, c.Unexpected.Total()),
		exactly("unprobed", p.early, c.Unprobed),
		exactly("recovered", 0, c.Recovered),
		exactly("lostUndeliverable", 0, c.LostUndeliverable),
		exactly("lostSuspended", 0, c.LostSuspended),
	}
	if p.lossy {
		return out
	}
	order := exactly("outOfOrder", p.outOfOrder, c.OutOfOrder)
	if mode == eventmeter.Webhook {
		// The draft promises no order there: retries and parallel posts may
		// add to what the fault does.
		order = atLeast("outOfOrder", p.outOfOrder, c.OutOfOrder)
	}
	return append(out,
		exactly("delivered", p.delivered, c.Delivered),
		exactly("lostSilent", p.lostSilent, c.LostSilent),
		exactly("lostAnnounced", p.lostAnnounced, c.LostAnnounced),
		exactly("lostOrderUnknown", 0, c.LostOrderUnknown),
		exactly("lostRefused", p.lostRefused, c.LostRefused),
		exactly("duplicates.sameEvent", p.sameEvent, c.Duplicates.SameEvent),
		exactly("duplicates.sameEmission", p.sameEmission, c.Duplicates.SameEmission+c.Duplicates.Forgotten),
		exactly("duplicates.requested", p.requested, c.Duplicates.Requested),
		exactly("gaps.incidents", p.gaps, c.GapIncidents),
		exactly("gaps.falseAlarms", 0, c.FalseAlarms),
		order,
	)
}

// refused says whether a fault refuses subscription i for good. Calibration
// opens them one after the other, so that i is the number of the request.
func (m *expectedCounts) refused(i int) bool {
	f, ok := m.spec.Server(faults.Refuse, m.mode)
	return ok && uint32(i+1)%f.Every == 0 && !(f.Passing() && f.Every > 1)
}

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
	if m.refused(i) {
		return p
	}
	switch m.settings.System {
	case faults.SEP975:
		return p // it hears nothing
	case faults.SEP2549:
		for _, s := range m.heard(i) {
			m.changes(&p, int(s))
		}
		return p
	case faults.Events:
		if _, ok := m.spec.Server(faults.Early, m.mode); ok {
			p.early = 1
		}
	}
	if m.hits(faults.Cut) > 0 && m.forgetful() {
		p.lossy = true
	}
	for _, kind := range []faults.Kind{faults.Forget, faults.Expire} {
		if _, ok := m.spec.Server(kind, m.mode); ok {
			p.lossy = true
		}
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

func (m *expectedCounts) heard(i int) []uint16 {
	if s := m.templates.Sources(i); s != nil {
		return s
	}
	all := make([]uint16, len(m.sources))
	for s := range all {
		all[s] = uint16(s)
	}
	return all
}

// source adds what one source's emissions come to for a subscription that read
// announcements at these instants.
func (m *expectedCounts) source(p *planned, source int, gaps []eventmeter.Instant) {
	_, noRetry := m.spec.Server(faults.NoRetry, m.mode)
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
		if !e.Measured {
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
		if m.settings.Webhook.Refuse == 1 && !noRetry {
			p.requested++
		}
	}
	missing.close(p)
}

// missingRun is emissions of a source that are missing between two deliveries.
// An announcement among them announces those before it, too, and all that were
// fired before it was read: the client cannot tell which of them it speaks of.
type missingRun struct {
	gaps []eventmeter.Instant // when announcements were read
	list []*taped
	last int // the place in list, from 1, of the last one that is announced
	// refused are those of list of which a copy came, and was refused.
	refused map[*taped]bool
}

func (r *missingRun) refuse(e *taped) {
	r.list = append(r.list, e)
	if r.refused == nil {
		r.refused = map[*taped]bool{}
	}
	r.refused[e] = true
}

func (r *missingRun) add(e *taped, announced bool) {
	r.list = append(r.list, e)
	if announced {
		r.last = len(r.list)
	}
}

func (r *missingRun) close(p *planned) {
	var read eventmeter.Instant // when the last announcement was
	if r.last > 0 {
		if i := slices.IndexFunc(r.gaps, func(at eventmeter.Instant) bool { return at >= r.list[r.last-1].Fired }); i >= 0 {
			read = r.gaps[i]
		}
	}
	var measured int64
	for i, e := range r.list {
		switch {
		case !e.Measured:
			continue
		case r.refused[e]:
			p.lostRefused++
		case i < r.last || e.Fired <= read:
			p.lostAnnounced++
		default:
			p.lostSilent++
		}
		measured++
	}
	if measured > 0 {
		p.gaps++
	}
	r.list, r.last, r.refused = r.list[:0], 0, nil
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

// hits counts how often a kind of fault hits what the lane's subscriptions
// hear, the warm-up included.
func (m *expectedCounts) hits(kinds ...faults.Kind) (n int64) {
	return m.count(func(*taped) bool { return true }, kinds)
}

// warm counts the hits of the warm-up.
func (m *expectedCounts) warm(kinds ...faults.Kind) int64 {
	return m.count(func(e *taped) bool { return !e.Measured }, kinds)
}

func (m *expectedCounts) count(counts func(*taped) bool, kinds []faults.Kind) (n int64) {
	for i := range m.settings.Subscriptions {
		if m.refused(i) {
			continue
		}
		for _, s := range m.heard(i) {
			for _, e := range m.sources[s] {
				f, _ := m.spec.Event(m.mode, e.Stamp)
				for _, k := range kinds {
					if f.Kind == k && counts(e) {
						n++
					}
				}
			}
		}
	}
	return n
}

// lane are the figures that a lane has and a subscription has not.
func (m *expectedCounts) lane(a *sinks.LaneAccount) []Check {
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
		exactly("terminated", 0, a.Terminated),
	}
	has := func(kind faults.Kind) (faults.Fault, bool) { return m.spec.Server(kind, m.mode) }
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
	out = append(out, reconnects)
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
	out = append(out, m.own()...)
	if m.settings.System == faults.SEP2549 {
		return out
	}
	return append(out, m.latency(results.Summarise(a.Latency.FromIntended))...)
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
