package mcpevents

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/grafana/sobek"
)

// TestDefaults requires that a subscription which sets no option asks for the
// same as a lane of a profile which sets none, in every setting of every system
// and mode.
func TestDefaults(t *testing.T) {
	for _, c := range []struct {
		way    way
		system string
	}{
		{way{"poll", eventmeter.Poll, "e"}, "events"},
		{way{"stream", eventmeter.Push, "e"}, "events"},
		{way{"subscribe", eventmeter.Webhook, "e"}, "events"},
		{way{"subscribe", eventmeter.Webhook, "e"}, "smithery"},
		{way{"stream", eventmeter.Push, "e"}, "sep-1803"},
		{way{"subscribe", eventmeter.Webhook, "e"}, "sep-1803"},
		{way{"resumable", eventmeter.Push, "work"}, "sep-975"},
		{way{"watchLists", eventmeter.Poll, "tools"}, "sep-2549"},
	} {
		var options sobek.Value
		if len(systemsOf[c.way.method]) > 1 {
			options = sobek.New().ToValue(map[string]any{"system": c.system})
		}
		o, err := readSubscribe(options, c.way)
		must(t, err)
		lane := "lanes: [{name: a, system: " + c.system + ", mode: " + string(c.way.mode) + ", subscriptions: 1"
		if !strings.HasPrefix(c.way.method, "re") && c.way.method != "watchLists" {
			lane += ", event: e"
		}
		p, err := profiles.Parse(
			"t",
			[]byte("name: t\nupstream: {kind: none}\ntarget: {url: http://127.0.0.1:1/mcp}\nphases: {drain: 30s}\n"+lane+"}]\n"),
			nil,
			systems.Table,
		)
		if err != nil {
			t.Fatalf("%v: %v", c, err)
		}
		of, err := systems.Find(c.system)
		must(t, err)
		filled := func(o driver.Options) map[string]string {
			if o = o.WithDefaults(); o.Settings == nil {
				o.Settings = of.Settings(string(o.Mode))
			}
			return leaves(o)
		}
		got, want := filled(o.driver(c.way)), filled(run.LaneSettings(&p.Lanes[0]))
		if len(want) < 35 {
			t.Fatalf("only %d settings were found: the walk is broken", len(want))
		}
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if name == "Arguments" || name == "Event" && c.system == "sep-975" {
				continue // a run adds the arguments; a lane of sep-975 subscribes to no event
			}
			if strings.HasPrefix(name, "Poll") && c.way.mode != eventmeter.Poll {
				continue // a profile gives each lane the blocks of its own mode
			}
			if got[name] != want[name] {
				t.Errorf("%s() of %s: %s is %s, and %s by a profile", c.way.method, c.system, name, got[name], want[name])
			}
		}
	}
}

// leaves are the fields of a struct at any depth, as text.
func leaves(v any) map[string]string {
	out := map[string]string{}
	var walk func(name string, v reflect.Value)
	walk = func(name string, v reflect.Value) {
		if (v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer && v.Type() == reflect.TypeFor[*driver.Poll]()) && !v.IsNil() {
			v = reflect.Indirect(v.Elem())
		}
		if v.Kind() != reflect.Struct {
			out[strings.TrimPrefix(name, ".")] = fmt.Sprint(v)
			return
		}
		for i := range v.NumField() {
			walk(name+"."+v.Type().Field(i).Name, v.Field(i))
		}
	}
	walk("", reflect.ValueOf(v))
	return out
}
