package profiles

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/eventmeter/eventmeter/internal/settings"
)

// field is one key of a group.
type field struct {
	tags
	value reflect.Value
}

// tags are what the tags of a field of a struct say.
type tags struct{ key, check, needs string }

// tagsOf are those of the fields of a struct, in order. A profile with
// many cases asks for them thousands of times.
func tagsOf(t reflect.Type) []tags {
	if known, ok := knownTags.Load(t); ok {
		return known.([]tags)
	}
	all := make([]tags, t.NumField())
	for i := range all {
		f := t.Field(i)
		all[i] = tags{settings.KeyOf(f.Tag), f.Tag.Get("check"), f.Tag.Get("needs")}
	}
	knownTags.Store(t, all)
	return all
}

var knownTags sync.Map // by reflect.Type

// fieldsOf returns the keys of a group. In a lane, Settings stands for the groups of
// all systems: the lane's own settings, and for each other system new ones, which are
// only decoded to report what is wrong.
func fieldsOf(systems Systems, v reflect.Value) []field {
	known := tagsOf(v.Type())
	all := make([]field, 0, len(known)+len(systems))
	for i, of := range known {
		switch f := v.Field(i); {
		case f.Type() == typeSettings:
			l := v.Interface().(Lane)
			for _, s := range systems {
				set := l.settingsOf(s)
				all = append(all, field{tags{key: set.Key()}, reflect.ValueOf(set).Elem()})
			}
		case f.CanInterface():
			all = append(all, field{of, f})
		}
	}
	return all
}

// settingsOf returns the lane's settings if it is of that system, and otherwise new
// ones.
func (l *Lane) settingsOf(s settings.System) settings.Settings {
	set := s.Settings("")
	if l.Settings != nil && l.Settings.Key() == set.Key() {
		return l.Settings
	}
	return set
}

func keysOf(fields []field) []string {
	var keys []string
	for _, f := range fields {
		keys = append(keys, f.key)
	}
	return keys
}

// dependent is a key of a lane that has no effect without another one, or one of
// several. key is its path, others the paths of the other keys, and name the other keys
// as the group's messages name them.
type dependent struct {
	key, name, why  string
	others          []string
	value, standard reflect.Value
	on              bool // one of the others has a value
}

// dependents returns the keys of a lane with a needs tag.
func dependents(systems Systems, l *Lane) (all []dependent) {
	plain := defaultLaneOf(systems, l.Mode, l.System, l.Client)
	own, standard := fieldsOf(systems, reflect.ValueOf(l).Elem()), fieldsOf(systems, reflect.ValueOf(plain))
	at := map[string]reflect.Value{}
	for i, group := range own {
		if group.value.Kind() != reflect.Struct {
			continue
		}
		fields, standards := fieldsOf(systems, group.value), fieldsOf(systems, standard[i].value)
		for j, f := range fields {
			key := join(group.key, f.key)
			at[key] = f.value
			if name, why, ok := strings.Cut(f.needs, ": "); ok {
				others := strings.Split(name, " or ")
				for k, other := range others {
					if !strings.Contains(other, ".") {
						others[k] = join(group.key, other)
					}
				}
				all = append(all, dependent{key: key, others: others, name: name, why: why, value: f.value, standard: standards[j].value})
			}
		}
	}
	for i := range all {
		all[i].on = slices.ContainsFunc(all[i].others, func(other string) bool { return !at[other].IsZero() })
	}
	return all
}

// jsonLane returns the type of a lane with the settings of systems, each under its
// own key, in place of Settings.
func jsonLane(of ...settings.Settings) reflect.Type {
	var fields []reflect.StructField
	for _, f := range reflect.VisibleFields(typeLane) {
		if f.Type != typeSettings {
			fields = append(fields, f)
			continue
		}
		for _, s := range of {
			t := reflect.TypeOf(s).Elem()
			tag := fmt.Sprintf(`json:"%s,omitzero"`, s.Key())
			fields = append(fields, reflect.StructField{Name: "Settings" + strings.ToUpper(s.Key()), Type: t, Tag: reflect.StructTag(tag)})
		}
	}
	return reflect.StructOf(fields)
}

// MarshalJSON writes the settings under the key of the lane's system.
func (l Lane) MarshalJSON() ([]byte, error) {
	var of []settings.Settings
	if l.Settings != nil {
		of = append(of, l.Settings)
	}
	v := reflect.New(jsonLane(of...)).Elem()
	for i := range v.NumField() {
		if f := reflect.ValueOf(l).FieldByName(v.Type().Field(i).Name); f.IsValid() {
			v.Field(i).Set(f)
		} else {
			v.Field(i).Set(reflect.ValueOf(l.Settings).Elem())
		}
	}
	return json.Marshal(v.Interface())
}

// FromJSON reads the JSON form of a profile, which is part of every result. It
// refuses unknown keys, and does not check values.
func FromJSON(data []byte, systems Systems) (*Profile, error) {
	var all []settings.Settings
	for _, s := range systems {
		all = append(all, s.Settings(""))
	}
	fields := slices.DeleteFunc(
		reflect.VisibleFields(reflect.TypeFor[Profile]()),
		func(f reflect.StructField) bool { return !f.IsExported() },
	)
	for i := range fields {
		if fields[i].Type == reflect.TypeFor[[]Lane]() {
			fields[i].Type = reflect.SliceOf(jsonLane(all...))
		}
	}
	in := reflect.New(reflect.StructOf(fields))
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(in.Interface()); err != nil {
		return nil, err
	}
	p := &Profile{systems: systems}
	for i, f := range fields {
		if to := reflect.ValueOf(p).Elem().FieldByName(f.Name); f.Type == to.Type() {
			to.Set(in.Elem().Field(i))
			continue
		}
		for _, l := range in.Elem().Field(i).Seq2() {
			p.Lanes = append(p.Lanes, laneOf(systems, l))
		}
	}
	return p, nil
}

// laneOf returns a lane that was read from JSON, with the settings of its system.
func laneOf(systems Systems, in reflect.Value) Lane {
	var l Lane
	for i := range in.NumField() {
		if to := reflect.ValueOf(&l).Elem().FieldByName(in.Type().Field(i).Name); to.IsValid() {
			to.Set(in.Field(i))
		}
	}
	if of, ok := systems.Find(l.System); ok {
		l.Settings = of.Settings(l.Mode)
		reflect.ValueOf(l.Settings).Elem().Set(in.FieldByName("Settings" + strings.ToUpper(l.Settings.Key())))
	}
	return l
}
