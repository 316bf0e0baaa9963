package mcpevents

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/settings"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/systems"
)

// firstArgument names the setting that the first argument of a method gives; none =
// the event type.
var firstArgument = map[string]string{"watchLists": "list", "resumable": "tool"}

// notOptions are settings that no script can set: those given by a method's first
// argument, and resume, because subscriptions are not opened a second time.
var notOptions = map[string]bool{"list": true, "tool": true, "resume": true}

// ofListeners are the settings of webhooks that belong to a WebhookSink.
var ofListeners = map[string]bool{"listen": true, "callback": true, "certFile": true, "keyFile": true}

// isWebhook reports whether an option is a setting of webhooks.
func isWebhook(name string) bool {
	_, ok := settingFields(reflect.ValueOf(new(settings.WebhookLane)))[name]
	return ok && !ofListeners[name]
}

// readWebhook takes the settings of webhooks out of the options of a method.
func (o *subscribeOptions) readWebhook(given map[string]json.RawMessage, w way) error {
	if w.mode != eventmeter.Webhook {
		return nil
	}
	if err := json.Unmarshal(given["client"], &o.Client); given["client"] != nil && err != nil {
		return fmt.Errorf("options: %s", blame("client", err))
	}
	if o.Client != "" && !slices.Contains(settings.Clients, o.Client) {
		return fmt.Errorf("options: client %q is not known: %s", o.Client, choose(o.Client, settings.Clients))
	}
	o.webhook = settings.WebhookOf(o.Client)
	fields := settingFields(reflect.ValueOf(&o.webhook))
	for _, name := range inOrder(given) {
		if !isWebhook(name) {
			continue
		}
		raw := given[name]
		if name == "ttl" {
			var err error
			if raw, err = lifetimeOf(raw); err != nil {
				return fmt.Errorf("options: %s", blame(name, err))
			}
		}
		if err := readSetting(fields[name], name, raw); err != nil {
			return err
		}
		delete(given, name)
	}
	if err := settings.Problem(&o.webhook); err != nil {
		return fmt.Errorf("options: %s", strings.TrimPrefix(err.Error(), o.webhook.Key()+"."))
	}
	return nil
}

// lifetimeOf converts a lifetime for settings: a duration as text, or a word.
func lifetimeOf(raw json.RawMessage) (json.RawMessage, error) {
	switch string(raw) {
	case "null", `"none"`, `"default"`:
		return raw, nil
	}
	var d duration
	if err := json.Unmarshal(raw, &d); err != nil {
		return nil, err
	}
	return json.Marshal(time.Duration(d).String())
}

// settingsFor takes the settings of the system out of the options of a method, and
// checks them, and those of webhooks. all are the options that were given.
func (o *subscribeOptions) settingsFor(given, all map[string]json.RawMessage, w way) (settings.Settings, error) {
	of, ok := systems.Table.Find(o.System)
	if !ok {
		return nil, nil // reported with the systems of the method
	}
	set := of.Settings(string(w.mode))
	lane := settings.Lane{Mode: string(w.mode), TTL: cmp.Or(o.webhook.TTL, "default"), NoSources: true, Drain: settings.Longest}
	_ = setField(reflect.ValueOf(&lane.MaxAge).Elem(), "maxAge", all["maxAge"]) // reported where it is read
	fields := settingFields(reflect.ValueOf(set))
	for _, name := range inOrder(given) {
		field, ok := fields[name]
		if !ok || notOptions[name] {
			continue
		}
		if err := readSetting(field, name, given[name]); err != nil {
			return nil, err
		}
		delete(given, name)
	}
	if name := firstArgument[w.method]; name != "" && w.what != "" {
		if err := readSetting(fields[name], name, wire.AppendString(nil, w.what)); err != nil {
			return nil, err
		}
	}
	return set, checkSettings(lane, all, func(lane settings.Lane) {
		set.Check(lane)
		o.webhook.CheckClient(lane, o.Client, of)
	})
}

