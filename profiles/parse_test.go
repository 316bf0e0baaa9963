package profiles

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/loadgen/systems"
)

// base is a valid profile; its lines are counted by the tests below.
const base = `name: base
lanes:
  - name: a
    mode: push
    subscriptions: 10
    event: e
  - name: b
    mode: poll
    subscriptions: 5
    event: e
    poll:
      minInterval: 250ms
upstream:
  sources: 4
  payload:
    text: "{{.Probe}}"
schedule:
  kind: constant
  rate: 20/s
phases:
  warmup: 0
`

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		old, new string // replaced in base
		want     string // lines, all of them
	}{
		// Keys.
		{"    subscriptions: 10", "    subscriptons: 10", "p.yaml:5: lanes.a.subscriptons: no such key; did you mean subscriptions?"},
		{"schedule:", "shedule:", "p.yaml:17: shedule: no such key; did you mean schedule?"},
		{"  warmup: 0", "  xyzzy: 0", "p.yaml:21: phases.xyzzy: no such key; there is order, ready, warmup, measure, until, " +
			"measureAtMost, drain, cooldown, late"},
		{"      minInterval: 250ms", "      minInterval: 250ms\n      minInterval: 300ms",
			"p.yaml:13: lanes.1.poll.minInterval: given twice, first on line 12; keep one of them"},
		{"name: base", "", "p.yaml:2: name: is missing; give a short name of a-z, 0-9 and hyphens"},
		{"  rate: 20/s", "", "p.yaml:17: schedule.rate: is missing; kind constant needs it"},
		{"    subscriptions: 5\n", "", "p.yaml:7: lanes.b.subscriptions: is missing; give a number of at least 1"},
		{"  warmup: 0", "  warmup:", "p.yaml:21: phases.warmup: has no value; give one, or remove the key to have the default"},
		// Units.
		{"  warmup: 0", "  warmup: 2", "p.yaml:21: phases.warmup: 2 has no unit; did you mean 2s?"},
		{"250ms", "250", "p.yaml:12: lanes.b.poll.minInterval: 250 has no unit; did you mean 250ms?"},
		{"250ms", "250 ms", `p.yaml:12: lanes.b.poll.minInterval: "250 ms" is not a duration; write it without spaces, as in 250ms`},
		{"250ms", "1d", `p.yaml:12: lanes.b.poll.minInterval: "1d" is not a duration; days are written in hours, 1d as 24h`},
		{"250ms", "fast", `p.yaml:12: lanes.b.poll.minInterval: "fast" is not a duration; write a number and a unit (ms, s, ` +
			`m, h), as in 250ms or 10s`},
		{"250ms", "-1s", "p.yaml:12: lanes.b.poll.minInterval: -1s is negative; give 0 or more"},
		{"20/s", "20/d", `p.yaml:19: schedule.rate: "20/d" is not a rate; write it per s, m or h, as in 20/s, 300/m, 3600/h`},
		{"20/s", "20 Hz", `p.yaml:19: schedule.rate: "20 Hz" is not a rate; write a number, or one like 20/s, 300/m, 3600/h`},
		{"20/s", "-3", `p.yaml:19: schedule.rate: a rate of "-3" is negative; give 0 or more`},
		// Values.
		{"mode: poll", "mode: pol", `p.yaml:8: lanes.b.mode: no such mode "pol"; did you mean poll?` + "\n" +
			"p.yaml:11: lanes.b.poll: has no effect on a lane of mode pol; remove it, or set mode: poll"},
		{"mode: poll", "mode: push", "p.yaml:11: lanes.b.poll: has no effect on a lane of mode push; remove it, or set mode: poll"},
		{"kind: constant", "kind: poison", `p.yaml:18: schedule.kind: no such kind "poison"; did you mean poisson?`},
		{"subscriptions: 10", "subscriptions: 0", "p.yaml:5: lanes.a.subscriptions: 0 is too small; give at least 1"},
		{"subscriptions: 10", "subscriptions: many",
			`p.yaml:5: lanes.a.subscriptions: "many" is not a whole number; write digits only, as in 300`},
		{"subscriptions: 10", "subscriptions: 010", "p.yaml:5: lanes.0.subscriptions: 010 can be read as several numbers; " +
			"write a whole number in plain digits, as in 1000, or a name in quotes"},
		{"subscriptions: 10", "subscriptions: 1_000", "p.yaml:5: lanes.0.subscriptions: 1_000 can be read as several numbers; " +
			"write a whole number in plain digits, as in 1000, or a name in quotes"},
		{"subscriptions: 10", "subscriptions: 0x10", "p.yaml:5: lanes.0.subscriptions: 0x10 can be read as several numbers; " +
			"write a whole number in plain digits, as in 1000, or a name in quotes"},
		{"subscriptions: 10", "subscriptions: 1_0.5", "p.yaml:5: lanes.0.subscriptions: 1_0.5 can be read as several numbers; " +
			"write it without underscores, or a name in quotes"},
		{"subscriptions: 10", "subscriptions: [10]", "p.yaml:5: lanes.a.subscriptions: is a list; give a single value"},
		{"subscriptions: 10", "subscriptions: 300000",
			"p.yaml:5: lanes.a.subscriptions: it exceeds the limit of 200000 subscriptions of all lanes; lower it, or raise " +
				"limits.subscriptions"},
		{"name: b\n", "name: a\n", `p.yaml:7: lanes.1.name: "a" is given twice; give each lane its own name`},
		{"name: b\n", "name: B 2\n", `p.yaml:7: lanes.B 2.name: "B 2" is not a name; use a-z, 0-9 and hyphens, a letter first, at most 63`},
		{"20/s", "30000/s", "p.yaml:17: schedule: reaches 30000/s, above the limit of 20000/s; lower it, or raise limits.rate"},
		{"20/s", "1/h", "p.yaml:17: schedule: publishes nothing in the measured phase of 10s; raise the rate, or phases.measure"},
		{"  warmup: 0", "  measure: 25h", "p.yaml:20: phases: the run may take 90022 s, above the limit of 24h0m0s; shorten " +
			"it, or raise limits.duration"},
		{"  rate: 20/s", "  rate: 20/s\n  every: 1s",
			"p.yaml:20: schedule.every: has no effect with kind constant; remove it, or choose another kind"},
		{"  warmup: 0", "  cooldown: 24h", "p.yaml:20: phases: the run may take 86432 s, above the limit of 24h0m0s; shorten " +
			"it, or raise limits.duration"},
		{"  warmup: 0", "  order: turns\n  cooldown: 1s",
			"p.yaml:22: phases.cooldown: lanes that take turns are no constant load, so that no rise can be judged; remove it, " +
				"or set phases.order: together"},
		{"  warmup: 0", "  cooldown: -1s", "p.yaml:21: phases.cooldown: -1s is negative; give 0 or more"},
		{"  warmup: 0", "  order: turn", `p.yaml:21: phases.order: no such order "turn"; did you mean turns?`},
		{"phases:", "thresholds: ['']\nphases:", "p.yaml:20: thresholds.0: is empty; write one like push.lostSilent == 0"},
		{"phases:", "thresholds: x < 1\nphases:", "p.yaml:20: thresholds: is a single value; it is a list: begin each item with a hyphen"},
		// Lanes.
		{"    event: e\n  - name: b", "    event: f\n  - name: b",
			"p.yaml:13: upstream.event: is missing; the lanes subscribe to different events: name the one to publish"},
		{"sources: 4", "sources: 4\n  event: f", "p.yaml:6: lanes.a.event: the upstream publishes \"f\", which this lane " +
			"would never receive; subscribe to the same, or change upstream.event\np.yaml:10: lanes.b.event: the upstream " +
			"publishes \"f\", which this lane would never receive; subscribe to the same, or change upstream.event"},
		{"subscriptions: 10", "subscriptions: 10\n    sources: \"{{.Index}}\"",
			"p.yaml:6: lanes.a.sources: subscription 4 has source 4, and there are 4; stay below 4, or raise upstream.sources"},
		{"subscriptions: 10", "subscriptions: 10\n    sources: 1,x",
			`p.yaml:6: lanes.a.sources: "x" is not a source; write numbers from 0 with commas between them, or all`},
		{"subscriptions: 10", "subscriptions: 10\n    http: 3", `p.yaml:6: lanes.a.http: no such http "3"; did you mean 2?`},
		{"subscriptions: 10", "subscriptions: 10\n    push: {backoff: {min: 40s}}",
			"p.yaml:6: lanes.a.push.backoff.max: 30s is too short; give at least 40s"},
		{"mode: push", "mode: webhook\n    webhook: {ttl: 300}",
			"p.yaml:5: lanes.a.webhook.ttl: 300 has no unit; write a duration like 300s, or default, or none"},
		{"mode: push", "mode: webhook\n    webhook: {refreshAt: 0.5, refreshJitter: 0.46}",
			"p.yaml:5: lanes.a.webhook.refreshJitter: 0.46 would refresh before 0.05 of the grant is over; give at most 0.45, or " +
				"raise webhook.refreshAt"},
		{"mode: push", "mode: webhook\n    webhook: {ttl: 10ms, refreshAt: 1.5, callback: 'http://x'}",
			"p.yaml:5: lanes.a.webhook.refreshAt: 1.5 is out of bounds; give 0.1 to 0.95\np.yaml:5: lanes.a.webhook.ttl: 10ms is " +
				"too short; give at least 1s\np.yaml:5: lanes.a.webhook.callback: plain http is for loopback only, on both ends; use " +
				"https, or http://127.0.0.1:0 and no other listen address"},
		{"mode: push", "mode: webhook\n    webhook: {callback: 'http://127.0.0.1:0', listen: '0.0.0.0:8443'}",
			"p.yaml:5: lanes.a.webhook.callback: plain http is for loopback only, on both ends; use https, or http://127.0.0.1:0 " +
				"and no other listen address"},
		{"mode: push", "mode: webhook\n    webhook: {callback: 'http://localhost:0', certFile: a, keyFile: b}",
			"p.yaml:5: lanes.a.webhook.certFile: has no effect on a callback over http; remove it, or use https"},
		{"mode: push", "mode: webhook\n    webhook: {verify: lax}",
			"p.yaml:5: lanes.a.webhook.verify: no such verify \"lax\"; there is strict, report"},
		// Templates.
		{"{{.Probe}}", "{{.Seq}}", `p.yaml:15: upstream.payload: no text holds {{.Probe}}; add one, like text: "{{.Probe}}": ` +
			`deliveries are recognised by it`},
		{"{{.Probe}}", "{{.Prob}}", "p.yaml:16: upstream.payload.text: no value .Prob here; did you mean .Probe?"},
		{"{{.Probe}}", "{{.Probe}", `p.yaml:16: upstream.payload.text: bad template: bad character U+007D '}'; write it like {{mod .Source 10}}`},
		{"{{.Probe}}", "{{modulo .Seq 2}}", `p.yaml:16: upstream.payload.text: bad template: function "modulo" not defined; ` +
			`write it like {{mod .Source 10}}`},
		{"{{.Probe}}", "{{if .Probe}}x{{end}}", "p.yaml:16: upstream.payload.text: only values and functions can be used in a " +
			"template; remove if, range, with, variables and definitions"},
		{"{{.Probe}}", "{{index .Probe 1}}", "p.yaml:16: upstream.payload.text: no function index here; there is add, sub, " +
			"mul, div, mod, int, printf"},
		{"subscriptions: 10", "subscriptions: 10\n    arguments: {x: {y: ['{{.Seq}}']}}",
			"p.yaml:6: lanes.a.arguments.x.y.0: no value .Seq here; there is .Index"},
		// Upstream.
		{"upstream:", "target: {url: 'http://127.0.0.1:1/mcp'}\nupstream:",
			"p.yaml:14: upstream.admin: is missing; with target.url, give the address of the target's admin listener, or use " +
				"upstream.kind: http"},
		{"upstream:", "target: {url: 'http://u:p@127.0.0.1:1/mcp'}\nupstream:\n  admin: http://127.0.0.1:2",
			"p.yaml:13: target.url: holds a user name or a password; put credentials into headers or tokens, which " +
				"are not stored"},
		{"  sources: 4", "  kind: http\n  http: {url: 'http://127.0.0.1/', body: 'x'}",
			"p.yaml:15: upstream.http: neither url, headers nor body holds {{.Probe}}; add it where it reaches the event's data: " +
				"deliveries are recognised by it\np.yaml:16: upstream.payload: is not sent, since upstream.http.body is given; " +
				"remove one of them"},
		// YAML itself.
		{"  rate: 20/s", "  rate: {{x}}", "p.yaml:19: this is not YAML: could not find flow map content; mind indentation, quotes and brackets"},
		{"  rate: 20/s", "  rate: *x", "p.yaml:19: schedule.rate: anchors and aliases are not read; write the value out"},
		{"  rate: 20/s", "  rate: !!str 20", "p.yaml:19: schedule.rate: tags are not read; remove the tag"},
		{"  rate: 20/s", "  rate: .inf", "p.yaml:19: schedule.rate: not a finite number; give a finite one"},
		{"  rate: 20/s", "  rate: `x`", "p.yaml:19: this is not YAML: '`' is a reserved character; mind indentation, quotes and brackets"},
		{"  rate: 20/s", "  rate: \"\\q\"", "p.yaml:19: this is not YAML: found unknown escape character 'q'; mind " +
			"indentation, quotes and brackets"},
		{"  rate: 20/s", "  rate: '20/s", "p.yaml:19: this is not YAML: could not find end character of single-quoted text; " +
			"mind indentation, quotes and brackets"},
		{"phases:", "---\nphases:", "p.yaml:21: a second document begins here; write one profile a file"},
		{"  rate: 20/s", "  rate: [20", "p.yaml:20: this is not YAML: ',' or ']' must be specified; mind indentation, quotes and brackets"},
		{base, "", "p.yaml:1: there is nothing in it; a profile needs name, lanes, upstream and schedule"},
		{base, "just words", "p.yaml:1: is a single value; a profile is a group of keys: name, description, target, lanes, " +
			"upstream, schedule, phases, thresholds, limits, generator, cases, capacity"},
		{base, strings.Repeat("[", 1000), "p.yaml:1: brackets are nested too deeply; at most 64 levels are read"},
	} {
		text := strings.Replace(base, c.old, c.new, 1)
		if text == base {
			t.Fatalf("%q is not in base", c.old)
		}
		_, err := Parse("p.yaml", []byte(text), nil, systems.Table)
		if got := fmt.Sprint(err); got != c.want {
			t.Errorf("%q:\n got %s\nwant %s", c.new, got, c.want)
		}
		var list *Error
		if err != nil && (!errors.As(err, &list) || len(list.Problems) == 0) {
			t.Errorf("%q: no *Error", c.new)
		}
	}
}

