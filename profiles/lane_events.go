package profiles

import (
	"fmt"
	"time"
)

// EventsLane has the settings of lanes of system events.
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

// SmitheryLane has the settings of lanes of system smithery beside their webhook
// block: variants that are seen in the wild.
type SmitheryLane struct {
	// ArgumentsKey is the name under which arguments are sent: params, as
	// specified, or arguments. Empty = params.
	ArgumentsKey string `yaml:"argumentsKey,omitempty" json:"argumentsKey,omitempty" check:"|params|arguments"`
	// ClientID adds an id of the client's own making to each subscribe call.
	ClientID bool `yaml:"clientID,omitempty" json:"clientID,omitempty"`
}

// smithery checks what a lane of Smithery's triggers may not have: there is
// nothing but webhooks, whose life is the server's to choose.
func (c *checker) smithery(path string, l *Lane) {
	if l.Mode == "webhook" && l.Webhook.TTL != "default" {
		c.bad(path+".webhook.ttl", "system smithery has no wish for a ttl", "remove it; the life of a subscription is the server's to choose")
	}
	if l.MaxAge != 0 {
		c.bad(path+".maxAge", "system smithery has no replay", "remove it")
	}
}
