package profiles

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"reflect"
	"strconv"
	"strings"

	"github.com/eventmeter/eventmeter/internal/settings"
	"github.com/goccy/go-yaml/parser"
)

// Parse reads a profile. name is the file's, for errors. overrides are path=value, set in their
// order before anything is checked: the path is the keys with dots between them (so a key that
// holds a dot has none), where an item of a list is selected by its name, by its number from 0, or
// with all others by *; the value is YAML on one line:
//
//	lanes.push.subscriptions=1000   lanes.*.http=h2c   phases.measure=30s
//
// An override of target.url or target.command replaces a target of another kind, and removes
// the keys of the file that belong to that target.
//
// systems are those that lanes can be of. An error is an [*Error] that lists everything that is
// wrong.
func Parse(name string, data []byte, overrides []string, systems Systems) (*Profile, error) {
	t := readTree(origin{name: name}, data, 0)
	if err := t.override(overrides); err != nil {
		return nil, err
	}
	return profileOf(t, systems)
}

// profileOf decodes and checks the profile that a tree holds.
func profileOf(t *tree, systems Systems) (*Profile, error) {
	p := defaultProfile(systems)
	d := &decoder{tree: t, at: map[string]place{}, tainted: map[string]bool{}, systems: systems}
	d.decode(t.root, t.place(t.root, t.root, place{line: 1}), "", reflect.ValueOf(&p).Elem())
	p.complete()
	c := &checker{decoder: d, p: &p, ignored: map[string]bool{}}
	c.profile()
	if len(d.problems) == 0 {
		p.settle()
		c.cases()
		c.steps()
	}
	if len(d.problems) > 0 {
		for i := range d.problems {
			d.problems[i].Key = p.spell(d.problems[i].Key)
		}
		return nil, newError(d.problems)
	}
	return &p, nil
}

// spell turns lanes.0.mode into lanes.push.mode.
func (p *Profile) spell(key string) string {
	rest, ok := strings.CutPrefix(key, "lanes.")
	if !ok {
		return key
	}
	number, rest, more := strings.Cut(rest, ".")
	i, err := strconv.Atoi(number)
	if err != nil || i < 0 || i >= len(p.Lanes) || p.Lanes[i].Name == "" {
		return key
	}
	for j, l := range p.Lanes {
		if j != i && l.Name == p.Lanes[i].Name {
			return key
		}
	}
	if !more {
		return "lanes." + p.Lanes[i].Name
	}
	return "lanes." + p.Lanes[i].Name + "." + rest
}

// Default is the name of the built-in profile that runs when none is named.
const Default = "compare"

//go:embed builtin/*.yaml
var builtin embed.FS

//go:embed profile.schema.json
var schema []byte

// Schema returns the JSON Schema of profiles. The caller must not change it.
func Schema() []byte { return schema }

// Info is an entry in the list of built-in profiles.
type Info struct{ Name, Description string }

// ErrNotFound is in the error of [Load] and [Read] when there is neither a
// built-in profile nor a file of that name.
var ErrNotFound = errors.New("no such profile")

// Builtin lists the built-in profiles by name, the default one first.
func Builtin() []Info {
	var list []Info
	for _, name := range builtinNames() {
		// A built-in profile that does not parse is caught by the tests, and checking all of
		// them takes a second.
		if _, data, err := Read(name, nil); err == nil {
			t := readTree(origin{name: name}, data, 0)
			list = append(list, Info{textOf(t.root, "name"), textOf(t.root, "description")})
		}
	}
	return list
}

func builtinNames() []string {
	names := []string{Default}
	files, _ := fs.Glob(builtin, "builtin/*.yaml") // sorted
	for _, f := range files {
		if name := strings.TrimSuffix(path.Base(f), ".yaml"); name != Default {
			names = append(names, name)
		}
	}
	return names
}

// Edit sets overrides in a profile's text, and keeps its comments. name is for messages.
func Edit(name string, data []byte, overrides []string, systems Systems) ([]byte, error) {
	p, err := Parse(name, data, overrides, systems)
	if err != nil {
		return nil, err
	}
	t := readTree(origin{name: name}, data, parser.ParseComments)
	if t.override(overrides) == nil {
		// The library may print text that reads differently, so check that it is the
		// same profile.
		text := t.print()
		if again, err := Parse(name, text, nil, systems); err == nil && reflect.DeepEqual(p, again) {
			return text, nil
		}
	}
	return p.YAML()
}

// Load parses a built-in profile, or a file. For a name without a slash, a backslash or a dot,
// built-in profiles take precedence.
func Load(nameOrPath string, overrides []string, systems Systems) (*Profile, error) {
	name, data, err := Read(nameOrPath, nil)
	if err != nil {
		return nil, err
	}
	return Parse(name, data, overrides, systems)
}

// Input is the name of the profile that is read from standard input.
const Input = "-"

// Read returns the text of a built-in profile, of a file, or, for [Input], of in, and a name
// for messages. in may be nil; then there is no such profile.
func Read(nameOrPath string, in io.Reader) (name string, data []byte, err error) {
	// One byte more than allowed, so that the parser refuses a larger text.
	read := func(from io.Reader) ([]byte, error) { return io.ReadAll(io.LimitReader(from, maxBytes+1)) }
	if nameOrPath == Input && in != nil {
		data, err = read(in)
		if err != nil {
			return "", nil, fmt.Errorf("profile of standard input: %w", err)
		}
		return "standard input", data, nil
	}
	if !strings.ContainsAny(nameOrPath, `/\.`) {
		if data, err := builtin.ReadFile("builtin/" + nameOrPath + ".yaml"); err == nil {
			return nameOrPath + ".yaml", data, nil
		}
	}
	file, err := os.Open(nameOrPath)
	if err == nil {
		defer file.Close()
		if info, e := file.Stat(); e == nil && info.IsDir() {
			err = fmt.Errorf("is a directory; name a file, such as %s", path.Join(nameOrPath, "profile.yaml"))
		} else {
			data, err = read(file)
		}
	} else if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: neither a file nor built in; %s", ErrNotFound, advise(nameOrPath, builtinNames()))
	}
	if err != nil {
		return "", nil, fmt.Errorf("profile %s: %w", settings.Quote(nameOrPath), err)
	}
	return nameOrPath, data, nil
}

// UpstreamOf returns the kind of upstream that [Parse] would find with these
// overrides, inject by default, and the name of the event that it publishes, if the text
// says it. Nothing else is checked. Errors are those of Parse.
func UpstreamOf(name string, data []byte, overrides []string) (kind, event string, err error) {
	t := readTree(origin{name: name}, data, 0)
	if err := t.override(overrides); err != nil {
		return "", "", err
	}
	if kind = textOf(t.root, "upstream", "kind"); kind == "" {
		kind = defaultProfile(nil).Upstream.Kind
	}
	return kind, textOf(t.root, "upstream", "event"), nil
}
