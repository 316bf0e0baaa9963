package profiles

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// decoder fills a Profile from a tree and collects what does not fit.
type decoder struct {
	problems []Problem
	at       map[string]*node // by path, with list items by number
	tainted  map[string]bool  // paths that have a problem already
}

func (d *decoder) report(n *node, path, what, mend string) {
	d.tainted[path] = true
	d.problems = append(d.problems, Problem{Where: n.where, Key: path, What: what, Mend: mend, line: n.line})
}

// fail reports an error whose text already says how to mend it.
func (d *decoder) fail(n *node, path string, err error) {
	what, mend, _ := strings.Cut(err.Error(), "; ")
	d.report(n, path, what, mend)
}

var (
	typeDuration = reflect.TypeFor[time.Duration]()
	typeRate     = reflect.TypeFor[Rate]()
	typeBytes    = reflect.TypeFor[Bytes]()
	typeLane     = reflect.TypeFor[Lane]()
	typeCapacity = reflect.TypeFor[Capacity]()
)

func (d *decoder) decode(n *node, path string, v reflect.Value) {
	d.at[path] = n
	if n.kind == scalar && n.value == nil {
		d.report(n, path, "has no value", "give one, or remove the key to have the default")
		return
	}
	switch {
	case v.Kind() == reflect.Struct:
		d.group(n, path, v)
	case v.Type() == typeCommand && n.kind == scalar:
		d.command(n, path, v)
	case v.Kind() == reflect.Slice:
		d.list(n, path, v)
	case v.Kind() == reflect.Map:
		d.dictionary(n, path, v)
	case n.kind != scalar:
		d.report(n, path, "is "+n.kind.String(), "give a single value")
	case v.Type() == typeDuration:
		got, err := parseDuration(n)
		if err != nil {
			d.fail(n, path, err)
			return
		}
		v.SetInt(int64(got))
	case v.Type() == typeRate:
		got, err := ParseRate(n.text)
		if err != nil {
			d.fail(n, path, err)
			return
		}
		v.SetFloat(float64(got))
	case v.Type() == typeBytes:
		got, err := ParseBytes(n.text)
		if err != nil {
			d.fail(n, path, err)
			return
		}
		v.SetInt(int64(got))
	default:
		d.single(n, path, v)
	}
}

// single decodes text and numbers.
func (d *decoder) single(n *node, path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if _, ok := n.value.(bool); ok {
			d.report(n, path, n.text+" is not text here", "write it in quotes if you mean the word")
			return
		}
		// http: 1.1 is a number to YAML, and its text is what was meant.
		v.SetString(n.text)
	case reflect.Int:
		if i, ok := n.value.(int64); ok {
			if i < -maxCount || i > maxCount {
				d.report(n, path, n.text+" is out of bounds", fmt.Sprintf("give at most %d", maxCount))
				return
			}
			v.SetInt(i)
			return
		}
		d.report(n, path, quote(n.text)+" is not a whole number", "write digits only, as in 300")
	case reflect.Bool:
		b, ok := n.value.(bool)
		if !ok {
			d.report(n, path, quote(n.text)+" is neither true nor false", "write true or false")
			return
		}
		v.SetBool(b)
	case reflect.Uint64:
		switch i := n.value.(type) {
		case uint64:
			v.SetUint(i)
			return
		case int64:
			if i >= 0 {
				v.SetUint(uint64(i))
				return
			}
		}
		d.report(n, path, quote(n.text)+" is not a whole number of 0 or more", "write digits only, as in 42")
	case reflect.Float64:
		switch f := n.value.(type) {
		case float64:
			v.SetFloat(f)
		case int64:
			v.SetFloat(float64(f))
		default:
			d.report(n, path, quote(n.text)+" is not a number", "write it as in 0.75")
		}
	}
}

func (d *decoder) group(n *node, path string, v reflect.Value) {
	if n.kind != mapping {
		d.report(n, path, "is "+n.kind.String(), "it is a group of keys: "+strings.Join(keysOf(v.Type()), ", "))
		return
	}
	if v.Type() == typeCapacity {
		v.Set(reflect.ValueOf(defaultCapacity()))
	}
	for _, f := range n.fields {
		at, ok := fieldOf(v, f.key)
		if !ok {
			d.tainted[path] = true
			d.report(f.value, join(path, f.key), "no such key", advise(f.key, keysOf(v.Type())))
			continue
		}
		d.decode(f.value, join(path, f.key), at)
	}
}

func (d *decoder) list(n *node, path string, v reflect.Value) {
	if n.kind != sequence {
		d.report(n, path, "is "+n.kind.String(), "it is a list: begin each item with a hyphen")
		return
	}
	for i, item := range n.items {
		e := reflect.New(v.Type().Elem()).Elem()
		if e.Type() == typeLane {
			mode := ""
			if m := item.field("mode"); m != nil {
				mode = m.text
			}
			system := ""
			if s := item.field("system"); s != nil {
				system = s.text
			}
			e.Set(reflect.ValueOf(defaultLaneOf(mode, system)))
		}
		d.decode(item, join(path, fmt.Sprint(i)), e)
		v.Set(reflect.Append(v, e))
	}
}

func (d *decoder) dictionary(n *node, path string, v reflect.Value) {
	if n.kind != mapping {
		d.report(n, path, "is "+n.kind.String(), "it is a group of keys and values")
		return
	}
	if len(n.fields) == 0 {
		return // the same as none
	}
	m := reflect.MakeMap(v.Type())
	for _, f := range n.fields {
		here := join(path, f.key)
		e := reflect.New(v.Type().Elem()).Elem()
		if e.Kind() == reflect.String {
			d.decode(f.value, here, e)
		} else {
			d.remember(f.value, here)
			if got := f.value.plain(); got != nil {
				e.Set(reflect.ValueOf(got))
			}
		}
		m.SetMapIndex(reflect.ValueOf(f.key), e)
	}
	v.Set(m)
}

// remember keeps where the parts of free-form data came from.
func (d *decoder) remember(n *node, path string) {
	d.at[path] = n
	for _, f := range n.fields {
		d.remember(f.value, join(path, f.key))
	}
	for i, item := range n.items {
		d.remember(item, join(path, fmt.Sprint(i)))
	}
}

// plain is the node as JSON would have it.
func (n *node) plain() any {
	switch n.kind {
	case mapping:
		m := make(map[string]any, len(n.fields))
		for _, f := range n.fields {
			m[f.key] = f.value.plain()
		}
		return m
	case sequence:
		s := make([]any, len(n.items))
		for i, item := range n.items {
			s[i] = item.plain()
		}
		return s
	}
	return n.value
}

func keyOf(f reflect.StructField) string {
	key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	return key
}

func keysOf(t reflect.Type) []string {
	var keys []string
	for i := range t.NumField() {
		keys = append(keys, keyOf(t.Field(i)))
	}
	return keys
}

func fieldOf(v reflect.Value, key string) (reflect.Value, bool) {
	for i := range v.NumField() {
		if keyOf(v.Type().Field(i)) == key {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}
