// Package systems is the table of all systems: how the driver of each one is made,
// and what is special about it. It is the only package that knows all drivers.
package systems

import (
	"fmt"
	"slices"
	"strings"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/figure"
	"github.com/eventmeter/eventmeter/internal/settings"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/driver/events"
	"github.com/eventmeter/eventmeter/loadgen/driver/requests"
	"github.com/eventmeter/eventmeter/loadgen/driver/sep1803"
	"github.com/eventmeter/eventmeter/loadgen/driver/sep2549"
	"github.com/eventmeter/eventmeter/loadgen/driver/sep975"
	"github.com/eventmeter/eventmeter/loadgen/driver/updates"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// System is a way to deliver events over MCP, for which lanes have a driver.
type System struct {
	settings.System
	// New makes the driver of one lane.
	New func(driver.Options) (driver.Driver, error)
	// Figures declares the figures of its drivers.
	Figures *figure.Table
	// Discover is a mode in which a driver can ask the target for its event types;
	// "" = the system has no event types.
	Discover eventmeter.Mode
	// Offers names, for people, what a target offers of the system, such as
	// triggers.
	Offers string
	// Describe returns lines for people about the abilities of a target that belong
	// to a system without event types; nil = a target cannot be asked.
	Describe func(mcpclient.Abilities) []string
	// Starter returns what a profile starts from, for a system without event types.
	Starter func(mcpclient.Abilities) driver.Starter
	// Methods are the methods of a k6 script that subscribe to the system. The first
	// system of a method is its default.
	Methods []string
	// Listed is true if the target lists event types by the names that lanes use, so
	// that the list shows whether a lane's event type exists.
	Listed bool
	// Capabilities are the client capabilities that a lane's endpoint must
	// advertise.
	Capabilities []string
	// Extensions are the protocol extensions that a lane's endpoint must declare.
	Extensions []string
	// KernelTimestamps are the modes in which a driver can take the times of
	// deliveries from the kernel.
	KernelTimestamps []eventmeter.Mode
	// Notifies is true if the streams of a driver carry notifications of changes
	// instead of events. The times of notifications are not compared with those of
	// other lanes, and are the kernel's wherever possible.
	Notifies bool
	// Unit returns how many consecutive subscriptions of a lane share something,
	// such as a session, and must be opened by the same process; nil = 1.
	Unit func(*driver.Options) int
	// Connections returns how many connections each subscription of a lane may
	// have at once over HTTP/1.1; nil = one.
	Connections func(*driver.Options) int
}

// systems are all systems, in the order in which they are named to people.
var systems = []System{
	{
		System: settings.System{
			Name:     "events",
			Modes:    []string{"poll", "push", "webhook"},
			Settings: declared(events.Defaults),
			Judges:   true,
		},
		New:              events.New,
		Figures:          &events.FigureTable,
		Discover:         eventmeter.Poll,
		Listed:           true,
		KernelTimestamps: []eventmeter.Mode{eventmeter.Push},
		Extensions:       []string{events.Extension},
		Methods:          []string{"stream", "poll", "subscribe"},
	},
	{
		System: settings.System{Name: "smithery", Modes: []string{"webhook"}, Settings: declared(events.SmitheryDefaults)},
		New:    events.New, Figures: &events.FigureTable,
		Discover: eventmeter.Webhook, Listed: true, Offers: "triggers", Methods: []string{"subscribe"},
	},
	{
		System: settings.System{Name: "sep-1803", Modes: []string{"push", "webhook"}, Settings: declared(sep1803.Defaults)},
		New:    sep1803.New, Figures: &sep1803.FigureTable,
		Discover: eventmeter.Push, Offers: "event resources", Methods: []string{"stream", "subscribe"},
		Unit: sep1803.Unit, KernelTimestamps: []eventmeter.Mode{eventmeter.Push},
	},
	{
		System: settings.System{Name: "sep-975", Modes: []string{"push"}, Settings: declared(sep975.Defaults), NoEvents: true},
		New:    sep975.New, Figures: &sep975.FigureTable,
		Capabilities: []string{sep975.ResumableRequests}, Connections: sep975.Connections,
		Offers: "resumable requests", Describe: sep975.Describe, Methods: []string{"resumable"},
	},
	{
		System: settings.System{
			Name: "sep-2549", Modes: []string{"poll"}, Settings: declared(sep2549.Defaults), Event: "list.changed", UsesLists: true,
		},
		New: sep2549.New, Figures: &sep2549.FigureTable,
		Connections: sep2549.Connections, Notifies: true,
		Offers: "times to live", Describe: sep2549.Describe, Starter: sep2549.Starter,
		Methods: []string{"watchLists"},
	},
	{
		System: settings.System{
			Name:      "updates",
			Modes:     []string{"push"},
			Settings:  declared(updates.Defaults),
			Event:     "list.changed",
			UsesLists: true,
		},
		New:         updates.New,
		Figures:     &updates.FigureTable,
		Connections: updates.Connections,
		Offers:      "resources to subscribe to",
		Describe:    updates.Describe,
		Starter:     updates.Starter,
	},
	{
		System: settings.System{Name: "requests", Modes: []string{"poll"}, Settings: declared(requests.Defaults), NoEvents: true},
		New:    requests.New, Figures: &requests.FigureTable,
	},
}

// Table is the table of systems that profiles are parsed with.
var Table = table()

func table() (all settings.Table) {
	for _, s := range systems {
		all = append(all, s.System)
	}
	return all
}

// declared converts a driver's defaults to the type that profiles use.
func declared[S settings.Settings](defaults func(mode string) S) func(string) settings.Settings {
	return func(mode string) settings.Settings { return defaults(mode) }
}

// FigureTables declare the figures of all systems, for code that merges, archives or
// shows figures.
var FigureTables = figureTables()

func figureTables() (all figure.Tables) {
	for _, s := range systems {
		if !slices.Contains(all, s.Figures) { // two systems may share one
			all = append(all, s.Figures)
		}
	}
	return all
}

// Capabilities are the client capabilities of all systems.
func Capabilities() (all []string) {
	for _, s := range systems {
		all = append(all, s.Capabilities...)
	}
	return all
}

// Offers names, for people, what a target may offer of the systems.
func Offers() (all []string) {
	for _, s := range systems {
		if s.Offers != "" {
			all = append(all, s.Name+" "+s.Offers)
		}
	}
	return all
}

// All returns all systems, in the order in which they are named to people.
func All() []System { return slices.Clone(systems) }

// Find returns the system with that name; "" is the MCP Events draft.
func Find(name string) (System, error) {
	if name == "" {
		name = systems[0].Name
	}
	for _, s := range systems {
		if s.Name == name {
			return s, nil
		}
	}
	var names []string
	for _, s := range systems {
		names = append(names, s.Name)
	}
	return System{}, fmt.Errorf("driver: system %q is not known: use one of %s", name, strings.Join(names, ", "))
}

// New returns the driver of opts.System for one lane. It opens the listener
// of a webhook lane, and no connection to the target.
func New(opts driver.Options) (driver.Driver, error) {
	s, err := Find(opts.System)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(s.Modes, string(opts.Mode)) {
		return nil, fmt.Errorf("driver %s: mode %q does not fit: use %s", s.Name, opts.Mode, strings.Join(s.Modes, " or "))
	}
	return s.New(opts)
}
