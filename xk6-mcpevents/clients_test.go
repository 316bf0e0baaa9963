package mcpevents

import (
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/refserver"
)

// A script imitates the client that it names: an unsubscribe with a mode, silent ends,
// and what is assumed is logged once.
func TestImitatedClient(t *testing.T) {
	noLeaks(t)
	srv := serveHere(t, refserver.Options{}, "")
	root := New()
	s := newStage(t, root)
	s.must(at(srv, `
		const client = new Client(TARGET, {token: 'k6', revision: 'sketch'});
		const up = new Upstream({event: 'chat.message', admin: ADMIN, data: {channel: 'c', text: '{probe}'}});
		const open = (more) => client.subscribe('chat.message',
    Object.assign({arguments: {channel: 'c'}, subscriptions: 4, client: 'chatgpt'}, more));
		const one = await open({silent: 1}), two = await open({lane: 'two', silent: 0, answer: [{status: 204}]});
		await up.fire(3);
		await two.received();
		globalThis.sums = await one.close();
		globalThis.other = await two.close();
		globalThis.left = one.figures().values.leftSilently;
		globalThis.unfit = two.figures().values.refusedUnfit;
	`))
	finished(t, root)
	s.over()
	for _, sums := range []string{"sums", "other"} {
		if got := s.value(sums + ".delivered"); got != int64(12) {
			t.Errorf("%s: %v delivered, want 12", sums, got)
		}
	}
	if left, unfit := number(s.value("left")), number(s.value("unfit")); left != 4 || unfit != 0 {
		t.Errorf("%v left silently, want 4; %v refused, want 0", left, unfit)
	}
	if text := "it is not known when ChatGPT refreshes"; strings.Count(s.log.String(), text) != 1 {
		t.Errorf("the log does not say once %q:\n%s", text, s.log.String())
	}
}

// Subscriptions with one callback are told apart, on a listener of their own and on
// one that is shared.
func TestSharedCallback(t *testing.T) {
	noLeaks(t)
	srv := serveHere(t, refserver.Options{}, "")
	for _, sink := range []string{"", "sink: new WebhookSink(),"} {
		root := New()
		s := newStage(t, root)
		s.must(at(srv, `
			const client = new Client(TARGET, {tokens: ['a', 'b', 'c']});
			const up = new Upstream({event: 'chat.message', admin: ADMIN, data: {channel: 'c', text: '{probe}'}});
			const sub = await client.subscribe('chat.message', {arguments: {channel: 'c'}, `+sink+` subscriptions: 3, shareUrl: true});
			await up.fire(5);
			globalThis.sums = await sub.close();
			globalThis.unrouted = sub.figures().values.unrouted;
		`))
		finished(t, root)
		s.over()
		if got := s.value("sums.delivered"); got != int64(15) || number(s.value("unrouted")) != 0 {
			t.Errorf("%q: %v delivered, want 15; %v unrouted", sink, got, s.value("unrouted"))
		}
	}
}

// A named version is spoken, and tokens that expire are renewed.
func TestVersionAndTokens(t *testing.T) {
	noLeaks(t)
	srv := serveHere(t, refserver.Options{TokenLife: 20 * time.Second}, "")
	root := New()
	s := newStage(t, root)
	s.must(at(srv, `
		const client = new Client(TARGET, {version: '2025-06-18',
    oauth: {clientId: 'load-{principal}', secret: 'any', principals: 3, refreshAt: 0.01}});
		const up = new Upstream({event: 'chat.message', admin: ADMIN, data: {channel: 'c', text: '{probe}'}});
		const sub = await client.poll('chat.message', {arguments: {channel: 'c'}, subscriptions: 3, minInterval: '20ms'});
		await up.fire({count: 10, rate: 10}); // a token is renewed after 0.2 s
		globalThis.sums = await sub.close();
	`))
	finished(t, root)
	s.over()
	if got := s.value("sums.delivered"); got != int64(30) {
		t.Errorf("%v delivered, want 30", got)
	}
	if got := srv.Stats().Tokens; got.Issued != 3 || got.Renewed < 3 || got.Unauthorized > 1 {
		t.Errorf("three principals and 1 s of polls with tokens that are renewed after 0.2 s: %+v", got)
	}
}

// A version that the target does not speak is no other one.
func TestUnknownVersion(t *testing.T) {
	noLeaks(t)
	srv := serveHere(t, refserver.Options{}, "")
	root := New()
	s := newStage(t, root)
	err := s.run(at(srv, "await new Client(TARGET, {token: 'k6', version: '2000-01-01'}).list('tools')"))
	if err == nil || !strings.Contains(err.Error(), "the target does not speak version 2000-01-01") {
		t.Error(err)
	}
	finished(t, root)
	s.over()
}
