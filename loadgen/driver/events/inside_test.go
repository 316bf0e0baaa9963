package events

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/streamclient"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/sinks"
)

// deaf is a Recorder that counts deliveries.
type deaf struct{ n int }

func (*deaf) Fired(eventmeter.Emission) {}

func (*deaf) Resolved(eventmeter.Stamp, eventmeter.Outcome, eventmeter.Instant) {}

func (*deaf) Dropped(eventmeter.Drop) {}

func (d *deaf) Delivered(v eventmeter.Delivery) {
	if v.Probed {
		d.n++
	}
}

func (*deaf) Noticed(eventmeter.Notice) {}

func (*deaf) Changed(eventmeter.Transition) {}

func (*deaf) Called(eventmeter.Call) {}

const occurrence = `"eventId":"e-90","name":"ticket.moved","timestamp":"2026-11-20T10:00:00.120Z","data":{"board":"b3",` +
	`"note":"some text around evtm-00000001-0000-00000001-26 and after it some more"},"cursor":"c42"`

// TestRestored: only a call that began after the last end was about a new subscription for sure.
func TestRestored(t *testing.T) {
	k := &hook{}
	k.ended(3)
	k.ended(5)
	for began, again := range map[eventmeter.Instant]bool{4: true, 5: true} {
		if over, got := k.restored(began); over != 3 || got != again {
			t.Errorf("a call at %d: over since %d, again %t", began, over, got)
		}
	}
	if over, again := k.restored(6); over != 3 || again {
		t.Errorf("a call after it: over since %d, again %t", over, again)
	}
	if over, again := k.restored(7); over != 0 || again {
		t.Errorf("restored: over since %d, again %t", over, again)
	}
}

func idle(t testing.TB, mode eventmeter.Mode, unjudged bool) (*lane, *run, *deaf) {
	t.Helper()
	d, rec := idleLane(t, mode, 1, unjudged)
	r, err := d.Lane.Begin(0)
	if err != nil {
		t.Fatal(err)
	}
	r.Over = true // nobody serves it
	return d, r, rec
}

func idleLane(t testing.TB, mode eventmeter.Mode, subscriptions int, unjudged bool) (*lane, *deaf) {
	t.Helper()
	ep, err := mcpclient.NewEndpoint(mcpclient.EndpointOptions{URL: "http://127.0.0.1:1/mcp"})
	if err != nil {
		t.Fatal(err)
	}
	rec := &deaf{}
	d, err := newLane(
		driver.Options{
			Clock:         eventmeter.NewClock(),
			Recorder:      rec,
			Endpoint:      ep,
			Mode:          mode,
			Event:         "e",
			Subscriptions: subscriptions,
			Unjudged:      unjudged,
		}.WithDefaults(),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		d.Close(ctx)
	})
	return d, rec
}

const eventFrame = "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/events/event\",\"params\":{" + occurrence +
	",\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":0}}}\n\n"

