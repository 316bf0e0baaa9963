package mcpevents

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/refserver"
)

// counters are the metrics that have a figure of the same meaning in stats().
var counters = map[string]string{
	"mcp_events_expected":           "expected",
	"mcp_events_delivered":          "delivered",
	"mcp_events_lost":               "lost",
	"mcp_events_lost_announced":     "lostAnnounced",
	"mcp_event_duplicate_copies":    "duplicates",
	"mcp_events_out_of_order":       "outOfOrder",
	"mcp_events_lost_order_unknown": "lostOrderUnknown",
	"mcp_events_lost_undeliverable": "lostUndeliverable",
	"mcp_events_lost_refused":       "lostRefused",
	"mcp_events_lost_suspended":     "lostSuspended",
	"mcp_events_unexpected":         "unexpected",
	"mcp_refresh_requests":          "refreshRequests",
	"mcp_refresh_bytes":             "refreshBytes",
}

// agree holds what was sent to k6 to the figures that close() gave.
func (s *stage) agree(tags ...string) {
	s.t.Helper()
	for metric, figure := range counters {
		want := number(s.value("sums." + figure))
		if got, _ := s.sum(metric, tags...); got != want {
			s.t.Errorf("%s: %v were sent, %s is %v", metric, got, figure, want)
		}
	}
	delivered, copies := number(s.value("sums.delivered")), number(s.value("sums.duplicates"))
	if sum, n := s.sum("mcp_event_duplicates", tags...); sum != copies || float64(n) != delivered+copies {
		s.t.Errorf("mcp_event_duplicates: %v of %d, want %v of %v", sum, n, copies, delivered+copies)
	}
	lost := 0.0
	for _, figure := range []string{"lost", "lostAnnounced", "lostOrderUnknown", "lostUndeliverable", "lostRefused", "lostSuspended"} {
		lost += number(s.value("sums." + figure))
	}
	if e := number(s.value("sums.expected")); e != delivered+lost {
		s.t.Errorf("%v expected, %v delivered, %v lost", e, delivered, lost)
	}
}

func number(v any) float64 {
	switch v := v.(type) {
	case int64:
		return float64(v)
	case float64:
		return v
	}
	panic(fmt.Sprintf("%T is not a number", v))
}

