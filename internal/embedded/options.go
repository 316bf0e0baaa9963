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

// OptionsOf converts a profile's settings of the embedded target into options: those of the
// same name, and those below. It returns an error for faults that cannot be parsed.
func OptionsOf(e profiles.Embedded) (o Options, err error) {
	take(reflect.ValueOf(&o).Elem(), reflect.ValueOf(e))
	o.Stdio = e.Transport == "stdio"
	const none = time.Duration(-1)
	if e.SingleSign {
		o.DualSignGrace = none
	}
	if e.ResumeOnce {
		o.ResumeOverlap = none
	}
	if e.Faults != "" {
		o.Faults, err = faults.Load(e.Faults)
	}
	return o, err
}

// take sets the options that have the name and the kind of a setting.
func take(options, settings reflect.Value) {
	for i := range settings.NumField() {
		from := settings.Field(i)
		switch to := options.FieldByName(settings.Type().Field(i).Name); {
		case !to.IsValid() || to.Kind() != from.Kind():
		case to.Kind() == reflect.Struct:
			take(to, from)
		default:
			to.Set(from.Convert(to.Type()))
		}
	}
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
