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

// settingsFor takes the settings of the system out of the options of a method, and
// checks them. nil = the system has none.
func settingsFor(given map[string]json.RawMessage, system string, w way) (settings.Settings, error) {
	of, ok := systems.Table.Find(system)
	if !ok || of.Settings == nil {
		return nil, nil
	}
	set := of.Settings(string(w.mode))
	fields := settingFields(set)
	asked := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(given)) { // the same message every time
		field, ok := fields[name]
		if !ok || name == firstArgument[w.method] {
			continue
		}
		if err := setField(field.Value, given[name]); err != nil {
			return nil, fmt.Errorf("options: %s", blame(name, err))
		}
		if b, counted := countBounds[name]; counted && (field.Int() < b.least || field.Int() > b.most) {
			return nil, checkCount(name, field.Int())
		}
		if asked[name] = string(given[name]) != "null"; asked[name] && field.check != "" {
			if what, fix := settings.Wrong(field.Value, field.check); what != "" {
				return nil, fmt.Errorf("options: %s %s: %s", name, what, fix)
			}
		}
		delete(given, name)
	}
	if name := firstArgument[w.method]; name != "" {
		fields[name].SetString(w.what)
	}
	return set, checkSettings(set, asked, w)
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
func checkSettings(set settings.Settings, asked map[string]bool, w way) (err error) {
	bad := func(key, what, fix string) {
		if err == nil {
			err = errors.New("options: " + strings.TrimPrefix(key, set.Key()+".") + ": " + what + "; " + fix)
		}
	}
	set.Check(settings.Lane{
		Mode: string(w.mode), TTL: "default", NoSources: true, Drain: settings.Longest,
		Given: func(key string) bool {
			name, ok := strings.CutPrefix(key, set.Key()+".")
			return ok && asked[name]
		},
		Bad:     bad,
		Missing: func(key, fix string) { bad(key, "is missing", fix) },
	})
	return err
}

// methodsOf are the methods whose systems have a setting.
func methodsOf(name string) (methods []string) {
	for _, of := range systems.Table {
		if of.Settings == nil || !hasKey(of.Settings(""), name) {
			continue
		}
		for method, names := range systemsOf {
			if slices.Contains(names, of.Name) && firstArgument[method] != name {
				methods = append(methods, method)
			}
		}
	}
	slices.Sort(methods)
	return slices.Compact(methods)
}

func hasKey(set settings.Settings, name string) bool {
	_, ok := settingFields(set)[name]
	return ok
}
