// Package settings is what the settings of lanes are declared with. A driver
// declares its own, and profiles and the k6 extension decode them, so that
// neither side imports the other.
package settings

import (
	"strconv"
	"time"
)

// Settings are what only lanes of one system can be asked for: a pointer to a
// struct. The fields have the tags of a profile: yaml and json (the same key),
// check (bounds) and needs (another key of the group, or of another group of the
// lane, without which this one has no effect, and why).
type Settings interface {
	// Key is the key of the settings in a lane.
	Key() string
	// Check reports what is wrong with them and with their lane, as far as the
	// tags do not say it.
	Check(Lane)
}

// System is a system that lanes can be of, as far as profiles have to know it.
type System struct {
	Name string
	// Modes are the modes that a lane of it can have.
	Modes []string
	// Settings returns new settings, with the defaults of a lane of that mode.
	Settings func(mode string) Settings
	// Event is the event of lanes that name none.
	Event string
	// NoEvents says that its lanes subscribe to no event and to no source.
	NoEvents bool
	// UsesLists says that its lanes use the lists of the target.
	UsesLists bool
}

// Table are all systems, in the order in which they are named to people.
type Table []System

// Find returns the system with that name; false where there is none. "" is the
// first one.
func (t Table) Find(name string) (System, bool) {
	for _, s := range t {
		if s.Name == name || name == "" {
			return s, true
		}
	}
	return System{}, false
}

// Names are the names of all systems.
func (t Table) Names() (names []string) {
	for _, s := range t {
		names = append(names, s.Name)
	}
	return names
}

// Lane is a lane of a profile while its settings are checked. Its functions take
// a key by its path from the lane, as in poll.minInterval.
type Lane struct {
	Mode string
	// TTL is webhook.ttl, LongPoll poll.timeout.
	TTL      string
	LongPoll time.Duration
	MaxAge   time.Duration
	// Revision is the revision of MCP Events that the lane speaks.
	Revision string
	// NoSources says that the lane subscribes to no source.
	NoSources bool
	// OverStdio says that the target is reached over standard input and output.
	OverStdio bool
	// Drain is how long a run waits for what is under way at its end.
	Drain time.Duration
	// Given reports whether the profile gives a key.
	Given func(key string) bool
	// Bad reports a problem with a key: what is wrong, and how to fix it.
	Bad func(key, what, fix string)
	// Missing reports that a key is not given, unless one that is not known may be
	// meant for it.
	Missing func(key, fix string)
}

// Reject reports each of the keys of a group that is given.
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

// Rate is events per second. It is written "20/s", "300/m", "3600/h" or as a
// bare number of events per second.
type Rate float64

// String writes the rate per second, so that a profile reads the same again.
func (r Rate) String() string { return strconv.FormatFloat(float64(r), 'g', -1, 64) + "/s" }
