package profiles

import (
	"fmt"
	"time"

	"github.com/eventmeter/eventmeter/internal/defaults"
)

// SystemSEP975 is the system of resumable requests.
const SystemSEP975 = "sep-975"

// SEP975Lane holds settings of a lane of system sep-975. Each of its subscriptions calls a slow
// tool, loses its connection, resumes, and calls again after the result. Such a lane subscribes to
// no source.
type SEP975Lane struct {
	// the slow tool, default work, as in the reference target. It gets steps, stepMs and note, and
	// logEvery, maxWait and hangUp if they are not 0, in addition to the lane's arguments. It must
	// report its progress as 1, 2, … steps, and return the note in its result.
	Tool string `yaml:"tool,omitempty" json:"tool"`
	// number of steps of a request, default 20
	Steps int           `yaml:"steps,omitempty" json:"steps" check:"1..100000"`
	Step  time.Duration `yaml:"step,omitempty" json:"step" check:"1ms..1h"` // length of a step, default 200ms
	// requests a log message after this many steps; 0 = none
	LogEvery int `yaml:"logEvery,omitempty" json:"logEvery,omitempty" check:"0.."`
	// maxWait that the tool is asked to put into the policy, default 10s; 0 = none
	MaxWait time.Duration `yaml:"maxWait,omitempty" json:"maxWait" check:"0..24h"`
	// asks the server to disconnect after this many messages on a connection; 0 = never
	HangUp int `yaml:"hangUp,omitempty" json:"hangUp,omitempty" check:"0.."`
	// one (the default: each request is cut at age at), all (all connected requests are cut
	// together, at after the start of the measured phase and then every every), share (like all,
	// with a share of them) or none
	Disconnect string        `yaml:"disconnect,omitempty" json:"disconnect" check:"none|one|share|all"`
	Share      float64       `yaml:"share,omitempty" json:"share,omitempty" check:"0..1"`   // share of the requests that are cut
	At         time.Duration `yaml:"at,omitempty" json:"at" check:"0..24h"`                 // default 1s
	Every      time.Duration `yaml:"every,omitempty" json:"every,omitempty" check:"0..24h"` // 0 (the default) = once
	// how long a client stays disconnected after a cut, default 1s
	Away time.Duration `yaml:"away,omitempty" json:"away" check:"0..24h"`
	// time between getStatus calls while disconnected; 0 = none
	StatusEvery time.Duration `yaml:"statusEvery,omitempty" json:"statusEvery,omitempty" check:"0..24h"`
	// share of requests that stay disconnected past their policy, default 0
	Expire float64 `yaml:"expire,omitempty" json:"expire,omitempty" check:"0..1"`
	Double float64 `yaml:"double,omitempty" json:"double,omitempty" check:"0..1"` // share of resumes that two connections attempt at once, default 0
	Wrong  float64 `yaml:"wrong,omitempty" json:"wrong,omitempty" check:"0..1"`   // share of resumes preceded by attempts with a wrong token and a wrong id, default 0
	// how much longer than stated a policy may hold before it counts as leaked, default 1s
	Tolerance time.Duration `yaml:"tolerance,omitempty" json:"tolerance" check:"1ms..1h"`
}

// defaultSEP975 sets the defaults of a lane of system sep-975.
func defaultSEP975(l *Lane, _ string) {
	l.SEP975 = SEP975Lane{
		Tool: defaults.SEP975Tool, Steps: defaults.SEP975Steps, Step: defaults.SEP975Step, MaxWait: defaults.SEP975MaxWait,
		Disconnect: defaults.SEP975Disconnect, At: defaults.SEP975At, Away: defaults.SEP975Away, Tolerance: defaults.SEP975Tolerance,
	}
}

// sep975 checks the settings of a lane of system sep-975.
func (c *checker) sep975(path string, l *Lane) {
	here := path + ".sep975"
	c.reject(path, []string{"event", "maxAge"}, "has no effect on a lane that subscribes to no event", "remove it")
	if !l.HasNoSources() {
		c.bad(path+".sources", "a lane of system "+SystemSEP975+" subscribes to no source", "remove it, or write none")
	}
	s := &l.SEP975
	if s.Tool == "" {
		c.bad(here+".tool", "is empty", "name the slow tool, or remove the key")
	}
	c.sep975Cuts(here, s)
	if need := s.longest(); need > c.p.Phases.Drain {
		c.bad(here, fmt.Sprintf("a request may take %v, and phases.drain gives it %v to end", need, c.p.Phases.Drain), "raise phases.drain, or make requests shorter")
	}
}

func (c *checker) sep975Cuts(here string, s *SEP975Lane) {
	switch {
	case s.Disconnect == "share" && s.Share == 0:
		c.missing(here+".share", "give the share of requests that are cut, above 0 to 1")
	case s.Disconnect != "share" && c.given(here+".share"):
		c.bad(here+".share", "belongs to disconnect: share", "remove it, or set disconnect: share")
	}
	if s.Disconnect != "share" && s.Disconnect != "all" && c.given(here+".every") {
		c.bad(here+".every", "each request is cut once", "remove it, or set disconnect: all or share")
	}
	if s.Disconnect == "none" {
		c.reject(here, []string{"at", "away", "statusEvery", "expire"}, "nothing is cut", "remove it, or set disconnect")
	}
	switch {
	case s.Expire > 0 && s.MaxWait == 0:
		c.bad(here+".expire", "a policy without maxWait does not expire", "give maxWait")
	case s.MaxWait > 0 && s.Disconnect != "none" && s.StatusEvery == 0 && s.Away >= s.MaxWait:
		c.bad(here+".away", fmt.Sprintf("every policy would expire within %v", s.Away), "stay below maxWait, or set expire: 1")
	case s.MaxWait > 0 && s.StatusEvery >= s.MaxWait && s.Away >= s.MaxWait:
		c.bad(here+".statusEvery", "is too rare to keep a policy", "stay below maxWait")
	}
}

// longest is the longest expected time of a request, from its call to its end.
func (s *SEP975Lane) longest() time.Duration {
	work := time.Duration(s.Steps) * s.Step
	switch {
	case s.Disconnect == "none":
		return work
	case s.Expire > 0:
		return work + max(s.MaxWait+s.Tolerance, s.Away)
	}
	return work + s.Away
}
