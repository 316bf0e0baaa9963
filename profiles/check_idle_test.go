package profiles

import (
	"reflect"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/loadgen/systems"
)

// TestIdleKeys finds keys that would be read and do nothing, and takes those
// that another key switches off by a 0.
func TestIdleKeys(t *testing.T) {
	const push, webhook = "{name: a, mode: push, subscriptions: 1, event: e, ", "{name: a, mode: webhook, subscriptions: 1, event: e, "
	const inject = `upstream: {payload: {text: "{{.Probe}}"}}`
	const lane = push + "}"
	for _, c := range []struct {
		lane, target, upstream, rest string
		want                         string // in part; "" = all is well
	}{
		{lane, "version: 2026-7-28", inject, "", `target.version: "2026-7-28" is not a protocol version; use the form YYYY-MM-DD`},
		{lane, "version: 2025-06-18, era: modern", inject, "",
			"target.version: 2025-06-18 is of era legacy, and target.era is modern; remove target.era"},
		{push + "events: {anonymous: true}}", "", inject, "", "lanes.a.events.anonymous: only webhooks need a token"},
		{push + "events: {stallShare: 0.5}}", "", inject, "", "lanes.a.events.stallShare: does nothing without stallFor"},
		{push + "events: {cutFor: 1s}}", "", inject, "",
			"lanes.a.events.cutFor: does nothing without cutEvery or cutAt: no stream is cut; remove it, or give cutEvery " +
				"or cutAt too"},
		{push + "events: {cutFor: 1s, cutAt: 1s}}", "", inject, "", ""},
		{push + "push: {streamsPerConnection: 5}}", "", inject, "",
			"lanes.a.push.streamsPerConnection: over HTTP/1.1 a connection carries one stream; remove it, or set http: " +
				"h2c or http: 2"},
		{push + "http: h2c, push: {streamsPerConnection: 5}}", "", inject, "", ""},
		{push + "http: h2c, push: {streamsPerConnection: 2001}}", "", inject, "", "lanes.a.push.streamsPerConnection: 2001 is too many"},
		{push + "events: {cutFor: 1s, cutEvery: 0}}", "", inject, "", ""},
		{push + "system: sep-1803, sep1803: {cutFor: 1s}}", "", inject, "", "lanes.a.sep1803.cutFor: does nothing without cutEvery"},
		{"{name: a, mode: poll, subscriptions: 1, event: e, poll: {timeout: 5s}}", "", inject, "",
			"lanes.a.poll.timeout: revision sep-3415 has no long polls; remove it, or set target.revision: longpoll"},
		{"{name: a, mode: poll, subscriptions: 1, event: e, poll: {timeout: 5s}}", "revision: longpoll", inject, "", ""},
		{push + "client: chatgpt}", "", inject, "", "lanes.a.client: clients are imitated by webhook lanes of system events"},
		{webhook + "webhook: {require: [eventid]}}", "", inject, "", `lanes.a.webhook.require.0: "eventid" is not known`},
		{webhook + "system: smithery, webhook: {pending: refuse}}", "", inject, "", "lanes.a.webhook.pending: has no effect on system smithery"},
		{webhook + "client: ai-sdk, webhook: {answer: [{status: 204, times: 2}]}}", "", inject, "",
			"lanes.a.webhook.answer.0.times: has no effect on an answer that accepts the event"},
		{webhook + "webhook: {answer: [{status: 503}, {reset: true}]}}", "", inject, "",
			"lanes.a.webhook.answer.1.share: is missing here and in another answer"},
		{webhook + "webhook: {answer: [{status: 503, hang: true}]}}", "", inject, "", "lanes.a.webhook.answer.0: says several things at once"},
		{webhook + "webhook: {answer: [{status: 503, share: 0.6}, {reset: true, share: 0.6}]}}", "", inject, "",
			"lanes.a.webhook.answer: the shares add up to 1.2"},
		{webhook + "webhook: {shareUrl: true}}", "revision: older", inject, "",
			"lanes.a.webhook.shareUrl: revision older has no X-MCP-Subscription-Id"},
		{push + "churn: {pause: 1s}}", "", inject, "", "lanes.a.churn.pause: does nothing without rate"},
		{push + "churn: {pause: 1s, rate: 0}}", "", inject, "", ""},
		{push + "events: {resume: true}}", "", inject, "", "lanes.a.events.resume: does nothing without churn.rate"},
		{push + "events: {resume: true}, churn: {rate: 1/s}}", "", inject, "", ""},
		{webhook + "webhook: {oldSecret: 1s}}", "", inject, "", "lanes.a.webhook.oldSecret: does nothing without rotateEvery"},
		{webhook + "webhook: {secrets: late}}", "", inject, "", "lanes.a.webhook.secrets: does nothing without rotateEvery"},
		{webhook + "webhook: {secrets: late, oldSecret: 1s, rotateEvery: 1}}", "", inject, "", ""},
		{"{name: a, system: sep-2549, mode: poll, subscriptions: 1, sep2549: {cache: false, jitter: 0.2}}", "", inject, "",
			"lanes.a.sep2549.jitter: has no effect without a cache"},
		{"{name: a, system: sep-2549, mode: poll, subscriptions: 1, sep2549: {cache: false, staleOnError: true}}", "",
			inject, "", "lanes.a.sep2549.staleOnError: has no effect without a cache"},
		{lane, "", inject, "thresholds: ['*.lostSilent == 0']\ncases: [{name: one}]", "thresholds: are not judged if there are cases"},
		{lane, "", `upstream: {kind: feed, timeout: 1s, payload: {text: "{{.Probe}}"}}`, "", "upstream.timeout: has no effect with kind feed"},
		{lane, "url: 'http://127.0.0.1:1'", "upstream: {kind: replay, event: e, replay: {file: t, url: " +
			"'http://127.0.0.1:1'}}", "", "upstream.event: is not used"},
		{lane, "caFile: ca.pem", inject, "", "target.caFile: there is no https address"},
		{lane, "{url: 'https://127.0.0.1:1', caFile: ca.pem}", `upstream: {admin: 'http://127.0.0.1:1', payload: {text: "{{.Probe}}"}}`, "", ""},
		{lane, "embedded: {feedEvery: 1s}", inject, "", "target.embedded.feedEvery: there is no feed to poll"},
		{lane, "embedded: {lists: {page: 3}}", inject, "", "target.embedded.lists.page: there are no lists"},
		{lane, "embedded: {lists: {page: 3, entries: 9}}", inject, "", ""},
		{lane, "embedded: {transport: stdio, proxiesMayBuffer: true}", inject, "", "target.embedded.proxiesMayBuffer: has no effect"},
		{lane, "embedded: {transport: stdio, sseAnswers: true}", inject, "", "target.embedded.sseAnswers: has no effect"},
		// What the target would refuse when it is started.
		{lane, "embedded: {transport: stdio, sendBuffer: 4096}", inject, "", "target.embedded.sendBuffer: has no effect"},
		{lane, "embedded: {sendBuffer: 5}", inject, "", "target.embedded.sendBuffer: 5 is too small"},
		{lane, "embedded: {buffer: -5}", inject, "", "target.embedded.buffer: -5 is too small; give at least 0"},
		{lane, "embedded: {nextPoll: 1us}", inject, "", "target.embedded.nextPoll: 1µs is too short; give at least 1ms"},
		{lane, "embedded: {retries: -3}", inject, "", "target.embedded.retries: -3 is too small; give at least -1"},
		{lane, "embedded: {suspendAfter: -7}", inject, "", "target.embedded.suspendAfter: -7 is too small"},
		{lane, "embedded: {ttlDefault: 15s}", inject, "", "target.embedded.ttlDefault: 15s is below ttlMin, which is 5m0s"},
		{lane, "embedded: {ttlMin: 2h, ttlMax: 1h}", inject, "", "target.embedded.ttlMax: 1h0m0s is below ttlDefault, which is 2h0m0s"},
		// A target that somebody else started cannot be told how to behave.
		{lane, "{url: 'http://127.0.0.1:1', embedded: {heartbeat: 1s}}",
			`upstream: {admin: 'http://127.0.0.1:1', payload: {text: "{{.Probe}}"}}`, "",
			"target.embedded: belongs to the embedded target"},
		{lane, "{command: server, embedded: {faults: 'drop(every=3)'}}", inject, "", "target.embedded: belongs to the embedded target"},
	} {
		text := "name: idle\nlanes:\n  - " + c.lane + "\n" + c.upstream + "\n"
		if !strings.Contains(c.upstream, "replay") {
			text += "schedule: {rate: 10/s}\n"
		}
		if c.target != "" && !strings.HasPrefix(c.target, "{") {
			c.target = "{" + c.target + "}"
		}
		if c.target != "" {
			text += "target: " + c.target + "\n"
		}
		p, err := Parse("p.yaml", []byte(text+c.rest+"\n"), nil, systems.Table)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s\n%v", text, err)
		case c.want == "":
			again(t, p)
		case err == nil || !strings.Contains(err.Error(), c.want):
			t.Errorf("%s\n%v\nwant %s", text, err, c.want)
		}
	}
}

