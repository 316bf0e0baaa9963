package calibrate

import (
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/loadgen/driver/sep975"
)

var calibrateSEP975 = calibration{hearsNothing: true, own: (*expectedCounts).resumable, ripe: (*expectedCounts).ripe}

// requestSettings are the settings of a lane of requests that can be resumed.
func (m *expectedCounts) requestSettings() *sep975.Settings {
	if set, ok := m.settings.Settings.(*sep975.Settings); ok {
		return set
	}
	return sep975.Defaults(string(m.mode))
}

// request975 is what faults come to in one request that can be resumed. Every
// request of a lane is hit alike: faults choose by the number of a message.
type request975 struct {
	expected, lost        int64
	repeated, onOne, hung int64
	failed, expired       bool
}

// request follows the progress messages of one request, in the order in which
// the target makes them.
func (m *expectedCounts) request() (r request975) {
	set := m.requestSettings()
	logs := 0
	if set.LogEvery > 0 {
		logs = set.Steps / set.LogEvery
	}
	r.expected = int64(set.Steps+logs) + 1
	noResume, refuses := m.spec.Server(faults.NoResume, m.mode)
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
			if refuses && r.hung%int64(noResume.Every) == 0 {
				return m.endsAt(r, int64(n), f.Replay)
			}
			if f.Replay {
				r.repeated++
			} else {
				r.lost++
			}
		}
	}
	lapse, lapses := m.spec.Server(faults.Lapse, m.mode)
	_, leaks := m.spec.Server(faults.Leak, m.mode)
	away := set.Disconnect == "one"
	r.expired = away && set.Expire == 1 && !leaks
	r.failed = away && !r.expired && (refuses && noResume.Every == 1 || lapses && lapse.After < set.Away)
	return r
}

// endsAt is a request that is lost with the connection that ends at message n:
// nothing after it comes.
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

// shortest is how long a request lasts at the least: those that end before the
// measured part begins are in no figure.
func (m *expectedCounts) shortest() time.Duration {
	set := m.requestSettings()
	least := time.Duration(set.Steps) * set.Step
	if set.Disconnect == "one" {
		least = min(least, set.At+set.Away)
	}
	noResume, refuses := m.spec.Server(faults.NoResume, m.mode)
	cuts := uint32(0)
	for n := uint32(1); refuses && n <= uint32(set.Steps); n++ {
		if f, _ := m.spec.Event(m.mode, eventmeter.Stamp{Seq: n}); f.Kind != faults.Cut {
			continue
		}
		if cuts++; cuts == noResume.Every {
			least = min(least, time.Duration(n)*set.Step)
		}
	}
	return least
}

// ripe says whether the run says anything about a lane of SEP-975: none of its
// requests may have ended before the measured part began.
func (m *expectedCounts) ripe(o *run.Outcome) bool {
	for _, p := range o.Result.Phases {
		if p.Name == "measure" {
			first := o.Result.Phases[0].Start
			return time.Duration(p.Start-first) < m.shortest()
		}
	}
	return false
}

// resumable are the figures of a lane of SEP-975. How many requests were made
// is the target's word.
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
	cut := set.Disconnect == "one"
	out := []Check{
		m.figure("requestsBegun", n),
		m.figure("requestsCompleted", only(!r.failed && !r.expired)),
		m.figure("requestsExpired", only(r.expired)),
		m.figure("requestsFailed", only(r.failed)),
		m.figure("requestsOverslept", 0), m.figure("requestsUnfinished", 0), m.figure("requestsAbandoned", 0),
		m.figure("messagesExpected", n*r.expected),
		m.figure("messagesOutOfOrder", 0), m.figure("messagesUnexpected", 0), m.figure("resultsWrong", 0),
		m.figure("policiesMissing", 0), m.figure("policiesEarly", only(r.failed)),
		m.figure("policiesLeaked", only(cut && set.Expire == 1 && leaks)),
		m.figure("wrongAccepted", 0), m.figure("wrongUnclear", 0),
		m.figure("cuts", only(cut)), m.figure("hangUps", n*r.hung), m.figure("breaks", 0),
		m.figure("doubles", only(cut && set.Double == 1)),
		m.figure("doublesBothAnswered", only(cut && set.Double == 1 && twofold)),
		m.figure("doublesOneRefused", only(cut && set.Double == 1 && !twofold)),
		m.figure("doublesBothRefused", 0), m.figure("doublesUntold", 0), m.figure("doublesInterrupted", 0),
		m.figure("unbalanced", 0),
	}
	switch {
	case !cut: // what is lost or sent again where the client cuts depends on when
		out = append(out, m.figure("messagesLost", n*r.lost), m.figure("messagesRepeated", n*r.repeated),
			m.figure("messagesRepeatedOnOneConnection", n*r.onOne), m.figure("messagesExcused", 0))
	case !r.failed:
		out = append(out, m.figure("messagesLost", 0))
	}
	if f, ok := m.spec.Server(faults.LateResult, m.mode); ok {
		least := (f.Over + time.Duration(set.Steps)*set.Step).Milliseconds()
		out = append(out, atLeast("request.min, ms", least-1, millis(m.result.Timings["request"].Min)))
	}
	return out
}
