package sep2549

import (
	"cmp"

	"github.com/eventmeter/eventmeter/internal/defaults"
	"github.com/eventmeter/eventmeter/loadgen/driver"
)

// Settings describes clients that use a list and keep it for as long as
// the server lets them. The zero value uses tools/list 10 times a second.
type Settings struct {
	// List is what is used: tools (also ""), prompts, resources, templates, or
	// resource, the content of the one at URI.
	List string
	// URI of the resource; "" = list://content, the reference target's.
	URI string
	// Use is how often each client uses the list, in uses per second; 0 = 10.
	Use float64
	// NoCache fetches with every use, whatever the server allows: the baseline.
	NoCache bool
	// Notifications opens a stream for list_changed (resources/updated for
	// resource), which makes copies stale at once.
	Notifications bool
	// Jitter is the share of the time to live, 0 to 1, by which a copy may count
	// as stale early, at random, so that copies that came together do not go
	// together. With Background it spreads the refreshes in the same way.
	Jitter float64
	// StaleOnError uses a stale copy when fetching a new one fails.
	StaleOnError bool
	// Shared lets all clients of the lane use each other's public copies, and
	// those of one principal its private ones.
	Shared bool
	// Background fetches copies that were used anew before they are stale.
	Background bool
}

// WithDefaults returns the settings with every field filled in whose zero value
// stands for a default.
func (s Settings) WithDefaults() Settings {
	s.List = cmp.Or(s.List, defaults.SEP2549List)
	s.URI = cmp.Or(s.URI, defaults.SEP2549URI)
	s.Use = cmp.Or(s.Use, defaults.SEP2549Use)
	return s
}

// forms says how each list is read and which notification is about it.
var forms = map[string]struct{ method, changed, want string }{
	"tools":     {"tools/list", "notifications/tools/list_changed", "toolsListChanged"},
	"prompts":   {"prompts/list", "notifications/prompts/list_changed", "promptsListChanged"},
	"resources": {"resources/list", "notifications/resources/list_changed", "resourcesListChanged"},
	"templates": {"resources/templates/list", "notifications/resources/list_changed", "resourcesListChanged"},
	"resource":  {"resources/read", "notifications/resources/updated", ""},
}

// Connections is how many connections a client has: a stream, if it has
// one, beside its fetches.
func Connections(o *driver.Options) int {
	if set, _ := driver.SettingsOf[Settings](o); set.Notifications {
		return 2
	}
	return 1
}
