package embedded

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"time"

	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/eventmeter/eventmeter/profiles"
)

// Options are the options of the reference server. They are sent to its process as
// one JSON document.
type Options = refserver.Options

// OptionsOf converts a profile's settings of the embedded target into options. It
// returns an error for faults that cannot be parsed.
func OptionsOf(e profiles.Embedded) (Options, error) {
	o := Options{
		Stdio:            e.Transport == "stdio",
		ProxiesMayBuffer: e.ProxiesMayBuffer,
		SSEAnswers:       e.SSEAnswers,
		Revision:         e.Revision,
		WebhookID:        e.WebhookID,
		TypesPage:        e.TypesPage,
		TypesEvery:       e.TypesEvery,
		Presence:         e.Presence,
		MaxSubscriptions: e.MaxSubscriptions,
		FreshIDs:         e.FreshIDs,
		VerifyFailures:   e.VerifyFailures,
		Heartbeat:        e.Heartbeat,
		NextPoll:         e.NextPoll,
		BufferEvents:     e.Buffer,
		QueueLen:         e.Queue,
		SendBuffer:       e.SendBuffer,
		Capacity:         float64(e.Capacity),
		CapacityBurst:    e.CapacityBurst,
		TTLMin:           e.TTLMin,
		TTLDefault:       e.TTLDefault,
		TTLMax:           e.TTLMax,
		RetryMax:         e.Retries,
		RetryBase:        e.RetryBase,
		AckTimeout:       e.AckTimeout,
		Senders:          e.Senders,
		SendersPerHost:   e.SendersPerHost,
		DualSignGrace:    e.DualSign,
		SuspendAfter:     e.SuspendAfter,
		DropAfter:        e.DropAfter,
		Signature:        e.Signature,
		Proof:            e.Proof,
		CallbackHosts:    e.CallbackHosts,
		ResumeMaxWait:    e.ResumeMaxWait,
		ResumeOverlap:    e.ResumeOverlap,
		ResumeAny:        e.ResumeAny,
		FeedEvery:        e.FeedEvery,
		TokenLife:        e.TokenLife,
		TokenEndsStreams: e.TokenEndsStreams,
		Lists: refserver.ListOptions{
			Entries: e.Lists.Entries, Page: e.Lists.Page, TTL: e.Lists.TTL,
			Private: e.Lists.Private, Older: e.Lists.Older, Strict: e.Lists.Strict, Uneven: e.Lists.Uneven, NoHints: e.Lists.NoHints,
		},
	}
	const none = time.Duration(-1)
	if e.SingleSign {
		o.DualSignGrace = none
	}
	if e.ResumeOnce {
		o.ResumeOverlap = none
	}
	var err error
	if e.Faults != "" {
		o.Faults, err = faults.Load(e.Faults)
	}
	return o, err
}

// WriteOptions writes options as one line of JSON. Fields that only make sense within
// a process (certificates in memory, a logger) are left out.
func WriteOptions(w io.Writer, o Options) error { return json.NewEncoder(w).Encode(o) }

// ReadOptions reads one JSON document of options into o, and refuses unknown members.
// A duration is a number of nanoseconds, as [WriteOptions] writes it, or a text such
// as "50ms". It may read beyond the document.
func ReadOptions(r io.Reader, o *Options) error {
	d := json.NewDecoder(r)
	d.UseNumber()
	var members any
	switch err := d.Decode(&members); {
	case errors.Is(err, io.EOF):
		return errors.New("the options are missing: want one JSON document, {} at least")
	case err != nil:
		return fmt.Errorf("the options are not JSON: %w", err)
	}
	members, err := withNumbers(members, reflect.TypeFor[Options]())
	if err != nil {
		return err
	}
	text, err := json.Marshal(members)
	if err != nil {
		return err
	}
	d = json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(o); err != nil {
		return fmt.Errorf("the options cannot be read: %w", err)
	}
	return nil
}

// withNumbers returns the members of a document with numbers instead of texts for
// durations. kind is the struct that they belong to.
func withNumbers(v any, kind reflect.Type) (any, error) {
	members, ok := v.(map[string]any)
	if !ok || kind.Kind() != reflect.Struct {
		return v, nil
	}
	for name, member := range members {
		field, ok := kind.FieldByName(name)
		if !ok {
			continue // refused later
		}
		text, is := member.(string)
		if !is || field.Type != reflect.TypeFor[time.Duration]() {
			inner, err := withNumbers(member, field.Type)
			if err != nil {
				return nil, err
			}
			members[name] = inner
			continue
		}
		d, err := time.ParseDuration(text)
		if err != nil {
			return nil, fmt.Errorf("option %s: %q is not a duration; write it like 50ms", name, text)
		}
		members[name] = d
	}
	return members, nil
}
