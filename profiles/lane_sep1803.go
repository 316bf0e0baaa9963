package profiles

import (
	"time"

	"github.com/eventmeter/eventmeter/internal/defaults"
)

// SEP1803Lane holds settings of a lane of system sep-1803. Mode push is in band, on the stream of a
// session; mode webhook is out of band.
type SEP1803Lane struct {
	// number of subscriptions that share a session (in the modern era, a listen request), default
	// 1. A session uses the token of its number.
	PerSession int `yaml:"perSession,omitempty" json:"perSession,omitempty" check:"1.."`
	// sends the id of the last event when a stream is reopened, so that the server can continue
	// from there; default true. The modern era has no redelivery.
	Redelivery bool `yaml:"redelivery,omitempty" json:"redelivery,omitempty"`
	// mean life of a stream (±50 %) after which the lane cuts it like a lost network; 0 = never
	CutEvery time.Duration `yaml:"cutEvery,omitempty" json:"cutEvery,omitempty" check:"0.."`
	CutFor   time.Duration `yaml:"cutFor,omitempty" json:"cutFor,omitempty" check:"0.."` // how long a cut stream stays closed
	// requested type of webhook secret: raw, standard or none; empty (the default) = no request, as
	// in the draft
	Secret string `yaml:"secret,omitempty" json:"secret,omitempty" check:"|raw|standard|none"`
	// handling of a delivery that arrives before its secret: hold (it waits; the default) or refuse
	// (503)
	Early string `yaml:"early,omitempty" json:"early,omitempty" check:"hold|refuse"`
}

// defaultSEP1803 sets the defaults of a lane of system sep-1803.
func defaultSEP1803(l *Lane, mode string) {
	switch mode {
	case "push":
		l.SEP1803 = SEP1803Lane{PerSession: defaults.SEP1803PerSession, Redelivery: defaults.SEP1803Redelivery}
	case "webhook":
		l.SEP1803 = SEP1803Lane{Early: defaults.SEP1803Early}
	}
}

// sep1803 checks a lane of SEP-1803: it has no poll, no cursor, no expiry and no secret chosen by
// the client.
func (c *checker) sep1803(path string, l *Lane) {
	here := path + ".sep1803"
	if l.MaxAge != 0 {
		c.bad(path+".maxAge", "system sep-1803 has no replay", "remove it")
	}
	switch l.Mode {
	case "push":
		c.reject(here, []string{"secret", "early"}, "has no effect on a lane of mode push", "remove it, or set mode: webhook")
	case "webhook":
		c.reject(here, []string{"perSession", "redelivery", "cutEvery", "cutFor"}, "has no effect on a lane of mode webhook", "remove it, or set mode: push")
		c.reject(path+".webhook", []string{"ttl", "refreshAt", "rotateEvery", "secrets", "oldSecret"}, "system sep-1803 has neither refreshes nor secrets of the client's", "remove it")
	}
}
