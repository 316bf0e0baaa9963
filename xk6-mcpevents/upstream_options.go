package mcpevents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/eventmeter/eventmeter/loadgen/upstream"
	"github.com/grafana/sobek"
)

// upstreamOptions are the argument of Upstream.
type upstreamOptions struct {
	Event   string            `json:"event"`
	Topic   string            `json:"topic"`
	Admin   string            `json:"admin"`
	URL     string            `json:"url"`
	Method  string            `json:"method"`
	Headers map[string]string `json:"headers"`
	Tool    string            `json:"tool"`
	Client  json.RawMessage   `json:"client"`
	Feed    string            `json:"feed"`
	Data    json.RawMessage   `json:"data"`
	Timeout *duration         `json:"timeout"`
	Workers int               `json:"workers"`

	client *client
}

// probeMark is where a payload gets the probe id, seqMark the emission's number.
var probeMark, seqMark = []byte("{probe}"), []byte("{seq}")

// readUpstream reads and checks the options, and sets the defaults.
func readUpstream(v sobek.Value) (*upstreamOptions, error) {
	o := &upstreamOptions{}
	if _, err := decode(v, o); err != nil {
		return nil, err
	}
	kinds := 0
	for _, kind := range []string{o.Admin, o.URL, o.Tool, o.Feed} {
		if kind != "" {
			kinds++
		}
	}
	o.client = objectAt[*client](v, "client")
	switch {
	case o.Event == "":
		return nil, errors.New("options: event must be given")
	case kinds != 1:
		return nil, errors.New("options: give one of admin, the admin listener of a reference target, url, tool and feed")
	case o.URL == "" && (o.Method != "" || o.Headers != nil):
		return nil, errors.New("options: method and headers belong to url")
	case (o.Tool != "") != (o.Client != nil):
		return nil, errors.New("options: tool and client belong together")
	case o.Client != nil && o.client == nil:
		return nil, errors.New("options: client must be a Client")
	case o.Feed != "" && o.Timeout != nil:
		return nil, errors.New("options: timeout is not for feed, which sends nothing itself")
	}
	if o.Data == nil {
		o.Data = json.RawMessage(`{"text":"{probe}"}`)
	}
	if !bytes.Contains(o.Data, probeMark) && !bytes.Contains([]byte(o.URL), probeMark) {
		return nil, errors.New("options: data must hold {probe}, which is how a delivery is known again")
	}
	if o.Topic == "" {
		o.Topic = o.Event
	}
	return o, nil
}

// fill puts the probe id and the emission's number into a text.
func fill(text []byte, seq uint32, probe string) []byte {
	text = bytes.ReplaceAll(text, probeMark, []byte(probe))
	return bytes.ReplaceAll(text, seqMark, strconv.AppendUint(nil, uint64(seq), 10))
}

// payload appends what is sent to dst.
func (o *upstreamOptions) payload(dst []byte, _ int, seq uint32, probe string) []byte {
	return append(dst, fill(o.Data, seq, probe)...)
}

// request makes the request of one emission.
func (o *upstreamOptions) request(_ int, seq uint32, probe string) (string, http.Header, []byte) {
	h := http.Header{"Content-Type": {"application/json"}}
	for k, v := range o.Headers {
		h.Set(k, v)
	}
	return string(fill([]byte(o.URL), seq, probe)), h, fill(o.Data, seq, probe)
}

// sharedFeed is the change feed at an address.
type sharedFeed struct {
	*upstream.Feed
	passed *meter
}

// feed makes a change feed, or finds the one at the same address: it has one
// port, and every VU runs the same script.
func (m *instance) feed(o *upstreamOptions) (*sharedFeed, error) {
	made := *o
	made.Workers = 0
	key, err := json.Marshal(made)
	if err != nil {
		return nil, err
	}
	return sharedOf(&m.hub.life, "feed "+string(key), func() (*sharedFeed, func(context.Context), error) {
		count := new(passing)
		f, err := upstream.NewFeed(upstream.FeedOptions{Listen: o.Feed, Event: o.Event, Payload: o.payload, Wrap: count.listener})
		if err != nil {
			return nil, nil, err
		}
		passed := &meter{totals: count.totals}
		return &sharedFeed{f, passed}, func(context.Context) {
			_ = f.Close() // nothing is under way at the end of the test
			passed.rest()
		}, nil
	})
}
