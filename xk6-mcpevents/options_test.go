package mcpevents

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver"
)

// What is wrong with a script is said in one line, where it is.
func TestBadScripts(t *testing.T) {
	srv, root, s := here(t, refserver.Options{})
	for _, c := range []struct{ script, want string }{
		{"new Client()", "Client: give the URL of the MCP endpoint"},
		{"new Client('nowhere')", `"nowhere" is not a URL`},
		{"new Client(TARGET, {tokn: 'k'})", `Client: options: unknown field "tokn"; did you mean "token"?`},
		{"client.stream('e', {stream: 2})", `stream: options: unknown field "stream"; did you mean "streams"?`},
		{"client.stream('e', {cutevery: '1s'})", `unknown field "cutevery"; did you mean "cutEvery"?`},
		{"client.subscribe('e', {shareURL: true})", `unknown field "shareURL"; did you mean "shareUrl"?`},
		{"client.subscribe('e', {client: 'chatgtp'})", `client "chatgtp" is not known: did you mean "chatgpt"?`},
		{"client.subscribe('e', {system: 'smitery'})", `has no system "smitery": did you mean "smithery"?`},
		{"client.resumable('work', {step: '1s', stepps: 2})", `unknown field "stepps"; did you mean "steps"?`},
		{"new Upstream({evnt: 'e', admin: ADMIN})", `unknown field "evnt"; did you mean "event"?`},
		{"client.stream('e', {tags: {mode: 'x'}})", "options: tags: mode is set by the extension: use another name"},
		{"client.stream('e', {tags: ['x']})", "options: tags: use an object of texts"},
		{"client.list('tools', {tags: {a: 1}})", "options: tags: use an object of texts"},
		{"new Client(TARGET, {token: 'a', tokens: ['b']})", "there are token and tokens"},
		{"new Client(TARGET, {ca: 'x'})", "ca: there is no certificate in it: give PEM"},
		{"new Client(TARGET, {era: 'stone'})", `era "stone" is not known`},
		{"new Client(TARGET, {revision: 'x'})", `revision "x" is not known`},
		{"client.stream()", "stream: name the event type"},
		{"client.stream('e', {streams: 1, subscriptions: 2})", "given twice"},
		{"client.stream('e', {minInterval: '1s'})", "stream: options: minInterval belongs to poll()"},
		{"client.poll('e', {streams: 1})", "poll: options: streams belongs to stream()"},
		{"client.poll('e', {heartbeat: '1s'})", "heartbeat belongs to stream()"},
		{"client.poll('e', {system: 'smithery'})", `poll() has no system "smithery": use events`},
		{"client.subscribe('e', {cutEvery: '1s'})", "cutEvery belongs to stream()"},
		{"client.poll('e', {stallFor: '1s'})", "stallFor belongs to stream()"},
		{"client.subscribe('e', {answer: [{share: 2}]})", "options: answer.0.share 2 is out of bounds: give 0 to 1"},
		{"client.subscribe('e', {answer: [{share: 0.6}, {status: 503, share: 0.6}]})",
			"options: answer: the shares add up to 1.2; make them at most 1"},
		{"client.subscribe('e', {answer: [{delay: 'soon'}]})", `answer.0.delay: "soon" is not a duration`},
		{"client.subscribe('e', {answer: [{staus: 410}]})", `options: answer.0: unknown field "staus"`},
		{"client.subscribe('e', {answer: {status: 410}})", "answer: use a list, not a object"},
		{"client.subscribe('e', {refreshAt: 2})", "options: refreshAt 2 is out of bounds: give 0.1 to 0.95"},
		{"client.subscribe('e', {ttl: 'soon'})", `ttl: "soon" is not a duration`},
		{"client.subscribe('e', {client: 'siri'})", `client "siri" is not known: use generic or chatgpt or ai-sdk`},
		{"client.subscribe('e', {client: 5})", "client: use a text, not a number"},
		{"client.subscribe('e', {system: 'smithery', client: 'chatgpt'})",
			"options: client: clients are imitated by webhook lanes of system events"},
		{"client.stream('e', {client: 'chatgpt'})", "client belongs to subscribe()"},
		{"client.poll('e', {shareUrl: true})", "shareUrl belongs to subscribe()"},
		{"client.subscribe('e', {require: ['eventid']})", `options: require.0: "eventid" is not known; use eventId, zone or name`},
		{"client.subscribe('e', {system: 'sep-1803', require: ['zone']})", "options: require: has no effect on system sep-1803; remove it"},
		{"client.subscribe('e', {callback: 'https://x'})", `unknown field "callback"`},
		{"new Client(TARGET, {revision: 'older'}).subscribe('e', {shareUrl: true})",
			"shareUrl needs X-MCP-Subscription-Id, which revision older does not have"},
		{"new Client(TARGET, {version: 'new'})", `version "new" is not a protocol version: use the form YYYY-MM-DD`},
		{"new Client(TARGET, {version: '2025-06-18', era: 'modern'})", "version 2025-06-18 is of era legacy, and era is modern"},
		{"new Client(TARGET, {oauth: {}})", "oauth: give clientId and secret"},
		{"new Client(TARGET, {oauth: 'a'})", "oauth: give an object"},
		{"new Client(TARGET, {oauth: {clientId: 'a', secret: 5}})", "oauth.secret: use a text, not a number"},
		{"new Client(TARGET, {oauth: {clientId: 'a', secret: 'b', secretEnv: 'c'}})", `oauth: unknown field "secretEnv"`},
		{"new Client(TARGET, {oauth: {clientId: 'a', secret: 'b', principals: 2}})",
			"all 2 principals would be the same: put {principal} into clientId"},
		{"new Client(TARGET, {oauth: {clientId: 'a', secret: 'b', grant: 'password'}})",
			`oauth.grant "password" is not known: use clientCredentials or refreshToken`},
		{"new Client(TARGET, {oauth: {clientId: 'a', secret: 'b', auth: 'form'}})", "auth has no effect without tokenURL"},
		{"new Client(TARGET, {oauth: {clientId: 'a', secret: 'b', tokenURL: 'http://issuer.example/token'}})",
			"would send secrets in the clear: use https"},
		{"new Client(TARGET, {token: 'x', oauth: {clientId: 'a', secret: 'b'}})", "there are tokens and OAuth: give only one of them"},
		{"client.subscribe('e', {sink: {}})", "sink must be a WebhookSink"},
		{"client.subscribe('e', {sink: client})", "sink must be a WebhookSink"},
		{"client.subscribe('e', {system: 'sep-1803', ttl: '1m'})", "ttl: system sep-1803 has neither refreshes nor secrets"},
		{"client.subscribe('e', {system: 'smithery', ttl: '1m'})", "ttl: system smithery has no requested ttl"},
		{"client.subscribe('e', {system: 'smithery', secret: 'raw'})", "secret is for system sep-1803, not for smithery"},
		{"client.subscribe('e', {argumentsKey: 'params'})", "argumentsKey is for system smithery, not for events"},
		{"client.stream('e', {perSession: 2})", "perSession is for system sep-1803, not for events"},
		{"client.stream('e', {system: 'sep-1803', listen: true})", "listen is for system events, not for sep-1803"},
		{"client.subscribe('e', {system: 'sep-1803', early: 'late'})", `early "late" is not known: use hold or refuse`},
		{"client.stream('e', {streams: '5'})", "stream: options: streams: use a whole number, not a string"},
		{"client.stream('e', {streams: 1.5})", "stream: options: streams: use a whole number, not a number 1.5"},
		{"client.stream('e', {payload: 1})", "payload: use true or false, not a number"},
		{"client.stream('e', {streams: NaN})", "stream: options: streams is not a finite number"},
		{"client.stream('e', {settle: Infinity})", "stream: options: settle is not a finite number"},
		{"client.resumable('work', {double: NaN})", "options: double is not a finite number"},
		{"client.stream('e', {arguments: {list: [1, {a: NaN}]}})", "options: arguments.list.1.a is not a finite number"},
		{"client.stream('e', NaN)", "stream: options: give an object"},
		{"client.stream('e', 5)", "stream: options: give an object"},
		{"new Client(TARGET, {tokens: 'a'})", "tokens: use a list, not a string"},
		{"new Client(TARGET, {token: 5})", "token: use a text, not a number"},
		{"new Client(TARGET, {headers: {a: 5}})", "headers: use a text, not a number"},
		{"new Upstream({event: 'e', admin: ADMIN}).fire('5')", "fire: options: give an object"},
		{"client.stream('e', {settle: 'soon'})", `settle: "soon" is not a duration: use a text such as '1.5s', or milliseconds`},
		{"client.stream('e', {settle: -1})", "-1 is not a duration"},
		{"client.stream('e', {http: '3'})", `http version "3" is not known`},
		{"client.watchLists('cats')", `list "cats" is not known`},
		{"client.watchLists('tools', {uri: 'a:b'})", "uri: belongs to list: resource"},
		{"client.watchLists('tools', {use: -1})", "use: -1 is out of bounds; give uses per second"},
		{"client.watchLists('tools', {background: true, jitter: 0})", "jitter: without jitter, all clients refresh at once"},
		{"client.watchLists('tools', {arguments: {}})", "arguments belongs to stream(), poll(), subscribe(), resumable()"},
		{"client.resumable('work', {disconnect: 'some'})", `disconnect "some" is not known`},
		{"client.resumable('work', {double: 1.5})", "double 1.5 is out of bounds: give 0 to 1"},
		{"client.list('cats')", `list: there is no "cats"`},
		{"client.list('tools', {time: 1})", `list: options: unknown field "time"`},
		{"new Upstream()", "Upstream: options: event must be given"},
		{"new Upstream({event: 'e'})", "give one of admin"},
		{"new Upstream({event: 'e', admin: ADMIN, url: 'http://x'})", "give one of admin"},
		{"new Upstream({event: 'e', admin: ADMIN, method: 'PUT'})", "method and headers belong to url"},
		{"new Upstream({event: 'e', admin: ADMIN, data: {a: 'b'}})", "data must hold {probe}"},
		{"new Upstream({event: 'e', tool: 't'})", "tool and client belong together"},
		{"new Upstream({event: 'e', tool: 't', client: {}})", "client must be a Client"},
		{"new Upstream({event: 'e', admin: ADMIN}).fire({rat: 1})", `fire: options: unknown field "rat"`},
		{"new WebhookSink({port: 1})", `WebhookSink: options: unknown field "port"`},
		{"new WebhookSink({cert: 'x'})", "cert and key belong together"},
		{"new WebhookSink({cert: 'x', key: 'y'})", "give both as PEM"},
		{"new WebhookSink({callback: 'http://x'}).url()", "plain http is for loopback only, on both ends: use https"},
		{"kept('nothing')", `kept: there are no subscriptions named "nothing" in this process`},
		{"(await client.stream('chat.message', {keep: 'k'})).on('event', () => 0)", "belong to no VU, and have no handlers"},
		{"client.stream('chat.message', {keep: 'k'})", `there are open subscriptions named "k"`},
		{"(async () => { const one = await client.stream('tick'); one.close(); await one.on('meow', () => 0) })()",
			`on: there is no "meow": use event or gap or closed or error`},
		{"(async () => { const one = await client.stream('tick'); one.close(); await one.on('event') })()", "on: give a function"},
		{"(async () => { const one = await client.stream('tick'); one.close(); one.once('evnet', () => 0) })()",
			`once: there is no "evnet": did you mean "event"?`},
		{"(async () => { const one = await client.stream('tick'); one.close(); one.off('event', 5) })()",
			"off: give the function that on() was given"},
		{"client.stream('no.such.event')", "stream no.such.event at http://127.0.0.1:"},
	} {
		err := s.run(at(srv, "const client = new Client(TARGET, {token: 'k6'}); await "+c.script))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\n%v\nwant %s", c.script, err, c.want)
		}
	}
	finished(t, root)
}

