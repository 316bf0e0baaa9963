package sep1803

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/streamclient"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/sinks"
)

// idleResources is a lane whose first session has n subscriptions, to channels
// of their own, and a stream that stands, without any target.
func idleResources(t testing.TB, n int) (*lane, *resourceStream, *deaf) {
	t.Helper()
	ep, err := mcpclient.NewEndpoint(mcpclient.EndpointOptions{URL: "http://127.0.0.1:1/mcp"})
	if err != nil {
		t.Fatal(err)
	}
	rec := &deaf{Recorder: eventmeter.Tee()}
	d, err := newLane(driver.Options{
		Clock:         eventmeter.NewClock(),
		Recorder:      rec,
		Endpoint:      ep,
		Mode:          eventmeter.Push,
		Event:         "chat.message",
		Subscriptions: n,
		Settings:      Settings{PerSession: n, Redelivery: true},
	}.WithDefaults())
	if err != nil {
		t.Fatal(err)
	}
	s := &resourceSession{d: d, routes: map[string][]*resourceRun{}}
	s.ctx, s.cancel = context.WithCancel(d.Life)
	s.stream.s = s
	s.stream.Init(d.streams, &s.stream)
	for i := range n {
		r, err := d.Begin(i)
		if err != nil {
			t.Fatal(err)
		}
		r.uri = fmt.Sprintf("event://chat.message/c%d", i)
		s.routes[r.uri] = append(s.routes[r.uri], r)
	}
	t.Cleanup(func() {
		for _, r := range s.runs() { // there is no session to leave
			r.Fail(mcpclient.ErrState)
		}
		if err := d.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := ep.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	s.stream.Confirm(0)
	return d, &s.stream, rec
}

const updateFrame = "id: c1-41-0-0\ndata: " +
	`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"event://chat.message/c7",` +
	`"payload":{"channel":"c7","text":"some text around evtm-00000001-0000-00000001-26 and after it some more"}}}` + "\n\n"

// allocations is the least of some tries, because the race detector has pools forget values
// by chance.
func allocations(feed func()) float64 {
	n := testing.AllocsPerRun(100, feed)
	for range 9 {
		n = min(n, testing.AllocsPerRun(100, feed))
	}
	return n
}

func TestAnUpdateAllocatesNothing(t *testing.T) {
	d, stream, rec := idleResources(t, 10)
	frame := []byte(updateFrame)
	now := d.Clock.Now()
	if n := allocations(func() {
		if err := stream.Piece(frame, streamclient.Arrival{At: int64(now)}); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if rec.n < 100 || string(stream.lastID) != "c1-41-0-0" {
		t.Errorf("%d delivered, the last id is %s", rec.n, stream.lastID)
	}
}

// An update has the time at which the kernel received it, and says how long it
// waited for this program.
func TestAnUpdateByTheKernelsClock(t *testing.T) {
	_, stream, rec := idleResources(t, 10)
	if err := stream.Piece([]byte(updateFrame), streamclient.Arrival{At: 4_000, Read: 9_000, Kernel: true, Shared: true}); err != nil {
		t.Fatal(err)
	}
	if v := rec.last; v.At != 4_000 || v.Waited != 5_000 || !v.Kernel || !v.Shared {
		t.Errorf("%+v", v)
	}
	if err := stream.Piece([]byte(updateFrame), streamclient.Arrival{At: 12_000}); err != nil {
		t.Fatal(err)
	}
	if v := rec.last; v.At != 12_000 || v.Waited != 0 || v.Kernel || v.Shared {
		t.Errorf("%+v", v)
	}
}

const plainFrame = "data: " + `{"jsonrpc":"2.0","method":"notifications/resources/updated",` +
	`"params":{"uri":"event://chat.message/c7"}}` + "\n\n"

// An update without a payload is reported as such, counted, and timed where it
// stands for one emission.
func TestAnUpdateWithoutPayload(t *testing.T) {
	d, stream, _ := idleResources(t, 10)
	emission := eventmeter.Emission{Intended: 1000, Fired: 3_000_000, Measured: true}
	var asked []eventmeter.Sub
	known := true
	d.Opts.Sole = func(sub eventmeter.Sub, at eventmeter.Instant) (eventmeter.Emission, bool) {
		asked = append(asked, sub)
		return emission, known
	}
	frame := []byte(plainFrame)
	feed := func(at eventmeter.Instant) {
		t.Helper()
		if err := stream.Piece(frame, streamclient.Arrival{At: int64(at)}); err != nil {
			t.Error(err)
		}
	}
	feed(5_001_000)
	emission.Measured = false
	feed(6_000_000)
	known = false
	feed(7_000_000)
	f := d.Figures()
	if f.Values["updatesObserved"] != 3 || f.Values["updatesIdentified"] != 2 || f.Values["unrouted"] != 0 || len(asked) != 3 ||
		asked[0].Index != 7 {
		t.Errorf("%v, asked for %v", f.Values, asked)
	}
	for name, want := range map[string]int64{"updateLatency": 5_000_000, "updateLatencySent": 2_001_000} {
		if h := f.Timings[name].Histogram; h.TotalCount() != 1 || !h.ValuesAreEquivalent(h.Max(), want) {
			t.Errorf("%s: %d samples, %d", name, h.TotalCount(), h.Max())
		}
	}
	asked = make([]eventmeter.Sub, 0, 2000)
	if n := allocations(func() { feed(8_000_000) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	before := d.Figures().Values["updatesObserved"]
	if err := stream.Piece(
		[]byte(updateFrame),
		streamclient.Arrival{At: 9_000_000},
	); err != nil ||
		d.Figures().Values["updatesObserved"] != before {
		t.Errorf("an update with a payload was counted as one without: %v", err)
	}
}

func BenchmarkResourceUpdate(b *testing.B) {
	d, stream, _ := idleResources(b, 10)
	frame := []byte(updateFrame)
	now := d.Clock.Now()
	b.SetBytes(int64(len(frame)))
	b.ReportAllocs()
	for b.Loop() {
		if err := stream.Piece(frame, streamclient.Arrival{At: int64(now)}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkResourceHook(b *testing.B) {
	ep, err := mcpclient.NewEndpoint(mcpclient.EndpointOptions{URL: "http://127.0.0.1:1/mcp"})
	if err != nil {
		b.Fatal(err)
	}
	d, err := newLane(driver.Options{
		Clock:         eventmeter.NewClock(),
		Recorder:      &deaf{Recorder: eventmeter.Tee()},
		Endpoint:      ep,
		Mode:          eventmeter.Webhook,
		Event:         "chat.message",
		Subscriptions: 1,
	}.WithDefaults())
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close(context.Background())
	r := &resourceRun{}
	k := &resourceHook{d: d, r: r, known: make(chan struct{})}
	key := wire.NewKey([]byte("0123456789abcdef0123456789abcdef"))
	k.settle(secretStandard, "", key, "subscription://1")
	body := []byte(
		`{"type":"chat.message","timestamp":"2026-11-20T10:00:00.120Z","data":{"text":"some text around ` +
			`evtm-00000001-0000-00000001-26 and after it some more"}}`,
	)
	now := time.Now()
	h := http.Header{}
	h.Set(wire.HeaderWebhookID, "e-90")
	h.Set(wire.HeaderWebhookTimestamp, fmt.Sprint(now.Unix()))
	h.Set(wire.HeaderWebhookSignature, key.Sign("e-90", now, body))
	in := &sinks.Inbound{Header: h, Body: body, At: d.Clock.Now(), Size: len(body)}
	b.ReportAllocs()
	for b.Loop() {
		if reply := k.Receive(in); reply.Status != 0 {
			b.Fatal(reply.Status)
		}
	}
}

func TestResourceOfAnEvent(t *testing.T) {
	resource := func(address, name, kind string) (e eventResource) {
		if strings.Contains(address, "{") {
			e.URITemplate = address
		} else {
			e.URI = address
		}
		e.Name, e.Meta.WebhookType = name, kind
		return e
	}
	offer := &resourceOffer{
		fixed: []eventResource{
			resource("event://chat.message", "All messages", "chat.message"),
			resource("event://elsewhere/x", "tick", ""),
		},
		templates: []eventResource{
			resource("event://chat.message/{channel}", "", ""),
			resource("event://chat.message/{channel}{?from,to*}", "", ""),
			resource("event://board.moved{/board}{#part}", "Boards", "ticket.moved"),
		},
	}
	for _, c := range []struct{ event, args, want string }{
		{"chat.message", `{}`, "event://chat.message"},
		{"chat.message", ``, "event://chat.message"},
		{"chat.message", `{"channel":"a b/ü"}`, "event://chat.message/a%20b%2F%C3%BC"},
		{"chat.message", `{"channel":7}`, "event://chat.message/7"},
		{"chat.message", `{"channel":"c","from":true,"to":["x","y z"]}`, "event://chat.message/c?from=true&to=x&to=y%20z"},
		{"ticket.moved", `{"board":"b3","part":"p"}`, "event://board.moved/b3#p"},
		{"board.moved", `{"board":"b3","part":"p"}`, "event://board.moved/b3#p"},
		{"tick", `{}`, "event://elsewhere/x"},
		{"chat.message", `{"board":"b"}`, ""},
		{"ticket.moved", `{"board":"b3"}`, ""},
		{"nothing", `{}`, ""},
	} {
		d := &lane{}
		d.Opts = driver.Options{Arguments: func(int) json.RawMessage { return json.RawMessage(c.args) }}
		values, err := d.TemplateValues(0)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := offer.uri(c.event, values); got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s %s: %q, %v", c.event, c.args, got, err)
		}
	}
	for _, bad := range []string{`[1]`, `{"a":{}}`, `{"a":null}`, `{"a":[1]}`, `x`} {
		d := &lane{}
		d.Opts = driver.Options{Arguments: func(int) json.RawMessage { return json.RawMessage(bad) }}
		if v, err := d.TemplateValues(0); err == nil {
			t.Errorf("%s: %v", bad, v)
		}
	}
	if _, err := driver.ExpandURI("event://x/{", nil); err == nil {
		t.Error("a broken template was expanded")
	}
}

func TestReadSecret(t *testing.T) {
	for _, c := range []struct{ in, kind string }{
		{`{"subscription":{"uri":"subscription://1","webhookSecret":{"type":"standard",` +
			`"key":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}}}`, secretStandard},
		{`{"subscription":{"uri":"subscription://1","webhookSecret":{"type":"raw","value":"x"}}}`, secretRaw},
		{`{"subscription":{"uri":"subscription://1","webhookSecret":{"type":"none"}}}`, secretNone},
		{`{"subscription":{"uri":"subscription://1"}}`, secretNone},
		{`{"subscription":{"uri":"subscription://1","webhookSecret":{"type":"standard","key":"x"}}}`, ""},
		{`{"subscription":{"uri":"subscription://1","webhookSecret":{"type":"raw"}}}`, ""},
		{`{"subscription":{"uri":"subscription://1","webhookSecret":{"type":"ed25519"}}}`, ""},
		{`{"subscription":{"webhookSecret":{"type":"none"}}}`, ""},
	} {
		var got registered
		if err := json.Unmarshal([]byte(c.in), &got); err != nil {
			t.Fatal(err)
		}
		kind, _, key, err := readSecret(got)
		if (err != nil) != (c.kind == "") || err == nil && (kind != c.kind || (key == nil) != (kind == secretNone)) {
			t.Errorf("%s: %q, %v", c.in, kind, err)
		}
	}
}

// deaf is a Recorder that counts deliveries.
type deaf struct {
	eventmeter.Recorder
	n    int
	last eventmeter.Delivery
}

func (d *deaf) Delivered(v eventmeter.Delivery) {
	if v.Probed {
		d.n++
	}
	d.last = v
}
