package eventmeter_test

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/eventmeter/eventmeter/internal/settings"
	"github.com/eventmeter/eventmeter/loadgen/systems"
)

// schemaFile is the JSON Schema of profiles, which eventmeter profiles schema prints.
const schemaFile = "profiles/profile.schema.json"

// object is an object of JSON with its keys in order.
type object []member

type member struct {
	key   string
	value any
}

func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	for i, m := range o {
		b.WriteByte("{,"[min(i, 1)])
		key, err := json.Marshal(m.key)
		if err != nil {
			return nil, err
		}
		b.Write(append(key, ':'))
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(m.value); err != nil {
			return nil, err
		}
	}
	if len(o) == 0 {
		b.WriteByte('{')
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// required are the keys that every group of a kind has.
var required = map[string][]string{
	"Profile": {"name", "lanes"}, "Lane": {"name", "mode"}, "Case": {"name"},
}

// kinds are the values of texts that no check tag bounds.
func kinds(group, key string) (all []string) {
	switch group + "." + key {
	case "Lane.mode":
		return []string{"push", "poll", "webhook"}
	case "Lane.system":
		for _, s := range systems.All() {
			all = append(all, s.Name)
		}
		return all
	case "Schedule.kind":
		return []string{"constant", "poisson", "burst", "ramp", "sine", "trace"}
	case "Upstream.kind":
		return []string{"inject", "http", "github", "slack", "stripe", "feed", "tool", "exec", "replay", "none"}
	case "Capacity.axis":
		return []string{"rate", "subscriptions", "burst"}
	}
	return nil
}

// textual are types that YAML spells in several ways.
var textual = map[string]object{
	"duration": {
		{"description", "a duration: a number and a unit, as in 250ms, 10s or 1h30m; 0 needs no unit"},
		{
			"anyOf",
			[]any{object{{"type", "string"}, {"pattern", `^\s*\+?([0-9.]+(ns|us|µs|ms|s|m|h))+\s*$|^\s*0\s*$`}}, object{{"const", 0}}},
		},
	},
	"rate": {
		{"description", "events per second, as a number, or a text such as 20/s, 300/m or 3600/h"},
		{
			"anyOf",
			[]any{object{{"type", "number"}, {"minimum", 0}}, object{{"type", "string"}, {"pattern", `^\s*[0-9.e+]+\s*(/\s*[smh])?\s*$`}}},
		},
	},
	"bytes": {
		{"description", "an amount of memory: a number of bytes, or a text such as 256MiB"},
		{"type", []string{"integer", "string"}},
	},
	"words": {
		{"description", "a text, or a list of texts"},
		{"anyOf", []any{object{{"type", "string"}}, object{{"type", "array"}, {"items", object{{"type", "string"}}}}}},
	},
}

// schemaWalk makes the schema of all groups that a profile reaches.
type schemaWalk struct {
	t     *testing.T
	types map[string]structDoc
	seen  map[string]bool
	queue []string
}

// ref refers to a group, which is then made, too.
func (w *schemaWalk) ref(name string) object {
	if !w.seen[name] {
		w.seen[name] = true
		w.queue = append(w.queue, name)
	}
	return object{{"$ref", "#/$defs/" + strings.ReplaceAll(name, " ", "_")}}
}

// schemaOf walks the types of a profile as the tables of docs/ do.
func schemaOf(t *testing.T) []byte {
	t.Helper()
	types, err := structsOf("profiles")
	must(t, err)
	blocks, err := structsOf("internal/settings")
	must(t, err)
	for name, s := range blocks {
		if _, own := types[name]; !own {
			types[name] = s
		}
	}
	w := &schemaWalk{t: t, types: types, seen: map[string]bool{"Profile": true}, queue: []string{"Profile"}}
	var root, defs object
	for ; len(w.queue) > 0; w.queue = w.queue[1:] {
		name := w.queue[0]
		group := w.group(name)
		if name == "Profile" {
			root = group
			continue
		}
		defs = append(defs, member{strings.ReplaceAll(name, " ", "_"), group})
	}
	for _, name := range []string{"duration", "rate", "bytes", "words"} {
		defs = append(defs, member{name, textual[name]})
	}
	root = append(
		object{
			{"$schema", "https://json-schema.org/draft/2020-12/schema"},
			{"$id", "https://raw.githubusercontent.com/eventmeter/eventmeter/main/" + schemaFile},
			{"title", "eventmeter profile"},
		},
		append(root, member{"$defs", defs})...)
	data, err := json.Marshal(root)
	must(t, err)
	var out bytes.Buffer
	must(t, json.Indent(&out, data, "", "  "))
	out.WriteByte('\n')
	return out.Bytes()
}

// group is the schema of one group of keys.
func (w *schemaWalk) group(name string) object {
	own, _, _ := strings.Cut(name, " ")
	about := sentence(w.types[name].doc, own)
	if name == "Profile" {
		about = "A run of eventmeter: which server is loaded, with which subscriptions, by which events, and for how long."
	}
	group := object{{"type", "object"}, {"description", about}, {"additionalProperties", false}}
	if keys := required[name]; keys != nil {
		group = append(group, member{"required", keys})
	}
	var properties object
	for _, f := range w.types[name].fields.List {
		if of, ok := f.Type.(*ast.SelectorExpr); ok && of.Sel.Name == "Settings" {
			properties = append(properties, w.settings()...)
			continue
		}
		if f.Tag == nil {
			continue
		}
		text, err := strconv.Unquote(f.Tag.Value)
		if err != nil {
			w.t.Fatal(err)
		}
		tag := reflect.StructTag(text)
		key := settings.KeyOf(tag)
		if key == "" || key == "-" {
			continue
		}
		about := strings.Join(strings.Fields(f.Doc.Text()+" "+f.Comment.Text()), " ")
		if about == "" {
			w.t.Errorf("%s: %s has no description", name, key)
		}
		value := schemaOfType(f.Type, tag.Get("check"), w.ref)
		if names := kinds(name, key); names != nil {
			value = object{{"enum", names}}
		}
		properties = append(properties, member{key, append(value, member{"description", about})})
	}
	return append(group, member{"properties", properties})
}

// settings are the keys of a lane that systems declare.
func (w *schemaWalk) settings() (properties object) {
	_, names, err := settingsOf(w.types)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, n := range names {
		system := n[strings.LastIndex(n, " ")+1:]
		of, _ := systems.Find(system)
		properties = append(
			properties,
			member{of.Settings("").Key(), append(w.ref(n), member{"description", "settings of a lane of system " + system})},
		)
	}
	return properties
}

// schemaOfType is the schema of a value of a Go type, with the bounds of its check tag.
func schemaOfType(e ast.Expr, check string, ref func(string) object) object {
	def := func(name string) object { return object{{"$ref", "#/$defs/" + name}} }
	switch e := e.(type) {
	case *ast.StarExpr:
		return schemaOfType(e.X, check, ref)
	case *ast.ArrayType:
		return object{{"type", "array"}, {"items", schemaOfType(e.Elt, check, ref)}}
	case *ast.MapType:
		if v, ok := e.Value.(*ast.Ident); ok && v.Name == "any" {
			return object{{"type", "object"}}
		}
		return object{{"type", "object"}, {"additionalProperties", object{{"type", []string{"string", "number", "boolean"}}}}}
	case *ast.SelectorExpr:
		switch e.Sel.Name {
		case "Duration":
			return def("duration")
		case "Rate":
			return def("rate")
		}
		return ref(e.Sel.Name)
	case *ast.Ident:
		switch e.Name {
		case "string":
			return words(check)
		case "bool":
			return object{{"type", "boolean"}}
		case "int", "int64", "uint64":
			return append(object{{"type", "integer"}}, bounds(check)...)
		case "float64":
			return append(object{{"type", "number"}}, bounds(check)...)
		case "Rate":
			return def("rate")
		case "Bytes":
			return def("bytes")
		case "Command", "Conditions":
			return def("words")
		case "any":
			return object{}
		}
		return ref(e.Name)
	}
	return object{}
}

// words is a text, or one of the words of a check tag.
func words(check string) object {
	if check == "" {
		return object{{"type", []string{"string", "number", "boolean"}}} // YAML reads some texts as something else
	}
	return object{{"enum", settings.Words(check)}}
}

// bounds are those of the range of a check tag.
func bounds(check string) (out object) {
	check, orZero := strings.CutPrefix(check, "0|")
	least, most, ok := strings.Cut(check, "..")
	if !ok {
		return nil
	}
	if v, err := strconv.ParseFloat(least, 64); err == nil {
		if orZero {
			v = min(v, 0)
		}
		out = append(out, member{"minimum", v})
	}
	if v, err := strconv.ParseFloat(most, 64); err == nil {
		out = append(out, member{"maximum", v})
	}
	return out
}

// TestProfileSchema holds the JSON Schema to the types. Run it with -update to write it
// again.
func TestProfileSchema(t *testing.T) {
	want := schemaOf(t)
	if *update {
		must(t, os.WriteFile(schemaFile, want, 0o644))
	}
	got, err := os.ReadFile(schemaFile)
	must(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("%s does not say what profiles have; run go test . -run TestProfileSchema -update", schemaFile)
	}
	var schema jsonschema.Schema
	must(t, json.Unmarshal(want, &schema))
	resolved, err := schema.Resolve(nil)
	must(t, err)
	files, err := filepath.Glob("profiles/builtin/*.yaml")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d built-in profiles, %v", len(files), err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		must(t, err)
		if err := resolved.Validate(decoded(t, data)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	valid := "name: a\nlanes: [{name: push, mode: push, subscriptions: 3, event: e}]\n"
	if err := resolved.Validate(decoded(t, []byte(valid+"schedule: {rate: 20/s}\nphases: {measure: 10s, warmup: 0}\n"))); err != nil {
		t.Errorf("a valid profile: %v", err)
	}
	for what, text := range map[string]string{
		"an unknown key":           valid + "shedule: {rate: 20/s}\n",
		"an unknown mode":          strings.Replace(valid, "mode: push", "mode: psh", 1),
		"an unknown key of a lane": strings.Replace(valid, "event: e", "event: e, evnt: e", 1),
		"no lanes":                 "name: a\n",
		"no subscriptions":         strings.Replace(valid, "subscriptions: 3", "subscriptions: 0", 1),
		"a duration without unit":  valid + "phases: {measure: 10}\n",
		"a bad rate":               valid + "schedule: {rate: fast}\n",
		"settings of no system":    strings.Replace(valid, "event: e", "event: e, nosuch: {}", 1),
		"a system's unknown key":   strings.Replace(valid, "event: e", "event: e, events: {nosuch: 1}", 1),
	} {
		if resolved.Validate(decoded(t, []byte(text))) == nil {
			t.Errorf("%s: the schema allows it", what)
		}
	}
}

// decoded is YAML as a validator of JSON sees it.
func decoded(t *testing.T, text []byte) (v any) {
	t.Helper()
	must(t, yaml.Unmarshal(text, &v))
	data, err := json.Marshal(v)
	must(t, err)
	v = nil
	must(t, json.Unmarshal(data, &v))
	return v
}

// TestDurationsOfTheSchema: the schema allows what profiles read.
func TestDurationsOfTheSchema(t *testing.T) {
	for _, text := range []string{"250ms", "1h30m", "1.5s", "0", "2us", "3µs", "0s"} {
		if _, err := settings.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
		var schema jsonschema.Schema
		data, err := json.Marshal(textual["duration"])
		must(t, err)
		must(t, json.Unmarshal(data, &schema))
		resolved, err := schema.Resolve(nil)
		must(t, err)
		if err := resolved.Validate(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}

}

// must ends the test if a step of it has failed.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
