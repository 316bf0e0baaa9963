package mcpclient_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/driver/events"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// nobody is a Recorder that only counts.
type nobody struct{ delivered int }

func (n *nobody) Fired(eventmeter.Emission) {}

func (n *nobody) Resolved(eventmeter.Stamp, eventmeter.Outcome, eventmeter.Instant) {}

func (n *nobody) Dropped(eventmeter.Drop) {}

func (n *nobody) Delivered(eventmeter.Delivery) { n.delivered++ }

func (n *nobody) Noticed(eventmeter.Notice) {}

func (n *nobody) Changed(eventmeter.Transition) {}

func (n *nobody) Called(eventmeter.Call) {}

// piped is a push lane with streams that are open over a pipe which has no
// program: feed gives it bytes.
func piped(tb testing.TB, streams int) (rec *nobody, feed func([]byte)) {
	rec = &nobody{}
	ep, err := mcpclient.NewEndpoint(mcpclient.EndpointOptions{Command: []string{"-"}})
	must(tb, err)
	queue, route := ep.WithoutProgram()
	ep.Presume(mcpclient.Bare)
	d, err := events.New(
		driver.Options{
			Clock:         eventmeter.NewClock(),
			Recorder:      rec,
			Endpoint:      ep,
			Mode:          eventmeter.Push,
			Event:         "e",
			Subscriptions: streams,
		},
	)
	must(tb, err)
	parser := wire.LineParser{}
	var at time.Time
	take := func(l wire.Line) { route(l, at) }
	feed = func(b []byte) {
		at = time.Now()
		parser.Feed(b, take)
	}
	done := make(chan error)
	for i := range streams {
		go func() { done <- d.Attach(context.Background(), i) }()
		request := <-queue
		var m wire.Message
		wire.ScanMessage(request, &m)
		feed(fmt.Appendf(nil, `{"method":"notifications/events/active","params":{"cursor":"c","requestId":%s}}`+"\n", m.ID))
		must(tb, <-done)
	}
	tb.Cleanup(func() {
		if err := d.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	return rec, feed
}

// deliveries is one event line for each of the streams, whose ids are 1, 2, ….
func deliveries(streams int) (b []byte) {
	stamp := eventmeter.Stamp{Run: 1, Seq: 1}
	for i := range streams {
		b = fmt.Appendf(
			b,
			`{"jsonrpc":"2.0","method":"notifications/events/event","params":{"eventId":"e-90","name":"chat.message",`+
				`"timestamp":"2026-11-20T10:00:00.120Z","data":{"channel":"channel-3","text":"message 7 %s"},"cursor":"c42",`+
				`"_meta":{"io.modelcontextprotocol/subscriptionId":%d}}}`+"\n",
			stamp,
			i+1,
		)
	}
	return b
}

func TestPipeDeliversWithoutAllocating(t *testing.T) {
	const streams = 10
	rec, feed := piped(t, streams)
	lines := deliveries(streams)
	const rounds = 100
	if n := testing.AllocsPerRun(rounds, func() { feed(lines) }); n >= 1 {
		t.Errorf("%v allocations for %d deliveries", n, streams)
	}
	if want := (rounds + 1) * streams; rec.delivered != want {
		t.Errorf("%d deliveries, want %d", rec.delivered, want)
	}
}

// From a line of a server's output to Delivered, with 1,000 streams open.
func BenchmarkPipeDelivered(b *testing.B) {
	const streams = 1000
	rec, feed := piped(b, streams)
	lines := deliveries(streams)
	b.SetBytes(int64(len(lines)))
	b.ReportAllocs()
	rounds := 0
	for b.Loop() {
		feed(lines)
		rounds++
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rec.delivered), "ns/delivery")
}
