package mcpevents_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// scriptFile writes a script whose summary goes to a file beside it.
func scriptFile(t *testing.T, text string) (script, summary string) {
	t.Helper()
	dir := t.TempDir()
	script, summary = filepath.Join(dir, "script.js"), filepath.Join(dir, "summary.json")
	text = `import { Client, Upstream, WebhookSink, kept } from 'k6/x/mcpevents';
import exec from 'k6/execution';
import { sleep } from 'k6';
export function handleSummary(data) { return { [__ENV.SUMMARY]: JSON.stringify(data.metrics) }; }
const client = () => new Client(__ENV.TARGET, { token: 'k6' });
const upstream = (topic) => new Upstream({ event: 'chat.message', topic, admin: __ENV.ADMIN, data: { channel: topic, text: '{probe}' } });
const common = (topic, n) => ({ arguments: { channel: topic }, topic, subscriptions: n });
` + text
	must(t, os.WriteFile(script, []byte(text), 0o644))
	return script, summary
}

// summed reads the counts of a summary.
func summed(t *testing.T, file string) func(metric string) float64 {
	t.Helper()
	text := readFile(t, file)
	var metrics map[string]struct {
		Values map[string]float64 `json:"values"`
	}
	must(t, json.Unmarshal(text, &metrics))
	return func(metric string) float64 {
		name, value, found := strings.Cut(metric, "#")
		if !found {
			value = "count"
		}
		return metrics[name].Values[value]
	}
}

// What k6 counts is what the ledger counted, over many VUs and iterations that
// fire while others open and close.
func TestSummaryIsTheLedger(t *testing.T) {
	t.Parallel()
	url, admin := serve(t, "--faults", "drop(every=7, offset=3); duplicate(every=5); announce(every=11)")
	script, summary := scriptFile(t, `
export const options = {
	scenarios: {
		own: { executor: 'per-vu-iterations', vus: 4, iterations: 2, exec: 'own' },
		all: { executor: 'per-vu-iterations', vus: 1, iterations: 1, exec: 'all' },
	},
	thresholds: { mcp_events_lost: ['count==0'] },
};
const sink = new WebhookSink();
const ways = [
	(c, o) => c.stream('chat.message', o), (c, o) => c.poll('chat.message', Object.assign({ minInterval: 0 }, o)),
	(c, o) => c.subscribe('chat.message', Object.assign({ sink }, o)),
];
const tell = (name, sums) => console.log('SUMS ' + JSON.stringify(sums));
export async function own() {
	const topic = 'own-' + __VU, up = upstream(topic), subs = [];
	for (const way of ways) subs.push(await way(client(), common(topic, 5)));
	await up.fire({ count: 23, rate: 100 });
	for (const s of await Promise.all(subs.map((s) => s.close()))) tell('own', s);
}
export async function all() {
	const sub = await client().stream('chat.message', Object.assign(common('own-1', 3), { arguments: {}, settle: 0 }));
	await sub.received({ events: 5, timeout: '1s' });
	tell('all', await sub.close());
}`)
	code, out := k6(t, script, url, admin, "-e", "SUMMARY="+summary)
	if code != 99 {
		t.Fatalf("exit code %d, want 99\n%s", code, out)
	}
	ledger, lines := map[string]float64{}, 0
	for _, line := range strings.Split(out, "\n") {
		_, text, found := strings.Cut(line, "SUMS ")
		if !found {
			continue
		}
		text = text[:strings.LastIndex(text, "}")+1]
		var sums map[string]float64
		if err := json.Unmarshal([]byte(strings.ReplaceAll(text, `\"`, `"`)), &sums); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if sums["expected"] != sums["delivered"]+sums["lost"]+sums["lostAnnounced"]+sums["lostOrderUnknown"] {
			t.Errorf("does not balance: %s", text)
		}
		lines++
		for name, v := range sums {
			ledger[name] += v
		}
	}
	if lines != 25 {
		t.Fatalf("%d groups of subscriptions, want 25\n%s", lines, out)
	}
	got := summed(t, summary)
	for metric, figure := range map[string]string{
		"mcp_events_expected": "expected", "mcp_events_delivered": "delivered", "mcp_events_lost": "lost",
		"mcp_events_lost_announced": "lostAnnounced", "mcp_events_lost_order_unknown": "lostOrderUnknown",
		"mcp_event_duplicate_copies": "duplicates", "mcp_events_out_of_order": "outOfOrder",
		"mcp_events_unexpected": "unexpected", "mcp_refresh_requests": "refreshRequests", "mcp_refresh_bytes": "refreshBytes",
		"mcp_event_duplicates#passes": "duplicates", "mcp_open_subscriptions#value": "open",
	} {
		if got(metric) != ledger[figure] {
			t.Errorf("%s is %v, the ledger's %s %v", metric, got(metric), figure, ledger[figure])
		}
	}
	if got("mcp_event_duplicates#fails") != ledger["delivered"] || ledger["lost"] == 0 || ledger["duplicates"] == 0 ||
		ledger["lostAnnounced"]+ledger["lostOrderUnknown"] == 0 {
		t.Errorf("%v first copies, and %v", got("mcp_event_duplicates#fails"), ledger)
	}
}

