package updates

import (
	"cmp"
	"errors"

	"github.com/eventmeter/eventmeter/internal/defaults"
	"github.com/eventmeter/eventmeter/loadgen/driver"
)

// Settings describe what the clients of a lane subscribe to, and what they do
// when it has changed. The zero value subscribes to changes of tools/list.
type Settings struct {
	// Resource is the URI of the resource that a client subscribes to, a template of
	// RFC 6570 whose variables are the lane's arguments; "" = List.
	Resource string `yaml:"resource,omitempty" json:"resource,omitempty"`
	// List is the list whose changes a client is notified of, in place of a
	// resource: tools, prompts or resources. With neither, it is tools.
	List string `yaml:"list,omitempty" json:"list,omitempty" check:"|tools|prompts|resources"`
	// Identify says how a client learns which change an update is of: read (also "")
	// reads the resource or the list again and finds the probe there, none takes
	// the update as it is, which identifies nothing.
	Identify string `yaml:"identify,omitempty" json:"identify,omitempty" check:"read|none"`
}

// The values of Settings.Identify.
const (
	IdentifyRead = "read"
	IdentifyNone = "none"
)

// WithDefaults returns the settings with every field filled in whose zero value
// stands for a default.
func (s Settings) WithDefaults() Settings {
	if s.Resource == "" {
		s.List = cmp.Or(s.List, defaults.UpdatesList)
	}
	s.Identify = cmp.Or(s.Identify, defaults.UpdatesIdentify)
	return s
}

// Check says what is wrong with settings that are complete.
func (s Settings) Check() error {
	if s.Resource != "" && s.List != "" {
		return errors.New("resource and list are both given: a lane subscribes to one of them, so remove the other")
	}
	return nil
}

// form is how changes of a list are asked for, notified and read.
type form struct{ want, changed, read string }

var forms = map[string]form{
	"tools":     {"toolsListChanged", "notifications/tools/list_changed", "tools/list"},
	"prompts":   {"promptsListChanged", "notifications/prompts/list_changed", "prompts/list"},
	"resources": {"resourcesListChanged", "notifications/resources/list_changed", "resources/list"},
}

// The methods of the base protocol.
const (
	methodSubscribe    = "resources/subscribe"
	methodUnsubscribe  = "resources/unsubscribe"
	methodRead         = "resources/read"
	methodUpdated      = "notifications/resources/updated"
	methodAcknowledged = "notifications/subscriptions/acknowledged"
	methodStream       = "GET stream"
)

// Connections is how many connections a client has: a stream, and one on which it
// reads.
func Connections(*driver.Options) int { return 2 }
