package mcpevents

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/refserver"
	"go.k6.io/k6/v2/metrics"
)

// Whenever an iteration is broken off, everything is closed, what was measured
// is sent, once, and every promise is settled at most once: a second time is a
// panic of k6's.
func TestBrokenOff(t *testing.T) {
	noLeaks(t)
	srv := serveHere(t, refserver.Options{}, "")
	const begin = `
		const client = new Client(TARGET, {token: 'k6'});
		const up = new Upstream({event: 'chat.message', topic, admin: ADMIN, data: {channel: topic, text: '{probe}'}});
		const sub = await client.%s('chat.message', {arguments: {channel: topic}, topic, subscriptions: 3, settle: '30s'%s});
		await up.fire(4);
		await sub.received();
	`
	for name, rest := range map[string]string{
		"idle":      "stop(); await new Promise(() => 0);",
		"receiving": "const p = sub.received({events: 100}); stop(); await p;",
		"closing":   "const p = sub.close(); stop(); await p; await sub.close();",
		"firing":    "const p = up.fire({count: 1000, rate: 10}); stop(); await p;",
		"opening":   "const p = client.stream('tick', {streams: 50}); stop(); await p;",
		"listing":   "const p = client.list('tools'); stop(); await p;",
		"throwing":  "throw new Error('broken');",
		"forgetful": "sub.received({timeout: 1}).then(stop);",
	} {
		for method, more := range map[string]string{"stream": "", "poll": ", minInterval: 0", "subscribe": ""} {
			t.Run(name+"/"+method, func(t *testing.T) {
				root := New()
				s := newStage(t, root)
				must(t, s.VU.Runtime().Set("stop", func() { s.stop() }))
				_ = s.run(fmt.Sprintf("const topic = 'broken-%s-%s';", name, method) + fmt.Sprintf(at(srv, begin), method, more) + rest)
				finished(t, root)
				if open := root.hub.openOf(
					kind{system: "events", mode: modeOf[method], event: "chat.message", lane: string(modeOf[method])},
					nil,
				).now.Load(); open != 0 {
					t.Errorf("%d subscriptions are open after the iteration", open)
				}
				s.over()
				expected, n := s.sum("mcp_events_expected", "event", "chat.message")
				delivered, _ := s.sum("mcp_events_delivered", "event", "chat.message")
				if n != 1 || expected < 12 || delivered < 12 {
					t.Errorf("%v expected, counted %d times, %v delivered", expected, n, delivered)
				}
			})
		}
	}
}

// What is kept outlives setup(), is seen from other VUs, and ends with
// teardown(), or with the test.
func TestKept(t *testing.T) {
	noLeaks(t)
	srv := serveHere(t, refserver.Options{}, "")
	for _, torn := range []bool{true, false} {
		t.Run(fmt.Sprint(torn), func(t *testing.T) {
			root := New()
			setup, vu, teardown := newStage(t, root), newStage(t, root), newStage(t, root)
			setup.must(fmt.Sprintf(at(srv, `
				const client = new Client(TARGET, {token: 'k6', era: 'legacy'});
				const sub = await client.stream('chat.message', {arguments: {channel: 'kept-%v'}, streams: 5, keep: 'all'});
			`), torn))
			for range 2 {
				vu.must(fmt.Sprintf(at(srv, `
					const up = new Upstream({event: 'chat.message', admin: ADMIN, data: {channel: 'kept-%v', text: '{probe}'}});
					await up.fire(3);
					globalThis.got = await kept('all').received();
					globalThis.open = kept('all').stats().open;
				`), torn))
			}
			if vu.value("got.complete") != true || vu.value("got.delivered") != int64(30) || vu.value("open") != int64(5) {
				t.Errorf("%v, %v open", vu.value("JSON.stringify(got)"), vu.value("open"))
			}
			if torn {
				teardown.must(`globalThis.sums = await kept('all').close()`)
				if teardown.value("sums.delivered") != int64(30) || teardown.value("sums.lost") != int64(0) {
					t.Errorf("%v", teardown.value("JSON.stringify(sums)"))
				}
			}
			finished(t, root)
			setup.over() // samples go where the subscriptions were opened
			if v, n := setup.sum("mcp_events_expected"); v != 30 || n != 1 {
				t.Errorf("%v expected, counted %d times", v, n)
			}
			if v, _ := setup.sum("mcp_events_delivered"); v != 30 {
				t.Errorf("%v delivered", v)
			}
		})
	}
}

