package profiles

import (
	"fmt"
	"strings"
	"testing"

	"github.com/goccy/go-yaml/lexer"

	"github.com/eventmeter/eventmeter/loadgen/systems"
)

// What is scanned is what the YAML library's own lexer makes of a text, down to
// the tokens that it cannot read: a text that is cut short would be taken for a
// whole one.
func TestScanLeavesNothingOut(t *testing.T) {
	texts := []string{
		base,
		"",
		"a: `x`\nb: 1\n",
		"a: @x\nb: 1\n",
		"a: \"\\q\"\nb: 1\n",
		"a: 'x\nb: 1\n",
		"a: |9x\n  b\n",
		"a:\n\t- b\n",
		"%x",
		"a: [1, {b: c}]\n",
		"? a\n: b\n",
		"\ufeffa: 1",
		"a: 1\r\nb: 2\r",
	}
	for _, name := range builtinNames() {
		_, text, err := Read(name, nil)
		must(t, err)
		texts = append(texts, string(text))
	}
	for _, text := range texts {
		got, _, what, _ := scan([]byte(text))
		if what != "" {
			t.Errorf("%.80q: %s", text, what)
			continue
		}
		want := lexer.Tokenize(text)
		if len(got) != len(want) {
			t.Errorf("%.80q: %d tokens, want %d", text, len(got), len(want))
			continue
		}
		for i := range got {
			if got[i].Value != want[i].Value || got[i].Type != want[i].Type || got[i].Error != want[i].Error {
				t.Errorf("%.80q: token %d is %v, want %v", text, i, got[i], want[i])
			}
		}
	}
}

// What is within the bounds is read.
func TestBoundsLeaveRoom(t *testing.T) {
	keys := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "k%d: 1, ", i)
		}
		return b.String()
	}
	for name, text := range map[string]string{
		"a payload of 4,000 keys": strings.Replace(base, `text: "{{.Probe}}"`, `text: "{{.Probe}}"`+"\n    more: {"+keys(4_000)+"}", 1),
		"a payload of 300 KB":     strings.Replace(base, `"{{.Probe}}"`, `"{{.Probe}} `+strings.Repeat("x", 300_000)+`"`, 1),
		"a printf of 60 KiB":      strings.Replace(base, `"{{.Probe}}"`, `'{{printf "%[1]s`+strings.Repeat("x", 60<<10)+`" .Probe}}'`, 1),
		"60 levels": strings.Replace(base, `text: "{{.Probe}}"`,
			`text: "{{.Probe}}"`+"\n    more: "+strings.Repeat("[", 55)+strings.Repeat("]", 55), 1),
		"brackets in a text":    strings.Replace(base, `"{{.Probe}}"`, `"{{.Probe}} `+strings.Repeat("[", 1_000)+`"`, 1),
		"a comment of hyphens":  strings.Replace(base, "lanes:", "# "+strings.Repeat("- ", 500)+"\nlanes:", 1),
		"100,000 subscriptions": strings.Replace(base, "subscriptions: 10", "subscriptions: 100000\n    sources: '{{mod .Index 4}}'", 1),
		"65,536 sources":        strings.Replace(base, "sources: 4", "sources: 65536", 1),
		"65,536 workers":        strings.Replace(base, "sources: 4", "sources: 4\n  workers: 65536", 1),
	} {
		if text == base {
			t.Fatalf("%s: base does not hold what is replaced", name)
		}
		if _, err := Parse("p.yaml", []byte(text), nil, systems.Table); err != nil {
			t.Errorf("%s: %.300v", name, err)
		}
	}
}

// A template stays in its bounds for every number, also for those that it was
// not tried with.
func TestTemplatesAreTotal(t *testing.T) {
	f, err := CompileText(`{{printf "%q%x" .Probe .Probe}}{{div 7 .Seq}}{{printf "%c" .Source}}`)
	must(t, err)
	if got := f(0, 0, strings.Repeat("\x00", 100_000)); len(got) > 2*maxText {
		t.Errorf("%d bytes", len(got))
	}
	if got := f(65, 7, "ab"); got != `"ab"61621A` {
		t.Error(got)
	}
}

// Overrides that no list has an item for are errors, and no panic.
func TestSpell(t *testing.T) {
	p := &Profile{Lanes: []Lane{{Name: "push"}, {Name: "poll"}, {Name: "poll"}}}
	for key, want := range map[string]string{
		"lanes.0": "lanes.push", "lanes.0.mode": "lanes.push.mode", "lanes.1.mode": "lanes.1.mode", "lanes.-1": "lanes.-1",
		"lanes.-1.mode": "lanes.-1.mode", "lanes.3.mode": "lanes.3.mode",
		"lanes.-9223372036854775808": "lanes.-9223372036854775808", "lanes.x.mode": "lanes.x.mode", "lanes": "lanes", "lanes.": "lanes.",
	} {
		if got := p.spell(key); got != want {
			t.Errorf("%s is spelt %s, want %s", key, got, want)
		}
	}
}

// What a profile holds does not leave the line of its problem.
func TestProblemsAreOneLine(t *testing.T) {
	for _, text := range []string{"a\x1b]0;x\a\n", "a\u2028b", strings.Repeat("x", 10_000), "\xff", `"quoted"`, "é"} {
		p := Problem{Where: "p.yaml:1" + text, Key: text, What: text, Fix: text}
		got := p.String()
		if strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0x2028 }) || len(got) > 2_500 {
			t.Errorf("%q", got)
		}
	}
	if got := (Problem{Where: `a "b"`, Key: "é", What: `no "x"`}).String(); got != `a "b": é: no "x"` {
		t.Error(got)
	}
	list := newError(make([]Problem, 1_000))
	if got := strings.Split(list.Error(), "\n"); len(got) != maxLines+1 || got[maxLines] != "and 980 more problems" {
		t.Errorf("%d lines, the last %q", len(got), got[len(got)-1])
	}
}
