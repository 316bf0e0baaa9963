package profiles

import (
	"fmt"
	"time"
)

// longPoll is the one revision with long polls.
const longPoll = "longpoll"

// EventsLane holds settings of a lane of system events.
type EventsLane struct {
	// opens a stream for changes of the event types, and lists the types again after each change;
	// in the legacy era only one lane of a run can
	Listen bool `yaml:"listen,omitempty" json:"listen,omitempty"`
	// resumes a subscription that churn closed from its last cursor when it is reopened: events
	// published meanwhile are replayed, up to maxAge if given
	Resume bool `yaml:"resume,omitempty" json:"resume,omitempty"`
	// mean life of a stream (±50 %) after which the lane cuts it like a lost network; 0 = never
	CutEvery time.Duration `yaml:"cutEvery,omitempty" json:"cutEvery,omitempty" check:"0.."`
	CutFor   time.Duration `yaml:"cutFor,omitempty" json:"cutFor,omitempty" check:"0.."` // how long a cut stream stays closed, in addition to push.backoff
}

func (c *checker) events(path string, l *Lane) {
	here := path + ".events"
	if l.Mode == "poll" && l.Poll.Timeout > 0 && c.p.Target.Revision != longPoll {
		c.bad(path+".poll.timeout", "revision "+c.p.Target.Revision+" has no long polls", "remove it, or set target.revision: longpoll")
	}
	if l.Mode != "push" {
		c.reject(here, []string{"cutEvery", "cutFor"}, fmt.Sprintf("a lane of mode %s has no streams to cut", l.Mode), "remove it, or set mode: push")
	}
}

// SmitheryLane holds settings of a lane of system smithery in addition to its webhook block:
// variants seen in practice.
type SmitheryLane struct {
	// key under which arguments are sent: params, as specified (the default), or arguments
	ArgumentsKey string `yaml:"argumentsKey,omitempty" json:"argumentsKey,omitempty" check:"|params|arguments"`
	// adds an id chosen by the client to each subscribe call
	ClientID bool `yaml:"clientID,omitempty" json:"clientID,omitempty"`
}

// smithery checks a lane of Smithery's triggers: there are only webhooks, and the server chooses
// their life.
func (c *checker) smithery(path string, l *Lane) {
	if l.Mode == "webhook" && l.Webhook.TTL != "default" {
		c.bad(path+".webhook.ttl", "system smithery has no requested ttl", "remove it; the server chooses the life of a subscription")
	}
	if l.MaxAge != 0 {
		c.bad(path+".maxAge", "system smithery has no replay", "remove it")
	}
}
