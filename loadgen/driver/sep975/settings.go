package sep975

import (
	"cmp"
	"fmt"
	"time"

	"github.com/eventmeter/eventmeter/internal/settings"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// ResumableRequests is the client capability of SEP-975. The endpoint of a lane
// of system sep-975 has to advertise it.
const ResumableRequests = "resumableRequests"

// Describe returns a line for people if a target has the methods of SEP-975.
func Describe(a mcpclient.Abilities) []string {
	if !a.Resumable {
		return nil
	}
	return []string{"knows requests/getStatus; what can be resumed shows only when it is asked for"}
}

// The methods of SEP-975.
const (
	methodGetStatus = "requests/getStatus"
	methodResume    = "requests/resume"
)

// The values of Settings.Via.
const (
	ViaToken       = "token"
	ViaLastEventID = "lastEventId"
)

// The values of Settings.Disconnect.
const (
	CutNone  = "none"
	CutOne   = "one"
	CutShare = "share"
	CutAll   = "all"
)

// Settings are the settings of a lane of system sep-975. Each of its subscriptions calls a slow
// tool, loses its connection, resumes, and calls again after the result. Such a lane subscribes to
// no source.
type Settings struct {
	// how a request is resumed: by token (the default), as SEP-975 defines it, or by lastEventId, as the
	// base protocol of 2025-11-25 does: each client has a session, the events of an answer's stream have
	// ids, and a GET with the last id in Last-Event-ID resumes the stream
	Via string `json:"via,omitempty" check:"token|lastEventId"`
	// the slow tool, default work, as in the reference server. It gets steps, stepMs and note, and
	// logEvery, maxWait and hangUp if they are not 0, in addition to the lane's arguments. It must
	// report its progress as 1, 2, … steps, and return the note in its result.
	Tool string `json:"tool"`
	// number of steps of a request, default 20
	Steps int           `json:"steps" check:"1..100000"`
	Step  time.Duration `json:"step" check:"1ms..1h"` // length of a step, default 200ms
	// requests a log message after this many steps; 0 = none
	LogEvery int `json:"logEvery,omitempty" check:"0.."`
	// maxWait that the tool is asked to put into the policy, default 10s; 0 = none
	MaxWait time.Duration `json:"maxWait" check:"0..24h"`
	// asks the server to disconnect after this many messages on a connection; 0 = never
	HangUp int `json:"hangUp,omitempty" check:"0.."`
	// one (the default: each request is cut at the age given by at), all (all connected requests
	// are cut together, first at the time given by at in the measured phase, then at the interval
	// given by every), share (like all, but only a share of them) or none
	Disconnect string        `json:"disconnect" check:"none|one|share|all"`
	Share      float64       `json:"share,omitempty" check:"0..1"`   // share of the requests that are cut
	At         time.Duration `json:"at" check:"0..24h"`              // age of a request at which it is cut; with all and share, the time of the first cut in the measured phase; default 1s
	Every      time.Duration `json:"every,omitempty" check:"0..24h"` // with all and share, time between cuts; 0 (the default) = one cut
	// how long a client stays disconnected after a cut, default 1s
	Away time.Duration `json:"away" check:"0..24h"`
	// time between getStatus calls while disconnected; 0 = none
	StatusEvery time.Duration `json:"statusEvery,omitempty" check:"0..24h"`
	// share of requests that stay disconnected past their policy, default 0
	Expire float64 `json:"expire,omitempty" check:"0..1"`
	Double float64 `json:"double,omitempty" check:"0..1"` // share of resumes that two connections attempt at once, default 0
	Wrong  float64 `json:"wrong,omitempty" check:"0..1"`  // share of resumes preceded by attempts with a wrong token and a wrong id, default 0
	// how much longer than stated a policy may hold before it counts as leaked, default 1s
	Tolerance time.Duration `json:"tolerance" check:"1ms..1h"`
}

// Defaults are the settings of a lane that sets nothing.
func Defaults(string) *Settings {
	return &Settings{
		Via: ViaToken, Tool: "work", Steps: 20, Step: 200 * time.Millisecond, MaxWait: 10 * time.Second,
		Disconnect: CutOne, At: time.Second, Away: time.Second, Tolerance: time.Second,
	}
}

// Key is the key of the settings in a lane.
func (s *Settings) Key() string { return "sep975" }

// Check reports what is wrong with the settings and their lane.
func (s *Settings) Check(l settings.Lane) {
	if l.OverStdio {
		l.Bad(
			"system",
			"sep-975 resumes requests on another connection, and a pipe cannot be reopened",
			"connect to the target by its url, or leave the lane out",
		)
	}
	l.Reject("", []string{"event", "maxAge"}, "has no effect on a lane that subscribes to no event", "remove it")
	if !l.NoSources {
		l.Bad("sources", "a lane of system sep-975 subscribes to no source", "remove it, or write none")
	}
	if s.Tool == "" {
		l.Bad("sep975.tool", "is empty", "name the slow tool, or remove the key")
	}
	if s.byID() {
		l.Reject(
			"sep975",
			[]string{"maxWait", "statusEvery", "expire"},
			"belongs to a resume policy, and Last-Event-ID has none",
			"remove it, or set via: token",
		)
	}
	s.checkCuts(l)
	if need := s.longest(); need > l.Drain {
		l.Bad(
			"sep975",
			fmt.Sprintf("a request may take %v, and phases.drain gives it %v to end", need, l.Drain),
			"raise phases.drain, or make requests shorter",
		)
	}
}

func (s *Settings) checkCuts(l settings.Lane) {
	switch {
	case s.Disconnect == CutShare && s.Share == 0:
		l.Missing("sep975.share", "give the share of requests that are cut, above 0 to 1")
	case s.Disconnect != CutShare && l.Given("sep975.share"):
		l.Bad("sep975.share", "belongs to disconnect: share", "remove it, or set disconnect: share")
	}
	if s.Disconnect != CutShare && s.Disconnect != CutAll && l.Given("sep975.every") {
		l.Bad("sep975.every", "each request is cut once", "remove it, or set disconnect: all or share")
	}
	if s.Disconnect == CutNone {
		l.Reject("sep975", []string{"at", "away", "statusEvery", "expire"}, "nothing is cut", "remove it, or set disconnect")
	}
	switch {
	case s.byID():
	case s.Expire > 0 && s.MaxWait == 0:
		l.Bad("sep975.expire", "a policy without maxWait does not expire", "give maxWait")
	case s.MaxWait > 0 && s.Disconnect != CutNone && s.StatusEvery == 0 && s.Away >= s.MaxWait:
		l.Bad("sep975.away", fmt.Sprintf("every policy would expire within %v", s.Away), "stay below maxWait, or set expire: 1")
	case s.MaxWait > 0 && s.StatusEvery >= s.MaxWait && s.Away >= s.MaxWait:
		l.Bad("sep975.statusEvery", "is too rare to keep a policy", "stay below maxWait")
	}
}

// byID reports whether requests are resumed by the id of the last event.
func (s *Settings) byID() bool { return s.Via == ViaLastEventID }

// longest returns the longest expected time of a request, from its call to its end.
func (s *Settings) longest() time.Duration {
	work := time.Duration(s.Steps) * s.Step
	switch {
	case s.Disconnect == CutNone:
		return work
	case s.Expire > 0:
		return work + max(s.MaxWait+s.Tolerance, s.Away)
	}
	return work + s.Away
}

// settingsOf returns the settings of a lane, the defaults if it has none. Fields of given
// settings that must not be zero are filled in.
func settingsOf(o *driver.Options) (Settings, error) {
	set, err := driver.SettingsOr(o, Defaults)
	d := Defaults("")
	set.Via = cmp.Or(set.Via, d.Via)
	set.Tool = cmp.Or(set.Tool, d.Tool)
	set.Steps = cmp.Or(set.Steps, d.Steps)
	set.Step = cmp.Or(set.Step, d.Step)
	set.Disconnect = cmp.Or(set.Disconnect, CutNone)
	set.Tolerance = cmp.Or(set.Tolerance, d.Tolerance)
	return set, err
}

// Connections returns how many connections a subscription may have at once: those of two
// simultaneous resumes.
func Connections(*driver.Options) int { return 2 }
