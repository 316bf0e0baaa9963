package run

import (
	"crypto/tls"
	"encoding/json"
	"fmt"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/settings"
	"github.com/eventmeter/eventmeter/internal/shard/split"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// lane is a lane of the profile with its templates compiled.
type lane struct {
	profiles.Lane
	number    int // in the profile
	templates *profiles.LaneTemplates
	// numbers are, in a shard, the numbers of the lane's Subscriptions subscriptions
	// in the whole run; nil in a run that is not split.
	numbers []int
	plan    *split.Plan // nil unless the run is a shard
	shard   int
	cert    *tls.Certificate // of the webhook listener; nil unless the profile names one
}

func newLane(number int, l profiles.Lane) (*lane, error) {
	t, err := profiles.CompileLane(l)
	if err != nil {
		return nil, err
	}
	out := &lane{Lane: l, number: number, templates: t}
	if l.Webhook.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(l.Webhook.CertFile, l.Webhook.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("webhook.certFile: %w", err)
		}
		out.cert = &cert
	}
	return out, nil
}

// spec returns what the ledger needs to know about the lane.
func (l *lane) spec() ledger.LaneSpec {
	of, _ := systems.Table.Find(l.System)
	spec := ledger.LaneSpec{
		Name:          l.Name,
		System:        l.System,
		Mode:          eventmeter.Mode(l.Mode),
		Subscriptions: l.Subscriptions,
		Owed:          l.owed,
		// The draft promises order per subscription for poll and push only, and a list shows
		// several changes at once.
		Ordered: l.Mode != string(eventmeter.Webhook) && !of.UsesLists,
		Replay:  l.MaxAge > 0 || replays(l.Settings),
	}
	if l.plan != nil {
		spec.Broadcast = l.owedAll
	}
	return spec
}

// options returns the options of the lane's driver.
func (l *lane) options(at uint16, clock *eventmeter.Clock, rec eventmeter.Recorder, ends *targetSide, seed uint64) driver.Options {
	o := LaneSettings(&l.Lane)
	o.Clock, o.Recorder, o.Endpoint, o.Lane, o.Seed = clock, rec, ends.endpointFor(l.HTTP), at, seed
	o.Arguments = func(i int) json.RawMessage { return l.templates.Arguments(l.wholeNumber(i)) }
	o.Number = l.wholeNumber
	o.Listener = driver.ListenerOptions{Authority: ends.authority, Certificate: l.cert, MaxConnections: ends.callbacks}
	if l.plan != nil {
		o.Listener.Prefix = fmt.Sprintf("/shard-%d", l.shard)
	}
	o.Owed = l.owed
	return o
}

// replays reports whether subscriptions with these settings receive missed events
// when they are opened again.
func replays(set settings.Settings) bool {
	s, ok := set.(interface{ Replays() bool })
	return ok && s.Replays()
}

// LaneSettings returns the settings of a lane for its driver, without the parts that
// only a run knows: clock, recorder, endpoint, arguments and the listener's
// certificate.
func LaneSettings(l *profiles.Lane) driver.Options {
	return driver.Options{
		System:        l.System,
		Mode:          eventmeter.Mode(l.Mode),
		Event:         l.Event,
		MaxAge:        l.MaxAge,
		HTTP:          l.HTTP,
		Settings:      l.Settings,
		Subscriptions: l.Subscriptions,
		Poll:          &l.Poll,
		Push:          l.Push,
		Webhook:       l.Webhook,
	}
}

// split returns what a plan of shards needs to know about the lane.
func (l *lane) split() split.Lane {
	unit := 1
	if of, err := systems.Find(l.System); err == nil && of.Unit != nil {
		o := LaneSettings(&l.Lane)
		unit = of.Unit(&o)
	}
	return split.Lane{Subscriptions: l.Subscriptions, Unit: unit, Sources: l.templates.Sources, HasNoSources: l.HasNoSources()}
}

// wholeNumber returns the number of local subscription i in the whole run.
func (l *lane) wholeNumber(i int) int {
	if l.numbers == nil {
		return i
	}
	return l.numbers[i]
}

// owed returns the sources that local subscription i is owed; nil = all.
func (l *lane) owed(i int) []uint16 {
	owed := l.templates.Sources(l.wholeNumber(i))
	if l.plan == nil {
		return owed
	}
	return l.plan.Owed(l.shard, owed)
}

// owedAll reports whether events of sibling shards reach local subscription i,
// whatever their source.
func (l *lane) owedAll(i int) bool {
	return l.plan.OwedAll(l.templates.Sources(l.wholeNumber(i)))
}

func mode(l *lane) eventmeter.Mode { return eventmeter.Mode(l.Mode) }
