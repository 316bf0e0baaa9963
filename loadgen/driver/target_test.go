package driver_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/sinks"
)

// world is a reference target and what a lane needs to meet it.
type world struct {
	srv       *refserver.Server
	authority *sinks.Authority
	client    *http.Client
}

func newWorld(t *testing.T, o refserver.Options) *world {
	t.Helper()
	authority, err := sinks.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	o.CallbackRoots = x509.NewCertPool()
	o.CallbackRoots.AppendCertsFromPEM(authority.PEM())
	o.AllowPrivateCallbacks, o.TLS = true, true
	srv, err := refserver.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := &world{srv: srv, authority: authority, client: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(func() {
		w.client.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := srv.Close(ctx); err != nil {
			t.Errorf("closing the target: %v", err)
		}
	})
	return w
}

// fire injects one event with a probe id and returns when the target has it.
func (w *world) fire(t *testing.T, channel string, source uint16, seq uint32) {
	t.Helper()
	body := fmt.Sprintf(`{"name":"chat.message","data":{"channel":%q,"text":"hello %s"}}`, channel, eventmeter.Stamp{Run: 1, Source: source, Seq: seq})
	resp, err := w.client.Post(w.srv.AdminURL()+"/inject", "application/json", bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		t.Fatalf("inject: %s", resp.Status)
	}
}

func (w *world) roots() *x509.CertPool {
	p := x509.NewCertPool()
	p.AppendCertsFromPEM(w.srv.CertPEM())
	return p
}

// lane opens a driver that is closed with the test.
func lane(t *testing.T, e driver.EndpointOptions, o driver.Options) (driver.Driver, *memory) {
	t.Helper()
	ep, err := driver.NewEndpoint(e)
	if err != nil {
		t.Fatal(err)
	}
	rec := newMemory()
	o.Recorder, o.Endpoint = rec, ep
	if o.Clock == nil {
		o.Clock = eventmeter.NewClock()
	}
	if o.Event == "" {
		o.Event = "chat.message"
	}
	if o.Subscriptions == 0 {
		o.Subscriptions = 1
	}
	d, err := driver.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := d.Close(ctx); err != nil {
			t.Errorf("closing the lane: %v", err)
		}
		if err := ep.Close(ctx); err != nil {
			t.Errorf("closing the endpoint: %v", err)
		}
	})
	return d, rec
}

// attach opens all subscriptions of a lane.
func attach(t *testing.T, d driver.Driver, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for i := range n {
		if err := d.Attach(ctx, i); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEveryModeOverEveryTransport(t *testing.T) {
	w := newWorld(t, refserver.Options{NextPoll: 50 * time.Millisecond})
	for _, mode := range []eventmeter.Mode{eventmeter.Poll, eventmeter.Push, eventmeter.Webhook} {
		for _, proto := range []string{"1.1", "2", "h2c"} {
			for _, era := range []driver.Era{driver.Modern, driver.Legacy} {
				for _, rev := range []driver.Revision{driver.Newest, driver.Older} {
					t.Run(fmt.Sprintf("%s/%s/%s/%s", mode, proto, era, rev), func(t *testing.T) {
						t.Parallel()
						everyMode(t, w, mode, proto, era, rev)
					})
				}
			}
		}
	}
}

var sources atomic.Uint32

func everyMode(t *testing.T, w *world, mode eventmeter.Mode, proto string, era driver.Era, rev driver.Revision) {
	e := driver.EndpointOptions{URL: w.srv.URL(), Era: era, Revision: rev, Tokens: []string{"a", "b"}}
	if proto == "2" {
		e.URL, e.Roots = w.srv.TLSURL(), w.roots()
	}
	const subs, events = 3, 5
	source := uint16(sources.Add(1))
	d, rec := lane(t, e, driver.Options{
		Mode: mode, HTTP: proto, Subscriptions: subs,
		Arguments: func(i int) json.RawMessage { return json.RawMessage(fmt.Sprintf(`{"channel":%q}`, t.Name())) },
		Poll:      driver.PollOptions{MinInterval: 10 * time.Millisecond, Timeout: 200 * time.Millisecond},
		Webhook:   driver.WebhookOptions{Authority: w.authority},
	})
	attach(t, d, subs)
	for seq := range uint32(events) {
		w.fire(t, t.Name(), source, seq+1)
	}
	for i := range uint32(subs) {
		rec.wait(t, "all events", func(m *memory) bool { return len(m.seen(i, source)) == events })
	}
	for i := range subs {
		if err := d.Detach(t.Context(), i); err != nil {
			t.Error(err)
		}
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	want := []eventmeter.State{eventmeter.Attaching, eventmeter.Active, eventmeter.Detaching, eventmeter.Detached}
	for i := range uint32(subs) {
		if got := rec.states(i); !slices.Equal(got, want) {
			t.Errorf("subscription %d went through %v", i, got)
		}
	}
	for _, n := range rec.notices {
		t.Errorf("notice %v %s", n.Kind, n.Detail)
	}
	for _, c := range rec.calls {
		if c.Failure != "" && c.Method != "" { // what the target itself calls may come too late for a path
			t.Errorf("%s failed: %s", c.Method, c.Failure)
		}
	}
	if traffic := d.(driver.Meter).Traffic(); traffic.Up == 0 || traffic.Down == 0 || traffic.Opened == 0 {
		t.Errorf("traffic %+v", traffic)
	}
}

func TestDiscoverTheReferenceTarget(t *testing.T) {
	w := newWorld(t, refserver.Options{})
	for _, era := range []driver.Era{driver.Auto, driver.Modern, driver.Legacy} {
		t.Run(string(era), func(t *testing.T) {
			d, _ := lane(t, driver.EndpointOptions{URL: w.srv.URL(), Era: era}, driver.Options{Mode: eventmeter.Poll})
			o, err := d.(driver.Discoverer).Discover(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			e, ok := o.Event("chat.message")
			if !ok || !slices.Contains(e.Delivery, eventmeter.Push) || o.Server == "" || o.Version == "" || o.Capability == "" {
				t.Errorf("offer %+v", o)
			}
		})
	}
}

func TestAttachToNothing(t *testing.T) {
	w := newWorld(t, refserver.Options{Tokens: []string{"right"}})
	for _, c := range []struct {
		name  string
		url   string
		token string
		event string
		want  error
	}{
		{"no such event", w.srv.URL(), "right", "no.such", driver.ErrNotOffered},
		{"wrong token", w.srv.URL(), "wrong", "chat.message", driver.ErrAuth},
		{"nobody there", "http://127.0.0.1:1/mcp", "right", "chat.message", driver.ErrUnreachable},
		{"no MCP there", w.srv.AdminURL() + "/nothing", "right", "chat.message", driver.ErrProtocol},
	} {
		for _, mode := range []eventmeter.Mode{eventmeter.Poll, eventmeter.Push, eventmeter.Webhook} {
			t.Run(c.name+"/"+string(mode), func(t *testing.T) {
				d, rec := lane(t, driver.EndpointOptions{URL: c.url, Tokens: []string{c.token}},
					driver.Options{Mode: mode, Event: c.event, Webhook: driver.WebhookOptions{Authority: w.authority}})
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				err := d.Attach(ctx, 0)
				if !errors.Is(err, c.want) {
					t.Errorf("error is %v", err)
				}
				if got := rec.states(0); !slices.Equal(got, []eventmeter.State{eventmeter.Attaching, eventmeter.Failed}) {
					t.Errorf("states %v", got)
				}
			})
		}
	}
}
