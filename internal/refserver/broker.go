package refserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
)

// errUnknownEvent is wrapped by [Server.Publish] when the catalogue has no
// event type of that name.
var errUnknownEvent = errors.New("unknown event type")

// errTooLarge is wrapped by [Server.Publish] when the data exceeds the draft's
// bound for a webhook body, 256 KiB.
var errTooLarge = errors.New("event data too large")

const maxData = 256<<10 - 1024 // leaves space for the Occurrence around the data

// broker is the set of topics. It is safe for concurrent use.
type broker struct {
	topics map[string]*topic // fixed
	order  []*topic
	// faultInjector is nil without faults. With faults, each mode has its own
	// topics, in its stage.
	faultInjector *faultInjector
	strikes       map[faults.Kind]func() // the faults that strike once
	ids           atomic.Uint64
	overflow      atomic.Int64
	published     atomic.Int64
}

// newBroker makes empty topics. Every cursor holds the epoch, so that cursors
// from before a restart are recognised.
func newBroker(opts Options, started time.Time) *broker {
	b := &broker{topics: make(map[string]*topic)}
	epoch := strconv.FormatInt(started.UnixNano(), 36)
	kinds := catalog()
	if opts.Presence {
		kinds = append(kinds, presence)
	}
	if opts.TypesEvery > 0 {
		kinds = append(kinds, seasonal)
	}
	for _, kind := range kinds {
		t := newTopic(kind, epoch, opts, &b.overflow)
		b.topics[kind.name] = t
		b.order = append(b.order, t)
	}
	return b
}

func (b *broker) nextID() string {
	return string(strconv.AppendUint([]byte("e-"), b.ids.Add(1), 10))
}

// topic returns the topic of a mode, nil if there is none.
func (b *broker) topic(mode eventmeter.Mode, name string) *topic {
	if b.faultInjector != nil {
		return b.faultInjector.stages[mode].topics[name]
	}
	return b.topics[name]
}

// named returns the topics of an event type: that of publications, and those
// that the modes have of their own.
func (b *broker) named(name string) (all []*topic) {
	if t := b.topics[name]; t != nil {
		all = append(all, t)
	}
	for _, t := range b.deliveryTopics() {
		if t.kind.name == name && !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	return all
}

// deliveryTopics are all topics that subscribers read.
func (b *broker) deliveryTopics() []*topic {
	if b.faultInjector == nil {
		return b.order
	}
	var all []*topic
	for _, mode := range modes {
		for _, t := range b.faultInjector.stages[mode].topics {
			all = append(all, t)
		}
	}
	return all
}

// installFaults gives each mode topics of its own, to which faults apply.
func (b *broker) installFaults(m *faultInjector, opts Options, epoch string, strikes map[faults.Kind]func()) {
	for _, mode := range modes {
		g := &stage{
			mode:     mode,
			injector: m,
			newID:    b.nextID,
			topics:   map[string]*topic{},
			held:     map[uint16][]*heldBack{},
			last:     map[uint16]time.Time{},
			waiting:  map[uint16]int{},
		}
		for _, t := range b.order {
			g.topics[t.kind.name] = newTopic(t.kind, epoch, opts, &b.overflow)
		}
		m.stages[mode] = g
	}
	b.faultInjector, b.strikes = m, strikes
}

// validEventID matches the ids that are taken over from upstream.
var validEventID = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)

// publish checks and publishes one event and returns its id, which is a new one
// unless the given one is valid.
func (b *broker) publish(id, name string, data []byte) (string, error) {
	t := b.topics[name]
	// Where a fault removes the types, events happen as before.
	if _, goesOn := b.faultInjector.serverFault(faults.Withdraw, ""); t == nil || t.withdrawn.Load() && !goesOn {
		return "", fmt.Errorf("publish %q: %w", name, errUnknownEvent)
	}
	if len(data) > maxData {
		return "", fmt.Errorf("publish %s: %d bytes of data, at most %d: %w", name, len(data), maxData, errTooLarge)
	}
	key, err := t.kind.keyOf(data)
	if err != nil {
		return "", fmt.Errorf("publish %s: %w", name, err)
	}
	// A line break inside the data would end a line of a stream frame.
	if bytes.ContainsAny(data, "\r\n") {
		var compact bytes.Buffer
		if err := json.Compact(&compact, data); err != nil {
			return "", fmt.Errorf("publish %s: %w", name, err)
		}
		data = compact.Bytes()
	}
	b.published.Add(1)
	// Ids of the server's own are made under the topic's lock, in order.
	newID := b.nextID
	if validEventID.MatchString(id) {
		newID = func() string { return id }
	}
	if b.faultInjector == nil {
		return t.publish(newID, key, data).id, nil
	}
	b.faultInjector.begin(time.Now(), b.strikes)
	kept := bytes.Clone(data)
	id = newID()
	// Systems without event faults read the shared topics.
	t.publish(func() string { return id }, key, kept)
	for _, mode := range modes {
		b.faultInjector.stages[mode].put(name, id, key, kept)
	}
	return id, nil
}

// catalog is the event types of this server, in the order of events/list.
func catalog() []eventType {
	return []eventType{
		{
			name:        "chat.message",
			description: "A message was posted to a channel. Without a channel: to any.",
			filter:      "channel",
			hint:        "Only messages of this channel.",
			payload:     object("channel", "text"),
		},
		{
			name:        "ticket.moved",
			description: "A ticket moved on a board. Without a board: on any.",
			filter:      "board",
			hint:        "Only tickets of this board.",
			payload:     object("board"),
		},
		{
			name:        "tick",
			description: "Something ticked. It takes no arguments.",
			payload:     json.RawMessage(`{"type":"object"}`),
		},
		privateNote,
	}
}

// object is the schema of an object with members that are texts.
func object(members ...string) json.RawMessage {
	var all []string
	for _, m := range members {
		all = append(all, `"`+m+`":{"type":"string"}`)
	}
	return json.RawMessage(`{"type":"object","properties":{` + strings.Join(all, ",") + `}}`)
}

// privateNote is the event type whose events belong to the principal named in
// the data. A principal is named by its token.
var privateNote = eventType{
	name:        "private.note",
	description: "A note was written to a principal. Nobody else hears of it.",
	filter:      "principal",
	owned:       true,
	hint:        "Yourself; others are forbidden.",
	payload:     object("principal", "text"),
}

// presence is the event type that cannot be polled and has no replay.
var presence = eventType{
	name:        "presence.changed",
	description: "Somebody came to a channel or left it. What was missed is not replayed.",
	filter:      "channel",
	modes:       []eventmeter.Mode{eventmeter.Push, eventmeter.Webhook},
	noReplay:    true,
	hint:        "Only this channel.",
	payload:     object("channel"),
}

// seasonal is the event type that is offered and withdrawn in turn.
var seasonal = eventType{
	name:        "seasonal",
	description: "Something that this server has now and then.",
	payload:     json.RawMessage(`{"type":"object"}`),
}
