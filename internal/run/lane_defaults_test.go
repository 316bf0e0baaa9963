package run

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
)

// laneWays are the systems and modes that a lane can have.
var laneWays = []struct{ system, mode string }{
	{"events", "poll"}, {"events", "push"}, {"events", "webhook"}, {"smithery", "webhook"},
	{"sep-1803", "push"}, {"sep-1803", "webhook"}, {"sep-975", "push"}, {"sep-2549", "poll"},
}

// TestLaneDefaults requires that a lane of a profile which sets nothing asks
// for what the client side does when nothing is asked of it.
func TestLaneDefaults(t *testing.T) {
	for _, way := range laneWays {
		text := "name: t\nupstream: {kind: none}\ntarget: {url: http://127.0.0.1:1/mcp}\nphases: {drain: 30s}\nlanes: [{name: a, system: " + way.system + ", mode: " + way.mode + ", subscriptions: 1"
		if way.system != "sep-975" && way.system != "sep-2549" {
			text += ", event: e"
		}
		p, err := profiles.Parse("t", []byte(text+"}]\n"), nil, systems.Table)
		if err != nil {
			t.Fatalf("%v: %v", way, err)
		}
		of, err := systems.Find(way.system)
		if err != nil {
			t.Fatal(err)
		}
		filled := func(o driver.Options) map[string]string {
			o, err := of.Defaults(o)
			if err != nil {
				t.Fatal(err)
			}
			return leaves(o)
		}
		got := filled(LaneSettings(&p.Lanes[0]))
		want := filled(driver.Options{
			System: way.system, Mode: eventmeter.Mode(way.mode), Event: p.Lanes[0].Event, Subscriptions: 1,
		})
		if len(want) < 35 {
			t.Fatalf("only %d settings were found: the walk is broken", len(want))
		}
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if got[name] != want[name] {
				t.Errorf("%s %s: %s is %s by a profile, and %s without one", way.system, way.mode, name, got[name], want[name])
			}
		}
	}
}

// leaves are the fields of a struct at any depth, as text.
func leaves(v any) map[string]string {
	out := map[string]string{}
	var walk func(name string, v reflect.Value)
	walk = func(name string, v reflect.Value) {
		if v.Kind() == reflect.Interface && !v.IsNil() {
			v = v.Elem()
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