// Subscriptions that are opened in setup() are heard in iterations and closed
// in teardown(), or, where that forgets them, at the end of the test.
func TestSetupAndTeardown(t *testing.T) {
	t.Parallel()
	url, admin := serve(t)
	for _, closing := range []string{"const sums = await kept('all').close(); if (sums.delivered !== 200) throw new " +
		"Error(JSON.stringify(sums));", ""} {
		script, summary := scriptFile(t, `
export const options = {
	scenarios: { fire: { executor: 'per-vu-iterations', vus: 2, iterations: 2 } },
	thresholds: { mcp_events_lost: ['count==0'], mcp_events_expected: ['count==200'] },
};
export async function setup() {
	await client().stream('chat.message', Object.assign(common('kept', 10), { keep: 'all' }));
	return { opened: kept('all').stats() };
}
export default async function (data) {
	if (data.opened.open !== 10) throw new Error(JSON.stringify(data));
	await upstream('kept').fire(5);
	await kept('all').received();
}
export async function teardown() { `+closing+` }`)
		code, out := k6(t, script, url, admin, "-e", "SUMMARY="+summary)
		got := summed(t, summary)
		if code != 0 || got("mcp_events_delivered") != 200 || got("mcp_open_subscriptions#value") != 0 {
			t.Errorf(
				"exit code %d, %v delivered, %v are open\n%s",
				code,
				got("mcp_events_delivered"),
				got("mcp_open_subscriptions#value"),
				out,
			)
		}
	}
}

// More topics than a process can tell apart fail the run, wherever the one too
// many is named; catching the error is no way out.
func TestTooManyTopics(t *testing.T) {
	t.Parallel()
	url, admin := serve(t)
	for name, c := range map[string]struct {
		body string
		code int
	}{
		"upstream": {"export default function () { try { upstream(`t-${__ITER}`); } catch (e) { console.log('CAUGHT'); } }", 108},
		"uncaught": {"export default function () { upstream(`t-${__ITER}`); }", 108},
		"stream": {"export default async function () { for (let i = 0; i < 1024; i++) upstream(`t-${i}`); await " +
			"client().stream('tick', { topic: 'more' }); }", 108},
		"setup": {"export function setup() { for (let i = 0; i < 1025; i++) upstream(`t-${i}`); } export default function () {}", 108},
		"init":  {"for (let i = 0; i < 1025; i++) upstream(`t-${i}`); export default function () {}", 107},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script, _ := scriptFile(
				t,
				"export const options = { scenarios: { s: { executor: 'per-vu-iterations', vus: 1, iterations: 3000 } } };\n"+c.body,
			)
			code, out := k6(t, script, url, admin, "-e", "SUMMARY="+filepath.Join(t.TempDir(), "summary"))
			if code != c.code || !strings.Contains(out, "a process has at most 1024 topics") || strings.Contains(out, "CAUGHT") {
				t.Errorf("exit code %d, want %d\n%.3000s", code, c.code, out)
			}
		})
	}
}

