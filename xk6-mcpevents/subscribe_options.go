package mcpevents

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/settings"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/grafana/sobek"
)

// commonOptions are the options of all methods that subscribe.
type commonOptions struct {
	Subscriptions int       `json:"subscriptions"`
	Lane          string    `json:"lane"`
	Topic         string    `json:"topic"`
	HTTP          string    `json:"http"`
	Settle        *duration `json:"settle"`
	ReadyTimeout  *duration `json:"readyTimeout"`
	SampleEvery   int       `json:"sampleEvery"`
	Keep          string    `json:"keep"`
	Tags          ownTags   `json:"tags"`
}

// eventOptions are those of subscriptions to an event type.
type eventOptions struct {
	Arguments json.RawMessage `json:"arguments"`
	System    string          `json:"system"`
	MaxAge    *duration       `json:"maxAge"`
	Payload   bool            `json:"payload"`
	// Of stream.
	Streams   int       `json:"streams"`
	Heartbeat *duration `json:"heartbeat"`
	// Of poll.
	MinInterval *duration `json:"minInterval"`
	LongPoll    *duration `json:"longPoll"`
	MaxEvents   int       `json:"maxEvents"`
	// Of subscribe, beside the settings of webhooks.
	Sink   json.RawMessage `json:"sink"`
	Client string          `json:"client"`
}

// watchOptions are those of watchLists, beside the settings of its system.
type watchOptions struct {
	Clients int `json:"clients"`
}

// requestOptions are those of resumable, beside the settings of its system.
type requestOptions struct {
	Requests int `json:"requests"`
}

// subscribeOptions are the second argument of every method that subscribes; onlyOf
// lists the options of single methods.
type subscribeOptions struct {
	commonOptions
	eventOptions
	watchOptions
	requestOptions

	sink     *sink
	settings settings.Settings // of the system
	webhook  settings.WebhookLane
}

// onlyOf lists the methods that an option belongs to; a setting that is not here belongs
// to all methods of its system, and any other option to every method.
var onlyOf = map[string][]string{
	"arguments":   {"stream", "poll", "subscribe", "resumable"},
	"system":      {"stream", "poll", "subscribe"},
	"maxAge":      {"stream", "poll", "subscribe"},
	"payload":     {"stream", "poll", "subscribe"},
	"streams":     {"stream"},
	"heartbeat":   {"stream"},
	"cutEvery":    {"stream"},
	"cutAt":       {"stream"},
	"cutFor":      {"stream"},
	"stallFor":    {"stream"},
	"stallShare":  {"stream"},
	"perSession":  {"stream"},
	"redelivery":  {"stream"},
	"minInterval": {"poll"},
	"longPoll":    {"poll"},
	"maxEvents":   {"poll"},
	"sink":        {"subscribe"},
	"client":      {"subscribe"},
	"secret":      {"subscribe"},
	"early":       {"subscribe"},
	"anonymous":   {"subscribe"},
	"clients":     {"watchLists"},
	"requests":    {"resumable"},
}

// systemsOf are the systems of a method, its default first.
var systemsOf = func() map[string][]string {
	all := map[string][]string{}
	for _, s := range systems.All() {
		for _, method := range s.Methods {
			all[method] = append(all[method], s.Name)
		}
	}
	return all
}()

// settleOf returns how long a missing event may take before it is lost.
func settleOf(method string) time.Duration {
	switch method {
	case "resumable":
		return 30 * time.Second // enough for the rest of a request
	case "watchLists":
		return 10 * time.Second // longer than copies usually live
	}
	return 2 * time.Second
}

// readSubscribe reads and checks the options of a method.
func readSubscribe(v sobek.Value, w way) (*subscribeOptions, error) {
	o := &subscribeOptions{}
	given, err := objectOf(v)
	if err != nil {
		return nil, err
	}
	names := inOrder(given)
	if json.Unmarshal(given["system"], &o.System) != nil || o.System == "" {
		o.System = systemsOf[w.method][0]
	}
	for _, name := range names {
		of, ok := onlyOf[name]
		if !ok {
			of = methodsOf(name)
		}
		if len(of) > 0 && !slices.Contains(of, w.method) {
			return nil, fmt.Errorf("options: %s belongs to %s()", name, strings.Join(of, "(), "))
		}
	}
	all := maps.Clone(given)
	if err := o.readWebhook(given, w); err != nil {
		return nil, err
	}
	if o.settings, err = o.settingsFor(given, all, w); err != nil {
		return nil, err
	}
	if err := foreign(given, o.System, w.method); err != nil {
		return nil, err
	}
	if err := readStrictly(given, o, optionsOf(o, w.method)); err != nil {
		return nil, err
	}
	if o.Sink != nil {
		if o.sink = objectAt[*sink](v, "sink"); o.sink == nil {
			return nil, errors.New("options: sink must be a WebhookSink")
		}
	}
	if err := o.check(w); err != nil {
		return nil, err
	}
	o.complete(w)
	return o, nil
}

