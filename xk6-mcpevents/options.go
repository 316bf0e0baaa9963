package mcpevents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/grafana/sobek"
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
