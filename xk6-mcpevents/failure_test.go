package mcpevents

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/refserver"
)

// The errors of asynchronous calls come by their promise, those of others are thrown,
// and all have a code.
func TestFailures(t *testing.T) {
	noLeaks(t)
	srv := serveHere(t, refserver.Options{Tokens: []string{"k6"}}, "")
	// It takes connections, and never answers.
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer silent.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	gone.Close()
	root := New()
	s := newStage(t, root)
	for _, c := range []struct{ call, code, says string }{
		{"client.stream('e', {stream: 1})", "option", "unknown field"},
		{"client.poll('e', {streams: 1})", "option", "belongs to"},
		{"client.subscribe('e', {sink: {}})", "option", "WebhookSink"},
		{"client.watchLists('cats')", "option", "cats"},
		{"client.resumable('work', {steps: 0})", "option", "1 to 100000"},
		{"client.list('tools', {time: 1})", "option", "unknown field"},
		{"client.list('cats')", "option", "cats"},
		{"up.fire(0)", "option", "count"},
		{"up.fire('5')", "option", "give an object"},
		{"sub.received({event: 1})", "option", `did you mean "events"?`},
		{"client.stream('no.such.event')", "notOffered", "stream no.such.event at SERVER"},
		{"new Client(TARGET, {token: 'wrong'}).stream('tick')", "auth", "stream tick at SERVER"},
		{"new Client(TARGET, {token: 'wrong'}).list('tools')", "auth", "list tools at SERVER"},
		{"new Client('http://GONE/mcp').stream('tick')", "unreachable", "stream tick at http://GONE/mcp: "},
		{"new Client('http://user:pass@SILENT/mcp?key=secret').stream('tick', {streams: 3, readyTimeout: '150ms'})",
			"timeout", "stream tick at http://SILENT/mcp?key=…: not done within readyTimeout (150ms), 0 of 3 are active: "},
		{"new Client('http://SILENT/mcp').list('tools', {timeout: 150})", "timeout",
			"list tools at http://SILENT/mcp: not done within timeout (150ms): "},
	} {
		fill := strings.NewReplacer("SILENT", silent.Addr().String(), "GONE", gone.Addr().String(), "SERVER", srv.URL())
		s.must(at(srv, `
			const client = new Client(TARGET, {token: 'k6'});
			const up = new Upstream({event: 'tick', admin: ADMIN});
			const sub = await client.stream('tick');
			globalThis.thrown = true;
			const promise = `) + fill.Replace(at(srv, c.call)) + `;
			thrown = false;
			globalThis.failure = await promise.then(() => null, (e) => e);
			await sub.close();
		`)
		if got := s.value("failure && failure.code"); got != c.code {
			t.Errorf("%s: code %v, want %s: %v", c.call, got, c.code, s.value("String(failure)"))
		}
		if got := fmt.Sprint(
			s.value("failure.message"),
		); !strings.Contains(got, fill.Replace(c.says)) || strings.Contains(got, "secret") ||
			strings.Contains(got, "pass@") {
			t.Errorf("%s: %s\nwant %s", c.call, got, fill.Replace(c.says))
		}
		if s.value("failure instanceof Error") != true {
			t.Errorf("%s: not an Error", c.call)
		}
	}
	for _, call := range []string{"new Client('nowhere')", "new Upstream({})", "new WebhookSink({port: 1})",
		"new WebhookSink({callback: 'http://x'}).url()", "kept('none')"} {
		s.must("try { " + call + "; globalThis.failure = null } catch (e) { globalThis.failure = e }")
		if got := s.value("failure && failure.code"); got != "option" {
			t.Errorf("%s: code %v: %v", call, got, s.value("String(failure)"))
		}
	}
	finished(t, root)
}

// A subscription that the script leaves open does not hold the iteration, and is
// warned of when the iteration ends. One that was interrupted is not.
func TestLeftOpen(t *testing.T) {
	noLeaks(t)
	srv := serveHere(t, refserver.Options{}, "")
	const warning = "subscriptions to tick (3) were still open"
	for name, c := range map[string]struct {
		rest  string
		warns int
	}{
		"left":        {"", 1},
		"idle":        {"await new Promise(() => 0)", 1}, // nothing will settle it
		"closed":      {"await sub.close()", 0},
		"closing":     {"sub.close()", 0},
		"interrupted": {"const p = sub.received({events: 5}); stop(); await p", 0},
		"kept":        {"await client.stream('tick', {keep: 'k', lane: 'kept'}); await sub.close()", 0},
		"unheard":     {"const f = () => 0; sub.on('event', f); sub.off('event', f)", 1},
		"all off":     {"sub.on('event', () => 0); sub.once('event', () => 0); sub.off('event')", 1},
	} {
		t.Run(name, func(t *testing.T) {
			root := New()
			s := newStage(t, root)
			must(t, s.VU.Runtime().Set("stop", func() { s.stop() }))
			for range 2 {
				_ = s.run(
					at(
						srv,
						"const client = new Client(TARGET, {token: 'k6'}); const sub = await client.stream('tick', {streams: 3, settle: '1m'});",
					) + c.rest,
				)
				if name == "kept" {
					s.must("await kept('k').close()")
				}
			}
			finished(t, root)
			if n := strings.Count(s.log.String(), warning); n != c.warns {
				t.Errorf("%d warnings, want %d: %s", n, c.warns, s.log.String())
			}
		})
	}
}

