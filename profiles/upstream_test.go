package profiles

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/loadgen/systems"
)

// kindBase is a profile but for its upstream and schedule.
const kindBase = `name: kinds
target: {url: "http://127.0.0.1:1/mcp"}
lanes:
  - {name: a, mode: push, subscriptions: 1, event: e}
`

const kindRate = "schedule: {rate: 10/s}\n"

func TestUpstreamKinds(t *testing.T) {
	for name, text := range map[string]string{
		"github": kindRate + "upstream: {kind: github, github: {url: 'http://127.0.0.1/gh', secret: hush, event: " +
			"issues, repository: 'a/b-{{.Source}}', text: 'x {{.Probe}}'}}",
		"github, bare": kindRate + "upstream: {kind: github, github: {url: 'http://127.0.0.1/gh'}}",
		"slack": kindRate + "upstream: {kind: slack, slack: {url: 'https://127.0.0.1/s', secret: hush, channel: " +
			"'C{{printf \"%03d\" .Source}}', text: '{{.Probe}}'}}",
		"stripe":         kindRate + "upstream: {kind: stripe, stripe: {url: 'http://127.0.0.1/s', secret: whsec_hush, type: customer.updated}}",
		"feed":           kindRate + "upstream: {kind: feed, feed: {listen: '127.0.0.1:9000', limit: 10, keep: 5}, payload: {x: '{{.Probe}}'}}",
		"tool":           kindRate + "upstream: {kind: tool, tool: {name: t}, payload: {x: '{{.Probe}}'}}",
		"exec":           kindRate + "upstream: {kind: exec, exec: {command: [cat, -u], ack: true}, payload: {x: '{{.Probe}}'}}",
		"replay":         "upstream: {kind: replay, admin: 'http://127.0.0.1:2', replay: {file: t.jsonl, probe: a.b}}",
		"replay by POST": kindRate + "upstream: {kind: replay, replay: {file: t.jsonl, url: 'http://127.0.0.1/', headers: {X-Key: hush}}}",
		"trace alone": "schedule: {kind: trace, file: t.jsonl, warp: 2.5}\nupstream: {kind: tool, tool: {name: t}, " +
			"payload: {x: '{{.Probe}}'}}",
		"none": "upstream: {kind: none}",
	} {
		p, err := Parse("p.yaml", []byte(kindBase+text), nil, systems.Table)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		again(t, p)
		if text, err := json.Marshal(p); err != nil || bytes.Contains(text, []byte("hush")) {
			t.Errorf("%s: a secret is in %s (%v)", name, text, err)
		}
	}
}

func TestReplayHasTheTracesTimes(t *testing.T) {
	p, err := Parse(
		"p.yaml",
		[]byte(kindBase+"upstream: {kind: replay, admin: 'http://127.0.0.1:2', replay: {file: t.jsonl}}"),
		nil,
		systems.Table,
	)
	must(t, err)
	if p.Schedule.Kind != "trace" || p.Schedule.File != "t.jsonl" || p.Upstream.Event != "e" {
		t.Errorf("%+v, %+v", p.Schedule, p.Upstream)
	}
}