// Every way to subscribe, in every system that has it, counts to the last event.
func TestWays(t *testing.T) {
	noLeaks(t)
	srv := serveHere(t, refserver.Options{}, "")
	for n, c := range []struct {
		open, figure string // and one of its system's own, with its value
		subs         int
		mode         string
		system       string
	}{
		{"stream('chat.message', {arguments: {channel: topic}, topic, streams: 3})", "", 3, "push", "events"},
		{"stream('chat.message', {arguments: {channel: topic}, topic, subscriptions: 2, http: 'h2c'})", "", 2, "push", "events"},
		{"poll('chat.message', {arguments: {channel: topic}, topic, subscriptions: 3, minInterval: 0})", "", 3, "poll", "events"},
		{"poll('chat.message', {arguments: {channel: topic}, topic, subscriptions: 2, longPoll: '300ms', maxEvents: 3})", "",
			2, "poll", "events"},
		{"subscribe('chat.message', {arguments: {channel: topic}, topic, subscriptions: 3})", "", 3, "webhook", "events"},
		{"subscribe('chat.message', {arguments: {channel: topic}, topic, subscriptions: 3, sink: new WebhookSink()})", "", 3,
			"webhook", "events"},
		{"subscribe('chat.message', {arguments: {channel: topic}, topic, system: 'smithery', subscriptions: 2})", "", 2, "webhook", "smithery"},
		{"subscribe('chat.message', {arguments: {channel: topic}, topic, system: 'sep-1803', subscriptions: 2, sink: new " +
			"WebhookSink()})", "", 2, "webhook", "sep-1803"},
		{"stream('chat.message', {arguments: {channel: topic}, topic, system: 'sep-1803', subscriptions: 2})", "", 2, "push", "sep-1803"},
		{"stream('chat.message', {arguments: {channel: topic}, topic, system: 'sep-1803', subscriptions: 6, perSession: 3, " +
			"redelivery: false})", "sessions 2", 6, "push", "sep-1803"},
		{"subscribe('chat.message', {arguments: {channel: topic}, topic, system: 'sep-1803', subscriptions: 2, secret: " +
			"'standard', early: 'refuse'})", "secretsStandard 2", 2, "webhook", "sep-1803"},
		{"subscribe('chat.message', {arguments: {channel: topic}, topic, system: 'smithery', subscriptions: 2, argumentsKey: " +
			"'arguments', clientID: true})", "", 2, "webhook", "smithery"},
	} {
		t.Run(fmt.Sprintf("%s/%s/%d", c.system, c.mode, n), func(t *testing.T) {
			root := New()
			s := newStage(t, root)
			revision := "sep-3415"
			if strings.Contains(c.open, "longPoll") {
				revision = "longpoll"
			}
			s.must(fmt.Sprintf(at(srv, `
				const topic = 'ways-%d';
				const client = new Client(TARGET, {token: 'k6', revision: '%s'});
				const up = new Upstream({event: 'chat.message', topic, admin: ADMIN, data: {channel: topic, text: '{seq} {probe}'}});
				const sub = await client.%s;
				globalThis.fired = await up.fire({count: 7, rate: 200});
				globalThis.more = await up.fire(3);
				globalThis.received = await sub.received();
				globalThis.open = sub.stats().open;
				globalThis.sums = await sub.close();
				globalThis.again = await sub.close();
				globalThis.own = Object.entries(sub.figures().values).map((v) => v.join(' '));
				globalThis.pem = sub.certPEM();
			`), n, revision, c.open))
			finished(t, root)
			s.over()
			s.agree("system", c.system, "mode", c.mode, "event", "chat.message", "lane", c.mode, "scenario", "s")
			fired := number(s.value("fired.accepted + more.accepted"))
			if want := fired * float64(c.subs); number(s.value("sums.delivered")) != want || fired < 3 {
				t.Errorf("%v fired, %v delivered, %d subscriptions", fired, s.value("sums.delivered"), c.subs)
			}
			if s.value("received.complete") != true || s.value("JSON.stringify(sums) === JSON.stringify(again)") != true {
				t.Errorf(
					"received %v, then %v, and again %v",
					s.value("JSON.stringify(received)"),
					s.value("JSON.stringify(sums)"),
					s.value("JSON.stringify(again)"),
				)
			}
			if number(s.value("open")) != float64(c.subs) || number(s.value("sums.open")) != 0 {
				t.Errorf("%v were open, and %v afterwards", s.value("open"), s.value("sums.open"))
			}
			if _, n := s.sum("mcp_time_to_ready"); n != c.subs {
				t.Errorf("%d times to ready, want %d", n, c.subs)
			}
			if _, n := s.sum("mcp_event_latency"); float64(n) != number(s.value("sums.delivered")) {
				t.Errorf("%d latencies of %v deliveries", n, s.value("sums.delivered"))
			}
			if c.figure != "" && s.value(fmt.Sprintf("own.includes('%s')", c.figure)) != true {
				t.Errorf("want %s, have %v", c.figure, s.value("own.join()"))
			}
			if has := s.value("pem") != ""; has != (c.mode == "webhook") {
				t.Errorf("certificate: %v", has)
			}
		})
	}
}

// The gauge shows the most that were open at once, also when that was shorter
// than the time between two flushes, and ends at 0.
func TestOpenSubscriptions(t *testing.T) {
	noLeaks(t)
	srv := serveHere(t, refserver.Options{}, "")
	for _, c := range []struct{ groups, each int }{{2, 1}, {2, 50}, {10, 50}} {
		t.Run(fmt.Sprint(c.groups*c.each), func(t *testing.T) {
			root := New()
			s := newStage(t, root)
			s.must(fmt.Sprintf(at(srv, `
				const client = new Client(TARGET, {token: 'k6'});
				const open = () => client.stream('tick', {streams: %d, settle: 0});
				const subs = await Promise.all(Array.from({length: %d}, open));
				await Promise.all(subs.map((sub) => sub.close()));
			`), c.each, c.groups))
			finished(t, root)
			s.over()
			most, last := 0.0, -1.0
			for _, v := range s.got {
				if v.Metric.Name == "mcp_open_subscriptions" {
					most, last = max(most, v.Value), v.Value
				}
			}
			if most != float64(c.groups*c.each) || last != 0 {
				t.Errorf("%d were open, the gauge's most is %v and its last value %v", c.groups*c.each, most, last)
			}
		})
	}
}

