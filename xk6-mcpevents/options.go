package mcpevents

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/grafana/sobek"
	"github.com/mcpload/mcpload"
	"github.com/mcpload/mcpload/loadgen/dialect"
)

// duration is a time as scripts write it: "1.5s", or a number of milliseconds.
type duration time.Duration

// UnmarshalJSON implements json.Unmarshaler.
func (d *duration) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil {
		v, err := time.ParseDuration(text)
		if err != nil || v < 0 {
			return fmt.Errorf("%q is not a duration: use a text such as '1.5s', or milliseconds", text)
		}
		*d = duration(v)
		return nil
	}
	var ms float64
	if json.Unmarshal(b, &ms) != nil || ms < 0 {
		return fmt.Errorf("%s is not a duration: use a text such as '1.5s', or milliseconds", b)
	}
	*d = duration(ms * float64(time.Millisecond))
	return nil
}

// or returns the duration, or another where none was given.
func (d *duration) or(other time.Duration) time.Duration {
	if d == nil {
		return other
	}
	return time.Duration(*d)
}

// clientOptions are the second argument of Client.
type clientOptions struct {
	Token    string            `json:"token"`
	Tokens   []string          `json:"tokens"`
	Headers  map[string]string `json:"headers"`
	Era      string            `json:"era"`
	Revision string            `json:"revision"`
}

// subscribeOptions are the second argument of stream, poll and subscribe.
type subscribeOptions struct {
	Arguments     json.RawMessage `json:"arguments"`
	Subscriptions int             `json:"subscriptions"`
	Streams       int             `json:"streams"`
	System        string          `json:"system"`
	Lane          string          `json:"lane"`
	Topic         string          `json:"topic"`
	HTTP          string          `json:"http"`
	MaxAge        *duration       `json:"maxAge"`
	Settle        *duration       `json:"settle"`
	ReadyTimeout  *duration       `json:"readyTimeout"`
	SampleEvery   int             `json:"sampleEvery"`

	// Of stream.
	Heartbeat *duration `json:"heartbeat"`
	// Of poll.
	Floor     *duration `json:"floor"`
	LongPoll  *duration `json:"longPoll"`
	MaxEvents int       `json:"maxEvents"`
	// Of subscribe.
	TTL       *duration `json:"ttl"`
	RefreshAt float64   `json:"refreshAt"`
	Refuse    float64   `json:"refuse"`
	AckDelay  *duration `json:"ackDelay"`
	Listen    string    `json:"listen"`
	Callback  string    `json:"callback"`
}

// onlyOf says which options belong to one mode only.
var onlyOf = map[string]mcpload.Mode{
	"streams": mcpload.Push, "heartbeat": mcpload.Push,
	"floor": mcpload.Poll, "longPoll": mcpload.Poll, "maxEvents": mcpload.Poll,
	"ttl": mcpload.Webhook, "refreshAt": mcpload.Webhook, "refuse": mcpload.Webhook, "ackDelay": mcpload.Webhook,
	"listen": mcpload.Webhook, "callback": mcpload.Webhook,
}

// methodOf is the method of Client that opens subscriptions of a mode.
var methodOf = map[mcpload.Mode]string{mcpload.Push: "stream", mcpload.Poll: "poll", mcpload.Webhook: "subscribe"}

// decode reads an options object strictly; undefined and null are no options.
func decode(v sobek.Value, to any) (given map[string]json.RawMessage, err error) {
	if v == nil || sobek.IsUndefined(v) || sobek.IsNull(v) {
		return nil, nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("options: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return nil, fmt.Errorf("options: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return given, json.Unmarshal(raw, &given)
}

// subscription reads and checks the options of a mode.
func readSubscribe(v sobek.Value, event string, mode mcpload.Mode) (*subscribeOptions, error) {
	o := &subscribeOptions{}
	given, err := decode(v, o)
	if err != nil {
		return nil, err
	}
	for name := range given {
		if m, ok := onlyOf[name]; ok && m != mode {
			return nil, fmt.Errorf("options: %s belongs to %s()", name, methodOf[m])
		}
	}
	switch {
	case event == "":
		return nil, errors.New("name the event type")
	case o.Streams != 0 && o.Subscriptions != 0:
		return nil, errors.New("options: streams and subscriptions mean the same: give one of them")
	case o.Subscriptions < 0 || o.Streams < 0:
		return nil, errors.New("options: the number of subscriptions must not be negative")
	case o.SampleEvery < 0:
		return nil, errors.New("options: sampleEvery must not be negative")
	}
	o.Subscriptions = max(o.Subscriptions+o.Streams, 1)
	o.SampleEvery = max(o.SampleEvery, 1)
	if o.System == "" {
		o.System = "events"
	}
	if o.Lane == "" {
		o.Lane = string(mode)
	}
	if o.Topic == "" {
		o.Topic = event
	}
	return o, nil
}

// argumentsOf gives the arguments of subscription i, in which {sub} is i.
func (o *subscribeOptions) argumentsOf(i int) json.RawMessage {
	return json.RawMessage(bytes.ReplaceAll(o.Arguments, []byte("{sub}"), strconv.AppendInt(nil, int64(i), 10)))
}

// dialect translates the options.
func (o *subscribeOptions) dialect(event string, mode mcpload.Mode) dialect.Options {
	d := dialect.Options{
		System: o.System, Mode: mode, Event: event, Arguments: o.argumentsOf, MaxAge: o.MaxAge.or(0), HTTP: o.HTTP,
		Subscriptions: o.Subscriptions,
	}
	switch mode {
	case mcpload.Push:
		d.Push.Heartbeat = o.Heartbeat.or(0)
	case mcpload.Poll:
		d.Poll.Timeout, d.Poll.MaxEvents = o.LongPoll.or(0), o.MaxEvents
		if d.Poll.Floor = o.Floor.or(0); o.Floor != nil && d.Poll.Floor == 0 {
			d.Poll.Floor = -1 // 0 would be the default
		}
	case mcpload.Webhook:
		d.Webhook.TTL, d.Webhook.RefreshAt, d.Webhook.Refuse = o.TTL.or(0), o.RefreshAt, o.Refuse
		d.Webhook.AckDelay, d.Webhook.Listen, d.Webhook.Callback = o.AckDelay.or(0), o.Listen, o.Callback
	}
	return d
}
