package mcpevents

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter/internal/settings"
	"github.com/eventmeter/eventmeter/loadgen/systems"
)

// firstArgument is the setting that the first argument of a method is; none = the
// event type.
var firstArgument = map[string]string{"watchLists": "list", "resumable": "tool"}

// notOptions are settings that no script can set: those that a method's first
// argument gives, and resume, since subscriptions are not opened a second time.
var notOptions = map[string]bool{"list": true, "tool": true, "resume": true}

// settingsFor takes the settings of the system out of the options of a method, and
// checks them.
func settingsFor(given map[string]json.RawMessage, system string, w way) (settings.Settings, error) {
	of, ok := systems.Table.Find(system)
	if !ok {
		return nil, nil // reported with the systems of the method
	}
	set := of.Settings(string(w.mode))
	lane := settings.Lane{Mode: string(w.mode), TTL: "default", NoSources: true, Drain: settings.Longest}
	_ = setField(reflect.ValueOf(&lane.MaxAge).Elem(), given["maxAge"]) // reported where it is read
	all := maps.Clone(given)
	fields := settingFields(set)
	for _, name := range slices.Sorted(maps.Keys(given)) { // the same message every time
		field, ok := fields[name]
		if !ok || notOptions[name] {
			continue
		}
		if err := readSetting(field, name, given[name]); err != nil {
			return nil, err
		}
		delete(given, name)
	}
	if name := firstArgument[w.method]; name != "" {
		fields[name].SetString(w.what)
	}
	return set, checkSettings(set, lane, all)
}

// settingField is a field of settings, with its check tag.
type settingField struct {
	reflect.Value
	check string
}

// settingFields are the fields of settings by their keys.
func settingFields(set settings.Settings) map[string]settingField {
	v := reflect.ValueOf(set).Elem()
	fields := map[string]settingField{}
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag
		key, _, _ := strings.Cut(tag.Get("json"), ",")
		fields[key] = settingField{v.Field(i), tag.Get("check")}
	}
	return fields
}

// readSetting reads an option into a field of settings, and holds it to its bounds.
func readSetting(field settingField, name string, raw json.RawMessage) error {
	if err := setField(field.Value, raw); err != nil {
		return fmt.Errorf("options: %s", blame(name, err))
	}
	if string(raw) == "null" {
		return nil
	}
	if _, counted := countBounds[name]; counted {
		return checkCount(name, field.Int())
	}
	if field.check == "" {
		return nil
	}
	if what, fix := settings.Wrong(field.Value, field.check); what != "" {
		return fmt.Errorf("options: %s %s: %s", name, what, fix)
	}
	return nil
}

// setField reads an option as a script writes it.
func setField(field reflect.Value, raw json.RawMessage) error {
	if field.Type() != reflect.TypeFor[time.Duration]() {
		return json.Unmarshal(raw, field.Addr().Interface())
	}
	var d *duration
	if err := json.Unmarshal(raw, &d); err != nil {
		return err
	}
	field.SetInt(int64(d.or(time.Duration(field.Int()))))
	return nil
}

// checkSettings returns the first problem that the driver finds with its settings.
func checkSettings(set settings.Settings, lane settings.Lane, given map[string]json.RawMessage) (err error) {
	bad := func(key, what, fix string) {
		if err == nil {
			err = errors.New("options: " + optionOf(key) + ": " + what + "; " + fix)
		}
	}
	lane.Bad = bad
	lane.Missing = func(key, fix string) { bad(key, "is missing", fix) }
	lane.Given = func(key string) bool {
		raw, ok := given[optionOf(key)]
		return ok && string(raw) != "null"
	}
	set.Check(lane)
	return err
}

// methodsOf are the methods whose systems have a setting.
func methodsOf(name string) (methods []string) {
	for _, of := range systems.Table {
		if !hasKey(of.Settings(""), name) {
			continue
		}
		for method, names := range systemsOf {
			if slices.Contains(names, of.Name) {
				methods = append(methods, method)
			}
		}
	}
	slices.Sort(methods)
	return slices.Compact(methods)
}

// hasKey reports whether settings have an option.
func hasKey(set settings.Settings, name string) bool {
	_, ok := settingFields(set)[name]
	return ok && !notOptions[name]
}

// foreign finds an option that is a setting of another system of the method. Without
// a value it is none.
func foreign(given map[string]json.RawMessage, system, method string) error {
	for _, name := range slices.Sorted(maps.Keys(given)) { // the same message every time
		for _, of := range systems.Table {
			set := of.Settings("")
			if !slices.Contains(systemsOf[method], of.Name) || !hasKey(set, name) {
				continue
			}
			if err := readSetting(settingFields(set)[name], name, given[name]); err != nil {
				return err
			}
			if string(given[name]) != "null" {
				return fmt.Errorf("options: %s is for system %s, not for %s", name, of.Name, system)
			}
			delete(given, name)
			break
		}
	}
	return nil
}

// optionOf is the option that a key of a lane is.
func optionOf(key string) string { return key[strings.LastIndexByte(key, '.')+1:] }

// subscribesToNothing reports whether the subscriptions of a system are requests of
// their own, to which no events are owed.
func subscribesToNothing(system string) bool {
	of, ok := systems.Table.Find(system)
	return ok && of.NoEvents
}
