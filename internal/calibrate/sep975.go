package calibrate

import (
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/loadgen/driver/sep975"
	"github.com/eventmeter/eventmeter/profiles"
)

var calibrateSEP975 = calibration{noSources: true, own: (*expectedCounts).resumable, unsound: (*expectedCounts).unripe, ends: questions}

// questions is how work with a question is refused: lanes do not declare that they can be
// asked.
func questions(_ *profiles.Profile, l *profiles.Lane) refusal {
	if l.Arguments["ask"] == nil {
		return refusal{}
	}
	return refusal{"rpc -32602", eventmeter.Events}
}

// requestSettings returns the settings of a lane of requests that can be resumed.
func (m *expectedCounts) requestSettings() *sep975.Settings {
	if set, ok := m.settings.Settings.(*sep975.Settings); ok {
		return set
	}
	return sep975.Defaults(string(m.mode))
}

// request975 is the effect of faults on one request that can be resumed. Faults
// choose by the number of a message, so every request of a lane is hit the same way.
type request975 struct {
	expected, lost        int64
	repeated, onOne, hung int64
	failed, expired       bool
}

// request follows the progress messages of one request in the order in which the
// target makes them.
func (m *expectedCounts) request() (r request975) {
	set := m.requestSettings()
	logs := 0
	if set.LogEvery > 0 {
		logs = set.Steps / set.LogEvery
	}
	r.expected = int64(set.Steps+logs) + 1
	if m.another() {
		r.lost = r.expected - 1
		return r
	}
	byID := set.Via == sep975.ViaLastEventID
	noResume, refuses := m.spec.Server(faults.NoResume, m.mode)
	lapse, lapses := m.spec.Server(faults.Lapse, m.mode)
	for n := uint32(1); n <= uint32(set.Steps); n++ {
		f, _ := m.spec.Event(m.mode, eventmeter.Stamp{Seq: n})
		switch f.Kind {
		case faults.Drop:
			r.lost++
		case faults.Duplicate:
			r.repeated++
			r.onOne++
		case faults.Cut:
			r.hung++
			// A client that resumes by the event id returns when the server told it
			// to.
			if refuses && r.hung%int64(noResume.Every) == 0 || byID && lapses {
				return m.endsAt(r, int64(n), f.Replay)
			}
			switch {
			case !f.Replay:
				r.lost++
			case !byID: // with an id, the client says which message it has read
				r.repeated++
			}
		}
	}
	_, leaks := m.spec.Server(faults.Leak, m.mode)
	away := set.Disconnect == "one"
	r.expired = away && set.Expire == 1 && !leaks
	r.failed = away && !r.expired && (refuses && noResume.Every == 1 || lapses && lapse.After < set.Away)
	return r
}

// another reports whether the lane calls a tool that is not the slow one. With resumeAny it
// can be resumed like any other request, and its response is the only message: it reports
// no progress, and knows no note.
func (m *expectedCounts) another() bool { return m.requestSettings().Tool != "work" }

// endsAt is a request that is lost when its connection ends at message n: nothing
// after that message arrives.
func (m *expectedCounts) endsAt(r request975, n int64, delivered bool) request975 {
	set := m.requestSettings()
	r.failed = true
	r.lost += int64(set.Steps) - n + 1 + 1 // from n on, and the result
	if delivered {
		r.lost--
	}
	if every := int64(set.LogEvery); every > 0 { // a log message follows the progress of its step
		r.lost += int64(set.Steps)/every - (n-1)/every
	}
	return r
}

// shortest returns the least duration of a request. Requests that end before the
// measured phase begins enter no figure.
func (m *expectedCounts) shortest() time.Duration {
	set := m.requestSettings()
	least := time.Duration(set.Steps) * set.Step
	if m.another() {
		least = m.target.Embedded.ResumeAny
	}
	if set.Disconnect == "one" {
		least = min(least, set.At+set.Away)
	}
	refused, ends := m.spec.Server(faults.NoResume, m.mode)
	if _, lapses := m.spec.Server(faults.Lapse, m.mode); lapses && set.Via == sep975.ViaLastEventID {
		refused.Every, ends = 1, true
	}
	cuts := uint32(0)
	for n := uint32(1); ends && n <= uint32(set.Steps); n++ {
		if f, _ := m.spec.Event(m.mode, eventmeter.Stamp{Seq: n}); f.Kind != faults.Cut {
			continue
		}
		if cuts++; cuts == refused.Every {
			least = min(least, time.Duration(n)*set.Step)
		}
	}
	return least
}