// Every count has a least and a most, and what is outside is refused before
// anything is made for it: nobody is asked, and no memory is taken.
func TestCounts(t *testing.T) {
	srv, root, s := here(t, refserver.Options{})
	text, err := os.ReadFile("index.d.ts")
	must(t, err)
	tried := map[string]bool{}
	const up = "new Upstream({event: 'e', admin: ADMIN"
	for _, c := range []struct {
		script      string // with # for the count
		option      string
		least, most int64
	}{
		{"nobody.stream('e', {streams: #})", "streams", 1, 100_000},
		{"nobody.stream('e', {subscriptions: #})", "subscriptions", 1, 100_000},
		{"nobody.poll('e', {subscriptions: #})", "subscriptions", 1, 100_000},
		{"nobody.subscribe('e', {subscriptions: #})", "subscriptions", 1, 100_000},
		{"nobody.watchLists('tools', {clients: #})", "clients", 1, 100_000},
		{"nobody.watchLists('tools', {subscriptions: #})", "subscriptions", 1, 100_000},
		{"nobody.resumable('work', {requests: #})", "requests", 1, 100_000},
		{"nobody.stream('e', {sampleEvery: #})", "sampleEvery", 1, 1_000_000},
		{"nobody.stream('e', {system: 'sep-1803', perSession: #})", "perSession", 1, 100_000},
		{"nobody.poll('e', {maxEvents: #})", "maxEvents", 1, 1_000_000},
		{"nobody.subscribe('e', {rotateEvery: #})", "rotateEvery", 0, 1_000_000},
		{"nobody.resumable('work', {steps: #})", "steps", 1, 100_000},
		{"nobody.resumable('work', {logEvery: #})", "logEvery", 0, 100_000},
		{"nobody.resumable('work', {hangUp: #})", "hangUp", 0, 1_000_000},
		{up + ", workers: #})", "workers", 1, 10_000},
		{up + "}).fire(#)", "count", 1, 10_000_000},
		{up + "}).fire({count: #})", "count", 1, 10_000_000},
		{up + "}).fire({count: #, rate: 10})", "count", 1, 10_000_000},
		{"(async () => { const one = await client.stream('tick'); one.close(); await one.received({events: #}) })()", "events", 1, 1_000_000_000},
	} {
		tried[c.option] = true
		for _, n := range []int64{c.least - 1, c.most + 1, 5_000_000_000_000} {
			script := strings.ReplaceAll(c.script, "#", fmt.Sprint(n))
			err := s.run(
				at(srv, "const client = new Client(TARGET, {token: 'k6'}), nobody = new Client('http://127.0.0.1:1/mcp'); await "+script),
			)
			want := fmt.Sprintf("options: %s: use a whole number from %d to %d, not %d", c.option, c.least, c.most, n)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s\n%v\nwant %s", script, err, want)
			}
		}
	}
	finished(t, root)
	for name, b := range countBounds {
		if !tried[name] {
			t.Errorf("%s was not tried", name)
		}
		says := regexp.MustCompile(`/\*\* (.*) \*/\n  ` + name + `\?: number;`).FindStringSubmatch(string(text))
		if says == nil {
			t.Errorf("index.d.ts does not say what %s is", name)
			continue
		}
		most := strings.TrimLeft(regexp.MustCompile(`(\d{3})`).ReplaceAllString(fmt.Sprintf("%012d", b.most), ",$1"), "0,")
		if want := fmt.Sprintf(
			"%d to %s",
			b.least,
			most,
		); !strings.Contains(says[1], want) &&
			!strings.Contains(says[1], "The same as subscriptions") {
			t.Errorf("index.d.ts does not say that %s is %s: %s", name, want, says[1])
		}
	}
}

