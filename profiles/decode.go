package profiles

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter/internal/settings"
	"github.com/goccy/go-yaml/ast"
)

// decoder fills a Profile from a tree and collects the problems.
type decoder struct {
	*tree
	at      map[string]place // by path, with list items by number
	tainted map[string]bool  // paths that have a problem already
	systems Systems
}

func (d *decoder) report(at place, path, what, fix string) {
	d.tainted[path] = true
	d.bad(at, path, what, fix)
}

// fail reports an error whose text already says how to fix it.
func (d *decoder) fail(at place, path string, err error) {
	what, fix, _ := strings.Cut(err.Error(), "; ")
	d.report(at, path, what, fix)
}

var (
	typeLane     = reflect.TypeFor[Lane]()
	typeSettings = reflect.TypeFor[settings.Settings]()
	typeCapacity = reflect.TypeFor[Capacity]()

	typeConditions = reflect.TypeFor[Conditions]()

	// parsers parse the values that have a notation of their own.
	parsers = map[reflect.Type]func(text string) (any, error){
		reflect.TypeFor[time.Duration](): func(text string) (any, error) { return settings.ParseDuration(text) },
		reflect.TypeFor[Rate]():          func(text string) (any, error) { return ParseRate(text) },
		reflect.TypeFor[Bytes]():         func(text string) (any, error) { return ParseBytes(text) },
	}
)

func (d *decoder) decode(n ast.Node, at place, path string, v reflect.Value) {
	d.at[path] = at
	switch {
	case isNull(n):
		d.report(at, path, "has no value", "give one, or remove the key to have the default")
	case v.Kind() == reflect.Struct:
		d.group(n, at, path, v)
	case v.Type() == typeCommand && kindOf(n) == scalar:
		d.command(n, at, path, v)
	case v.Type() == typeConditions && kindOf(n) == scalar:
		_, text := scalarOf(n)
		v.Set(reflect.ValueOf(Conditions{text}))
	case v.Kind() == reflect.Slice:
		d.list(n, at, path, v)
	case v.Kind() == reflect.Map:
		d.dictionary(n, at, path, v)
	case kindOf(n) != scalar:
		d.report(at, path, "is "+kindOf(n).String(), "give a single value")
	default:
		d.single(n, at, path, v)
	}
}

// single decodes text and numbers.
func (d *decoder) single(n ast.Node, at place, path string, v reflect.Value) {
	value, text := scalarOf(n)
	if parse := parsers[v.Type()]; parse != nil {
		got, err := parse(text)
		if err != nil {
			d.fail(at, path, err)
			return
		}
		v.Set(reflect.ValueOf(got))
		return
	}
	switch v.Kind() {
	case reflect.String:
		if _, ok := value.(bool); ok {
			d.report(at, path, text+" is not text here", "write it in quotes if you mean the word")
			return
		}
		// http: 1.1 is a number in YAML, but the text is meant.
		v.SetString(text)
	case reflect.Int:
		i, ok := value.(int64)
		switch {
		case !ok:
			d.report(at, path, settings.Quote(text)+" is not a whole number", "write digits only, as in 300")
		case i < -settings.MaxCount || i > settings.MaxCount:
			d.report(at, path, text+" is out of bounds", fmt.Sprintf("give at most %d", settings.MaxCount))
		default:
			v.SetInt(i)
		}
	case reflect.Bool:
		b, ok := value.(bool)
		if !ok {
			d.report(at, path, settings.Quote(text)+" is neither true nor false", "write true or false")
		}
		v.SetBool(b)
	case reflect.Uint64:
		switch i := value.(type) {
		case uint64:
			v.SetUint(i)
			return
		case int64:
			if i >= 0 {
				v.SetUint(uint64(i))
				return
			}
		}
		d.report(at, path, settings.Quote(text)+" is not a whole number of 0 or more", "write digits only, as in 42")
	case reflect.Float64:
		switch f := value.(type) {
		case float64:
			v.SetFloat(f)
		case int64:
			v.SetFloat(float64(f))
		default:
			d.report(at, path, settings.Quote(text)+" is not a number", "write it as in 0.75")
		}
	}
}

