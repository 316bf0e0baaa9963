package driver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/eventmeter/eventmeter/internal/wire"
)

// capabilities is the object of what the endpoint advertises.
func (e *Endpoint) capabilities() []byte {
	o := wire.BeginObject(nil)
	for _, name := range e.opts.Capabilities {
		o.Raw(name, []byte("{}"))
	}
	return o.End()
}

// advertise writes the endpoint's capabilities into an initialize request: the
// official client has no way to send those that it does not know.
func (e *Endpoint) advertise(req *http.Request) error {
	if len(e.opts.Capabilities) == 0 || req.GetBody == nil {
		return nil
	}
	body, err := req.GetBody()
	if err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	text, err := io.ReadAll(body)
	if err == nil {
		text, err = e.advertised(text)
	}
	if err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }
	return nil
}

// advertised is an initialize request with the endpoint's capabilities in it.
func (e *Endpoint) advertised(text []byte) ([]byte, error) {
	if len(e.opts.Capabilities) == 0 {
		return text, nil
	}
	// Members that are not ours keep the bytes that they have.
	var message, params, capabilities map[string]json.RawMessage
	for _, part := range []struct {
		text []byte
		into *map[string]json.RawMessage
	}{{text, &message}, {nil, &params}, {nil, &capabilities}} {
		switch part.into {
		case &params:
			part.text = message["params"]
		case &capabilities:
			if part.text = params["capabilities"]; part.text == nil {
				part.text = []byte("{}")
			}
		}
		if err := json.Unmarshal(part.text, part.into); err != nil {
			return nil, err
		}
	}
	for _, name := range e.opts.Capabilities {
		capabilities[name] = json.RawMessage("{}")
	}
	for _, part := range []struct {
		key      string
		of, into map[string]json.RawMessage
	}{{"capabilities", capabilities, params}, {"params", params, message}} {
		var err error
		if part.into[part.key], err = json.Marshal(part.of); err != nil {
			return nil, err
		}
	}
	return json.Marshal(message)
}
