package upstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/errtext"
)

// InjectOptions describe an [Inject].
type InjectOptions struct {
	// Admin is the address of the reference target's admin listener, such as
	// http://127.0.0.1:9090. Required.
	Admin string
	// Event is the name of the event that is emitted. Required.
	Event string
	// Payload appends the event's data, a JSON object that holds the probe, to
	// dst and returns it. It is called by many goroutines at once. Required.
	Payload func(dst []byte, source int, seq uint32, probe string) []byte
	// Timeout of one emission; 0 means [DefaultTimeout].
	Timeout time.Duration
	// Connections to keep open, best as many as there are workers; 0 means
	// [DefaultConnections].
	Connections int
	// TLS configures https; nil means Go's defaults.
	TLS *tls.Config
	// Dial opens connections; nil means the system's way.
	Dial DialFunc
}

// Inject makes the reference target emit an event, by its admin listener.
// Firing is separate from the MCP endpoint, so it loads nothing of what is
// measured.
type Inject struct {
	client *client
	url    *url.URL
	event  string
	prefix []byte
	data   func(dst []byte, source int, seq uint32, probe string) []byte
}

// NewInject checks the options. It does not connect.
func NewInject(o InjectOptions) (*Inject, error) {
	if o.Payload == nil || o.Event == "" {
		return nil, errors.New("upstream inject: Event and Payload must be given")
	}
	u, err := url.Parse(o.Admin)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("upstream inject: admin address %q: want one like http://127.0.0.1:9090", errtext.Address(o.Admin))
	}
	name, err := json.Marshal(o.Event)
	if err != nil {
		return nil, fmt.Errorf("upstream inject: event %q: %w", o.Event, err)
	}
	return &Inject{
		client: newClient(o.Timeout, o.Connections, o.TLS).through(o.Dial),
		url:    u.JoinPath("inject"),
		event:  o.Event,
		prefix: append(append([]byte(`{"name":`), name...), `,"data":`...),
		data:   o.Payload,
	}, nil
}

// Fire implements [Upstream]. Any 2xx is Accepted: by then the target has put
// the event in every buffer.
func (i *Inject) Fire(ctx context.Context, emission Emission) eventmeter.Outcome {
	// Not pooled: the transport may read a body for a while after an error.
	body := make([]byte, 0, len(i.prefix)+256)
	body = append(body, i.prefix...)
	body = i.data(body, int(emission.Source), emission.Seq, emission.Stamp.String())
	body = append(body, '}')
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, i.url.String(), bytes.NewReader(body))
	if err != nil {
		return eventmeter.Refused
	}
	req.Header.Set("Content-Type", "application/json")
	outcome, _ := i.client.do(ctx, req)
	return outcome
}

// Content implements [Recorded].
func (i *Inject) Content(emission Emission) (string, []byte) {
	return i.event, i.data(nil, int(emission.Source), emission.Seq, emission.Stamp.String())
}

// Failures implements [Explainer].
func (i *Inject) Failures() (first, latest string) { return i.client.Failures() }

// Close implements [Upstream].
func (i *Inject) Close() error {
	i.client.close()
	return nil
}