// TestByteOrderMark: what an editor puts before the text is no part of the first key.
func TestByteOrderMark(t *testing.T) {
	want, err := Parse("p", []byte(base), nil, systems.Table)
	must(t, err)
	got, err := Parse("p", []byte("\ufeff"+base), nil, systems.Table)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v: %v", got, err)
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	text := strings.NewReplacer("name: base", "name: BASE", "250ms", "250", "20/s", "x").Replace(base)
	_, err := Parse("p.yaml", []byte(text), []string{"lanes.a.mod=poll"}, systems.Table)
	var list *Error
	if !errors.As(err, &list) {
		t.Fatal(err)
	}
	var where []string
	for _, p := range list.Problems {
		where = append(where, p.Where+" "+p.Key)
	}
	want := `p.yaml:1 name, p.yaml:12 lanes.b.poll.minInterval, p.yaml:19 schedule.rate, override "lanes.a.mod=poll" lanes.a.mod`
	if got := strings.Join(where, ", "); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestOverrides(t *testing.T) {
	p, err := Parse("p.yaml", []byte(base), []string{
		"lanes.*.subscriptions=1000",
		"lanes.a.subscriptions=7",
		"lanes.1.poll.minInterval=1s",
		"lanes.b.arguments.channel=c-{{mod .Index 3}}",
		"lanes.b.sources={{mod .Index 4}}",
		"phases.measure=30s",
		"thresholds=['*.lostSilent == 0', 'a.delivered > 1']",
		"thresholds.1=b.delivered > 1",
		"target.url=http://127.0.0.1:8080/mcp",
		"upstream.admin = http://127.0.0.1:8081",
		"limits={rate: 100/s}",
	}, systems.Table)
	must(t, err)
	a, b := p.Lanes[0], p.Lanes[1]
	if a.Subscriptions != 7 || b.Subscriptions != 1000 || b.Poll.MinInterval != time.Second || p.Phases.Measure != 30*time.Second ||
		p.Thresholds[1] != "b.delivered > 1" || p.Target.URL != "http://127.0.0.1:8080/mcp" || p.Limits.Rate != 100 {
		t.Errorf("%+v", p)
	}
	if c, err := CompileLane(b); err != nil || string(c.Arguments(5)) != `{"channel":"c-2"}` {
		t.Errorf("%v, %v", c, err)
	}
	for _, c := range []struct{ override, want string }{
		{"lanes.a.subscriptons=3", `override "lanes.a.subscriptons=3": lanes.a.subscriptons: no such key; did you mean subscriptions?`},
		{"lanes.c.mode=poll", `override "lanes.c.mode=poll": lanes.c: no such item; did you mean a?`},
		{"phases.measure=30", `override "phases.measure=30": phases.measure: 30 has no unit; did you mean 30s?`},
		{"phase.measure=30s", `override "phase.measure=30s": phase: no such key; did you mean phases?`},
		{"name.x.y=1", `override "name.x.y=1": name.x: name is a single value and has no keys; shorten the path`},
		{"lanes.a", `override "lanes.a": there is no path=value; write it like lanes.push.subscriptions=1000`},
		{"lanes.a.mode=", `override "lanes.a.mode=": lanes.a.mode: is missing; give one of poll, push, webhook`},
		{"lanes.a.mode=[", `override "lanes.a.mode=[": lanes.a.mode: this is not YAML: sequence end token ']' not found; mind ` +
			`indentation, quotes and brackets`},
	} {
		if _, err := Parse("p.yaml", []byte(base), []string{c.override}, systems.Table); fmt.Sprint(err) != c.want {
			t.Errorf("%s:\n got %v\nwant %s", c.override, err, c.want)
		}
	}
}

func TestTemplates(t *testing.T) {
	l := Lane{Name: "x", Subscriptions: 30, Sources: "{{div .Index 3}}, {{mod .Index 3}}, 0", Arguments: map[string]any{
		"text":   `<{{printf "%03d" .Index}}> "q"`,
		"number": "{{int (add .Index 1)}}",
		"piped":  "{{.Index | mul 2 | int}}",
		"plain":  "{{.Index}}",
		"zero":   "{{mod .Index 0}}",
		"list":   []any{true, nil, int64(3), 1.5, map[string]any{"b": "{{sub .Index 1}}", "a": "é"}},
	}}
	c, err := CompileLane(l)
	must(t, err)
	want := `{"list":[true,null,3,1.5,{"a":"é","b":"6"}],"number":8,"piped":14,"plain":"7","text":"<007> \"q\"","zero":"0"}`
	if got := string(c.Arguments(7)); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if got := fmt.Sprint(c.Sources(7)); got != "[0 1 2]" {
		t.Errorf("sources %s", got)
	}
	if c, err := CompileLane(Lane{Sources: "2, 1,2"}); err != nil || fmt.Sprint(c.Sources(0)) != "[1 2]" || string(c.Arguments(0)) != "{}" {
		t.Errorf("%v", err)
	}
	if c, err := CompileLane(Lane{Sources: "all"}); err != nil || c.Sources(0) != nil {
		t.Errorf("%v", err)
	}
}

func TestCompileHTTP(t *testing.T) {
	make, err := CompileHTTP(Upstream{HTTP: UpstreamHTTP{
		URL:     "http://127.0.0.1/hooks/{{.Source}}?id={{.Probe}}",
		Headers: map[string]string{"x-seq": "{{.Seq}}", "Content-Type": "text/plain"},
		Body:    "{{add .Seq 1}} <{{.Probe}}>",
	}})
	must(t, err)
	url, header, body := make(2, 9, "PROBE")
	if url != "http://127.0.0.1/hooks/2?id=PROBE" || header.Get("X-Seq") != "9" || header.Get("Content-Type") != "text/plain" ||
		string(body) != "10 <PROBE>" {
		t.Errorf("%s %v %s", url, header, body)
	}
	// Without a body of its own the request carries the payload.
	make, err = CompileHTTP(Upstream{HTTP: UpstreamHTTP{URL: "http://127.0.0.1/"}, Payload: map[string]any{"text": "<{{.Probe}}>"}})
	must(t, err)
	if _, header, body := make(0, 1, "PROBE"); string(body) != `{"text":"<PROBE>"}` || header.Get("Content-Type") != "application/json" {
		t.Errorf("%v %s", header, body)
	}
	// A body that begins as JSON does is sent as such.
	for body, want := range map[string]string{
		` {"a":"{{.Probe}}"}`: "application/json", `["{{.Probe}}"]`: "application/json", "{{.Probe}}": "", "a={{.Probe}}": "",
	} {
		if make, err = CompileHTTP(Upstream{HTTP: UpstreamHTTP{URL: "http://127.0.0.1/", Body: body}}); err != nil {
			t.Fatal(err)
		}
		if _, header, _ := make(0, 1, "PROBE"); header.Get("Content-Type") != want {
			t.Errorf("%s is sent as %q, want %q", body, header.Get("Content-Type"), want)
		}
	}
}

func TestRates(t *testing.T) {
	for text, want := range map[string]Rate{"20/s": 20, "300/m": 5, "3600/h": 1, "2.5": 2.5, " 1 / s ": 1, "0": 0} {
		if got, err := ParseRate(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

func BenchmarkPayload(b *testing.B) {
	payload, err := CompilePayload(
		Upstream{Payload: map[string]any{"channel": "channel-{{.Source}}", "text": "message {{.Seq}} {{.Probe}}"}},
	)
	must(b, err)
	dst := make([]byte, 0, 256)
	b.ReportAllocs()
	for b.Loop() {
		dst = payload(dst[:0], 3, 1000, sampleProbe)
	}
}
