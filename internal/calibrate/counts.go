package calibrate

import (
	"fmt"
	"slices"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// Row is one lane of one case: what the faults' plan says, and what
// the ledger counted.
type Row struct {
	Case, Lane string
	// Checks are the figures that the faults change, and those that differ.
	Checks []Check
	Passed bool
}

// Check is one figure, planned and measured.
type Check struct {
	Name           string
	Want           string // "12", or a bound such as ">= 4"
	Got            int64
	Passed, Notice bool // Notice: worth showing although it passed
}

func exactly(name string, want, got int64) Check {
	return Check{Name: name, Want: fmt.Sprint(want), Got: got, Passed: got == want, Notice: want != 0}
}

func atLeast(name string, want, got int64) Check {
	return Check{Name: name, Want: fmt.Sprintf(">= %d", want), Got: got, Passed: got >= want, Notice: want != 0}
}

// millis compares latencies in whole milliseconds.
func millis(n results.Nanos) int64 { return int64(n) / 1e6 }

// planned are the counts of one subscription, or of several added up.
type planned struct {
	expected, delivered                 int64
	lostSilent, lostAnnounced           int64
	lostRefused                         int64
	sameEvent, sameEmission, requested  int64
	outOfOrder, unexpected, gaps, early int64
	// lossy: what is lost depends on when, so that only sums can be checked.
	lossy bool
	// ended: the target ends the subscription, so that expected holds only what
	// was sent before; more may have been owed until the client knew.
	ended bool
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
	p.ended = p.ended || q.ended
}

// against compares the plan with what the ledger counted.
func (p *planned) against(c *ledger.SubCounts, mode eventmeter.Mode) []Check {
	sum := exactly("delivered + lost", c.Expected, c.Delivered+c.Lost())
	sum.Notice = false
	expected := exactly("expected", p.expected, c.Expected)
	if p.ended {
		expected = atLeast("expected", p.expected, c.Expected+c.Excused)
	}
	out := []Check{
		expected, sum,
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

// forecast says what the ledger must count on one lane. It knows the faults and
// what was fired, and nothing of how the ledger works.
type expectedCounts struct {
	spec      faults.Spec
	mode      eventmeter.Mode
	system    calibration
	settings  profiles.Lane
	templates *profiles.LaneTemplates
	sources   [][]*taped
	gaps      [][]eventmeter.Instant // when each subscription read that there was a gap
	legacy    bool                   // the era of sessions
	lists     profiles.EmbeddedLists
	result    results.Lane // for the figures that only the system has
	applied   appliedFaults
	tokens    *results.Tokens // nil where none expire
}

// calibration is what is special about what lanes of one system must count. The
// zero value is a system whose subscriptions are owed every event of their
// sources, with an id that tells copies apart.
type calibration struct {
	// source adds what the changes of one source come to for a subscription, where
	// a client learns of the state and not of each event. No latencies are planned.
	source func(m *expectedCounts, p *planned, source int)
	// hearsNothing says that its lanes subscribe to no source.
	hearsNothing bool
	// early says that a subscription gets an event of its own with the fault early.
	early bool
	// ordered says whether all subscriptions are promised one order; nil = they are not.
	ordered func(m *expectedCounts) bool
	// inOrder says that each event has to be over before the next begins.
	inOrder bool
	// positioned says that events have no id but the place at which they are
	// written, if any: a second copy cannot be recognised by it.
	positioned func(m *expectedCounts) bool
	// resumes says, where events are positioned, that a stream that is cut goes on
	// where it was.
	resumes func(m *expectedCounts) bool
	// refuses says whether the target has to refuse every subscription of the lane;
	// nil = it does not.
	refuses func(m *expectedCounts) bool
	// own are the figures that only the system has.
	own func(m *expectedCounts) []Check
	// ripe says whether the run says anything about the lane; nil = it does.
	ripe func(m *expectedCounts, o *run.Outcome) bool
}

func newExpectedCounts(p *profiles.Profile, lane int, system calibration, spec faults.Spec, t *tape) (*expectedCounts, error) {
	l := p.Lanes[lane]
	templates, err := profiles.CompileLane(l)
	if err != nil {
		return nil, err
	}
	m := &expectedCounts{
		spec: spec, mode: eventmeter.Mode(l.Mode), system: system, settings: l, templates: templates,
		legacy: p.Target.Era == "legacy", lists: p.Target.Embedded.Lists,
	}
	m.gaps = t.gapsOf(lane, l.Subscriptions)
	for s := range p.Upstream.Sources {
		m.sources = append(m.sources, t.of(uint16(s)))
	}
	return m, nil
}

// refused says whether a fault refuses subscription i for good. Calibration
// opens them one after the other, so that i is the number of the request.
func (m *expectedCounts) refused(i int) bool {
	f, ok := m.spec.Server(faults.Refuse, m.mode)
	return ok && uint32(i+1)%f.Every == 0 && !(f.Passing() && f.Every > 1)
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

// figure holds one of a system's own figures to the plan.
func (m *expectedCounts) figure(name string, want int64) Check {
	got, known := m.result.Figures[name]
	c := exactly(name, want, int64(got))
	if !known {
		c.Passed, c.Name = false, name+" (there is no such figure)"
	}
	return c
}

// positioned says that events have no id but their place.
func (m *expectedCounts) positioned() bool {
	return m.system.positioned != nil && m.system.positioned(m)
}

// forgetful says that a stream that is cut does not go on where it was: what
// happens until it is opened again is lost.
func (m *expectedCounts) forgetful() bool {
	return m.positioned() && !m.system.resumes(m)
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
