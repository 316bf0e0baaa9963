package mcpevents

import (
	"fmt"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/refserver"
)

const listening = `
	const client = new Client(TARGET, {token: 'k6'});
	const up = new Upstream({event: 'chat.message', topic, admin: ADMIN, data: {channel: topic, text: 'no {seq} {probe}'}});
	const sub = await client.%s('chat.message', {arguments: {channel: topic}, topic, settle: '300ms', %s});
	globalThis.heard = [];
	for (const name of ['event', 'gap', 'closed', 'error']) sub.on(name, (e) => heard.push([name, e]));
`

// Handlers get every copy, on the loop, and the event itself only if they want.
func TestHandlers(t *testing.T) {
	noLeaks(t)
	srv := serveHere(t, refserver.Options{}, "duplicate(every=3)")
	for n, c := range []struct{ method, options, message string }{
		{"stream", "streams: 2", "undefined"},
		{"stream", "streams: 2, payload: true", "params"},
		{"poll", "subscriptions: 2, minInterval: 0, payload: true", "data"},
		{"subscribe", "subscriptions: 2, payload: true", "data"},
	} {
		t.Run(c.method+c.message, func(t *testing.T) {
			root := New()
			s := newStage(t, root)
			s.must(fmt.Sprintf("const topic = 'handlers-%d';", n) + fmt.Sprintf(at(srv, listening), c.method, c.options) + `
				await up.fire(7); // the copy of the last but one is no longer waited for
				globalThis.sums = await sub.close();
			`)
			finished(t, root)
			s.over()
			s.agree()
			// Seven events and two copies, for each of two.
			for expression, want := range map[string]any{
				"heard.length": int64(18), "heard.every(([n]) => n === 'event')": true,
				"heard.filter(([, e]) => e.duplicate).length":          int64(4),
				"heard.filter(([, e]) => e.subscription === 1).length": int64(9),
				"heard.every(([, e]) => e.bytes > 0 && e.latency > 0)": true,
				"new Set(heard.map(([, e]) => e.seq)).size":            int64(7),
				"Object.keys(heard[0][1]).slice(0, 5).join()":          "subscription,seq,latency,duplicate,bytes",
				"sums.unhandled":  int64(0),
				"sums.duplicates": int64(4),
				fmt.Sprintf("heard.every(([, e]) => '%s' === 'undefined' ? e.message === undefined : "+
					"JSON.stringify(JSON.parse(e.message).%[1]s).includes('no ' + e.seq))", c.message): true,
			} {
				if got := s.value(expression); got != want {
					t.Errorf("%s is %v (%T), want %v", expression, got, got, want)
				}
			}
		})
	}
}

// What is announced, goes wrong and ends is told.
func TestTroubleIsTold(t *testing.T) {
	noLeaks(t)
	srv := serveHere(t, refserver.Options{Tokens: []string{"k6", "other"}}, "announce(every=3)")
	root := New()
	s := newStage(t, root)
	must(t, s.VU.Runtime().Set("disturb", func() error { return srv.Disturb("chat.message", "a cable is loose") }))
	must(t, s.VU.Runtime().Set("revoke", func() { srv.Revoke("k6") }))
	s.must("const topic = 'trouble';" + fmt.Sprintf(at(srv, listening), "stream", "streams: 1") + `
		await up.fire(4);
		await sub.received({timeout: '300ms'});
		disturb();
		await new Promise((done) => sub.on('error', done));
		revoke();
		await new Promise((done) => sub.on('closed', done));
		globalThis.open = sub.stats().open;
		globalThis.sums = await sub.close();
	`)
	finished(t, root)
	s.over()
	s.agree()
	got := fmt.Sprint(s.value("heard.filter(([n]) => n !== 'event').map(([n, e]) => n + ' ' + e.subscription)"))
	if !strings.HasPrefix(got, "[gap 0 error 0") || !strings.Contains(got, "closed 0") {
		t.Error(got)
	}
	if s.value("sums.lostAnnounced") != int64(1) || s.value("open") != int64(0) {
		t.Errorf("%v announced, %v open", s.value("sums.lostAnnounced"), s.value("open"))
	}
	if failed, _ := s.sum("mcp_subscriptions_failed"); failed != 1 {
		t.Errorf("%v failed", failed)
	}
	if got := s.value("heard.some(([n, e]) => n === 'error' && e.message.includes('cable'))"); got != true {
		t.Errorf("the error's text did not come: %v", s.value("JSON.stringify(heard)"))
	}
}

// A handler that throws fails the iteration, and what was measured counts.
func TestHandlerThrows(t *testing.T) {
	noLeaks(t)
	srv := serveHere(t, refserver.Options{}, "")
	root := New()
	s := newStage(t, root)
	err := s.run("const topic = 'throws';" + fmt.Sprintf(at(srv, listening), "stream", "streams: 2") + `
		sub.on('event', (e) => { throw new Error('not ' + e.seq) });
		await up.fire(3);
		await sub.received();
		await new Promise(() => 0);
	`)
	if err == nil || !strings.Contains(err.Error(), "not 1") {
		t.Errorf("%v", err)
	}
	finished(t, root)
	s.over()
	delivered, _ := s.sum("mcp_events_delivered")
	expected, n := s.sum("mcp_events_expected")
	if delivered == 0 || delivered > expected || n != 1 {
		t.Errorf("%v delivered, %v expected, counted %d times", delivered, expected, n)
	}
}
