package mcpevents_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/settings"
	"github.com/eventmeter/eventmeter/loadgen/systems"
)

// declarations are what index.d.ts says that there is.
type declarations struct {
	exports []string            // classes that can be made, and functions
	methods map[string][]string // by class
	keys    map[string][]string // by interface, with those of what it extends
	options map[string]string   // by method, the interface of its options
	words   map[string][]string // by interface and property, or method and a blank, where only certain words are allowed
}

var (
	dtsComment = regexp.MustCompile(`(?s)/\*\*.*?\*/`)
	dtsBlock   = regexp.MustCompile(`(?ms)^export (interface|class) (\w+)(?: extends (\w+))? \{\n(.*?)^\}`)
	dtsAlias   = regexp.MustCompile(`(?m)^export type (\w+Options) = \w+<(\w+), `)
	dtsFunc    = regexp.MustCompile(`(?m)^export function (\w+)\(`)
	dtsMember  = regexp.MustCompile(`(?m)^  (private )?(\w+)(\??:|\()(.*);$`)
	dtsOptions = regexp.MustCompile(`\w*Options`)
	dtsWords   = regexp.MustCompile(`^(?:\w+: )?("[\w.-]+"(?: \| "[\w.-]+")*)(?:,.*)?$`)
)

// readDeclarations reads index.d.ts as far as it is written there: a member a
// line, two spaces in.
func readDeclarations(t *testing.T) *declarations {
	t.Helper()
	text := readFile(t, "index.d.ts")
	plain := dtsComment.ReplaceAllString(string(text), "")
	d := &declarations{
		methods: map[string][]string{},
		keys:    map[string][]string{},
		options: map[string]string{},
		words:   map[string][]string{},
	}
	for _, m := range dtsFunc.FindAllStringSubmatch(plain, -1) {
		d.exports = append(d.exports, m[1])
	}
	for _, b := range dtsBlock.FindAllStringSubmatch(plain, -1) {
		class, name, base, body := b[1] == "class", b[2], b[3], b[4]
		d.keys[name] = slices.Clone(d.keys[base])
		for place, words := range d.words {
			if of, member, _ := strings.Cut(place, " "); of == base {
				d.words[name+" "+member] = words
			}
		}
		if base != "" && d.keys[base] == nil {
			t.Errorf("%s extends %s, which comes later or is none", name, base)
		}
		members := dtsMember.FindAllStringSubmatch(body, -1)
		if lines := len(strings.FieldsFunc(body, func(r rune) bool { return r == '\n' })) - blank(body); len(members) != lines {
			t.Errorf("%s has %d lines and %d members", name, lines, len(members))
		}
		for _, m := range members {
			private, member, call, rest := m[1] != "", m[2], m[3] == "(", m[4]
			arguments, _, _ := strings.Cut(rest, "): ")
			if list := dtsWords.FindStringSubmatch(strings.TrimSpace(arguments)); list != nil {
				place := name + "." + member + " "
				if !call {
					place = name + " " + member
				}
				d.words[place] = strings.Split(strings.ReplaceAll(list[1], `"`, ""), " | ")
			}
			switch {
			case !call:
				d.keys[name] = append(d.keys[name], member)
			case member == "constructor" && !private:
				d.exports = append(d.exports, name)
			case member != "constructor":
				d.methods[name] = append(d.methods[name], member)
			}
			if options := dtsOptions.FindString(arguments); call && options != "" {
				d.options[name+"."+member] = options
			}
		}
		if class && len(d.keys[name]) > 0 {
			t.Errorf("class %s has properties %v", name, d.keys[name])
		}
	}
	for _, m := range dtsAlias.FindAllStringSubmatch(plain, -1) {
		alias, of := m[1], m[2]
		d.keys[alias] = d.keys[of]
		for place, words := range d.words {
			if name, member, _ := strings.Cut(place, " "); name == of {
				d.words[alias+" "+member] = words
			}
		}
	}
	for _, name := range regexp.MustCompile(`(?m)^export class (\w+)`).FindAllStringSubmatch(plain, -1) {
		if !slices.Contains(d.exports, name[1]) {
			t.Errorf("class %s has no public constructor: declare an interface", name[1])
		}
	}
	return d
}

// blank counts the lines that hold nothing but spaces.
func blank(text string) int { return len(regexp.MustCompile(`(?m)^ +$`).FindAllString(text, -1)) }

