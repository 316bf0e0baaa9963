package updates

import (
	"cmp"

	"github.com/eventmeter/eventmeter/internal/settings"
	"github.com/eventmeter/eventmeter/loadgen/driver"
)

// Settings are the settings of a lane of system updates. Its subscriptions are clients of a server
// without events: each subscribes to one resource, or to changes of a list.
type Settings struct {
	// URI of the resource that a client subscribes to. It may be a template of RFC 6570, whose
	// variables are the lane's arguments: test://items/{n}
	Resource string `json:"resource,omitempty"`
	// list whose changes a client is notified of, in place of a resource: tools, prompts or resources;
	// without resource, the default is tools
	List string `json:"list,omitempty" check:"|tools|prompts|resources"`
	// how a client learns which change caused a notification: read (the default) reads the resource
	// or the list again and looks for the probe id in it; none does not read
	Identify string `json:"identify" check:"read|none"`
}

// The values of Settings.Identify.
const (
	IdentifyRead = "read"
	IdentifyNone = "none"
)

// Defaults are the settings of a lane that sets nothing.
func Defaults(string) *Settings { return &Settings{Identify: IdentifyRead} }

// Key is the key of the settings in a lane.
func (s *Settings) Key() string { return "updates" }

// Check reports what is wrong with the settings and their lane.
func (s *Settings) Check(l settings.Lane) {
	l.Reject("", []string{"maxAge"}, "has no effect: a server without events has no replay", "remove it")
	l.Reject("push", []string{"heartbeat"}, "has no effect: a server without events promises no heartbeat", "remove it")
	switch {
	case s.Resource != "" && s.List != "":
		l.Bad("updates.list", "a lane subscribes to a resource or to a list", "remove resource or list")
	case s.Resource == "" && l.Given("arguments"):
		l.Bad(
			"arguments",
			"has no effect on a lane that subscribes to a list",
			"remove it, or give updates.resource, a template with these variables",
		)
	}
}

// Subject names what is subscribed to, for people.
func (s *Settings) Subject() string {
	if s.Resource != "" {
		return "the resource (" + s.Resource + ")"
	}
	return "the list (" + s.WithDefaults().List + ")"
}

// WithDefaults returns the settings with every field filled in whose zero value
// stands for a default.
func (s Settings) WithDefaults() Settings {
	if s.Resource == "" {
		s.List = cmp.Or(s.List, "tools")
	}
	s.Identify = cmp.Or(s.Identify, Defaults("").Identify)
	return s
}

// Connections returns how many connections a client has: one for its stream, and one for
// its reads if it reads.
func Connections(o *driver.Options) int {
	if set, err := driver.SettingsOr(o, Defaults); err == nil && set.Identify == IdentifyNone {
		return 1
	}
	return 2
}
