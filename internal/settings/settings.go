// Package settings declares the settings of lanes. Each driver declares its own; the
// blocks poll, push and webhook, which lanes of several systems have, are declared
// here. Profiles, the k6 extension and drivers use the same declarations, so profiles
// import no driver.
package settings

import (
	"cmp"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Settings are the settings of lanes of one system: a pointer to a struct. Its fields
// have the tags of a profile: yaml and json (the same key), check (bounds) and needs
// (another key of the group, or of another group of the lane, without which this one
// has no effect, and why; or several with "or" in between).
type Settings interface {
	// Key returns the key of the settings in a lane.
	Key() string
	// Check reports what is wrong with the settings and their lane, beyond what the
	// tags check.
	Check(Lane)
}

// System describes a system that lanes can use, as far as profiles need it.
type System struct {
	Name string
	// Modes are the modes that its lanes can have.
	Modes []string
	// Settings returns new settings with the defaults of a lane in that mode.
	Settings func(mode string) Settings
	// Event is the default event of its lanes.
	Event string
	// NoEvents is set if its lanes subscribe to no event and no source.
	NoEvents bool
	// UsesLists is set if its lanes use the lists of the target.
	UsesLists bool
	// Judges is set if the sink of its webhook lanes checks deliveries as an imitated
	// client does.
	Judges bool
}

// Table has all systems, in the order in which messages name them.
type Table []System

// Find returns the system with that name, and whether there is one. "" is the first
// one.
func (t Table) Find(name string) (System, bool) {
	for _, s := range t {
		if s.Name == name || name == "" {
			return s, true
		}
	}
	return System{}, false
}

// Names returns the names of all systems.
func (t Table) Names() (names []string) {
	for _, s := range t {
		names = append(names, s.Name)
	}
	return names
}

// Lane is a lane of a profile while its settings are checked. Its functions take a
// key by its path in the lane, such as poll.minInterval.
type Lane struct {
	Mode string
	// HTTP is the version of HTTP, as in the profile.
	HTTP string
	// TTL is webhook.ttl, LongPoll is poll.timeout.
	TTL      string
	LongPoll time.Duration
	MaxAge   time.Duration
	// Revision is the revision of MCP Events that the lane speaks.
	Revision string
	// NoSources is set if the lane subscribes to no source.
	NoSources bool
	// OverStdio is set if the target is reached over standard input and output.
	OverStdio bool
	// Drain is how long a run waits at its end for events in flight.
	Drain time.Duration
	// Given reports whether the profile gives a key.
	Given func(key string) bool
	// Bad reports a problem with a key: what is wrong, and how to fix it.
	Bad func(key, what, fix string)
	// Missing reports a missing key, unless an unknown key is probably the missing
	// one, misspelt.
	Missing func(key, fix string)
}

// Reject reports each of the keys of a group that the profile gives.
func (l *Lane) Reject(group string, keys []string, what, fix string) {
	for _, key := range keys {
		if group != "" {
			key = group + "." + key
		}
		if l.Given(key) {
			l.Bad(key, what, fix)
		}
	}
}

// Fill sets the fields of a struct that are zero to those of defaults, in nested
// structs as well.
func Fill[S any](s *S, defaults S) {
	fill(reflect.ValueOf(s).Elem(), reflect.ValueOf(defaults))
}

func fill(v, from reflect.Value) {
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case f.Kind() == reflect.Struct:
			fill(f, from.Field(i))
		case f.IsZero():
			f.Set(from.Field(i))
		}
	}
}

// KeyOf returns the key of a field in YAML, which is its name in JSON. A field that JSON leaves out
// has its key in the tag yaml.
func KeyOf(tag reflect.StructTag) string {
	key, _, _ := strings.Cut(cmp.Or(tag.Get("yaml"), tag.Get("json")), ",")
	return key
}

// Problem returns the first problem of settings that belong to no profile. It checks
// the values that are not zero.
func Problem(set Settings) error { return problem(set, Settings.Check) }

// Invalid returns the first value of settings that is not zero and that its tag forbids.
func Invalid(set Settings) error { return problem(set, func(Settings, Lane) {}) }

func problem(set Settings, check func(Settings, Lane)) (err error) {
	given := map[string]bool{}
	bad := func(key, what, fix string) {
		if what != "" {
			err = cmp.Or(err, fmt.Errorf("%s: %s; %s", key, what, fix))
		}
	}
	var walk func(at string, v reflect.Value)
	walk = func(at string, v reflect.Value) {
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				f, here := v.Field(i), v.Type().Field(i)
				key := at + "." + KeyOf(here.Tag)
				if f.IsZero() {
					continue
				}
				given[key] = true
				if check := here.Tag.Get("check"); check != "" {
					what, fix := Wrong(f, check)
					bad(key, what, fix)
				} else {
					walk(key, f)
				}
			}
		case reflect.Slice:
			for i := range v.Len() {
				walk(at+"."+strconv.Itoa(i), v.Index(i))
			}
		}
	}
	walk(set.Key(), reflect.ValueOf(set).Elem())
	check(set, Lane{
		Given:   func(key string) bool { return given[key] },
		Bad:     bad,
		Missing: func(key, fix string) { bad(key, "is missing", fix) },
	})
	return err
}

// Rate is events per second. It is written "20/s", "300/m", "3600/h" or as a
// bare number of events per second.
type Rate float64

// String writes the rate per second, so that a profile reads the same again.
func (r Rate) String() string { return strconv.FormatFloat(float64(r), 'g', -1, 64) + "/s" }
