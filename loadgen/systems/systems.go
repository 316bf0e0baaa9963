// Package systems is the table of the systems that lanes can be of. It is the only
// package that knows all drivers.
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

// System is a system that lanes can be of: how its driver is made, and what is
// special about it.
type System struct {
	settings.System
	// New makes the driver of one lane.
	New func(driver.Options) (driver.Driver, error)
	// Defaults returns options with every field filled in, those of Settings
	// included, whose zero value stands for a default. Settings is of the
	// system's own type then.
	Defaults func(driver.Options) (driver.Options, error)
	// Figures declares the figures of its drivers.
	Figures *figure.Table
	// Discover is a mode in which a driver can ask the target for its event
	// types; "" = the system has none.
	Discover eventmeter.Mode
	// Offers are what a target has of the system, for people: triggers.
	Offers string
	// Describe says in lines for people what a target can do of a system without
	// event types; nil = nothing can be asked.
	Describe func(mcpclient.Abilities) []string
	// Starter writes a lane, as a profile has it, for a target that has something
	// of a system without event types; "" = it has not.
	Starter func(mcpclient.Abilities) string
	// Methods are those of a k6 script that subscribe to the system. The first
	// system of a method is its default.
	Methods []string
	// Listed says that the target lists event types by the names that lanes ask
	// for, so that the list tells whether a lane's is there.
	Listed bool
	// Capabilities are the client capabilities that a lane's endpoint must
	// advertise.
	Capabilities []string
	// Extensions are the protocol extensions that a lane's endpoint must declare.
	Extensions []string
	// KernelTimestamps are the modes in which a driver can take the times of
	// deliveries from the kernel.
	KernelTimestamps []eventmeter.Mode
	// Notifies says that what comes on the streams of a driver are notifications
	// of a change and not events. Their times are compared with those of no other
	// lane, and are the kernel's wherever that is possible.
	Notifies bool
	// Unit returns how many neighbouring subscriptions of a lane share something,
	// such as a session, and have to stay together; nil = each is alone.
	Unit func(*driver.Options) int
	// Connections returns how many connections each subscription of a lane may
	// have at once over HTTP/1.1; nil = one.
	Connections func(*driver.Options) int
}

// systems are all systems. This is the only place that knows them all.
var systems = []System{
	{
		System: settings.System{Name: "events", Modes: []string{"poll", "push", "webhook"}, Settings: declared(events.Defaults)},
		New:    events.New, Figures: &events.FigureTable, Defaults: filledBy(events.Defaults),
		Discover: eventmeter.Poll, Listed: true, KernelTimestamps: []eventmeter.Mode{eventmeter.Push},
		Extensions: []string{events.Extension}, Methods: []string{"stream", "poll", "subscribe"},
	},
	{
		System: settings.System{Name: "smithery", Modes: []string{"webhook"}, Settings: declared(events.SmitheryDefaults)},
		New:    events.New, Figures: &events.FigureTable, Defaults: filledBy(events.SmitheryDefaults),
		Discover: eventmeter.Webhook, Listed: true, Offers: "triggers", Methods: []string{"subscribe"},
	},
	{
		System: settings.System{Name: "sep-1803", Modes: []string{"push", "webhook"}, Settings: declared(sep1803.Defaults)},
		New:    sep1803.New, Figures: &sep1803.FigureTable, Defaults: filledBy(sep1803.Defaults),
		Discover: eventmeter.Push, Offers: "event resources", Methods: []string{"stream", "subscribe"},
		Unit: sep1803.Unit, KernelTimestamps: []eventmeter.Mode{eventmeter.Push},
	},
	{
		System: settings.System{Name: "sep-975", Modes: []string{"push"}, Settings: declared(sep975.Defaults), NoEvents: true},
		New:    sep975.New, Figures: &sep975.FigureTable, Defaults: filledBy(sep975.Defaults),
		Capabilities: []string{sep975.ResumableRequests}, Connections: sep975.Connections,
		Offers: "resumable requests", Describe: sep975.Describe, Methods: []string{"resumable"},
	},
	{
		System: settings.System{
			Name: "sep-2549", Modes: []string{"poll"}, Settings: declared(sep2549.Defaults), Event: "list.changed", UsesLists: true,
		},
		New: sep2549.New, Figures: &sep2549.FigureTable, Defaults: filledBy(sep2549.Defaults),
		Connections: sep2549.Connections, Notifies: true,
		Offers: "times to live", Describe: sep2549.Describe, Starter: sep2549.Starter,
		Methods: []string{"watchLists"},
	},
	{
		System: settings.System{Name: "updates", Modes: []string{"push"}, Settings: declared(updates.Defaults), Event: "list.changed", UsesLists: true},
		New:    updates.New, Figures: &updates.FigureTable, Defaults: filledBy(updates.Defaults), Connections: updates.Connections,
	},
	{
		System: settings.System{Name: "requests", Modes: []string{"poll"}, Settings: declared(requests.Defaults), NoEvents: true},
		New:    requests.New, Figures: &requests.FigureTable, Defaults: filledBy(requests.Defaults),
	},
}

// Table is what profiles are read with.
var Table = table()

func table() (all settings.Table) {
	for _, s := range systems {
		all = append(all, s.System)
	}
	return all
}

// declared gives the settings of a driver as what a profile takes them for.
func declared[S settings.Settings](defaults func(mode string) S) func(string) settings.Settings {
	return func(mode string) settings.Settings { return defaults(mode) }
}

// filledBy is the Defaults of a system whose settings have those defaults.
func filledBy[S any](defaults func(mode string) *S) func(driver.Options) (driver.Options, error) {
	return func(o driver.Options) (driver.Options, error) {
		o = o.WithDefaults()
		set, err := driver.SettingsOr(&o, defaults)
		o.Settings = set
		return o, err
	}
}

// FigureTables are the figures of all systems. Whoever merges, archives or shows
// figures asks the tables.
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

// Offers names what a target may have of the systems, for people.
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
	return System{}, fmt.Errorf("driver: system %q is not known: use %s", name, strings.Join(names, ", "))
}

// New returns the driver of opts.System for one lane. It opens the listener
// of a webhook lane, and no connection to the target.
func New(opts driver.Options) (driver.Driver, error) {
	s, err := Find(opts.System)
	if err != nil {
		return nil, err
	}
	return s.New(opts)
}