// Lists and requests have figures of their own.
func TestListsAndRequests(t *testing.T) {
	srv, root, s := here(t, refserver.Options{Lists: refserver.ListOptions{Entries: 12, Page: 5, TTL: 100 * time.Millisecond}})
	s.must(at(srv, `
		const client = new Client(TARGET, {token: 'k6'});
		const up = new Upstream({event: 'list.changed', admin: ADMIN, data: {list: 'prompts', probe: '{probe}'}});
		globalThis.list = await client.list('prompts');
		globalThis.events = await client.list('events', {timeout: '20s'});
		const sub = await client.watchLists('prompts', {clients: 3, use: 50});
		await up.fire(4);
		globalThis.sums = await sub.close();
		globalThis.figures = sub.figures();
		const requests = await client.resumable('work', {requests: 2, steps: 4, step: '20ms', at: '40ms', away: '20ms', lane: 'long'});
		await requests.close();
		globalThis.own = requests.figures();
	`))
	finished(t, root)
	s.over()
	s.agree("system", "sep-2549", "mode", "poll", "event", "list.changed", "lane", "poll")
	for expression, want := range map[string]any{
		"list.method": "prompts/list", "list.entries.length >= 12": true, "list.pages >= 3": true, "list.ttl": int64(100),
		"list.cacheScope":                     "public",
		"list.duration > 0 && list.bytes > 0": true, "events.method": "events/list",
		"events.entries.some((e) => e.name === 'chat.message')": true,
		"events.ttl": nil, "sums.delivered": int64(12), "sums.lost": int64(0), "figures.values.unbalanced": int64(0),
		"figures.values.usesFailed": int64(0),
		"figures.timings.staleness.count > 0 && figures.timings.staleness.max >= figures.timings.staleness.p50": true,
		"own.values.messagesLost": int64(0), "own.values.requestsBegun === own.values.requestsCompleted": true, "own.values.cuts >= 2": true,
		"own.timings.request.min > 0": true,
	} {
		if got := s.value(expression); got != want {
			t.Errorf("%s is %v (%T), want %v", expression, got, got, want)
		}
	}
	if _, n := s.sum("mcp_list_duration", "system", "mcp", "event", "prompts/list", "mode", "list"); n != 1 {
		t.Errorf("%d times of a list", n)
	}
	expected, _ := s.sum("mcp_messages_expected", "system", "sep-975", "lane", "long")
	delivered, _ := s.sum("mcp_messages_delivered")
	if lost, n := s.sum("mcp_messages_lost"); expected == 0 || expected != delivered || lost != 0 || n != 1 {
		t.Errorf("%v messages expected, %v delivered, %v lost", expected, delivered, lost)
	}
}

