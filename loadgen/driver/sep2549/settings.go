package sep2549

import (
	"cmp"
	"fmt"

	"github.com/eventmeter/eventmeter/internal/settings"
	"github.com/eventmeter/eventmeter/loadgen/driver"
)

// Settings are the settings of a lane of system sep-2549. Its subscriptions are clients that use a
// list repeatedly and cache it for as long as the server allows.
type Settings struct {
	// list that is used: tools (the default), prompts, resources, templates, or resource (the
	// content of one resource)
	List string `json:"list" check:"tools|prompts|resources|templates|resource"`
	// URI of the resource; default list://content, as in the reference server
	URI string `json:"uri,omitempty"`
	// how often each client uses the list, default 10/s
	Use settings.Rate `json:"use"`
	// keeps copies; default true. False fetches at each use, as the baseline.
	Cache bool `json:"cache"`
	// opens a stream for list_changed (resources/updated for resource), which makes copies stale at
	// once; default false
	Notifications bool `json:"notifications"`
	// share of the time to live by which a copy randomly counts as stale early; default 0.1. With
	// background it spreads the refreshes.
	Jitter float64 `json:"jitter" check:"0..1"`
	// uses a stale copy when a new one cannot be fetched; default true
	StaleOnError bool `json:"staleOnError"`
	// clients of the lane share public copies, and clients of a principal share its private copies;
	// default false
	Shared bool `json:"shared"`
	// refetches used copies before they become stale; default false
	Background bool `json:"background"`
}

// Defaults are the settings of a lane that sets nothing.
func Defaults(string) *Settings {
	return &Settings{List: "tools", URI: "list://content", Use: 10, Cache: true, Jitter: 0.1, StaleOnError: true}
}

// Key is the key of the settings in a lane.
func (s *Settings) Key() string { return "sep2549" }

// Check reports what is wrong with the settings and their lane.
func (s *Settings) Check(l settings.Lane) {
	l.Reject("", []string{"arguments", "maxAge", "poll"}, "has no effect on a lane that uses lists", "remove it")
	if s.List != "resource" && l.Given("sep2549.uri") {
		l.Bad("sep2549.uri", "belongs to list: resource", "remove it, or set list: resource")
	}
	if !(s.Use > 0 && s.Use <= 1000) {
		l.Bad("sep2549.use", fmt.Sprintf("%v is out of bounds", float64(s.Use)), "give uses per second of each client, above 0 to 1000/s")
	}
	if s.Background && s.Jitter == 0 {
		l.Bad("sep2549.jitter", "without jitter, all clients refresh at once", "give a share above 0, or background: false")
	}
	if !s.Cache {
		l.Reject(
			"sep2549",
			[]string{"shared", "background", "notifications", "jitter", "staleOnError"},
			"has no effect without a cache",
			"remove it, or cache: true",
		)
	}
}

// Subject names what is used, for people.
func (s *Settings) Subject() string { return fmt.Sprintf("the list (%q)", s.List) }

// settingsOf returns the settings of a lane, the defaults if it has none. Fields of given
// settings that must not be zero are filled in.
func settingsOf(o *driver.Options) (Settings, error) {
	set, err := driver.SettingsOr(o, Defaults)
	d := Defaults("")
	set.List = cmp.Or(set.List, d.List)
	set.URI = cmp.Or(set.URI, d.URI)
	set.Use = cmp.Or(set.Use, d.Use)
	return set, err
}

// listOf returns the list of Settings.List, or for resource what reads it and tells of its
// changes.
func listOf(name string) driver.List {
	if name == "resource" {
		return driver.List{Read: driver.MethodRead, Changed: driver.MethodUpdated}
	}
	return driver.Lists[name]
}

// Connections returns how many connections a client has: one for its fetches, and one for
// its stream, if it has a stream.
func Connections(o *driver.Options) int {
	if set, _ := settingsOf(o); set.Notifications {
		return 2
	}
	return 1
}
