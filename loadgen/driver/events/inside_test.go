package events

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

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

const occurrence = `"eventId":"e-90","name":"ticket.moved","timestamp":"2026-11-20T10:00:00.120Z","data":{"board":"b3","note":"some text around evtm-00000001-0000-00000001-26 and after it some more"},"cursor":"c42"`

func idle(t testing.TB, mode eventmeter.Mode) (*lane, *run, *deaf) {
	t.Helper()
	ep, err := mcpclient.NewEndpoint(mcpclient.EndpointOptions{URL: "http://127.0.0.1:1/mcp"})
	if err != nil {
		t.Fatal(err)
	}
	rec := &deaf{}
	d, err := newEvents(driver.Options{Clock: eventmeter.NewClock(), Recorder: rec, Endpoint: ep, Mode: mode, Event: "e", Subscriptions: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		d.Close(ctx)
	})
	r, err := d.Begin(0)
	if err != nil {
		t.Fatal(err)
	}
	r.Over = true // nobody serves it
	return d, r, rec
}

func frameStream(t testing.TB) (feed func(), rec *deaf, size int) {
	_, r, rec := idle(t, eventmeter.Push)
	s := r.stream
	if err := s.Opened(streamclient.Head{Status: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}}, streamclient.Arrival{At: 1}); err != nil {
		t.Fatal(err)
	}
	s.Confirm(0)
	frame := []byte("event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/events/event\",\"params\":{" + occurrence +
		",\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":0}}}\n\n")
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