// What makes events happen: a tool of the target, any request, a change feed.
func TestUpstreams(t *testing.T) {
	noLeaks(t)
	const feed = "127.0.0.1:0"
	root := New()
	s := newStage(t, root)
	if _, err := s.VU.Runtime().
		RunString(`const f = new Upstream({event: 'chat.message', topic: 'feed', feed: '` + feed +
			`', data: {channel: 'feed', text: '{probe}'}})`); err != nil {
		t.Fatal(err)
	}
	url := ""
	for _, v := range root.hub.life.shared {
		url = v.(interface{ URL() string }).URL()
	}
	srv := serveHere(t, refserver.Options{Feed: url, FeedEvery: 10 * time.Millisecond}, "")
	s.must(at(srv, `
		const client = new Client(TARGET, {token: 'k6'});
		const inject = ADMIN + '/inject';
		globalThis.all = [];
		for (const [topic, up] of [
			['feed', new Upstream({event: 'chat.message', topic: 'feed', feed: '127.0.0.1:0', data: {channel: 'feed', text: '{probe}'}})],
			['tool', new Upstream({event: 'chat.message', topic: 'tool', client, tool: 'post_message', data: {channel: 'tool', text: '{probe}'}})],
			['http', new Upstream({event: 'chat.message', topic: 'http', url: inject, headers: {'x-a': 'b'}, timeout: '5s', workers: 2,
				data: {name: 'chat.message', data: {channel: 'http', text: '{probe}'}}})],
		]) {
			const sub = await client.stream('chat.message', {arguments: {channel: topic}, topic, streams: 2, settle: '20s'});
			const fired = await up.fire(5);
			all.push([topic, fired.accepted, (await sub.close()).delivered].join(' '));
		}
		try {
    const up = new Upstream({event: 'chat.message', client, tool: 'no_such_tool'});
    await up.fire().then((f) => all.push('refused ' + f.refused));
  } catch (e) { all.push(e.message); }
	`))
	finished(t, root)
	if got := fmt.Sprint(s.value("all")); got != "[feed 5 10 tool 5 10 http 5 10 refused 1]" {
		t.Error(got)
	}
}

// That nobody takes what is fired is said, once.
func TestNobodyTakesEvents(t *testing.T) {
	noLeaks(t)
	root := New()
	s := newStage(t, root)
	s.must(`
		globalThis.all = [];
		for (let i = 0; i < 2; i++) all.push(await new Upstream({event: 'tick', admin: 'http://127.0.0.1:1'}).fire(3));
	`)
	finished(t, root)
	if s.value("all.every((f) => f.fired === 3 && f.refused === 3)") != true {
		t.Error(s.value("JSON.stringify(all)"))
	}
	log := s.log.String()
	if strings.Count(log, "\n") != 1 ||
		!strings.Contains(
			log,
			"Upstream http://127.0.0.1:1: of 3 events 3 were refused, and for 0 there was no answer: is it there, and does it "+
				"know tick? The last failure: POST http://127.0.0.1:1/inject: dial tcp 127.0.0.1:1: connect: connection "+
				"refused. (said once",
		) {
		t.Errorf("%q", log)
	}
}

// close() waits until every poller has polled once more, however short its
// settle time is.
func TestCloseWaitsForTheNextPoll(t *testing.T) {
	srv, root, s := here(t, refserver.Options{NextPoll: 1500 * time.Millisecond})
	s.must(at(srv, `
		const sub = await new Client(TARGET, {token: 'k6'}).poll('tick', {subscriptions: 3, settle: '100ms'});
		await new Upstream({event: 'tick', admin: ADMIN}).fire(5);
		globalThis.sums = await sub.close();
		globalThis.own = sub.figures();
	`))
	finished(t, root)
	s.over()
	s.agree()
	if s.value("sums.delivered") != int64(15) || s.value("sums.lost + sums.excused") != int64(0) {
		t.Error(s.value("JSON.stringify(sums)"))
	}
	if n := number(s.value("own.timings.pollInterval.count")); n < 3 || n != number(s.value("own.values.pollsPacedByServer")) {
		t.Error(s.value("JSON.stringify(own)"))
	}
}

// Only latencies are sampled, never counts.
func TestSampleEvery(t *testing.T) {
	srv, root, s := here(t, refserver.Options{})
	s.must(at(srv, `
		const sub = await new Client(TARGET, {token: 'k6'}).stream('tick', {streams: 4, sampleEvery: 5});
		await new Upstream({event: 'tick', admin: ADMIN}).fire(10);
		globalThis.sums = await sub.close();
	`))
	finished(t, root)
	s.over()
	s.agree()
	if _, n := s.sum("mcp_event_latency"); n != 8 || s.value("sums.delivered") != int64(40) {
		t.Errorf("%d latencies of %v deliveries", n, s.value("sums.delivered"))
	}
}

