package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/errtext"
)

// ReplayOptions describe a [Replay].
type ReplayOptions struct {
	// Trace has the payloads. Emission n has the payload of entry n modulo the number
	// of entries. Required.
	Trace []TraceEntry
	// Probe names the text to which the probe is appended in a payload without one:
	// keys with dots between them, such as data.text. Missing keys are added.
	Probe string
	// Admin is the address of a reference server's admin listener, which emits the
	// entry's event. Event is used for entries without an event.
	Admin, Event string
	// URL is an address to which each payload is posted unchanged, with Headers.
	// Exactly one of Admin and URL is required.
	URL     string
	Headers map[string]string
	ClientOptions
}

// Replay publishes recorded events, with the probes of this run in place of the
// recorded ones. The schedule determines the times; the recorded times are those of
// a loadgen.Trace.
type Replay struct {
	*client
	url     string
	inject  bool
	header  http.Header
	entries []replayEntry
}

// replayEntry is a payload, cut at its probes: a probe is written between each two
// pieces.
type replayEntry struct {
	source uint16
	event  string
	pieces [][]byte
}

// NewReplay checks the options and every payload. It does not connect. The error
// names the entry of the trace that is wrong, counted from 1.
func NewReplay(o ReplayOptions) (*Replay, error) {
	address, what := o.URL, "address"
	if o.Admin != "" {
		address, what = o.Admin, "admin address"
	}
	u, ok := httpURL(address)
	if !ok || (o.Admin == "") == (o.URL == "") {
		return nil, fmt.Errorf(
			"upstream replay: %s %q: want a URL such as http://127.0.0.1:9090, either of an admin listener or another one",
			what,
			errtext.Address(address),
		)
	}
	if len(o.Trace) == 0 {
		return nil, errors.New("upstream replay: the trace is empty")
	}
	r := &Replay{
		client: newClient(o.ClientOptions),
		url:    o.URL,
		inject: o.Admin != "",
		header: http.Header{"Content-Type": {"application/json"}},
	}
	if r.inject {
		r.url = u.JoinPath("inject").String()
	}
	for name, value := range o.Headers {
		r.header.Set(name, value)
	}
	for i, e := range o.Trace {
		if e.Event == "" {
			e.Event = o.Event
		}
		if e.Event == "" && r.inject {
			return nil, fmt.Errorf("upstream replay: entry %d has no event; add one, or set upstream.event", i+1)
		}
		pieces, err := cut(e.Payload, o.Probe)
		if err != nil {
			return nil, fmt.Errorf("upstream replay: entry %d: %w", i+1, err)
		}
		r.entries = append(r.entries, replayEntry{e.Source, e.Event, pieces})
	}
	return r, nil
}

// cut cuts a payload at its probes. If there is none, it first adds one at path.
func cut(payload []byte, path string) ([][]byte, error) {
	if _, ok := eventmeter.FindStamp(payload); !ok {
		if path == "" {
			return nil, errors.New("its payload holds no probe id; set upstream.replay.probe to the text that gets one")
		}
		var object map[string]any
		d := json.NewDecoder(bytes.NewReader(payload))
		d.UseNumber() // numbers stay as they were written
		if err := d.Decode(&object); err != nil || object == nil {
			return nil, errors.New("its payload is not a JSON object")
		}
		if err := place(object, strings.Split(path, "."), path); err != nil {
			return nil, err
		}
		payload = encode(object)
	}
	var pieces [][]byte
	rest := payload
	for {
		i := nextProbe(rest)
		if i < 0 {
			return append(pieces, bytes.Clone(rest)), nil
		}
		pieces = append(pieces, bytes.Clone(rest[:i]))
		rest = rest[i+eventmeter.ProbeLen:]
	}
}

// place appends a probe to the text at the end of path.
func place(object map[string]any, path []string, all string) error {
	key := path[0]
	if len(path) > 1 {
		inner, ok := object[key].(map[string]any)
		if _, given := object[key]; given && !ok {
			return fmt.Errorf("upstream.replay.probe %q: %q is not an object in its payload", all, key)
		}
		if !ok {
			inner = map[string]any{}
			object[key] = inner
		}
		return place(inner, path[1:], all)
	}
	stamp := eventmeter.Stamp{Seq: 1}.String()
	switch text := object[key].(type) {
	case nil:
		object[key] = stamp
	case string:
		object[key] = strings.TrimSpace(text + " " + stamp)
	default:
		return fmt.Errorf("upstream.replay.probe %q: %q is not a text in its payload", all, key)
	}
	return nil
}

// nextProbe returns the index of the next valid probe id, or -1.
func nextProbe(b []byte) int {
	const prefix = "evtm-"
	for at := 0; ; {
		i := bytes.Index(b[at:], []byte(prefix))
		if i < 0 {
			return -1
		}
		at += i
		if len(b) >= at+eventmeter.ProbeLen {
			if _, err := eventmeter.ParseStamp(string(b[at : at+eventmeter.ProbeLen])); err == nil {
				return at
			}
		}
		at += len(prefix)
	}
}

// Source implements [Sourcer]: it returns the recorded source of emission n.
func (r *Replay) Source(n uint64) uint16 { return r.entry(n).source }

// Sources implements [Sourcer]: the largest recorded source, plus 1.
func (r *Replay) Sources() int {
	most := 0
	for _, e := range r.entries {
		most = max(most, int(e.source))
	}
	return most + 1
}

func (r *Replay) entry(n uint64) *replayEntry { return &r.entries[n%uint64(len(r.entries))] }

// Content implements [Recorded].
func (r *Replay) Content(emission Emission) (string, []byte) {
	e := r.entry(emission.Number)
	return e.event, e.append(nil, emission.Stamp)
}

func (e *replayEntry) append(dst []byte, stamp eventmeter.Stamp) []byte {
	for i, piece := range e.pieces {
		if i > 0 {
			dst = stamp.Append(dst)
		}
		dst = append(dst, piece...)
	}
	return dst
}

// Fire implements [Upstream].
func (r *Replay) Fire(ctx context.Context, emission Emission) eventmeter.Outcome {
	e := r.entry(emission.Number)
	var body []byte
	if r.inject {
		name, _ := json.Marshal(e.event) // a string always encodes
		body = append(append(append(body, `{"name":`...), name...), `,"data":`...)
		body = append(e.append(body, emission.Stamp), '}')
	} else {
		body = e.append(body, emission.Stamp)
	}
	return r.post(ctx, r.url, r.header.Clone(), body)
}
