package profiles

import (
	"fmt"
	"time"

	"github.com/eventmeter/eventmeter/internal/defaults"
)

// SEP1803Lane is what only a lane of system sep-1803 can be told. Mode push is
// in band, on the stream of a session; mode webhook is out of band.
type SEP1803Lane struct {
	// PerSession is how many subscriptions share a session, default 1: in the
	// modern era, a request to listen. A session uses the token of its number.
	PerSession int `yaml:"perSession,omitempty" json:"perSession,omitempty"`
	// Redelivery names the last event when a stream is opened again, so that
	// the server can go on from there; default true. The modern era has none.
	Redelivery bool `yaml:"redelivery,omitempty" json:"redelivery,omitempty"`
	// CutEvery is how long a stream lives, half as long to half as long again,
	// until the lane cuts it as a lost network would; 0 = it does not. CutFor is
	// how long it stays away then.
	CutEvery time.Duration `yaml:"cutEvery,omitempty" json:"cutEvery,omitempty"`
	CutFor   time.Duration `yaml:"cutFor,omitempty" json:"cutFor,omitempty"`
	// Secret is the type of webhook secret that is wished for: raw, standard or
	// none. Empty, the default: no wish is sent, as the draft has none.
	Secret string `yaml:"secret,omitempty" json:"secret,omitempty"`
	// Early is what becomes of a delivery that arrives before its secret: hold
	// (it waits; the default) or refuse (503).
	Early string `yaml:"early,omitempty" json:"early,omitempty"`
}

// defaultSEP1803 fills a lane of system sep-1803.
func defaultSEP1803(l *Lane, mode string) {
	switch mode {
	case "push":
		l.SEP1803 = SEP1803Lane{PerSession: defaults.SEP1803PerSession, Redelivery: defaults.SEP1803Redelivery}
	case "webhook":
		l.SEP1803 = SEP1803Lane{Early: defaults.SEP1803Early}
	}
}

// sep1803 checks what a lane of SEP-1803 may have: no poll, no cursor, no life
// that ends, and no secret of its own making.
func (c *checker) sep1803(path string, l *Lane) {
	here := path + ".sep1803"
	if l.System != "sep-1803" {
		if c.given(here) {
			c.bad(here, fmt.Sprintf("means nothing to a lane of system %s", l.System), "remove it, or set system: sep-1803")
		}
		return
	}
	if l.MaxAge != 0 {
		c.bad(path+".maxAge", "system sep-1803 has no replay", "remove it")
	}
	foreign := func(mode string, keys ...string) {
		for _, key := range keys {
			if c.given(here + "." + key) {
				c.bad(here+"."+key, fmt.Sprintf("means nothing to a lane of mode %s", l.Mode), "remove it, or set mode: "+mode)
			}
		}
	}
	s := &l.SEP1803
	switch l.Mode {
	case "push":
		c.least(here+".perSession", s.PerSession, 1)
		c.span(here+".cutEvery", s.CutEvery, 0, longest)
		c.span(here+".cutFor", s.CutFor, 0, longest)
		foreign("webhook", "secret", "early")
	case "webhook":
		if s.Secret != "" {
			c.enum(here+".secret", s.Secret, "raw", "standard", "none")
		}
		c.enum(here+".early", s.Early, "hold", "refuse")
		foreign("push", "perSession", "redelivery", "cutEvery", "cutFor")
		for _, key := range []string{"ttl", "refreshAt", "rotateEvery", "secrets", "oldSecret"} {
			if c.given(path + ".webhook." + key) {
				c.bad(path+".webhook."+key, "system sep-1803 has neither refreshes nor secrets of the client's", "remove it")
			}
		}
	case "":
	default:
		c.bad(path+".mode", fmt.Sprintf("system sep-1803 has no %s", l.Mode), "set mode: push, in band, or webhook, out of band")
	}
}