// feeder confirms a stream. feed has it take a frame.
func feeder(t testing.TB, s *stream, text string) (feed func()) {
	t.Helper()
	if err := s.Opened(
		streamclient.Head{Status: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}},
		streamclient.Arrival{At: 1},
	); err != nil {
		t.Fatal(err)
	}
	s.Confirm(0)
	frame := []byte(text)
	return func() {
		if err := s.Piece(frame, streamclient.Arrival{At: 1}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestJudgingAllocatesNothing: a message that breaks no row is judged without an
// allocation. Frames are taken without any.
func TestJudgingAllocatesNothing(t *testing.T) {
	for name, open := range map[string]func(t testing.TB, unjudged bool) (feed func(), d *lane){"frame": oneFrame,
		"heartbeat": oneHeartbeat, "poll": onePoll, "webhook": oneDelivery} {
		t.Run(name, func(t *testing.T) {
			allocations := func(unjudged bool) float64 {
				feed, d := open(t, unjudged)
				// The race detector has pools forget values by chance: the least of some tries counts.
				n := testing.AllocsPerRun(100, feed)
				for range 9 {
					n = min(n, testing.AllocsPerRun(100, feed))
				}
				got := d.judge.tally.Account()
				for row, c := range got {
					if c.Broken > 0 {
						t.Errorf("%s is broken: %s", row, c.First.Message)
					}
				}
				if (len(got) > 0) == unjudged {
					t.Errorf("%d rows were seen", len(got))
				}
				return n
			}
			judged, unjudged := allocations(false), allocations(true)
			if judged > unjudged || (name == "frame" || name == "heartbeat") && judged > 0 {
				t.Errorf("%g allocations, and %g without judging", judged, unjudged)
			}
		})
	}
}

// oneFrame has a stream take an event.
func oneFrame(t testing.TB, unjudged bool) (feed func(), d *lane) {
	d, r, _ := idle(t, eventmeter.Push, unjudged)
	feed = feeder(t, r.stream, eventFrame)
	return feed, d
}

// oneHeartbeat has a stream take a heartbeat.
func oneHeartbeat(t testing.TB, unjudged bool) (feed func(), d *lane) {
	d, r, _ := idle(t, eventmeter.Push, unjudged)
	feed = feeder(
		t,
		r.stream,
		"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/events/heartbeat\",\"params\":{\"cursor\":\"c42\","+
			"\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":0}}}\n\n",
	)
	return feed, d
}

// onePoll takes an answer with one event.
func onePoll(t testing.TB, unjudged bool) (feed func(), d *lane) {
	d, r, rec := idle(t, eventmeter.Poll, unjudged)
	text := []byte(
		`{"jsonrpc":"2.0","id":1,"result":{"events":[{` + occurrence + `}],"cursor":"c42","truncated":false,"hasMore":false,"nextPollMs":1000}}`,
	)
	a := &mcpclient.Answer{At: 1, Status: http.StatusOK, Buf: &text}
	if !wire.ScanMessage(text, &a.Msg) {
		t.Fatal("the answer cannot be read")
	}
	return func() {
		before := rec.n
		n, _, _ := d.takeEvents(r, a)
		d.judgePoll(r, a, false, false, n)
		if rec.n != before+1 {
			t.Fatal("nothing was delivered")
		}
	}, d
}

// oneDelivery has a callback take a delivery.
func oneDelivery(t testing.TB, unjudged bool) (feed func(), d *lane) {
	d, r, rec := idle(t, eventmeter.Webhook, unjudged)
	body := []byte("{" + occurrence + "}")
	now := time.Now()
	cur, _ := r.hook.valid(1)
	in := &sinks.Inbound{Header: http.Header{
		"Content-Type": {
			"application/json",
		},
		wire.HeaderWebhookID:        {"e-90"},
		wire.HeaderWebhookTimestamp: {strconv.FormatInt(now.Unix(), 10)},
		wire.HeaderWebhookSignature: {cur.Sign("e-90", now, body)},
		wire.HeaderSubscriptionID:   {"sub_1"},
	}, Body: body, At: 1, Size: 600}
	return func() {
		before := rec.n
		if reply := r.hook.Receive(in); reply.Status != 0 || rec.n != before+1 {
			t.Fatalf("answered %d, and %d were delivered", reply.Status, rec.n-before)
		}
	}, d
}

// bothWays runs a benchmark with judging and without.
func bothWays(b *testing.B, open func(t testing.TB, unjudged bool) (feed func(), d *lane)) {
	for _, unjudged := range []bool{false, true} {
		b.Run(map[bool]string{false: "judged", true: "unjudged"}[unjudged], func(b *testing.B) {
			feed, _ := open(b, unjudged)
			b.ReportAllocs()
			for b.Loop() {
				feed()
			}
		})
	}
}

func BenchmarkFrame(b *testing.B) { bothWays(b, oneFrame) }

func BenchmarkPollAnswer(b *testing.B) { bothWays(b, onePoll) }

func BenchmarkWebhookDelivery(b *testing.B) { bothWays(b, oneDelivery) }

