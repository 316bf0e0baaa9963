package profiles

import (
	"time"

	"github.com/eventmeter/eventmeter/internal/defaults"
)

// SEP1803Lane has the settings of lanes of system sep-1803. Mode push is
// in band, on the stream of a session; mode webhook is out of band.
type SEP1803Lane struct {
	// PerSession is how many subscriptions share a session, default 1: in the
	// modern era, a request to listen. A session uses the token of its number.
	PerSession int `yaml:"perSession,omitempty" json:"perSession,omitempty" check:"1.."`
	// Redelivery names the last event when a stream is opened again, so that
	// the server can go on from there; default true. The modern era has none.
	Redelivery bool `yaml:"redelivery,omitempty" json:"redelivery,omitempty"`
	// CutEvery is how long a stream lives, half as long to half as long again,
	// until the lane cuts it as a lost network would; 0 = it does not. CutFor is
	// how long it stays away then.
	CutEvery time.Duration `yaml:"cutEvery,omitempty" json:"cutEvery,omitempty" check:"0.."`
	CutFor   time.Duration `yaml:"cutFor,omitempty" json:"cutFor,omitempty" check:"0.."`
	// Secret is the type of webhook secret that is wished for: raw, standard or
	// none. Empty, the default: no wish is sent, as the draft has none.
	Secret string `yaml:"secret,omitempty" json:"secret,omitempty" check:"|raw|standard|none"`
	// Early is what becomes of a delivery that arrives before its secret: hold
	// (it waits; the default) or refuse (503).
	Early string `yaml:"early,omitempty" json:"early,omitempty" check:"hold|refuse"`
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
	if l.MaxAge != 0 {
		c.bad(path+".maxAge", "system sep-1803 has no replay", "remove it")
	}
	switch l.Mode {
	case "push":
		c.reject(here, []string{"secret", "early"}, "means nothing to a lane of mode push", "remove it, or set mode: webhook")
	case "webhook":
		c.reject(here, []string{"perSession", "redelivery", "cutEvery", "cutFor"}, "means nothing to a lane of mode webhook", "remove it, or set mode: push")
		c.reject(path+".webhook", []string{"ttl", "refreshAt", "rotateEvery", "secrets", "oldSecret"}, "system sep-1803 has neither refreshes nor secrets of the client's", "remove it")
	}
}