// optionsOf are the names of the options of a method.
func optionsOf(o *subscribeOptions, method string) (names []string) {
	for _, name := range optionsIn(o) {
		if of := onlyOf[name]; of == nil || slices.Contains(of, method) {
			names = append(names, name)
		}
	}
	for _, system := range systemsOf[method] {
		of, _ := systems.Table.Find(system)
		names = append(names, optionsIn(of.Settings(""))...)
	}
	if method == "subscribe" {
		names = append(names, optionsIn(&o.webhook)...)
	}
	return slices.DeleteFunc(names, func(name string) bool { return notOptions[name] || ofListeners[name] })
}

// objectAt returns an object of this module from an options object.
func objectAt[T any](v sobek.Value, name string) (none T) {
	if o, ok := v.(*sobek.Object); ok {
		if of := o.Get(name); of != nil {
			if t, ok := of.Export().(T); ok {
				return t
			}
		}
	}
	return none
}

// check reports values that are out of bounds and that the driver does not check.
func (o *subscribeOptions) check(w way) error {
	numbers := 0
	for _, n := range []int{o.Subscriptions, o.Streams, o.Clients, o.Requests} {
		if n > 0 {
			numbers++
		}
	}
	switch {
	case w.what == "":
		return errors.New("name the event type, or the list")
	case numbers > 1:
		return errors.New("options: the number of subscriptions is given twice")
	case o.System != "" && !slices.Contains(systemsOf[w.method], o.System):
		return fmt.Errorf("options: %s() has no system %q: %s", w.method, o.System, choose(o.System, systemsOf[w.method]))
	}
	return nil
}

// complete sets the defaults.
func (o *subscribeOptions) complete(w way) {
	o.Subscriptions = max(o.Subscriptions+o.Streams+o.Clients+o.Requests, 1)
	o.SampleEvery = max(o.SampleEvery, 1)
	if o.System == "" {
		o.System = systemsOf[w.method][0]
	}
	if o.Lane == "" {
		o.Lane = string(w.mode)
	}
	if o.Topic == "" {
		o.Topic = w.event()
	}
	if o.Settle == nil {
		settle := duration(settleOf(w.method))
		o.Settle = &settle
	}
}

// event returns the event type, for metrics and as the default topic.
func (w way) event() string {
	if w.method == "watchLists" {
		return listChanged
	}
	return w.what
}

// argumentsOf returns the arguments of subscription i, in which {sub} is replaced by
// i.
func (o *subscribeOptions) argumentsOf(i int) json.RawMessage {
	return json.RawMessage(bytes.ReplaceAll(o.Arguments, []byte("{sub}"), strconv.AppendInt(nil, int64(i), 10)))
}

// driver converts the options for the driver.
func (o *subscribeOptions) driver(w way) driver.Options {
	d := driver.Options{
		System: o.System, Mode: w.mode, Event: w.event(), Arguments: o.argumentsOf, MaxAge: o.MaxAge.or(0), HTTP: o.HTTP,
		Subscriptions: o.Subscriptions,
	}
	d.Push.Heartbeat = o.Heartbeat.or(0)
	poll := settings.DefaultPoll()
	poll.MinInterval, poll.Timeout, poll.MaxEvents = o.MinInterval.or(poll.MinInterval), o.LongPoll.or(0), o.MaxEvents
	d.Poll, d.Webhook = &poll, o.webhook
	d.Settings = o.settings
	return d
}

// way is a way to open subscriptions: the method, the mode that it implies, and its
// first argument.
type way struct {
	method string
	mode   eventmeter.Mode
	what   string
}

// listChanged is the event of systems that learn of changes from lists.
const listChanged = "list.changed"