func TestUpstreamKindErrors(t *testing.T) {
	const payload = ", payload: {x: '{{.Probe}}'}"
	for _, c := range []struct{ text, want string }{
		{kindRate + "upstream: {kind: githup}", `upstream.kind: no such kind "githup"; did you mean github?`},
		{kindRate + "upstream: {kind: github}", "upstream.github.url: is missing; give the address that the target has for these webhooks"},
		{kindRate + "upstream: {kind: github, github: {url: 'http://u:p@127.0.0.1/'}}",
			"upstream.github.url: holds a user name or a password; put credentials into headers or tokens, which " +
				"are not stored"},
		{kindRate + "upstream: {kind: github, github: {url: 'http://127.0.0.1/', event: star}}",
			`upstream.github.event: no such event "star"; there is push, issues`},
		{kindRate + "upstream: {kind: github, github: {url: 'http://127.0.0.1/', repository: x}}",
			`upstream.github.repository: "x" is not a repository; write it like owner/name-{{.Source}}`},
		{kindRate + "upstream: {kind: github, github: {url: 'http://127.0.0.1/', repository: 'a/{{.Seq}}'}}",
			"upstream.github.repository: differs between the events of a source; use .Source only"},
		{kindRate + "upstream: {kind: github, github: {url: 'http://127.0.0.1/', text: fix}}",
			"upstream.github.text: does not hold {{.Probe}}; add it: deliveries are recognised by it"},
		{kindRate + "upstream: {kind: github, github: {url: 'http://127.0.0.1/', text: '{{.Prob}}'}}",
			"upstream.github.text: no value .Prob here; did you mean .Probe?"},
		{kindRate + "upstream: {kind: slack, slack: {url: 'http://127.0.0.1/'}}",
			"upstream.slack.secret: is missing; give the app's signing secret: the target checks the signatures with it"},
		{kindRate + "upstream: {kind: stripe, stripe: {url: 'http://127.0.0.1/', secret: s, type: x}}",
			`upstream.stripe.type: no such type "x"; there is payment_intent.succeeded, customer.updated`},
		{kindRate + "upstream: {kind: slack, slack: {url: 'http://127.0.0.1/', secret: s}, github: {event: push}}",
			"upstream.github: belongs to kind github; remove it, or set upstream.kind: github"},
		{kindRate + "upstream: {kind: slack, slack: {url: 'http://127.0.0.1/', secret: s}" + payload + "}",
			"upstream.payload: belongs to kind inject; remove it, or set upstream.kind: inject"},
		{kindRate + "upstream: {kind: feed, feed: {listen: '9000'}" + payload + "}",
			`upstream.feed.listen: "9000" is not an address to listen on; write it like 127.0.0.1:9000`},
		{kindRate + "upstream: {kind: feed" + payload + "}",
			"upstream.feed.listen: is missing; with target.url, give the address under which the target polls, like " +
				"127.0.0.1:9000"},
		{kindRate + "upstream: {kind: feed, event: other, feed: {listen: '127.0.0.1:9000'}" + payload + "}",
			`lanes.a.event: the upstream publishes "other", which this lane would never receive; subscribe to the same, or ` +
				`change upstream.event`},
		{kindRate + "upstream: {kind: feed, feed: {listen: '127.0.0.1:9000', limit: -1}, payload: {x: y}}",
			"upstream.feed.limit: -1 is too small; give at least 0\nupstream.payload: no text holds {{.Probe}}; add one, like " +
				"text: \"{{.Probe}}\": deliveries are recognised by it"},
		{kindRate + "upstream: {kind: tool" + payload + "}", "upstream.tool.name: is missing; name the tool to call"},
		{kindRate + "upstream: {kind: tool, tool: {name: t}}",
			`upstream.payload: is missing; give the tool's arguments, with "{{.Probe}}" in one of its texts`},
		{kindRate + "upstream: {kind: exec" + payload + "}", "upstream.exec.command: is missing; give the program and its arguments, as a list"},
		{kindRate + "upstream: {kind: exec, exec: {command: cat}" + payload + "}",
			"upstream.exec.command: is a single value; it is a list: begin each item with a hyphen"},
		{kindRate + "upstream: {kind: exec, exec: {command: [cat], ack: 1}" + payload + "}",
			`upstream.exec.ack: "1" is neither true nor false; write true or false`},
		{kindRate + "upstream: {kind: replay, admin: 'http://127.0.0.1:2'}",
			"upstream.replay.file: is missing; give the file of the trace, as eventmeter record writes it"},
		{"upstream: {kind: replay, replay: {file: f}}",
			"upstream.admin: is missing; with target.url, give the address of the target's admin listener, or any other as " +
				"upstream.replay.url"},
		{"upstream: {kind: replay, admin: 'http://127.0.0.1:2', replay: {file: f, url: 'http://127.0.0.1:3'}}",
			"upstream.admin: is not used, since upstream.replay.url is given; remove one of them"},
		{"upstream: {kind: replay, admin: 'http://127.0.0.1:2', replay: {file: f, probe: a..b}}",
			`upstream.replay.probe: "a..b" is not a path; write keys with dots between them, like message.text`},
		{"schedule: {kind: trace, warp: 0}\nupstream: {kind: replay, admin: 'http://127.0.0.1:2', replay: {file: f}}",
			"schedule.warp: must be above 0; give 1 for the times as recorded, 2 for twice as fast"},
		{"schedule: {kind: trace, rate: 3}\nupstream: {kind: tool, tool: {name: t}" + payload + "}",
			"schedule.rate: has no effect with kind trace; remove it, or choose another kind\nschedule.file: is missing; give " +
				"the file of the trace, as eventmeter record writes it"},
		{kindRate + "upstream: {kind: none}", "schedule: has no effect with upstream.kind none, which publishes nothing; remove it"},
		{"upstream: {kind: none, sources: 3, event: e}",
			"upstream.event: belongs to kind inject; remove it, or set upstream.kind: inject\nupstream.sources: has no effect " +
				"with upstream.kind none, which publishes nothing; remove it"},
	} {
		_, err := Parse("p.yaml", []byte(kindBase+c.text), nil, systems.Table)
		var got []string
		for line := range strings.SplitSeq(fmt.Sprint(err), "\n") {
			_, line, _ = strings.Cut(line, ": ") // without the place
			got = append(got, line)
		}
		if text := strings.Join(got, "\n"); text != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.text, text, c.want)
		}
	}
	embedded := strings.Replace(kindBase, `target: {url: "http://127.0.0.1:1/mcp"}`, "", 1)
	for text, want := range map[string]string{
		kindRate + "upstream: {kind: stripe, stripe: {url: 'http://127.0.0.1/', secret: s}}": "upstream.kind: the embedded " +
			"target takes no webhooks of stripe; give target.url",
		"upstream: {kind: none}": "upstream.kind: the embedded target emits nothing by itself; give target.url",
	} {
		if _, err := Parse("p.yaml", []byte(embedded+text), nil, systems.Table); !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