// BenchmarkFramesOfMany is BenchmarkFrame with streams in turn, as a run has them:
// what a frame needs of its stream is not in the cache.
func BenchmarkFramesOfMany(b *testing.B) {
	bothWays(b, func(t testing.TB, unjudged bool) (feed func(), d *lane) {
		const streams = 20_000
		d, _ = idleLane(t, eventmeter.Push, streams, unjudged)
		feeds := make([]func(), streams)
		for i := range feeds {
			r, err := d.Lane.Begin(i)
			if err != nil {
				t.Fatal(err)
			}
			r.Over = true // nobody serves it
			feeds[i] = feeder(t, r.stream, eventFrame)
		}
		i := 0
		return func() {
			feeds[i*7919%streams]()
			i++
		}, d
	})
}

// TestStreamSize keeps a subscription small, of which there may be a million: a stream lies
// in four cache lines of its own.
func TestStreamSize(t *testing.T) {
	if n := unsafe.Sizeof(stream{}); n > 256 {
		t.Errorf("a stream takes %d bytes", n)
	}
	if n := unsafe.Sizeof(run{}); n > 208 {
		t.Errorf("a run takes %d bytes", n)
	}
}

// TestISO changes every byte of a time to every other: digits may be any, and the
// separators are fixed, but for that of the time of day.
func TestISO(t *testing.T) {
	const good = "2026-11-20T10:00:09.120Z"
	for i := range "2026-11-20T10:00:09" {
		for c := range 256 {
			b := []byte(good)
			b[i] = byte(c)
			want := byte(c) == good[i]
			switch {
			case good[i] >= '0' && good[i] <= '9':
				want = c >= '0' && c <= '9'
			case good[i] == 'T':
				want = c == 'T' || c == 't' || c == ' '
			}
			if isISO(b) != want {
				t.Errorf("%q: %v", b, !want)
			}
		}
	}
	for n := range len(good) + 1 {
		if isISO([]byte(good[:n])) != (n >= 19) {
			t.Errorf("%q", good[:n])
		}
	}
}

func TestEventsCapability(t *testing.T) {
	for caps, want := range map[string]string{
		`{"events":{"listChanged":true}}`: "events true", `{"events":{}}`: "events false", `{"events":true}`: "events false",
		`{"extensions":{"io.modelcontextprotocol/events":{"listChanged":true}}}`: "extensions true",
		`{"experimental":{"events":{}}}`:                                         "experimental false",
		`{"extensions":[],"experimental":{"events":{}}}`:                         "experimental false",
		`{"tools":{}}`: " false", `{"events":null}`: " false", ``: " false",
	} {
		where, changed := eventsCapability(json.RawMessage(caps))
		if got := fmt.Sprint(where, " ", changed); got != want {
			t.Errorf("%s: %q, want %q", caps, got, want)
		}
	}
}

func TestGrantLife(t *testing.T) {
	text := func(d time.Duration) *string { s := time.Now().Add(d).UTC().Format(time.RFC3339); return &s }
	near := func(got, want time.Duration) bool { return got > want-3*time.Second && got < want+3*time.Second }
	if d, ok := (&grant{RefreshBefore: text(time.Hour)}).life(time.Now()); !ok || !near(d, time.Hour) {
		t.Errorf("an hour is %v", d)
	}
	if d, ok := (&grant{RefreshBefore: text(3 * time.Hour)}).life(time.Now().Add(2 * time.Hour)); !ok || !near(d, time.Hour) {
		t.Errorf("an hour by a clock that is fast is %v", d)
	}
	odd := "tomorrow"
	if _, ok := (&grant{RefreshBefore: &odd}).life(time.Time{}); ok {
		t.Error("tomorrow is no time")
	}
	if _, ok := (&grant{}).life(time.Time{}); ok {
		t.Error("no end is no time")
	}
}