// settingField is a field of settings, with its check tag.
type settingField struct {
	reflect.Value
	check string
}

// settingFields are the fields of settings by their keys.
func settingFields(set reflect.Value) map[string]settingField {
	v := reflect.Indirect(set)
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
	if err := setField(field.Value, name, raw); err != nil {
		var bad *badOption
		if errors.As(err, &bad) {
			return err
		}
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
		return &badOption{fmt.Sprintf("options: %s %s: %s", name, what, fix)}
	}
	return nil
}

// badOption is what is wrong with an option, in a script's terms.
type badOption struct{ text string }

func (e *badOption) Error() string { return e.text }

// setField reads an option as a script writes it.
func setField(field reflect.Value, name string, raw json.RawMessage) error {
	switch {
	case string(raw) == "null" || raw == nil:
		return nil
	case field.Type() == reflect.TypeFor[time.Duration]():
		var d duration
		if err := json.Unmarshal(raw, &d); err != nil {
			return err
		}
		field.SetInt(int64(d))
		return nil
	case field.Kind() == reflect.Slice && field.Type().Elem().Kind() == reflect.Struct:
		return setList(field, name, raw)
	}
	return json.Unmarshal(raw, field.Addr().Interface())
}

// setList reads a list of objects.
func setList(field reflect.Value, name string, raw json.RawMessage) error {
	var list []map[string]json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return err
	}
	field.Set(reflect.MakeSlice(field.Type(), len(list), len(list)))
	for i, given := range list {
		if err := readObject(field.Index(i), name+"."+strconv.Itoa(i), given, nil); err != nil {
			return err
		}
	}
	return nil
}

// readObject reads the members of an object, except those that are none.
func readObject(v reflect.Value, name string, given map[string]json.RawMessage, not map[string]bool) error {
	fields := settingFields(v)
	for _, key := range inOrder(given) {
		field, ok := fields[key]
		if !ok || not[key] {
			return &badOption{fmt.Sprintf("options: %s: unknown field %q", name, key)}
		}
		if err := readSetting(field, name+"."+key, given[key]); err != nil {
			return &badOption{err.Error()}
		}
	}
	return nil
}

// checkSettings returns the first problem that a check of settings finds.
func checkSettings(lane settings.Lane, given map[string]json.RawMessage, check func(settings.Lane)) (err error) {
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
	check(lane)
	return err
}

// methodsOf returns the methods whose systems have a setting.
func methodsOf(name string) (methods []string) {
	if isWebhook(name) {
		return []string{"subscribe"}
	}
	for _, of := range systems.All() {
		for _, method := range of.Methods {
			if hasKey(of.Settings(""), name) && !slices.Contains(methods, method) {
				methods = append(methods, method)
			}
		}
	}
	return methods
}

// hasKey reports whether settings have an option.
func hasKey(set settings.Settings, name string) bool {
	_, ok := settingFields(reflect.ValueOf(set))[name]
	return ok && !notOptions[name]
}

// foreign reports an option with a value that is a setting of another system of the
// method.
func foreign(given map[string]json.RawMessage, system, method string) error {
	for _, name := range inOrder(given) {
		for _, of := range systems.Table {
			set := of.Settings("")
			if !slices.Contains(systemsOf[method], of.Name) || !hasKey(set, name) {
				continue
			}
			if err := readSetting(settingFields(reflect.ValueOf(set))[name], name, given[name]); err != nil {
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

// optionOf returns the option for a key of a lane.
func optionOf(key string) string {
	key = strings.TrimRight(key, ".0123456789") // of a list, the list
	return key[strings.LastIndexByte(key, '.')+1:]
}

// subscribesToNothing reports whether the subscriptions of a system are requests, to
// which no events are owed.
func subscribesToNothing(system string) bool {
	of, ok := systems.Table.Find(system)
	return ok && of.NoEvents
}