// k6's own options for connections hold for the extension's, and what it sends
// and receives is in the summary.
func TestOptionsOfK6(t *testing.T) {
	t.Parallel()
	url, admin := serve(t)
	_, port, err := net.SplitHostPort(strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/mcp"))
	must(t, err)
	for name, c := range map[string]struct{ options, host, refused string }{
		"hosts":          {"hosts: { 'mcp.example': '127.0.0.1' }", "mcp.example:" + port, ""},
		"hosts and port": {"hosts: { 'mcp.example:99': '127.0.0.1:" + port + "' }", "mcp.example:99", ""},
		"dns": {"hosts: { 'mcp.example': '127.0.0.1' }, dns: { ttl: '0', select: 'first', policy: 'onlyIPv4' }",
			"mcp.example:" + port, ""},
		"blacklistIPs":   {"blacklistIPs: ['127.0.0.0/8']", "127.0.0.1:" + port, "is in a blacklisted range"},
		"blockHostnames": {"blockHostnames: ['*.example']", "mcp.example:" + port, "is in a blocked pattern"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script, summary := scriptFile(t, "export const options = { "+c.options+` };
const up = upstream('own-`+name+`');
export default async function () {
	const client = new Client(__ENV.TARGET, { token: 'k6', headers: { Host: 'localhost' } });
	const sub = await client.stream('chat.message', common('own-`+name+`', 10));
	await up.fire(5);
	await sub.close();
}`)
			code, out := k6(t, script, "http://"+c.host+"/mcp", admin, "-e", "SUMMARY="+summary)
			got := summed(t, summary)
			if c.refused != "" {
				if !strings.Contains(out, c.refused) || got("mcp_time_to_ready") != 0 {
					t.Errorf("exit code %d\n%s", code, out)
				}
				return
			}
			if code != 0 || got("mcp_events_delivered") != 50 || got("data_received") < 50*100 || got("data_sent") < 10*100 ||
				got("mcp_open_subscriptions#max") != 10 {
				t.Errorf("exit code %d, %v delivered, %v bytes received, %v sent, at most %v open\n%s",
					code, got("mcp_events_delivered"), got("data_received"), got("data_sent"), got("mcp_open_subscriptions#max"), out)
			}
		})
	}
}

// However a test is broken off, what was measured counts, nothing stays open,
// and k6 ends as it does without us.
func TestTestIsBrokenOff(t *testing.T) {
	t.Parallel()
	url, admin := serve(t)
	for _, c := range []struct {
		name, options, then string
		code                int
		interrupt           bool
	}{
		{"abort", "executor: 'per-vu-iterations', vus: 1, iterations: 1", "exec.test.abort('enough')", 108, false},
		{"abort in a handler", "executor: 'per-vu-iterations', vus: 1, iterations: 1",
			"sub.on('event', () => exec.test.abort('enough')); await upstream(topic).fire(1); await sub.received({ " +
				"events: 1000 })", 108, false},
		{"cut off", "executor: 'constant-vus', vus: 1, duration: '1s', gracefulStop: '0s'", "await sub.received({ events: 1000 })", 0, false},
		{"asleep", "executor: 'constant-vus', vus: 1, duration: '1s', gracefulStop: '0s'", "sleep(1000)", 0, false},
		{"interrupted", "executor: 'per-vu-iterations', vus: 1, iterations: 1",
			"console.log('NOW'); await sub.received({ events: 1000 })", 105, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.interrupt && runtime.GOOS == "windows" {
				t.Skip("there is no interrupt to send")
			}
			script, summary := scriptFile(t, fmt.Sprintf(`
export const options = { scenarios: { s: { %s } } };
export default async function () {
	const topic = %q;
	const sub = await client().stream('chat.message', common(topic, 20));
	await upstream(topic).fire(5);
	await sub.received();
	%s;
}`, c.options, c.name, c.then))
			cmd := k6Command(t, script, url, admin, "-e", "SUMMARY="+summary)
			cmd.WaitDelay = time.Minute
			out := &watched{until: []byte("NOW"), then: func() {
				if c.interrupt {
					_ = cmd.Process.Signal(os.Interrupt)
				}
			}}
			cmd.Stdout, cmd.Stderr = out, out
			_ = cmd.Run() // the exit code is looked at
			if code := cmd.ProcessState.ExitCode(); code != c.code {
				t.Errorf("exit code %d, want %d\n%s", code, c.code, out.all.Bytes())
			}
			got := summed(t, summary)
			if d := got(
				"mcp_events_delivered",
			); d < 100 || got("mcp_events_expected") != d || got("mcp_events_lost") != 0 ||
				got("mcp_open_subscriptions#value") != 0 {
				t.Errorf(
					"%v delivered of %v, %v lost, %v open\n%s",
					d,
					got("mcp_events_expected"),
					got("mcp_events_lost"),
					got("mcp_open_subscriptions#value"),
					out.all.Bytes(),
				)
			}
		})
	}
}

// watched is output in which something is waited for.
type watched struct {
	all   bytes.Buffer
	until []byte
	then  func()
	seen  bool
}

func (w *watched) Write(b []byte) (int, error) {
	n, err := w.all.Write(b)
	if !w.seen && bytes.Contains(w.all.Bytes(), w.until) {
		w.seen = true
		w.then()
	}
	return n, err
}
