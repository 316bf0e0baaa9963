package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/errtext"
)

// InjectOptions describe an [Inject].
type InjectOptions struct {
	// Admin is the address of the reference server's admin listener, such as
	// http://127.0.0.1:9090. Required.
	Admin string
	// Event is the name of the event that is emitted. Required.
	Event string
	// Payload is the event's data. Required.
	Payload Payload
	ClientOptions
}

// Inject makes the reference server emit an event, through its admin listener. The
// admin listener is separate from the MCP endpoint, so publishing puts no load on the
// connections that are measured.
type Inject struct {
	*client
	url    string
	event  string
	prefix []byte
	data   Payload
}

// NewInject checks the options. It does not connect.
func NewInject(o InjectOptions) (*Inject, error) {
	if o.Payload == nil || o.Event == "" {
		return nil, errors.New("upstream inject: Event and Payload must be given")
	}
	u, ok := httpURL(o.Admin)
	if !ok {
		return nil, fmt.Errorf("upstream inject: admin address %q: want a URL such as http://127.0.0.1:9090", errtext.Address(o.Admin))
	}
	name, err := json.Marshal(o.Event)
	if err != nil {
		return nil, fmt.Errorf("upstream inject: event %q: %w", o.Event, err)
	}
	return &Inject{
		client: newClient(o.ClientOptions),
		url:    u.JoinPath("inject").String(),
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
	body = i.data.append(body, emission)
	body = append(body, '}')
	return i.post(ctx, i.url, http.Header{"Content-Type": {"application/json"}}, body)
}

// Content implements [Recorded].
func (i *Inject) Content(emission Emission) (string, []byte) {
	return i.event, i.data.append(nil, emission)
}