func (d *decoder) group(n ast.Node, at place, path string, v reflect.Value) {
	if v.Type() == typeCapacity {
		v.Set(reflect.ValueOf(defaultCapacity()))
	}
	fields := fieldsOf(d.systems, v)
	keys := keysOf(fields)
	m, ok := n.(*ast.MappingNode)
	if !ok {
		d.report(at, path, "is "+kindOf(n).String(), "it is a group of keys: "+strings.Join(keys, ", "))
		return
	}
	for _, f := range m.Values {
		key, _ := keyText(f.Key)
		here, at := join(path, key), d.place(f.Key, f.Value, at)
		i := slices.Index(keys, key)
		if i < 0 {
			d.tainted[path] = true
			d.report(at, here, "no such key", advise(key, keys))
			continue
		}
		d.decode(f.Value, at, here, fields[i].value)
	}
}

func (d *decoder) list(n ast.Node, at place, path string, v reflect.Value) {
	s, ok := n.(*ast.SequenceNode)
	if !ok {
		d.report(at, path, "is "+kindOf(n).String(), "it is a list: begin each item with a hyphen")
		return
	}
	v.SetZero() // a given list replaces the default
	for i, item := range s.Values {
		e := reflect.New(v.Type().Elem()).Elem()
		if e.Type() == typeLane {
			e.Set(reflect.ValueOf(defaultLaneOf(d.systems, textOf(item, "mode"), textOf(item, "system"), textOf(item, "client"))))
		}
		d.decode(item, d.place(item, item, at), join(path, strconv.Itoa(i)), e)
		v.Set(reflect.Append(v, e))
	}
}

func (d *decoder) dictionary(n ast.Node, at place, path string, v reflect.Value) {
	m, ok := n.(*ast.MappingNode)
	if !ok {
		d.report(at, path, "is "+kindOf(n).String(), "it is a group of keys and values")
		return
	}
	if len(m.Values) == 0 {
		return // an empty group is the same as none
	}
	dict := reflect.MakeMap(v.Type())
	for _, f := range m.Values {
		key, _ := keyText(f.Key)
		here, at := join(path, key), d.place(f.Key, f.Value, at)
		e := reflect.New(v.Type().Elem()).Elem()
		if e.Kind() == reflect.String {
			d.decode(f.Value, at, here, e)
		} else {
			d.remember(f.Value, at, here)
			if got := plain(f.Value); got != nil {
				e.Set(reflect.ValueOf(got))
			}
		}
		dict.SetMapIndex(reflect.ValueOf(key), e)
	}
	v.Set(dict)
}

// remember stores the places of the parts of free-form data.
func (d *decoder) remember(n ast.Node, at place, path string) {
	d.at[path] = at
	switch n := n.(type) {
	case *ast.MappingNode:
		for _, f := range n.Values {
			key, _ := keyText(f.Key)
			d.remember(f.Value, d.place(f.Key, f.Value, at), join(path, key))
		}
	case *ast.SequenceNode:
		for i, item := range n.Values {
			d.remember(item, d.place(item, item, at), join(path, strconv.Itoa(i)))
		}
	}
}

var typeCommand = reflect.TypeFor[Command]()

// command decodes a command that is written as one text.
func (d *decoder) command(n ast.Node, at place, path string, v reflect.Value) {
	value, text := scalarOf(n)
	if _, ok := value.(bool); ok {
		d.report(at, path, text+" is not a command", "write the program and its arguments")
		return
	}
	words, err := SplitCommand(text)
	if err != nil {
		d.fail(at, path, err)
		return
	}
	v.Set(reflect.ValueOf(words))
}
