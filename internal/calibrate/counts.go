package calibrate

import (
	"fmt"
	"slices"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/internal/settings"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// Row is one lane of one case: the figures that the faults imply, and the figures
// that the ledger counted.
type Row struct {
	Case, Lane string
	// Checks are the figures that the faults change, and all figures that differ.
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

// millis truncates a latency to whole milliseconds.
func millis(n results.Nanos) int64 { return int64(n) / 1e6 }

// planned holds the expected counts of one subscription, or of several added up.
type planned struct {
	expected, delivered                 int64
	lostSilent, lostAnnounced           int64
	lostRefused, lostOrderUnknown       int64
	sameEvent, sameEmission, requested  int64
	outOfOrder, unexpected, gaps, early int64
	// lossy: the losses depend on timing, so that only sums can be checked.
	lossy bool
	// ended: the target ends the subscription. expected then only counts events sent
	// before; more may have been owed until the client noticed.
	ended bool
}

func (p *planned) plus(q planned) {
	p.expected += q.expected
	p.delivered += q.delivered
	p.lostSilent += q.lostSilent
	p.lostAnnounced += q.lostAnnounced
	p.lostRefused += q.lostRefused
	p.lostOrderUnknown += q.lostOrderUnknown
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

// against compares the plan with the counts of the ledger.
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
		// The draft promises no order for webhooks: retries and parallel deliveries
		// may add to the effect of the fault.
		order = atLeast("outOfOrder", p.outOfOrder, c.OutOfOrder)
	}
	return append(out,
		exactly("delivered", p.delivered, c.Delivered),
		exactly("lostSilent", p.lostSilent, c.LostSilent),
		exactly("lostAnnounced", p.lostAnnounced, c.LostAnnounced),
		exactly("lostOrderUnknown", p.lostOrderUnknown, c.LostOrderUnknown),
		exactly("lostRefused", p.lostRefused, c.LostRefused),
		exactly("duplicates.sameEvent", p.sameEvent, c.Duplicates.SameEvent),
		exactly("duplicates.sameEmission", p.sameEmission, c.Duplicates.SameEmission+c.Duplicates.Forgotten),
		exactly("duplicates.requested", p.requested, c.Duplicates.Requested),
		exactly("gaps.incidents", p.gaps, c.GapIncidents),
		exactly("gaps.falseAlarms", 0, c.FalseAlarms),
		order,
	)
}

// expectedCounts computes what the ledger must count on one lane. It knows the faults
// and the published events, and shares no code with the ledger.
type expectedCounts struct {
	spec      faults.Spec
	mode      eventmeter.Mode
	system    calibration
	settings  profiles.Lane
	templates *profiles.LaneTemplates
	sources   [][]*taped
	gaps      [][]eventmeter.Instant // when each subscription read the announcement of a gap
	over      []eventmeter.Instant   // when each subscription ended for good; 0 = never
	failed    []bool                 // subscriptions that could not be opened
	target    profiles.Target
	everyone  int64 // subscriptions of all lanes
	receivers int64 // webhook subscriptions of all lanes
	open      int64 // streams and webhook subscriptions of all lanes
	first     bool  // of the lanes of its system
	legacy    bool  // the legacy era, which has sessions
	lists     profiles.EmbeddedLists
	result    results.Lane // for figures that only the system has
	applied   appliedFaults
	seen      conform.Account // what the lane saw of the rows of conformance; nil = it judges none
	tokens    *results.Tokens // nil where none expire
}

// calibration holds what is special about the lanes of one system. The zero value is
// a system whose subscriptions are owed every event of their sources, with an id that
// identifies copies.
type calibration struct {
	// source adds the expected counts for the changes of one source, if clients learn
	// the state instead of each event. No latencies are planned then.
	source func(m *expectedCounts, p *planned, source int)
	// noSources is set if the system's lanes subscribe to no source.
	noSources bool
	// early is set if callbacks are challenged: with the fault early a subscription
	// then gets an event before its challenge.
	early bool
	// ordered reports whether all subscriptions are promised the same order; nil =
	// they are not.
	ordered func(m *expectedCounts) bool
	// inOrder is set if each event has to be over before the next begins.
	inOrder bool
	// positioned reports whether events are identified at most by their position in a
	// stream, so that a second copy cannot be recognised; nil = they are not.
	positioned func(m *expectedCounts) bool
	// resumes reports, for positioned events, whether a stream that was cut continues
	// at its position.
	resumes func(m *expectedCounts) bool
	// refuses reports whether the target has to refuse every subscription of the
	// lane; nil = it does not.
	refuses func(m *expectedCounts) bool
	// ends returns how the target has to refuse every subscription of a lane, so that
	// the run ends; nil = it does not.
	ends func(p *profiles.Profile, l *profiles.Lane) refusal
	// own returns the checks of figures that only the system has.
	own func(m *expectedCounts) []Check
	// unsound returns why the run says nothing about the lane, empty if it does; nil = it
	// always does.
	unsound func(m *expectedCounts, o *run.Outcome) string
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
	m.over, m.failed = t.endsOf(lane, l.Subscriptions)
	m.target = p.Target
	m.first = slices.IndexFunc(p.Lanes, func(other profiles.Lane) bool { return other.System == l.System }) == lane
	for _, other := range p.Lanes {
		m.everyone += int64(other.Subscriptions)
		if eventmeter.Mode(other.Mode) != eventmeter.Poll {
			m.open += int64(other.Subscriptions)
		}
		if eventmeter.Mode(other.Mode) == eventmeter.Webhook {
			m.receivers += int64(other.Subscriptions)
		}
	}
	for s := range p.Upstream.Sources {
		m.sources = append(m.sources, t.of(uint16(s)))
	}
	return m, nil
}

// refused reports whether subscription i is refused for good: by a fault, or because
// its callback fails the challenge. A calibration opens subscriptions one after the
// other, so i is also the number of the request.
func (m *expectedCounts) refused(i int) bool {
	if m.unproven() {
		return m.failed[i] // only the target knows the number
	}
	f, ok := m.spec.Server(faults.Refuse, m.mode)
	return ok && uint32(i+1)%f.Every == 0 && !(f.Passing() && f.Every > 1)
}

// unproven reports whether the lane's sink answers challenges incorrectly.
func (m *expectedCounts) unproven() bool {
	return m.system.early && slices.ContainsFunc(m.settings.Webhook.Answer, func(a settings.WebhookAnswer) bool { return a.Challenge })
}

func (m *expectedCounts) owed(i int) []uint16 {
	if s := m.templates.Sources(i); s != nil {
		return s
	}
	all := make([]uint16, len(m.sources))
	for s := range all {
		all[s] = uint16(s)
	}
	return all
}

// hits counts how often faults of these kinds hit events owed to the lane's
// subscriptions, warm-up included.
func (m *expectedCounts) hits(kinds ...faults.Kind) (n int64) {
	return m.count(func(*taped) bool { return true }, kinds)
}

// warm counts the hits in the warm-up.
func (m *expectedCounts) warm(kinds ...faults.Kind) int64 {
	return m.count(func(e *taped) bool { return !e.Measured }, kinds)
}

func (m *expectedCounts) count(counts func(*taped) bool, kinds []faults.Kind) (n int64) {
	for i := range m.settings.Subscriptions {
		if m.refused(i) {
			continue
		}
		for _, s := range m.owed(i) {
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

// figure compares one of a system's own figures with the plan.
func (m *expectedCounts) figure(name string, want int64) Check {
	got, known := m.result.Figures[name]
	c := exactly(name, want, int64(got))
	if !known {
		c.Passed, c.Name = false, name+" (there is no such figure)"
	}
	return c
}

// positioned reports whether events are identified at most by their position.
func (m *expectedCounts) positioned() bool {
	return m.system.positioned != nil && m.system.positioned(m)
}

// forgetful reports whether a stream that was cut does not continue at its position:
// events until it is opened again are lost.
func (m *expectedCounts) forgetful() bool {
	return m.positioned() && !m.system.resumes(m)
}

// upTo adds emissions of which all up to one were delivered, and none after it.
func (p *planned) upTo(list []*taped, learned int) {
	var missing missingRun
	for i, e := range list {
		switch {
		case i > learned:
			missing.add(e, false)
		case e.Measured:
			p.delivered++
		}
		if e.Measured {
			p.expected++
		}
	}
	missing.close(p)
}

// missingRun is a run of emissions of a source that are missing between two
// deliveries. An announcement in the run also covers the emissions before it, and all
// that were published before it was read, because a client cannot tell them apart. An
// announcement to a webhook may cover all that was published before, and none for sure.
type missingRun struct {
	gaps    []eventmeter.Instant // when announcements were read
	webhook bool
	list    []*taped
	last    int // position in list, from 1, of the last announced emission
	// refused are the emissions in list with a copy that arrived and was refused.
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
	var read eventmeter.Instant // when the last announcement was read
	if n := len(r.gaps); r.webhook && n > 0 {
		read = r.gaps[n-1]
	}
	if r.last > 0 && !r.webhook {
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
		case r.webhook && e.Fired <= read:
			p.lostOrderUnknown++
		case !r.webhook && (i < r.last || e.Fired <= read):
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
