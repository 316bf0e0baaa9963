package profiles

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/loadgen/systems"
)

var update = flag.Bool("update", false, "write testdata/profiles.golden")

// overrideTable holds overrides of the base profile, good and bad.
var overrideTable = [][]string{
	{"name=other"},
	{"description=a: b"},
	{"description='it''s # 1'"},
	{`description="a\nb\t\u00e9"`},
	{"description=1.10"},
	{"description= spaces  # and a comment"},
	{"description=# nothing"},
	{"lanes.a.subscriptions=7", "lanes.*.subscriptions=9"},
	{"lanes.1.poll.minInterval=1s"},
	{"lanes.b.poll={minInterval: 1s, maxEvents: 5}"},
	{"lanes.b.poll.maxEvents=5", "lanes.b.poll.minInterval=2s"},
	{"lanes.a.arguments={x: [1, 2.5, null, true, {y: '{{.Index}}'}]}"},
	{"lanes.a.arguments.x.y.z={{int .Index}}"},
	{"lanes.*.arguments={x: 1}", "lanes.*.arguments.y=2"},
	{"lanes.a.arguments={x: 18446744073709551615, z: 1e300, w: -0.5, v: 31}"},
	{"lanes.b.mode=push", "lanes.b.poll=null"},
	{"lanes=[{name: c, mode: push, subscriptions: 1, event: e}]"},
	{"lanes.0={name: c, mode: push, subscriptions: 1, event: e}"},
	{"lanes.a.push.backoff.min=1s", "lanes.a.push.backoff.max=1m"},
	{"thresholds=['*.lostSilent == 0', 'a.delivered > 1']", "thresholds.1=b.delivered > 1"},
	{"target.embedded={heartbeat: 5s, buffer: 10}", "target.url=http://127.0.0.1:1/mcp"},
	{"target.url=http://127.0.0.1:1/mcp", "upstream.admin=http://127.0.0.1:2", "target.headers.X-Key=a b"},
	{"target.command=a 'b c' d", "target.env.KEY=value", "upstream.admin=http://127.0.0.1:2"},
	{"target.command=[a, b c]", "upstream.admin=http://127.0.0.1:2"},
	{
		"upstream.kind=http",
		"upstream.http={url: 'http://127.0.0.1/{{.Probe}}', headers: {X-Seq: '{{.Seq}}'}}",
		"upstream.payload={a: '{{.Probe}}'}",
	},
	{"upstream.payload.list=[[], {}, [a]]"},
	{"upstream.payload.text=|\n  {{.Probe}}\n  more\n"},
	{"upstream.payload=\n- a"},
	{"schedule={kind: burst, burst: 10, every: 500ms, spread: 10ms}"},
	{"schedule.kind=ramp", "schedule.to=40/s"},
	{"phases.until=a.p99 ±5%, b.p50 +-2%", "phases.measure=3s"},
	{"phases.until=['a.p99 ±5%', '*.p50 ±2%']", "phases.measureAtMost=1m"},
	{"phases.until=[]", "phases.measureAtMost=1m"},
	{"phases.until=*.p99 ±5%"},
	{"phases.until=a.p99 ±5%", "phases.measureAtMost=1s"},
	{"phases.until=a.p99 ±5%", "schedule.kind=ramp", "schedule.to=40/s"},
	{"phases.until=a.p99 ±5%", "phases.measure=3h"},
	{"phases.measureAtMost=1m"},
	{"phases.until=''"},
	{"phases.warmup=1s", "phases.order=turns", "limits.rate=1000/m", "limits.memory=128MiB"},
	{"capacity={axis: rate, from: 10, to: 100, slo: {p99: 100ms}}"},
	{"cases=[{name: none}, {name: one, set: ['lanes.a.subscriptions=3'], lanes: [a]}]"},
	{"cases=[{name: bad, set: ['lanes.a.subscriptions=x']}]"},
	{"lanes.*=1"},
	{"lanes.a"},
	{"=1"},
	{"lanes.c.mode=poll"},
	{"lanes.2.mode=poll"},
	{"lanes.-1.mode=poll"},
	{"lanes.a.mode="},
	{"lanes.a.mode=["},
	{"lanes.a.mode=&x y"},
	{"lanes.a.mode=*x"},
	{"lanes.a.mode=!!str push"},
	{"lanes.a.subscriptions=99999999999999999999"},
	{"phases.warmup=.inf"},
	{"phases.warmup=2"},
	{"phases.x=1", "phase.y=2"},
	{"name.x.y=1"},
	{"name={x: 1, x: 2}"},
	{"name=a\n---\nb"},
	{strings.Repeat("a.", 70) + "b=1"},
	{strings.Repeat("a.", 40) + "b=1", strings.Repeat("a.", 40) + "b=" + strings.Repeat("[", 40) + strings.Repeat("]", 40)},
	{"name=" + strings.Repeat("[", 100)},
	{"name=" + strings.Repeat("x", 300)},
	{strings.Repeat("x", 300) + "=1"},
}

// TestGolden holds what built-in profiles and overrides are read as, and the
// texts of errors.
func TestGolden(t *testing.T) {
	var b strings.Builder
	add := func(title string, p *Profile, err error) {
		fmt.Fprintf(&b, "== %s\n", title)
		if err != nil {
			fmt.Fprintf(&b, "%v\n", err)
			return
		}
		text, err := p.YAML()
		must(t, err)
		b.Write(text)
	}
	for _, name := range builtinNames() {
		add(name, loaded(t, name), nil)
	}
	for _, set := range overrideTable {
		p, err := Parse("p.yaml", []byte(base), set, systems.Table)
		add(fmt.Sprintf("base %q", set), p, err)
	}
	const file = "testdata/profiles.golden"
	if *update {
		must(t, os.WriteFile(file, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(file)
	must(t, err)
	if b.String() == string(want) {
		return
	}
	got, old := strings.Split(b.String(), "\n"), strings.Split(string(want), "\n")
	for i := range got {
		if i >= len(old) || got[i] != old[i] {
			t.Fatalf("line %d is\n%s\nrun go test ./profiles -run TestGolden -update if that is what you want", i+1, got[i])
		}
	}
	t.Fatalf("%d lines, want %d", len(got), len(old))
}
