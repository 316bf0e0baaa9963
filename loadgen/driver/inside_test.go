package driver

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/streamclient"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/sinks"
)

// deaf is a Recorder that counts deliveries.
type deaf struct{ n int }

func (*deaf) Fired(eventmeter.Emission)                                         {}
func (*deaf) Resolved(eventmeter.Stamp, eventmeter.Outcome, eventmeter.Instant) {}
func (*deaf) Dropped(eventmeter.Drop)                                           {}
func (d *deaf) Delivered(v eventmeter.Delivery) {
	if v.Probed {
		d.n++
	}
}
func (*deaf) Noticed(eventmeter.Notice)     {}
func (*deaf) Changed(eventmeter.Transition) {}
func (*deaf) Called(eventmeter.Call)        {}

const occurrence = `"eventId":"e-90","name":"ticket.moved","timestamp":"2026-11-20T10:00:00.120Z","data":{"board":"b3","note":"some text around evtm-00000001-0000-00000001-26 and after it some more"},"cursor":"c42"`

func idle(t testing.TB, mode eventmeter.Mode) (*events, *run, *deaf) {
	t.Helper()
	ep, err := NewEndpoint(EndpointOptions{URL: "http://127.0.0.1:1/mcp"})
	if err != nil {
		t.Fatal(err)
	}
	rec := &deaf{}
	d, err := newEvents(Options{Clock: eventmeter.NewClock(), Recorder: rec, Endpoint: ep, Mode: mode, Event: "e", Subscriptions: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		d.Close(ctx)
	})
	r, err := d.begin(0)
	if err != nil {
		t.Fatal(err)
	}
	r.over = true // nobody serves it
	return d, r, rec
}

func frameStream(t testing.TB) (feed func(), rec *deaf, size int) {
	d, r, rec := idle(t, eventmeter.Push)
	s := &stream{d: d, r: r, heard: true, answer: true, id: 7}
	frame := []byte("event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/events/event\",\"params\":{" + occurrence +
		",\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":7}}}\n\n")
	return func() {
		if err := s.Piece(frame, streamclient.Arrival{At: 1}); err != nil {
			t.Fatal(err)
		}
	}, rec, len(frame)
}

func TestFramesAllocateNothing(t *testing.T) {
	feed, rec, _ := frameStream(t)
	if n := testing.AllocsPerRun(100, feed); n != 0 || rec.n == 0 {
		t.Errorf("%g allocations, %d deliveries", n, rec.n)
	}
}

func BenchmarkFrame(b *testing.B) {
	feed, _, size := frameStream(b)
	b.ReportAllocs()
	b.SetBytes(int64(size))
	for b.Loop() {
		feed()
	}
}

func BenchmarkWebhookDelivery(b *testing.B) {
	_, r, rec := idle(b, eventmeter.Webhook)
	body := []byte("{" + occurrence + "}")
	now := time.Now()
	cur, _ := r.hook.valid(1)
	h := http.Header{
		wire.HeaderWebhookID: {"e-90"}, wire.HeaderWebhookTimestamp: {strconv.FormatInt(now.Unix(), 10)},
		wire.HeaderWebhookSignature: {cur.Sign("e-90", now, body)}, wire.HeaderSubscriptionID: {"sub_1"},
	}
	in := &sinks.Inbound{Header: h, Body: body, At: 1, Size: 600}
	b.ReportAllocs()
	for b.Loop() {
		if reply := r.hook.Receive(in); reply.Status != 0 {
			b.Fatal(reply.Status)
		}
	}
	if rec.n == 0 {
		b.Fatal("nothing was delivered")
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	for v, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, " 0 ": 0, "-1": 0, "soon": 0,
		"Fri, 20 Nov 2026 10:01:00 GMT": time.Minute, "Fri, 20 Nov 2026 09:00:00 GMT": 0,
	} {
		if got := retryAfter(http.Header{"Retry-After": {v}}, now); got != want {
			t.Errorf("%q: %v", v, got)
		}
	}
}

func TestFailureWords(t *testing.T) {
	for _, c := range []struct {
		e    *callError
		word string
		is   error
	}{
		{&callError{status: 429, hasCode: true, code: -32013}, "http 429", ErrThrottled},
		{&callError{status: 200, hasCode: true, code: -32013}, "rpc -32013", ErrThrottled},
		{&callError{status: 400, hasCode: true, code: -32602}, "rpc -32602", ErrInvalid},
		{&callError{status: 200, hasCode: true, code: -32012}, "rpc -32012", ErrAuth},
		{&callError{status: 401}, "http 401", ErrAuth},
		{&callError{status: 404}, "http 404", ErrNotOffered},
		{&callError{status: 404, hasCode: true, code: -32601}, "rpc -32601", ErrNotOffered},
		{&callError{status: 500}, "http 500", ErrServer},
		{&callError{kind: kind(context.DeadlineExceeded)}, "timeout", ErrUnreachable},
		{&callError{kind: kind(fmt.Errorf("x: %w", io.ErrUnexpectedEOF))}, "eof", ErrUnreachable},
		{&callError{kind: kind(tls.RecordHeaderError{})}, "tls", ErrUnreachable},
		{&callError{kind: kind(errors.New("odd"))}, "transport", ErrUnreachable},
		{nil, "", nil},
	} {
		if got := c.e.failure(); got != c.word {
			t.Errorf("%+v: %q", c.e, got)
		}
		if c.e != nil && !errors.Is(c.e, c.is) {
			t.Errorf("%v is not %v", c.e, c.is)
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

func TestRefusals(t *testing.T) {
	f := refusals{share: 0.25, seed: 3}
	g := refusals{share: 0.25, seed: 3}
	n := 0
	for id := uint64(1); id <= 10_000; id++ {
		refuse, repeat := f.decide(1, id)
		again, _ := g.decide(1, id)
		if refuse != again || repeat {
			t.Fatal("not repeatable")
		}
		if refuse {
			n++
			if refuse, repeat := f.decide(1, id); refuse || !repeat {
				t.Fatal("refused twice")
			}
		}
	}
	if n < 2300 || n > 2700 {
		t.Errorf("%d of 10000 refused", n)
	}
	none := refusals{}
	if refuse, _ := none.decide(1, 1); refuse {
		t.Error("refused without a share")
	}
}