// unripe returns why a run says nothing about a lane of SEP-975, or empty: no request
// may have ended before the measured phase began.
func (m *expectedCounts) unripe(o *run.Outcome) string {
	for _, p := range o.Result.Phases {
		if p.Name == "measure" && time.Duration(p.Start-o.Result.Phases[0].Start) < m.shortest() {
			return ""
		}
	}
	return "requests ended before the measured part began"
}

// resumable returns the checks of a lane of SEP-975. The number of requests comes
// from the target.
func (m *expectedCounts) resumable() []Check {
	set, r, n := m.requestSettings(), m.request(), m.applied.Requests
	only := func(so bool) int64 {
		if so {
			return n
		}
		return 0
	}
	_, leaks := m.spec.Server(faults.Leak, m.mode)
	_, twofold := m.spec.Server(faults.Twofold, m.mode)
	cut, byID := set.Disconnect == "one", set.Via == sep975.ViaLastEventID
	twice := only(cut && set.Double == 1)
	// Of two connections that resume by the id, the server ends one without an error.
	bothAnswered, oneRefused, untold := int64(0), twice, int64(0)
	switch {
	case twofold:
		bothAnswered, oneRefused = twice, 0
	case byID:
		oneRefused, untold = 0, twice
	}
	out := []Check{
		m.figure("requestsBegun", n),
		m.figure("requestsCompleted", only(!r.failed && !r.expired)),
		m.figure("requestsExpired", only(r.expired)),
		m.figure("requestsFailed", only(r.failed)),
		m.figure("requestsOverslept", 0), m.figure("requestsUnfinished", 0), m.figure("requestsAbandoned", 0),
		m.figure("messagesExpected", n*r.expected),
		m.figure("messagesOutOfOrder", 0), m.figure("messagesUnexpected", 0), m.figure("resultsWrong", only(m.another())),
		m.figure("policiesMissing", m.applied.Executed[faults.SEP975+"."+string(faults.NoIDs)]), m.figure("policiesEarly", only(r.failed)),
		m.figure("policiesLeaked", only(cut && set.Expire == 1 && leaks)),
		m.figure("wrongAccepted", 0), m.figure("wrongUnclear", 0),
		m.figure("cuts", only(cut)), m.figure("hangUps", n*r.hung), m.figure("breaks", 0),
		m.figure("doubles", twice), m.figure("doublesBothAnswered", bothAnswered), m.figure("doublesOneRefused", oneRefused),
		m.figure("doublesBothRefused", 0), m.figure("doublesUntold", untold), m.figure("doublesInterrupted", 0),
		m.figure("unbalanced", 0),
	}
	switch {
	case !cut: // losses and repeats after a cut by the client depend on timing
		out = append(out, m.figure("messagesLost", n*r.lost), m.figure("messagesRepeated", n*r.repeated),
			m.figure("messagesRepeatedOnOneConnection", n*r.onOne), m.figure("messagesExcused", 0))
	case m.another(): // no message says that the tool fits
		out = append(out, m.figure("messagesLost", 0), m.figure("messagesExcused", n*r.lost), m.figure("messagesRepeated", 0))
	case !r.failed:
		out = append(out, m.figure("messagesLost", 0))
	}
	if byID && cut && set.Double == 0 {
		out = append(out, m.figure("messagesRepeated", n*r.repeated))
	}
	if f, ok := m.spec.Server(faults.LateResult, m.mode); ok {
		least := (f.Over + time.Duration(set.Steps)*set.Step).Milliseconds()
		out = append(out, atLeast("request.min, ms", least-1, millis(m.result.Timings["request"].Min)))
	}
	return out
}
