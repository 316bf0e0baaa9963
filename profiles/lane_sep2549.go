package profiles

import (
	"fmt"

	"github.com/eventmeter/eventmeter/internal/defaults"
)

// SystemSEP2549 is the system of lists with a time to live.
const SystemSEP2549 = "sep-2549"

// SEP2549Lane is what a lane of system sep-2549 does: its subscriptions are
// clients that use a list again and again and keep it for as long as the server
// lets them.
type SEP2549Lane struct {
	// List is what is used: tools (the default), prompts, resources, templates,
	// or resource, the content of one resource.
	List string `yaml:"list,omitempty" json:"list" check:"tools|prompts|resources|templates|resource"`
	// URI of the resource; default list://content, the reference target's.
	URI string `yaml:"uri,omitempty" json:"uri,omitempty"`
	// Use is how often each client uses the list, default 10/s.
	Use Rate `yaml:"use,omitempty" json:"use"`
	// Cache, true by default, keeps copies. False fetches with each use: the
	// baseline.
	Cache bool `yaml:"cache,omitempty" json:"cache"`
	// Notifications opens a stream for list_changed (resources/updated for
	// resource), which makes copies stale at once. Default false.
	Notifications bool `yaml:"notifications,omitempty" json:"notifications"`
	// Jitter is the share of the time to live by which a copy may count as stale
	// early, at random; default 0.1. With background it spreads the refreshes.
	Jitter float64 `yaml:"jitter,omitempty" json:"jitter" check:"0..1"`
	// StaleOnError uses a stale copy when a new one cannot be had. Default true.
	StaleOnError bool `yaml:"staleOnError,omitempty" json:"staleOnError"`
	// Shared lets the clients of the lane use each other's public copies, and
	// those of one principal its private ones. Default false.
	Shared bool `yaml:"shared,omitempty" json:"shared"`
	// Background fetches copies that were used anew before they are stale.
	// Default false.
	Background bool `yaml:"background,omitempty" json:"background"`
}

// defaultSEP2549 fills a lane of system sep-2549.
func defaultSEP2549(l *Lane, _ string) {
	l.Event = "list.changed"
	l.SEP2549 = SEP2549Lane{
		List: defaults.SEP2549List, URI: defaults.SEP2549URI, Use: defaults.SEP2549Use, Cache: defaults.SEP2549Cache,
		Jitter: defaults.SEP2549Jitter, StaleOnError: defaults.SEP2549StaleOnError,
	}
}

// sep2549 checks what a lane of system sep-2549 has and may not have.
func (c *checker) sep2549(path string, l *Lane) {
	here := path + ".sep2549"
	c.reject(path, []string{"arguments", "maxAge", "poll"}, "means nothing to a lane that uses lists", "remove it")
	s := &l.SEP2549
	if s.List != "resource" && c.given(here+".uri") {
		c.bad(here+".uri", "belongs to list: resource", "remove it, or set list: resource")
	}
	if !(s.Use > 0 && s.Use <= 1000) {
		c.bad(here+".use", fmt.Sprintf("%v is out of bounds", float64(s.Use)), "give uses per second of each client, above 0 to 1000/s")
	}
	switch {
	case s.Background && s.Jitter == 0:
		c.bad(here+".jitter", "without jitter, all clients refresh at once", "give a share above 0, or background: false")
	case !s.Cache:
		c.reject(here, []string{"shared", "background", "notifications"}, "means nothing without a cache", "remove it, or cache: true")
	}
}