// After the end of the test nothing is sent: k6's channel is closed.
func TestSilence(t *testing.T) {
	noLeaks(t)
	root := New()
	s := newStage(t, root)
	s.iterate()
	one := []metrics.Samples{{{}}}
	root.hub.life.send(s.VU.State(), one)
	finished(t, root)
	s.over()
	root.hub.life.send(s.VU.State(), one)
	finished(t, root) // also a second time
}

// close() waits for what was fired before it, not for what is fired meanwhile.
func TestFiringGoesOn(t *testing.T) {
	noLeaks(t)
	srv := serveHere(t, refserver.Options{}, "")
	root := New()
	fires, hears := newStage(t, root), newStage(t, root)
	firing := make(chan error)
	started := make(chan struct{})
	must(t, fires.VU.Runtime().Set("started", func() { close(started) }))
	go func() {
		firing <- fires.run(at(srv, `
			const up = new Upstream({event: 'tick', admin: ADMIN});
			await up.fire(1);
			started();
			await up.fire({count: 100000, rate: 200});
		`))
	}()
	<-started
	hears.must(at(srv, `
		const sub = await new Client(TARGET, {token: 'k6'}).stream('tick', {streams: 5, settle: '10m'});
		await sub.received({events: 5});
		globalThis.all = await sub.received({timeout: '10m'});
		globalThis.sums = await sub.close();
	`))
	if hears.value("all.complete") != true || hears.value("sums.lost") != int64(0) || number(hears.value("sums.delivered")) == 0 {
		t.Error(hears.value("JSON.stringify([all, sums])"))
	}
	fires.stop()
	if err := <-firing; err != nil {
		t.Error(err)
	}
	finished(t, root)
}

func TestJobs(t *testing.T) {
	var j jobs
	if !j.wait(t.Context()) {
		t.Error("there was nothing to wait for")
	}
	hold := make(chan struct{})
	j.Go(func() { <-hold })
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if j.wait(over) {
		t.Error("it is under way")
	}
	waited := make(chan bool)
	for range 2 {
		go func() { waited <- j.wait(t.Context()) }()
	}
	close(hold)
	if first, second := <-waited, <-waited; !first || !second {
		t.Error("it is over")
	}
}

// Samples leave k6 in the order of their times, whenever they were made: Prometheus
// would not get those that are older than what it has.
func TestSamplesLeaveInOrder(t *testing.T) {
	noLeaks(t)
	root := New()
	s := newStage(t, root)
	s.iterate()
	m, err := metrics.NewRegistry().NewMetric("some_trend", metrics.Trend, metrics.Time)
	must(t, err)
	state := s.VU.State()
	o := &origin{&root.hub.life, state, state.Tags.GetCurrentValues().Tags, nil}
	early, late := o.batch(), o.batch()
	early.add(m, 1)
	late.add(m, 2)
	began := time.Now()
	o.send(late)
	o.send(early)
	var both sync.WaitGroup
	for range 4 { // VUs
		both.Go(func() {
			for range 100 {
				b := o.batch()
				b.add(m, 3)
				o.send(b)
			}
		})
	}
	both.Wait()
	finished(t, root)
	s.over()
	if len(s.got) != 402 {
		t.Fatalf("%d samples", len(s.got))
	}
	last := began
	for i, v := range s.got {
		if v.Time.Before(last) {
			t.Errorf("sample %d (%v) is %v older than the one before", i, v.Value, last.Sub(v.Time))
		}
		last = v.Time
	}
}

// A rate's samples are many, and made once.
func TestRate(t *testing.T) {
	r := metrics.NewRegistry()
	m, err := r.NewMetric("some_rate", metrics.Rate)
	must(t, err)
	const zeros, ones = 1_000_000, 2_049
	made := testing.AllocsPerRun(1, func() {
		b := &batch{tags: r.RootTagSet()}
		b.rate(m, 0, zeros)
		b.rate(m, 1, ones)
	})
	if made > 40 {
		t.Errorf("%v allocations", made)
	}
	b := &batch{tags: r.RootTagSet()}
	b.rate(m, 0, zeros)
	b.rate(m, 1, ones)
	b.rate(m, 1, 0)
	b.count(m, 7)
	sink := &metrics.RateSink{}
	backing := map[*metrics.Sample]bool{}
	last := 0.0
	for _, list := range b.pieces() {
		backing[&list[0]] = true
		for _, v := range list {
			last = v.Value
			sink.Add(v)
		}
	}
	if sink.Total != zeros+ones+1 || sink.Trues != ones+1 || last != 7 || len(backing) != 3 {
		t.Errorf("%d of %d, the last is %v, %d pieces", sink.Trues, sink.Total, last, len(backing))
	}
}
