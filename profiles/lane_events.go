package profiles

import (
	"fmt"
	"time"
)

// EventsLane is what only a lane of system events can be told.
type EventsLane struct {
	// Listen opens a stream for changes of the event types, and lists them
	// again at each. In the legacy era one lane of a run can.
	Listen bool `yaml:"listen,omitempty" json:"listen,omitempty"`
	// Resume lets a subscription that churn ended go on from its last cursor
	// when it is opened again: what happened meanwhile is replayed, as far back
	// as maxAge where that is given.
	Resume bool `yaml:"resume,omitempty" json:"resume,omitempty"`
	// CutEvery is how long a stream lives, half as long to half as long again,
	// until the lane cuts it as a lost network would; 0 = it does not. CutFor is
	// how long it stays away then, on top of push.backoff.
	CutEvery time.Duration `yaml:"cutEvery,omitempty" json:"cutEvery,omitempty" check:"0.."`
	CutFor   time.Duration `yaml:"cutFor,omitempty" json:"cutFor,omitempty" check:"0.."`
}

func (c *checker) events(path string, l *Lane) {
	here := path + ".events"
	if l.Mode != "push" {
		c.reject(here, []string{"cutEvery", "cutFor"}, fmt.Sprintf("a lane of mode %s has no streams to cut", l.Mode), "remove it, or set mode: push")
	}
}