// TestGrantOfASlowAnswer: a target counts the lifetime of a grant from when it grants,
// which may be long before its answer has come.
func TestGrantOfASlowAnswer(t *testing.T) {
	_, r, _ := idle(t, eventmeter.Webhook, false)
	k := r.hook
	at := func(d time.Duration) eventmeter.Instant { return eventmeter.Instant(d) }
	k.expire(&mcpclient.Answer{At: at(4 * time.Second), Took: 3 * time.Second}, 5*time.Second, true)
	for now, want := range map[time.Duration]bool{4900 * time.Millisecond: false, 5100 * time.Millisecond: true, 9 * time.Second: true} {
		if got := k.mayBeOver(at(now)); got != want {
			t.Errorf("after %v, a grant of 5s that was asked for after 1s may be over: %v, want %v", now, got, want)
		}
	}
	if k.expire(&mcpclient.Answer{}, 0, false); k.mayBeOver(at(time.Hour)) {
		t.Error("a grant without an end may be over")
	}
}

// TestGraceOfASecond: a target that signs with both secrets for a second after it took the
// new one keeps the row, however late its answer came, and whatever it signs with then.
func TestGraceOfASecond(t *testing.T) {
	at := func(d time.Duration) eventmeter.Instant { return eventmeter.Instant(d) }
	for _, c := range []struct {
		taken, came time.Duration // after the new secret was sent
		byOld       bool
		broken      bool
	}{
		{taken: 5 * time.Millisecond, came: 500 * time.Millisecond, byOld: true},
		{taken: 5 * time.Millisecond, came: 500 * time.Millisecond, broken: true},
		{taken: 5 * time.Millisecond, came: 1100 * time.Millisecond},
		{taken: 900 * time.Millisecond, came: 1500 * time.Millisecond},
		{taken: 900 * time.Millisecond, came: 500 * time.Millisecond},
	} {
		d, r, _ := idle(t, eventmeter.Webhook, false)
		r.hook.race = race{sent: at(time.Minute), answered: at(time.Minute + c.taken)}
		r.hook.judgeRotation(&sinks.Inbound{At: at(time.Minute + c.came)}, true, c.byOld)
		if got := d.Figures().Conform; got.Broken() != c.broken {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

// TestSignedBeforeARotation: a delivery with the old secret keeps the row, however long it was
// on its way, if it was signed before the target took the new one.
func TestSignedBeforeARotation(t *testing.T) {
	for _, c := range []struct {
		came   time.Duration // after the answer
		stamp  int64
		broken bool
	}{
		{came: 6 * time.Second, stamp: 999},
		{came: time.Minute, stamp: 1004},
		{came: 6 * time.Second, stamp: 1006, broken: true},
		{came: 4 * time.Second, stamp: 1006}, // two clocks
	} {
		d, r, _ := idle(t, eventmeter.Webhook, false)
		r.hook.race = race{sent: 1, answered: 2, theirs: 1000}
		in := &sinks.Inbound{
			At:     eventmeter.Instant(2).Add(c.came),
			Header: http.Header{"Webhook-Timestamp": {strconv.FormatInt(c.stamp, 10)}},
		}
		r.hook.judgeRotation(in, false, true)
		if got := d.Figures().Conform; got.Broken() != c.broken {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

// A refresh comes between refreshAt - refreshJitter and refreshAt of the grant.
func TestRefreshJitter(t *testing.T) {
	d, r, _ := idle(t, eventmeter.Webhook, true)
	d.Opts.Webhook.RefreshAt = 0.75
	for _, jitter := range []float64{0, 0.4} {
		d.Opts.Webhook.RefreshJitter = jitter
		least, most := time.Hour, time.Duration(0)
		for range 1000 {
			wait := r.hook.expire(&mcpclient.Answer{At: 1}, 100*time.Second, true)
			least, most = min(least, wait), max(most, wait)
		}
		from := time.Duration((0.75 - jitter) * float64(100*time.Second))
		switch {
		case least < from-time.Millisecond || most > 75*time.Second:
			t.Errorf("jitter %g: refreshes after %v to %v", jitter, least, most)
		case least > from+2*time.Second || most < 73*time.Second: // 1,000 draws reach each end
			t.Errorf("jitter %g: refreshes only after %v to %v", jitter, least, most)
		}
	}
}
