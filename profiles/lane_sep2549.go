package profiles

import (
	"fmt"

	"github.com/eventmeter/eventmeter/internal/defaults"
)

// SystemSEP2549 is the system of lists with a time to live.
const SystemSEP2549 = "sep-2549"

// SEP2549Lane holds settings of a lane of system sep-2549. Its subscriptions are clients that use a
// list repeatedly and cache it for as long as the server allows.
type SEP2549Lane struct {
	// list that is used: tools (the default), prompts, resources, templates, or resource (the
	// content of one resource)
	List string `yaml:"list,omitempty" json:"list" check:"tools|prompts|resources|templates|resource"`
	// URI of the resource; default list://content, as in the reference target
	URI string `yaml:"uri,omitempty" json:"uri,omitempty"`
	// how often each client uses the list, default 10/s
	Use Rate `yaml:"use,omitempty" json:"use"`
	// keeps copies; default true. False fetches at each use, as the baseline.
	Cache bool `yaml:"cache,omitempty" json:"cache"`
	// opens a stream for list_changed (resources/updated for resource), which makes copies stale at
	// once; default false
	Notifications bool `yaml:"notifications,omitempty" json:"notifications"`
	// share of the time to live by which a copy randomly counts as stale early; default 0.1. With
	// background it spreads the refreshes.
	Jitter float64 `yaml:"jitter,omitempty" json:"jitter" check:"0..1"`
	// uses a stale copy when a new one cannot be fetched; default true
	StaleOnError bool `yaml:"staleOnError,omitempty" json:"staleOnError"`
	// clients of the lane share public copies, and clients of a principal share its private copies;
	// default false
	Shared bool `yaml:"shared,omitempty" json:"shared"`
	// refetches used copies before they become stale; default false
	Background bool `yaml:"background,omitempty" json:"background"`
}

// defaultSEP2549 sets the defaults of a lane of system sep-2549.
func defaultSEP2549(l *Lane, _ string) {
	l.Event = "list.changed"
	l.SEP2549 = SEP2549Lane{
		List: defaults.SEP2549List, URI: defaults.SEP2549URI, Use: defaults.SEP2549Use, Cache: defaults.SEP2549Cache,
		Jitter: defaults.SEP2549Jitter, StaleOnError: defaults.SEP2549StaleOnError,
	}
}

// sep2549 checks the settings of a lane of system sep-2549.
func (c *checker) sep2549(path string, l *Lane) {
	here := path + ".sep2549"
	c.reject(path, []string{"arguments", "maxAge", "poll"}, "has no effect on a lane that uses lists", "remove it")
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
		c.reject(here, []string{"shared", "background", "notifications"}, "has no effect without a cache", "remove it, or cache: true")
	}
}
