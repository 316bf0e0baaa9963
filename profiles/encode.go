package profiles

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// YAML writes the profile so that [Parse] gives the same value again. Defaults
// are left out. Unlike the JSON form it holds the secrets: headers and tokens.
//
// It is written here and not by the YAML library, whose encoder loses line
// breaks and does not quote everything that needs it.
func (p *Profile) YAML() ([]byte, error) {
	w := &writer{}
	w.block(plainGroup(reflect.ValueOf(*p), reflect.ValueOf(defaultProfile())), 0)
	if w.err != nil {
		return nil, fmt.Errorf("profile %s: %w", p.Name, w.err)
	}
	return []byte(w.text.String()), nil
}

// group is a mapping in the order in which it is written.
type group []pair

type pair struct {
	key   string
	value any
}

// plainGroup is the fields of v that differ from those of standard.
func plainGroup(v, standard reflect.Value) group {
	var out group
	for i := range v.NumField() {
		if !reflect.DeepEqual(v.Field(i).Interface(), standard.Field(i).Interface()) {
			out = append(out, pair{keyOf(v.Type().Field(i)), plainValue(v.Field(i), standard.Field(i))})
		}
	}
	return out
}

// plainValue is v as groups, lists and scalars.
func plainValue(v, standard reflect.Value) any {
	switch x := v.Interface().(type) {
	case time.Duration:
		return x.String()
	case Rate:
		return x.String()
	case Bytes:
		return x.String()
	case []Lane:
		lanes := make([]any, len(x))
		for i, l := range x {
			lanes[i] = plainGroup(reflect.ValueOf(l), reflect.ValueOf(defaultLaneOf(l.Mode, l.System)))
		}
		return lanes
	case []Case:
		cases := make([]any, len(x))
		for i, c := range x {
			cases[i] = plainGroup(reflect.ValueOf(c), reflect.ValueOf(Case{}))
		}
		return cases
	case Capacity:
		return plainGroup(v, reflect.ValueOf(defaultCapacity()))
	case Command:
		return plainValue(reflect.ValueOf([]string(x)), standard)
	case []string:
		list := make([]any, len(x))
		for i, s := range x {
			list[i] = s
		}
		return list
	case map[string]string:
		var out group
		for _, key := range slices.Sorted(maps.Keys(x)) {
			out = append(out, pair{key, x[key]})
		}
		return out
	case map[string]any:
		return ordered(x)
	}
	if v.Kind() == reflect.Struct {
		return plainGroup(v, standard)
	}
	return v.Interface()
}

// ordered gives maps an order, at any depth.
func ordered(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := group{}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			out = append(out, pair{key, ordered(v[key])})
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = ordered(v[i])
		}
		return out
	}
	return v
}

type writer struct {
	text strings.Builder
	err  error
}

// block writes the lines of a group or a list. The first of them is already
// indented when it follows the hyphen of an item.
func (w *writer) block(v any, indent int) {
	lead := strings.Repeat(" ", indent)
	switch v := v.(type) {
	case group:
		for i, p := range v {
			if i > 0 {
				w.text.WriteString(lead)
			}
			w.text.WriteString(word(p.key) + ":")
			if nested(p.value) {
				w.text.WriteString("\n" + lead + "  ")
				w.block(p.value, indent+2)
			} else {
				w.text.WriteString(" " + w.scalar(p.value) + "\n")
			}
		}
	case []any:
		for i, item := range v {
			if i > 0 {
				w.text.WriteString(lead)
			}
			w.text.WriteString("- ")
			if nested(item) {
				w.block(item, indent+2)
			} else {
				w.text.WriteString(w.scalar(item) + "\n")
			}
		}
	}
}

// nested reports whether v takes lines of its own.
func nested(v any) bool {
	switch v := v.(type) {
	case group:
		return len(v) > 0
	case []any:
		return len(v) > 0
	}
	return false
}

func (w *writer) scalar(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case group:
		return "{}"
	case []any:
		return "[]"
	case string:
		return word(v)
	case float64:
		text := strconv.FormatFloat(v, 'g', -1, 64)
		if !strings.ContainsAny(text, ".e") {
			text += ".0" // or it would be read as a whole number
		}
		return text
	case bool, int, int64, uint64:
		return fmt.Sprint(v)
	}
	w.err = fmt.Errorf("a %T cannot be written; use text, numbers, true, false, null, lists and groups", v)
	return ""
}

// A bare word begins with a letter and means nothing else in YAML.
var (
	bareWord = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_./-]*$`)
	reserved = regexp.MustCompile(`(?i)^(true|false|null|yes|no|on|off|y|n)$`)
)

// word writes text bare, or in double quotes.
func word(text string) string {
	if bareWord.MatchString(text) && !reserved.MatchString(text) {
		return text
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x80 && unicode.IsPrint(r) || r > 0xffff && unicode.IsPrint(r) || unicode.IsLetter(r):
			b.WriteRune(r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