// What all calls of a process open together is bounded, too.
func TestManySubscriptions(t *testing.T) {
	h := newHub()
	h.places = maxPlaces - bookSize
	k := kind{system: "events", mode: eventmeter.Push, event: "e", lane: "push"}
	b, list, err := h.lend(k, bookSize)
	must(t, err)
	if _, _, err := h.lend(k, 1); err == nil || !strings.Contains(err.Error(), "a process has at most 1000000 subscriptions") {
		t.Error(err)
	}
	b.give(list)
	if _, _, err := h.lend(k, 1); err != nil {
		t.Errorf("after some were closed: %v", err)
	}
	h.life.cancel()
}

// In the init context nothing is opened.
func TestInitContext(t *testing.T) {
	srv, root, s := here(t, refserver.Options{})
	for call, want := range map[string]string{
		"client.stream('e')": "stream: call it in setup() or an iteration", "client.list('tools')": "list: call it in",
		"up.fire()": "fire: call it in", "kept('a')": "kept: call it in",
	} {
		err := s.EventLoop.Start(func() error {
			_, err := s.VU.Runtime().RunString(at(srv, fmt.Sprintf(`{
				const client = new Client(TARGET);
				const up = new Upstream({event: 'e', admin: ADMIN});
				%s;
			}`, call)))
			return err
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", call, err, want)
		}
	}
	// What is made there serves iterations, and lives until the test ends.
	if _, err := s.VU.Runtime().
		RunString(at(srv, "const client = new Client(TARGET, {token: 'k'}), up = new Upstream({event: 'tick', admin: ADMIN})")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s.must("const sub = await client.stream('tick'); await up.fire(2); globalThis.sums = await sub.close()")
		if s.value("sums.delivered") != int64(2) {
			t.Errorf("%v were delivered", s.value("sums.delivered"))
		}
	}
	finished(t, root)
}

// A process has a bounded number of topics.
func TestTopics(t *testing.T) {
	h := newHub()
	for i := range maxTopics {
		if n, err := h.topic(fmt.Sprint(i)); err != nil || n != uint16(i) {
			t.Fatal(n, err)
		}
	}
	if n, err := h.topic("3"); err != nil || n != 3 {
		t.Error(n, err)
	}
	if _, err := h.topic("one more"); err == nil || !strings.Contains(err.Error(), "at most 1024 topics") {
		t.Error(err)
	}
	h.life.cancel()
}