// optionNames are the names of all options that the code knows, and those that
// the declarations know.
func optionNames(t *testing.T, d *declarations) []string {
	t.Helper()
	names := map[string]bool{}
	files, err := filepath.Glob("*.go")
	must(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		must(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			if f, ok := n.(*ast.Field); ok && f.Tag != nil {
				tag, _ := strconv.Unquote(f.Tag.Value)
				if key, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ","); key != "" {
					names[key] = true
				}
			}
			return true
		})
	}
	for _, of := range d.options {
		for _, key := range d.keys[of] {
			names[key] = true
		}
	}
	for _, of := range systems.Table {
		if of.Settings == nil {
			continue
		}
		for _, f := range reflect.VisibleFields(reflect.TypeOf(of.Settings("")).Elem()) {
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			names[key] = true
		}
	}
	for _, t := range []reflect.Type{reflect.TypeFor[settings.WebhookLane](), reflect.TypeFor[settings.OAuth]()} {
		for key := range keysOf(t) {
			names[key] = true
		}
	}
	names["noSuchOption"] = true
	return slices.Sorted(maps.Keys(names))
}

// keysOf are the keys of settings.
func keysOf(t reflect.Type) map[string]bool {
	keys := map[string]bool{}
	for _, f := range reflect.VisibleFields(t) {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		keys[key] = true
	}
	return keys
}

// TestInnerDeclarations holds the interfaces of objects within options to the
// settings that they are read into.
func TestInnerDeclarations(t *testing.T) {
	d := readDeclarations(t)
	oauth := keysOf(reflect.TypeFor[settings.OAuth]())
	delete(oauth, "secretEnv")
	delete(oauth, "refreshTokenFile")
	oauth["secret"] = true
	for name, want := range map[string]map[string]bool{"OAuthOptions": oauth,
		"AnswerOptions": keysOf(reflect.TypeFor[settings.WebhookAnswer]())} {
		if got := slices.Sorted(slices.Values(d.keys[name])); !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
			t.Errorf("%s declares %v, want %v", name, got, slices.Sorted(maps.Keys(want)))
		}
	}
}

// nonsense is a word that nothing takes.
const nonsense = "nonsense"

// wordsOf are the words that each option of each method takes, and nonsense:
// [method, option, words], as the script wants them. The first argument of a
// method is the option "".
func (d *declarations) wordsOf() (list [][3]any, want map[string][]string) {
	want = map[string][]string{}
	for method, of := range d.options {
		for place, words := range d.words {
			if name, option, _ := strings.Cut(place, " "); name == of || name == method {
				list = append(list, [3]any{method, option, append(slices.Clone(words), nonsense)})
				want[method+" "+option] = words
			}
		}
	}
	return list, want
}

// TestDeclarations holds index.d.ts to the module, both ways: what a script
// finds is declared, and what is declared is there.
func TestDeclarations(t *testing.T) {
	d := readDeclarations(t)
	url, admin := serve(t, "--faults", "announce(every=1, from=4, to=4)")
	path := filepath.Join(t.TempDir(), "said")
	list, words := d.wordsOf()
	asked, err := json.Marshal(list)
	must(t, err)
	code, out := runK6(
		t,
		"-e",
		"TARGET="+url,
		"-e",
		"ADMIN="+admin,
		"-e",
		"NAMES="+strings.Join(optionNames(t, d), ","),
		"-e",
		"WORDS="+string(asked),
		"--console-output",
		path,
		"--log-format",
		"raw",
		"testdata/surface.js",
	)
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	text := readFile(t, path)
	seen := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		var said struct {
			Kind, Name string
			List       []string
		}
		if err := json.Unmarshal([]byte(line), &said); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		seen[said.Kind+" "+said.Name] = true
		var want []string
		switch said.Kind {
		case "exports":
			want = d.exports
		case "methods":
			want = d.methods[said.Name]
		case "keys":
			want = d.keys[said.Name]
		case "options":
			want = d.keys[d.options[said.Name]]
		case "words":
			want = words[said.Name]
		}
		want = slices.Compact(slices.Sorted(slices.Values(want)))
		if !slices.Equal(want, said.List) {
			t.Errorf(
				"%s of %s: declared, and not there: %v; there, and not declared: %v",
				said.Kind,
				said.Name,
				without(want, said.List),
				without(said.List, want),
			)
		}
	}
	for method := range d.options {
		if !seen["options "+method] {
			t.Errorf("the options of %s were not tried", method)
		}
	}
	for place := range words {
		if !seen["words "+place] {
			t.Errorf("the words of %s were not tried", place)
		}
	}
	for class := range d.methods {
		if !seen["methods "+class] {
			t.Errorf("the methods of %s were not looked at", class)
		}
	}
	for name, keys := range d.keys {
		if len(keys) > 0 && !strings.HasSuffix(name, "Options") && !seen["keys "+name] {
			t.Errorf("the properties of %s were not looked at", name)
		}
	}
}

// without returns what of a is not in b.
func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}