// TestAnotherTarget overrides the target of profiles that tune the embedded
// one, which is how they are tried on a server.
func TestAnotherTarget(t *testing.T) {
	for _, name := range builtinNames() {
		p := loaded(t, name)
		if len(p.Cases) > 0 || p.Upstream.Kind != "inject" {
			continue
		}
		p, err := Load(name, []string{"upstream.admin=http://127.0.0.1:9", "target.url=http://127.0.0.1:8/mcp"}, systems.Table)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !reflect.ValueOf(p.Target.Embedded).IsZero() || p.Target.URL != "http://127.0.0.1:8/mcp" {
			t.Errorf("%s: %+v", name, p.Target)
		}
		again(t, p)
	}
	for _, set := range [][]string{
		{"target.url=http://127.0.0.1:8/mcp", "target.embedded.heartbeat=1s"},
		{"target.embedded.heartbeat=1s", "target.url=http://127.0.0.1:8/mcp"}, // into the file's own group
		{"target.command=server", "target.embedded={heartbeat: 1s}"},
	} {
		if _, err := Load(
			"smoke",
			append(set, "upstream.admin=http://127.0.0.1:9"),
			systems.Table,
		); err == nil ||
			!strings.Contains(err.Error(), "target.embedded: belongs to the embedded target") {
			t.Errorf("%q: %v", set, err)
		}
	}
}

func TestUpstreamKind(t *testing.T) {
	for _, c := range []struct {
		name string
		set  []string
		want string
	}{
		{"smoke", nil, "inject"},
		{"tool", nil, "tool"},
		{"tool", []string{"upstream.kind=http"}, "http"},
		{"smoke", []string{"upstream={kind: slack}"}, "slack"},
	} {
		name, data, err := Read(c.name, nil)
		must(t, err)
		if got, _, err := UpstreamOf(name, data, c.set); err != nil || got != c.want {
			t.Errorf("%s %q: %q, %v", c.name, c.set, got, err)
		}
	}
	if _, _, err := Read("no-such-profile", nil); err == nil {
		t.Error("there is no such profile")
	}
}
