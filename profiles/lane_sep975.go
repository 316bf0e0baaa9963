package profiles

import (
	"fmt"
	"time"

	"github.com/eventmeter/eventmeter/internal/defaults"
)

// SystemSEP975 is the system of resumable requests.
const SystemSEP975 = "sep-975"

// SEP975Lane is what a lane of system sep-975 does. Each of its subscriptions
// calls a slow tool, loses its connection, resumes, and calls again when the
// result is there. Such a lane receives no events.
type SEP975Lane struct {
	// Tool is the slow tool, default work, which the reference target has. It
	// gets steps, stepMs and note, and where they are not 0 logEvery, maxWait
	// and hangUp, beside the lane's arguments. It must report its progress as
	// 1, 2, … steps, and give the note back in its result.
	Tool string `yaml:"tool,omitempty" json:"tool"`
	// Steps (default 20) of length Step (default 200ms) are one request's work.
	Steps int           `yaml:"steps,omitempty" json:"steps" check:"1..100000"`
	Step  time.Duration `yaml:"step,omitempty" json:"step" check:"1ms..1h"`
	// LogEvery asks for a log message after so many steps; 0 = none.
	LogEvery int `yaml:"logEvery,omitempty" json:"logEvery,omitempty" check:"0.."`
	// MaxWait is what the tool is asked to put into the policy, default 10s; 0 =
	// not asked.
	MaxWait time.Duration `yaml:"maxWait,omitempty" json:"maxWait" check:"0..24h"`
	// HangUp asks for the server to disconnect after so many messages on one
	// connection; 0 = never.
	HangUp int `yaml:"hangUp,omitempty" json:"hangUp,omitempty" check:"0.."`
	// Disconnect is one (the default: each request is cut when it is At old), all
	// (all that are connected At after the measured part began are cut at once,
	// and again after each Every), share (the same with a Share of them) or
	// none. At is 1s by default, and Every 0: once.
	Disconnect string        `yaml:"disconnect,omitempty" json:"disconnect" check:"none|one|share|all"`
	Share      float64       `yaml:"share,omitempty" json:"share,omitempty" check:"0..1"`
	At         time.Duration `yaml:"at,omitempty" json:"at" check:"0..24h"`
	Every      time.Duration `yaml:"every,omitempty" json:"every,omitempty" check:"0..24h"`
	// Away is how long a client stays away that cut its connection, default 1s.
	Away time.Duration `yaml:"away,omitempty" json:"away" check:"0..24h"`
	// StatusEvery is the time between two getStatus while away; 0 = none.
	StatusEvery time.Duration `yaml:"statusEvery,omitempty" json:"statusEvery,omitempty" check:"0..24h"`
	// Expire is the share of requests that stay away past their policy, Double
	// that of resumes which two connections make at once, Wrong that of resumes
	// before which a wrong token and a wrong id are tried. All are 0 by default.
	Expire float64 `yaml:"expire,omitempty" json:"expire,omitempty" check:"0..1"`
	Double float64 `yaml:"double,omitempty" json:"double,omitempty" check:"0..1"`
	Wrong  float64 `yaml:"wrong,omitempty" json:"wrong,omitempty" check:"0..1"`
	// Tolerance is how much longer than it says a policy may hold before it
	// counts as leaked, default 1s.
	Tolerance time.Duration `yaml:"tolerance,omitempty" json:"tolerance" check:"1ms..1h"`
}

// defaultSEP975 fills a lane of system sep-975.
func defaultSEP975(l *Lane, _ string) {
	l.Sources = noSources
	l.SEP975 = SEP975Lane{
		Tool: defaults.SEP975Tool, Steps: defaults.SEP975Steps, Step: defaults.SEP975Step, MaxWait: defaults.SEP975MaxWait,
		Disconnect: defaults.SEP975Disconnect, At: defaults.SEP975At, Away: defaults.SEP975Away, Tolerance: defaults.SEP975Tolerance,
	}
}

// sep975 checks what a lane of system sep-975 has and may not have.
func (c *checker) sep975(path string, l *Lane) {
	here := path + ".sep975"
	c.reject(path, []string{"event", "maxAge"}, "means nothing to a lane that subscribes to no event", "remove it")
	if !l.HearsNone() {
		c.bad(path+".sources", "a lane of system "+SystemSEP975+" hears no source", "remove it, or write none")
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
		c.bad(here+".statusEvery", "is too seldom to keep a policy", "stay below maxWait")
	}
}

// longest is the most that a request should take, from its call to its end.
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