// A client hears of changes of the event types, once.
func TestListening(t *testing.T) {
	srv, root, s := here(t, refserver.Options{})
	must(t, s.VU.Runtime().Set("offer", func(offered bool) error { return srv.Offer("tick", offered) }))
	s.must(at(srv, `
		const client = new Client(TARGET, {token: 'k6'});
		const begin = () => client.stream('chat.message', {listen: true});
		let sub = await begin();
		try { await begin(); globalThis.refused = ''; } catch (e) { globalThis.refused = e.message; }
		// The first list may come after any number of changes.
		const seen = () => {
    const v = sub.figures().values;
    return v.listChanged > 0 && v.relists > 0 && v.typesVanished > 0 && v.typesAppeared > 0;
  };
		for (let on = false; !seen(); on = !on) {
			offer(on);
			await sub.received({events: 1e6, timeout: 10});
		}
		await sub.close();
		globalThis.own = sub.figures();
		sub = await begin();
		await sub.close();
	`))
	finished(t, root)
	if got := fmt.Sprint(s.value("refused")); !strings.Contains(got, "listen already") {
		t.Errorf("%q", got)
	}
	if s.value("own.values.listens") != int64(1) || number(s.value("own.timings.relist.count")) != number(s.value("own.values.relists")) {
		t.Error(s.value("JSON.stringify(own)"))
	}
}

// Over TLS a client trusts the certificates that it is given.
func TestTLS(t *testing.T) {
	srv, root, s := here(t, refserver.Options{TLS: true})
	for name, v := range map[string]string{"secure": srv.TLSURL(), "ca": string(srv.CertPEM())} {
		must(t, s.VU.Runtime().Set(name, v))
	}
	s.must(at(srv, `
		const up = new Upstream({event: 'tick', admin: ADMIN});
		const one = await new Client(secure, {token: 'k6', ca}).stream('tick', {settle: '10s'});
		const two = await new Client(secure, {token: 'k6', ca}).stream('tick', {settle: '10s', http: '2'});
		await up.fire(3);
		globalThis.sums = [await one.close(), await two.close()];
		globalThis.refused = 'nothing';
		try { await new Client(secure, {token: 'k6'}).stream('tick'); } catch (e) { globalThis.refused = e.message; }
	`))
	finished(t, root)
	if s.value("sums[0].delivered + sums[1].delivered") != int64(6) || !strings.Contains(fmt.Sprint(s.value("refused")), "certificate") {
		t.Error(s.value("JSON.stringify([sums, refused])"))
	}
}

// VUs with topics of their own hear nothing of each other's, however many there
// are, and what is heard of another's is unexpected.
func TestManyTopics(t *testing.T) {
	srv, root, s := here(t, refserver.Options{})
	s.must(at(srv, `
		const client = new Client(TARGET, {token: 'k6'});
		const all = await client.stream('chat.message', {topic: 'topic-0', settle: 0});
		const subs = [], sums = [];
		for (let i = 0; i < 100; i++) {
			const topic = 'topic-' + i;
			await new Upstream({event: 'chat.message', topic, admin: ADMIN, data: {channel: topic, text: '{probe}'}}).fire();
			subs.push(await client.stream('chat.message', {arguments: {channel: topic}, topic, settle: '10s'}));
			await new Upstream({event: 'chat.message', topic, admin: ADMIN, data: {channel: topic, text: '{probe}'}}).fire(2);
		}
		for (const sub of subs) sums.push(await sub.close());
		globalThis.own = sums.filter((s) => s.expected === 2 && s.delivered === 2 && s.unexpected === 0).length;
		while (all.stats().delivered < 3 || all.stats().unexpected < 297) await all.received({events: 1e6, timeout: 10});
		globalThis.others = await all.close();
	`))
	finished(t, root)
	if s.value("own") != int64(100) || s.value("others.expected") != int64(3) || s.value("others.delivered") != int64(3) {
		t.Error(s.value("JSON.stringify([own, others])"))
	}
	if s.value("others.unexpected") != int64(297) {
		t.Errorf("%v of the 297 events of others", s.value("others.unexpected"))
	}
}
