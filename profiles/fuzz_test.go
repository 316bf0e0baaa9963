package profiles

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/eventmeter/eventmeter/loadgen/systems"
)

// FuzzParse: reading never panics, says what is wrong in one way, and what it
// accepts is written and edited, and read again without a change.
func FuzzParse(f *testing.F) {
	for _, name := range builtinNames() {
		_, text, err := Read(name, nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, "lanes.*.subscriptions=3")
	}
	f.Add([]byte(base), "lanes.b.arguments={a: [1, 2.5, null, {b: \"{{.Index}}\"}]}")
	f.Add([]byte(base), "upstream.payload={x: '{{.Probe}}', y: 18446744073709551615, z: 1e300}")
	f.Add([]byte("a: &x [*x]\n? b\n: |\n  c\n"), "a.b=c")
	f.Fuzz(func(t *testing.T, text []byte, o string) {
		p, err := Parse("p", text, []string{o}, systems.Table)
		if err != nil {
			var list *Error
			if !errors.As(err, &list) || len(list.Problems) == 0 || p != nil {
				t.Fatalf("%v", err)
			}
			return
		}
		written, err := p.YAML()
		must(t, err)
		q, err := Parse("q", written, nil, systems.Table)
		if err != nil {
			t.Fatalf("%v\nin\n%s", err, written)
		}
		if !reflect.DeepEqual(p, q) {
			t.Fatalf("%+v\n%+v\nby\n%s", p, q, written)
		}
		edited, err := Edit("e", text, []string{o}, systems.Table)
		must(t, err)
		if q, err := Parse("e", edited, nil, systems.Table); err != nil || !reflect.DeepEqual(p, q) {
			t.Fatalf("%v\n%+v\n%+v\nby\n%s", err, p, q, edited)
		}
		for _, l := range p.Lanes {
			c, err := CompileLane(l)
			must(t, err)
			c.Arguments(l.Subscriptions - 1)
			c.Sources(l.Subscriptions - 1)
		}
	})
}

// FuzzYAML: any text survives writing and reading, as a value and as a key.
func FuzzYAML(f *testing.F) {
	for _, s := range []string{
		"", " a ", "a: b", "# a", "- a", "'", `"`, "a\nb\n", "\n\n a", "\t", "\r\n", "null", "~", "1.0", "0x1f", "1_000", "yes",
		"2001-01-01", "[", "{", "*a", "&a", "!a", "%a", "@a", "`", "|", ">", "\\", "\x00", "\x7f", "\u0085\u2028\ufeff", "é😀",
		"a #b", "---", "...", "? a", ":", "<<", ".inf",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := Parse("p", []byte(base), nil, systems.Table)
		must(t, err)
		if !utf8.ValidString(s) {
			return
		}
		p.Description = s
		p.Lanes[0].Arguments = map[string]any{"k": map[string]any{s: "v"}, "l": []any{s, 1.0, int64(1), true, nil}}
		if strings.Contains(s, "{{") {
			p.Lanes[0].Arguments["l"] = nil
		} else {
			p.Upstream.Payload["x"] = s
		}
		written, err := p.YAML()
		must(t, err)
		q, err := Parse("q", written, nil, systems.Table)
		if err != nil {
			t.Fatalf("%v\nin\n%s", err, written)
		}
		if !reflect.DeepEqual(p, q) {
			t.Fatalf("%q:\n%+v\n%+v\nby\n%s", s, p, q, written)
		}
	})
}
