package errtext

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// ScrubAll cleans every text of the value that v points to, keys of maps included, and hides the
// secrets in it. It is the last step before anything of a run is written or printed, in case an
// input was not cleaned. In a JSON document, which is the profile, it only hides secrets.
func (s *Secrets) ScrubAll(v any) {
	scrubber{s.Scrub, s.Hide}.value(reflect.ValueOf(v).Elem())
}

// CleanAll cleans every text of the value that v points to, keys of maps included, for values that
// others may have written, such as archives. Texts in a JSON document keep their line breaks and
// tabs.
func CleanAll(v any) {
	scrubber{Plain, func(text string) string {
		if harmless(text) {
			return text
		}
		var out strings.Builder
		for len(text) > 0 {
			n := strings.IndexAny(text, "\n\t")
			if n < 0 {
				n = len(text)
			}
			out.WriteString(Plain(text[:n]))
			if n < len(text) {
				out.WriteByte(text[n])
				n++
			}
			text = text[n:]
		}
		return out.String()
	}}.value(reflect.ValueOf(v).Elem())
}

// scrubber changes the texts of a value, and those of JSON documents in it.
type scrubber struct{ text, document func(string) string }

var rawJSON = reflect.TypeFor[json.RawMessage]()

func (s scrubber) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		// What holds no secret is not written to: others may be reading it.
		if text := s.text(v.String()); v.CanSet() && text != v.String() {
			v.SetString(text)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			s.value(v.Elem())
		}
	case reflect.Interface:
		if v.CanSet() && !v.IsNil() {
			inner := reflect.New(v.Elem().Type()).Elem()
			inner.Set(v.Elem())
			s.value(inner)
			v.Set(inner)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				s.value(v.Field(i))
			}
		}
	case reflect.Slice:
		if v.Type() == rawJSON {
			if v.CanSet() {
				v.SetBytes(s.json(v.Bytes()))
			}
			return
		}
		if k := v.Type().Elem().Kind(); k >= reflect.Bool && k <= reflect.Complex128 {
			return
		}
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			s.value(v.Index(i))
		}
	case reflect.Map:
		s.mapping(v)
	}
}

func (s scrubber) mapping(v reflect.Value) {
	for _, key := range v.MapKeys() {
		value := reflect.New(v.Type().Elem()).Elem()
		value.Set(v.MapIndex(key))
		s.value(value)
		if key.Kind() != reflect.String {
			v.SetMapIndex(key, value)
			continue
		}
		clean := reflect.New(v.Type().Key()).Elem()
		clean.SetString(s.text(key.String()))
		if clean.String() == key.String() && reflect.DeepEqual(value.Interface(), v.MapIndex(key).Interface()) {
			continue
		}
		if clean.String() != key.String() {
			v.SetMapIndex(key, reflect.Value{})
			if was := v.MapIndex(clean); was.IsValid() && value.CanInt() { // two keys that are now equal
				value.SetInt(value.Int() + was.Int())
			}
		}
		v.SetMapIndex(clean, value)
	}
}

// json changes the texts of a JSON document, and hides what is secret in its URLs. A document that holds none is left as it is.
func (s scrubber) json(text []byte) []byte {
	var doc any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if d.Decode(&doc) != nil {
		return text
	}
	changed := false
	doc = scrubDocument(doc, func(was string) string {
		out := was
		if strings.HasPrefix(was, "http://") || strings.HasPrefix(was, "https://") {
			if strings.ContainsAny(was, "?@") && !strings.Contains(was, "{{") {
				out = Address(was)
			}
		}
		out = s.document(out)
		changed = changed || out != was
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
		for _, key := range slices.Sorted(maps.Keys(v)) {
			value := scrubDocument(v[key], each)
			delete(v, key)
			v[each(key)] = value
		}
	}
	return v
}

// scrubbed is an error with a text that is safe to print. What callers branch on is
// in the error beneath.
type scrubbed struct {
	text  string
	cause error
}

func (e *scrubbed) Error() string { return e.text }
func (e *scrubbed) Unwrap() error { return e.cause }

// ScrubError cleans each line of an error's text and hides the secrets in it.
func (s *Secrets) ScrubError(err error) error {
	if err == nil {
		return nil
	}
	was := err.Error()
	lines := strings.Split(was, "\n") // several findings about a profile have a line each
	for i := range lines {
		lines[i] = s.Scrub(lines[i])
	}
	if text := strings.Join(lines, "\n"); text != was {
		return &scrubbed{text, err}
	}
	return err
}
