package bench

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"

	"github.com/eventmeter/eventmeter/internal/errtext"
)

// scrub cleans every text of a value that v points to, keys of maps included, and
// hides the secrets in it. It is the last gate before anything is written or
// printed: text of the target is cleaned where it enters, and here whatever a new
// entrance forgot.
func scrub(v any, secrets *errtext.Secrets) { scrubValue(reflect.ValueOf(v).Elem(), secrets) }

var rawJSON = reflect.TypeFor[json.RawMessage]()

func scrubValue(v reflect.Value, secrets *errtext.Secrets) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() {
			v.SetString(secrets.Scrub(v.String()))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			scrubValue(v.Elem(), secrets)
		}
	case reflect.Interface:
		if v.CanSet() && !v.IsNil() {
			inner := reflect.New(v.Elem().Type()).Elem()
			inner.Set(v.Elem())
			scrubValue(inner, secrets)
			v.Set(inner)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				scrubValue(v.Field(i), secrets)
			}
		}
	case reflect.Slice:
		if v.Type() == rawJSON {
			if v.CanSet() {
				v.SetBytes(scrubJSON(v.Bytes(), secrets))
			}
			return
		}
		if k := v.Type().Elem().Kind(); k >= reflect.Bool && k <= reflect.Complex128 {
			return
		}
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			scrubValue(v.Index(i), secrets)
		}
	case reflect.Map:
		scrubMap(v, secrets)
	}
}

func scrubMap(v reflect.Value, secrets *errtext.Secrets) {
	for _, key := range v.MapKeys() {
		value := reflect.New(v.Type().Elem()).Elem()
		value.Set(v.MapIndex(key))
		scrubValue(value, secrets)
		if key.Kind() != reflect.String {
			v.SetMapIndex(key, value)
			continue
		}
		clean := reflect.New(v.Type().Key()).Elem()
		clean.SetString(secrets.Scrub(key.String()))
		if clean.String() != key.String() {
			v.SetMapIndex(key, reflect.Value{})
			if was := v.MapIndex(clean); was.IsValid() && value.CanInt() { // two that look alike now
				value.SetInt(value.Int() + was.Int())
			}
		}
		v.SetMapIndex(clean, value)
	}
}

// scrubJSON hides secrets, and what is secret in URLs, in a JSON document: the
// profile. A document that holds none is left as it is.
func scrubJSON(text []byte, secrets *errtext.Secrets) []byte {
	var doc any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if d.Decode(&doc) != nil {
		return text
	}
	changed := false
	doc = scrubDocument(doc, func(s string) string {
		out := secrets.Hide(s)
		if strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://") {
			if strings.ContainsAny(s, "?@") && !strings.Contains(s, "{{") {
				out = errtext.Address(s)
			}
		}
		changed = changed || out != s
		return out
	})
	if !changed {
		return text
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if e.Encode(doc) != nil {
		return text
	}
	return bytes.TrimSpace(out.Bytes())
}

func scrubDocument(v any, each func(string) string) any {
	switch v := v.(type) {
	case string:
		return each(v)
	case []any:
		for i := range v {
			v[i] = scrubDocument(v[i], each)
		}
	case map[string]any:
		for key := range v {
			v[key] = scrubDocument(v[key], each)
		}
	}
	return v
}

// said is an error with a text that is safe to print. What callers branch on is
// in the error beneath.
type said struct {
	text  string
	cause error
}

func (e *said) Error() string { return e.text }
func (e *said) Unwrap() error { return e.cause }

// scrubError cleans each line of an error's text and hides the secrets in it.
func scrubError(err error, secrets *errtext.Secrets) error {
	if err == nil {
		return nil
	}
	was := err.Error()
	lines := strings.Split(was, "\n") // several findings about a profile have a line each
	for i := range lines {
		lines[i] = secrets.Scrub(lines[i])
	}
	if text := strings.Join(lines, "\n"); text != was {
		return &said{text, err}
	}
	return err
}
