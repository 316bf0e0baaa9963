package sep975

import (
	"cmp"
	"time"

	"github.com/eventmeter/eventmeter/internal/defaults"
	"github.com/eventmeter/eventmeter/loadgen/driver"
)

// ResumableRequests is the client capability of SEP-975. The endpoint of a lane
// of system sep-975 has to advertise it.
const ResumableRequests = "resumableRequests"

// The methods of SEP-975.
const (
	methodGetStatus = "requests/getStatus"
	methodResume    = "requests/resume"
)

// Which requests are cut, and when: see Settings.Disconnect.
const (
	CutNone  = "none"
	CutOne   = "one"
	CutShare = "share"
	CutAll   = "all"
)

// Settings shapes the long requests of a lane of system sep-975. Each
// subscription of the lane calls a slow tool, is cut off and resumes, and calls
// it again when the result is there, until the lane drains.
//
// The tool must report its progress as 1, 2, … Steps, and return a result that
// holds the argument note. It is given steps, stepMs and note, and where they
// are not zero logEvery, maxWait and hangUp, beside the lane's Arguments.
type Settings struct {
	// Tool is the tool's name; "" = work.
	Tool string
	// Steps per request (0 = 20), each of which takes Step (0 = 200 ms).
	Steps int
	Step  time.Duration
	// LogEvery asks for a log message after so many steps, whose data has a
	// member seq that counts them from 1; 0 = none.
	LogEvery int
	// MaxWait is the maxWait that the tool is asked for; 0 = not asked. What
	// counts is what the policy says.
	MaxWait time.Duration
	// HangUp asks the tool to have the server disconnect after so many messages
	// on one connection; 0 = not asked.
	HangUp int

	// Disconnect is CutNone (also ""), CutOne (each request is cut when it is At
	// old), CutAll (all that are connected At after the measured part began are
	// cut at once, and again after each Every) or CutShare (the same with a
	// Share of them, 0 to 1).
	Disconnect string
	Share      float64
	At, Every  time.Duration
	// Away is how long a client that cut its connection stays away.
	Away time.Duration
	// StatusEvery is the time between two getStatus while away; 0 = none.
	StatusEvery time.Duration
	// Expire is the share of requests, 0 to 1, that once cut stay away past
	// MaxWait and Tolerance, without asking for their status.
	Expire float64
	// Double is the share of resumes that two connections make at once.
	Double float64
	// Wrong is the share of resumes before which a resume with a wrong token
	// and one with a wrong id are tried.
	Wrong float64
	// Tolerance is how much longer than maxWait a policy may hold until it
	// counts as leaked; 0 = 1 s.
	Tolerance time.Duration
}

// WithDefaults returns the settings with every field filled in whose zero value
// stands for a default.
func (s Settings) WithDefaults() Settings {
	s.Tool = cmp.Or(s.Tool, defaults.SEP975Tool)
	s.Steps = cmp.Or(s.Steps, defaults.SEP975Steps)
	s.Step = cmp.Or(s.Step, defaults.SEP975Step)
	s.Disconnect = cmp.Or(s.Disconnect, CutNone)
	s.Tolerance = cmp.Or(s.Tolerance, defaults.SEP975Tolerance)
	return s
}

// Connections is how many connections a request has: those of two resumes
// that are made at once, and getStatus.
func Connections(*driver.Options) int { return 2 }