// once() handles one item, off() takes a handler away, and the others go on.
func TestOnceAndOff(t *testing.T) {
	noLeaks(t)
	srv := serveHere(t, refserver.Options{}, "")
	root := New()
	s := newStage(t, root)
	s.must(at(srv, `
		const up = new Upstream({event: 'tick', admin: ADMIN});
		const sub = await new Client(TARGET, {token: 'k6'}).stream('tick');
		globalThis.seen = {on: 0, once: 0, off: 0, again: 0};
		const counts = (name) => () => { seen[name]++ };
		const off = counts('off');
		sub.on('event', counts('on'));
		sub.once('event', counts('once'));
		sub.on('event', off);
		const two = new Promise((done) => sub.on('event', () => { if (seen.on === 2) done() }));
		await up.fire(2);
		await two;
		sub.off('event', off);
		sub.off('gap');
		sub.once('event', counts('again')); // the next
		await up.fire(3);
		await sub.close();
	`))
	finished(t, root)
	for name, want := range map[string]int64{"on": 5, "once": 1, "off": 2, "again": 1} {
		if got := s.value("seen." + name); got != want {
			t.Errorf("%s: %v calls, want %d", name, got, want)
		}
	}
}

// A promise that the last handler settles lets the iteration go on, although nothing
// else holds it.
func TestOnceHolds(t *testing.T) {
	noLeaks(t)
	srv := serveHere(t, refserver.Options{}, "")
	root := New()
	fires, hears := newStage(t, root), newStage(t, root)
	listening, fired := make(chan struct{}), make(chan error, 1)
	must(t, hears.VU.Runtime().Set("listening", func() { close(listening) }))
	go func() {
		<-listening
		fired <- fires.run(at(srv, "await new Upstream({event: 'tick', admin: ADMIN}).fire(1)"))
	}()
	hears.must(at(srv, `
		const sub = await new Client(TARGET, {token: 'k6'}).stream('tick');
		const heard = new Promise((done) => sub.once('event', done));
		listening();
		globalThis.heard = await heard;
		globalThis.sums = await sub.close();
	`))
	if err := <-fired; err != nil {
		t.Error(err)
	}
	finished(t, root)
	if hears.value("heard.seq") != int64(1) || hears.value("sums.delivered") != int64(1) {
		t.Errorf("%v, %v", hears.value("JSON.stringify(heard)"), hears.value("JSON.stringify(sums)"))
	}
	if strings.Contains(hears.log.String(), "still open") {
		t.Error(hears.log.String())
	}
}

// Tags of a call are on all of its samples, and on no others.
func TestTags(t *testing.T) {
	noLeaks(t)
	srv := serveHere(t, refserver.Options{}, "")
	root := New()
	s := newStage(t, root)
	s.must(at(srv, `
		const client = new Client(TARGET, {token: 'k6'});
		const up = new Upstream({event: 'tick', admin: ADMIN});
		const red = await client.stream('tick', {streams: 2, tags: {colour: 'red', shape: 'round'}});
		const blue = await client.stream('tick', {streams: 3, tags: {colour: 'blue'}});
		const none = await client.stream('tick');
		await up.fire(4);
		for (const sub of [red, blue, none]) await sub.close();
		await client.list('tools', {tags: {colour: 'green'}});
	`))
	finished(t, root)
	s.over()
	for _, c := range []struct {
		metric, colour string
		want           float64
	}{
		{"mcp_events_delivered", "red", 8}, {"mcp_events_delivered", "blue", 12}, {"mcp_events_expected", "", 4},
		{"mcp_events_expected", "red", 8},
	} {
		if got, _ := s.sum(c.metric, "colour", c.colour, "event", "tick", "mode", "push"); got != c.want {
			t.Errorf("%s of %q: %v, want %v", c.metric, c.colour, got, c.want)
		}
	}
	if _, n := s.sum("mcp_list_duration", "colour", "green"); n != 1 {
		t.Errorf("%d durations of lists", n)
	}
	if got, _ := s.sum("mcp_events_delivered", "shape", "round"); got != 8 {
		t.Errorf("two tags: %v", got)
	}
}

// must ends the test if a step of it has failed.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
