package profiles

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/loadgen/systems"
)

const commented = `# What this is for.
name: mine # a short name

lanes:
  # The first lane.
  - name: a # in brackets
    mode: push
    subscriptions: 10 # ten
    event: e
    arguments: {channel: "c-{{.Index}}"} # as the target wants it

  # The second lane.
  - name: b
    mode: poll
    subscriptions: 5
    event: e
    poll: # paces it
      # long enough
      minInterval: 250ms
upstream:
  payload:
    text: "{{.Probe}}"
schedule:
  rate: 20/s
# The end.
`

// TestEditKeepsComments: everything stays as it was but for what is set.
func TestEditKeepsComments(t *testing.T) {
	for _, c := range []struct {
		set      []string
		old, new string // what differs
	}{
		{[]string{"lanes.a.subscriptions=7"}, "subscriptions: 10 # ten", "subscriptions: 7 # ten"},
		{[]string{"lanes.a.arguments={x: [1, '{{.Index}}']}"}, `{channel: "c-{{.Index}}"} #`, "{x: [1, '{{.Index}}']} #"},
		{[]string{"lanes.a.arguments.x.z={{.Index}}"}, `.Index}}"} #`, `.Index}}", x: {z: "{{.Index}}"}} #`},
		{[]string{"lanes.b.poll={minInterval: 1s}"}, "poll: # paces it\n      # long enough\n      minInterval: 250ms",
			"poll: {minInterval: 1s} # paces it"},
		{[]string{"lanes.b.poll.maxEvents=5"}, "minInterval: 250ms", "minInterval: 250ms\n      maxEvents: 5"},
		{[]string{"phases.measure=1m", "phases.warmup=0"}, "rate: 20/s\n", "rate: 20/s\nphases: {measure: 1m, warmup: 0}\n"},
		{[]string{"lanes.b={name: c, mode: poll, subscriptions: 1, event: e}"},
			commented[strings.Index(commented, "name: b"):strings.Index(commented, "upstream:")],
			"{name: c, mode: poll, subscriptions: 1, event: e}\n"},
	} {
		got, err := Edit("p.yaml", []byte(commented), c.set, systems.Table)
		want := strings.Replace(commented, c.old, c.new, 1)
		if err != nil || string(got) != want || want == commented {
			t.Errorf("%q: %v\n%s\nwant\n%s", c.set, err, got, want)
		}
	}
	if text, err := Edit("p.yaml", []byte(commented), []string{"phases.measure=1"}, systems.Table); err == nil {
		t.Errorf("a duration without a unit gives\n%s", text)
	}
}

// TestEditBuiltins: no comment of a built-in profile is lost.
func TestEditBuiltins(t *testing.T) {
	for _, name := range builtinNames() {
		_, source, err := Read(name, nil)
		must(t, err)
		got, err := Edit(name, source, []string{"description=other"}, systems.Table)
		must(t, err)
		want := strings.Split(string(source), "\n")
		for i, line := range want {
			if strings.HasPrefix(line, "description:") {
				want[i] = "description: other"
			}
		}
		if string(got) != strings.Join(want, "\n") {
			t.Errorf("%s is\n%s", name, got)
		}
	}
}

// TestEditFallsBack: what the library would print as something else is written
// anew.
func TestEditFallsBack(t *testing.T) {
	for _, more := range []string{
		"more: |+\n      a\n\n      b\n\n",
		"'it''s': '''it''s'",
		"more: {a: [1, # one\n     2]}",
		"more:\n      - >-\n        a\n        b\n      -\n        - c",
	} {
		text := strings.Replace(commented, `"{{.Probe}}"`, "\"{{.Probe}}\"\n    "+more, 1)
		want, err := Parse("p.yaml", []byte(text), []string{"phases.measure=1m"}, systems.Table)
		must(t, err)
		edited, err := Edit("p.yaml", []byte(text), []string{"phases.measure=1m"}, systems.Table)
		must(t, err)
		if got, err := Parse("p.yaml", edited, nil, systems.Table); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v\n%s", err, edited)
		}
	}
}

// TestOverrideOfAllItems: each item gets a value of its own.
func TestOverrideOfAllItems(t *testing.T) {
	p, err := Parse("p.yaml", []byte(base), []string{"lanes.*.arguments={x: 1}", "lanes.a.arguments.x=2"}, systems.Table)
	must(t, err)
	for i, want := range []int64{2, 1} {
		if got := p.Lanes[i].Arguments["x"]; got != want {
			t.Errorf("lane %s has %v, want %d", p.Lanes[i].Name, got, want)
		}
	}
}

// TestOverrideOfTooManyItems: what overrides add is bounded.
func TestOverrideOfTooManyItems(t *testing.T) {
	defer func(n int) { maxCopied = n }(maxCopied)
	maxCopied = 3_000
	text := strings.Replace(base, "lanes:\n", "lanes:\n"+strings.Repeat("  - {name: x}\n", 2), 1)
	_, err := Parse("p.yaml", []byte(text), []string{"lanes.*.arguments.x=[" + strings.Repeat("1,", 900) + "1]"}, systems.Table)
	const want = `there is too much in all items together; set less, or in fewer of them`
	if !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("%.300v\nwant %s", err, want)
	}
}
