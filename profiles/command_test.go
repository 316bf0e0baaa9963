package profiles

import (
	"slices"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/loadgen/systems"
)

const commandProfile = `name: mine
target:
  TARGET
lanes:
  - {name: push, mode: push, subscriptions: 1, event: e}
upstream: {payload: {text: "{{.Probe}}"}}
schedule: {rate: 1/s}
`

func TestCommand(t *testing.T) {
	for text, want := range map[string][]string{
		`command: node server.js --name 'two words' ""`: {"node", "server.js", "--name", "two words", ""},
		`command: [node, "server js"]`:                  {"node", "server js"},
		`command: 'a "b\"c" d\ e'`:                      {"a", `b"c`, "d e"},
	} {
		p, err := Parse("x", []byte(strings.Replace(commandProfile, "TARGET", text, 1)), nil, systems.Table)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if !slices.Equal(p.Target.Command, want) || p.Target.IsEmbedded() || !p.Target.OverStdio() {
			t.Errorf("%s: %q", text, p.Target.Command)
		}
		again(t, p)
	}
}

func TestCommandProblems(t *testing.T) {
	for _, c := range []struct{ target, set, want string }{
		{"command: 'a \"b'", "", `x:3: target.command: "a \"b" cannot be split into words: EOF found when expecting closing ` +
			`quote; close every quote, or write a list`},
		{"command: ''", "", `x:3: target.command: "" names no program; write the program and its arguments`},
		{"command: ['']", "", "x:3: target.command: names no program; write the program and its arguments, as in command: " +
			"my-server --flag value"},
		{"{command: s, url: 'http://127.0.0.1:1/mcp'}", "", "x:3: target.command: there is a url as well; give one of the two"},
		{"env: {A: b}", "", "x:3: target.env: belongs to a program that the run starts; remove it, or give target.command"},
		{"{command: s, env: {'A=': b}}", "", `x:3: target.env.A=: "A=" cannot be a variable; write NAME: value`},
		{"{command: s, tokens: [a]}", "", "x:3: target.tokens: has no effect over standard input and output, which has one " +
			"principal; remove it, or pass it to the program in target.env"},
		{"embedded: {transport: pigeon}", "", `x:3: target.embedded.transport: no such transport "pigeon"; there is http, stdio`},
		{"embedded: {transport: stdio}", "lanes.push.http=h2c",
			`override "lanes.push.http=h2c": lanes.push.http: has no effect over standard input and output; remove it`},
		{"command: s", "lanes.push.system=sep-975",
			`override "lanes.push.system=sep-975": lanes.push.system: sep-975 resumes requests on another connection, and a pipe ` +
				`cannot be reopened; connect to the target by its url, or leave the lane out`},
		{"command: s", "lanes.push={name: push, system: sep-1803, mode: push, subscriptions: 1, event: e, sep1803: " +
			"{perSession: 2}}", `lanes.push.sep1803.perSession: has no effect over standard input and output, which is one ` +
			`session; remove it`},
	} {
		var set []string
		if c.set != "" {
			set = []string{c.set}
		}
		text := strings.Replace(commandProfile, "TARGET", c.target, 1)
		if strings.HasPrefix(c.target, "{") {
			text = strings.Replace(commandProfile, "target:\n  TARGET", "target:\n  "+c.target, 1)
		}
		_, err := Parse("x", []byte(text), set, systems.Table)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s:\n%v\nwant\n%s", c.target, c.set, err, c.want)
		}
	}
}

// TestTargetOfAnotherKind: an override of the target takes the place of the file's, whatever its
// kind, and what belongs to the file's does not stand in its way.
func TestTargetOfAnotherKind(t *testing.T) {
	const (
		url     = "{url: 'http://127.0.0.1:1/mcp', tokens: [abcdef], headers: {X: y}, allow: [example.org], era: modern}"
		command = "{command: server, env: {A: b}, dir: /, era: modern}"
	)
	for _, c := range []struct{ target, set string }{
		{url, "target.command=node server.js"}, {command, "target.url=http://127.0.0.1:2/mcp"},
	} {
		text := strings.Replace(commandProfile, "\n  TARGET", " "+c.target, 1)
		p, err := Parse("x", []byte(text), []string{"upstream.admin=http://127.0.0.1:3", c.set}, systems.Table)
		if err != nil {
			t.Errorf("%s over %s: %v", c.set, c.target, err)
			continue
		}
		over := c.target == url
		if p.Target.OverStdio() != over || (p.Target.URL == "") != over || len(p.Target.Env)+len(p.Target.Tokens) > 0 ||
			p.Target.Era != "modern" {
			t.Errorf("%s over %s: %+v", c.set, c.target, p.Target)
		}
		again(t, p)
	}
}
