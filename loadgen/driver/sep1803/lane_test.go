package sep1803_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/driver/sep1803"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
)

// channelOf gives the subscriptions channels of a test's own, three in turn;
// every fourth has none of its own and hears them all.
func channelOf(t *testing.T, i int) string {
	if i%4 == 3 {
		return ""
	}
	return fmt.Sprintf("%s %d", t.Name(), i%4)
}

func TestResourcesEveryWay(t *testing.T) {
	w := systemstest.NewWorld(t, refserver.Options{})
	for _, c := range []struct {
		mode  eventmeter.Mode
		era   mcpclient.Era
		proto string
		own   sep1803.Settings
	}{
		{eventmeter.Push, mcpclient.Legacy, "1.1", sep1803.Settings{Redelivery: true}},
		{eventmeter.Push, mcpclient.Legacy, "2", sep1803.Settings{PerSession: 3, Redelivery: true}},
		{eventmeter.Push, mcpclient.Legacy, "h2c", sep1803.Settings{PerSession: 8, Redelivery: true}},
		{eventmeter.Push, mcpclient.Modern, "1.1", sep1803.Settings{PerSession: 5, Redelivery: true}},
		{eventmeter.Push, mcpclient.Modern, "2", sep1803.Settings{Redelivery: true}},
		{eventmeter.Webhook, mcpclient.Legacy, "1.1", sep1803.Settings{Secret: "raw"}},
		{eventmeter.Webhook, mcpclient.Modern, "2", sep1803.Settings{Secret: "standard"}},
		{eventmeter.Webhook, mcpclient.Modern, "h2c", sep1803.Settings{Secret: "none"}},
		{eventmeter.Webhook, mcpclient.Legacy, "h2c", sep1803.Settings{}},
	} {
		t.Run(fmt.Sprintf("%s/%s/%s/%d%s", c.mode, c.era, c.proto, c.own.PerSession, c.own.Secret), func(t *testing.T) {
			t.Parallel()
			e := mcpclient.EndpointOptions{URL: w.Srv.URL(), Era: c.era, Tokens: []string{"a", "b"}}
			if c.proto == "2" {
				e.URL, e.Roots = w.Srv.TLSURL(), w.Roots()
			}
			everyWay(t, w, e, driver.Options{
				System: "sep-1803", Mode: c.mode, HTTP: c.proto, Settings: c.own, Listener: driver.ListenerOptions{Authority: w.Authority},
			})
		})
	}
}

// everyWay attaches eight subscriptions, fires at each channel, and looks that
// everybody got what is theirs, once.
func everyWay(t *testing.T, w *systemstest.World, e mcpclient.EndpointOptions, o driver.Options) {
	const subs, events = 8, 4
	first := systemstest.Sources.Add(3) - 2
	o.Subscriptions = subs
	o.Arguments = func(i int) json.RawMessage {
		if c := channelOf(t, i); c != "" {
			b, _ := json.Marshal(map[string]string{"channel": c})
			return b
		}
		return nil
	}
	d, rec := systemstest.Lane(t, e, o)
	systemstest.Attach(t, d, subs)
	for seq := range uint32(events) {
		for channel := range 3 {
			w.Fire(t, channelOf(t, channel), uint16(first)+uint16(channel), seq+1)
		}
	}
	for i := range subs {
		for channel := range 3 {
			want := 0
			if i%4 == channel || i%4 == 3 {
				want = events
			}
			source := uint16(first) + uint16(channel)
			rec.Wait(t, "all events", func(m *systemstest.Memory) bool { return len(m.Seen(uint32(i), source)) == want })
		}
	}
	for i := range subs {
		if err := d.Detach(t.Context(), i); err != nil {
			t.Error(err)
		}
	}
	w.Fire(t, channelOf(t, 0), uint16(first), events+1) // nobody is left to hear it
	rec.Mu.Lock()
	defer rec.Mu.Unlock()
	want := []eventmeter.State{eventmeter.Attaching, eventmeter.Active, eventmeter.Detaching, eventmeter.Detached}
	for i := range uint32(subs) {
		if got := rec.States(i); !slices.Equal(got, want) {
			t.Errorf("subscription %d went through %v", i, got)
		}
		for channel := range uint16(3) {
			for seq, n := range rec.Seen(i, uint16(first)+channel) {
				if n != 1 {
					t.Errorf("subscription %d got %d of source %d %d times", i, seq, channel, n)
				}
			}
		}
	}
	for _, n := range rec.Notices {
		t.Errorf("notice %v %s", n.Kind, n.Detail)
	}
	for _, c := range rec.Calls {
		if c.Failure != "" && c.Method != "" { // what the target itself calls may come too late for a path
			t.Errorf("%s failed: %s", c.Method, c.Failure)
		}
	}
	own := d.(driver.Figurer).Figures()
	if per := max(
		o.Settings.(sep1803.Settings).PerSession,
		1,
	); o.Mode == eventmeter.Push &&
		own.Values["sessions"] != float64((subs+per-1)/per) {
		t.Errorf("%v sessions", own.Values["sessions"])
	}
	if kind := o.Settings.(sep1803.Settings).Secret; kind != "" && own.Values["secrets"+strings.ToUpper(kind[:1])+kind[1:]] != subs ||
		own.Values["unrouted"] != 0 {
		t.Errorf("figures %v", own.Values)
	}
	if h := own.Timings["secretWindow"].Histogram; o.Mode == eventmeter.Webhook && h.TotalCount() != subs {
		t.Errorf("the time without a secret was taken %d times", h.TotalCount())
	}
}

func TestResourcesDiscover(t *testing.T) {
	w := systemstest.NewWorld(t, refserver.Options{})
	for _, era := range []mcpclient.Era{mcpclient.Legacy, mcpclient.Modern} {
		d, _ := systemstest.Lane(
			t,
			mcpclient.EndpointOptions{URL: w.Srv.URL(), Era: era},
			driver.Options{System: "sep-1803", Mode: eventmeter.Push},
		)
		o, err := d.(driver.Discoverer).Discover(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		e, ok := o.Event("event://chat.message/{channel}")
		if !ok || !slices.Equal(e.Delivery, []eventmeter.Mode{eventmeter.Push, eventmeter.Webhook}) || len(e.InputSchema) == 0 ||
			len(e.PayloadSchema) == 0 ||
			o.Capability != "resources" {
			t.Errorf("offer %+v", o)
		}
		if _, ok := o.Event("event://tick"); !ok || o.Server == "" {
			t.Errorf("offer %+v", o)
		}
	}
}

func TestResourcesAttachToNothing(t *testing.T) {
	w := systemstest.NewWorld(t, refserver.Options{Tokens: []string{"right"}})
	for _, c := range []struct {
		name  string
		url   string
		token string
		event string
		args  string
		want  error
	}{
		{"no such event", w.Srv.URL(), "right", "no.such", `{}`, mcpclient.ErrNotOffered},
		{"no such argument", w.Srv.URL(), "right", "chat.message", `{"board":"b"}`, mcpclient.ErrNotOffered},
		{"arguments that are none", w.Srv.URL(), "right", "chat.message", `[]`, mcpclient.ErrInvalid},
		{"a template of one's own", w.Srv.URL(), "right", "event://nothing/{x}", `{"x":1}`, nil},
		{"wrong token", w.Srv.URL(), "wrong", "chat.message", `{}`, mcpclient.ErrAuth},
		{"nobody there", "http://127.0.0.1:1/mcp", "right", "chat.message", `{}`, mcpclient.ErrUnreachable},
	} {
		for _, mode := range []eventmeter.Mode{eventmeter.Push, eventmeter.Webhook} {
			for _, era := range []mcpclient.Era{mcpclient.Legacy, mcpclient.Modern} {
				t.Run(fmt.Sprintf("%s/%s/%s", c.name, mode, era), func(t *testing.T) {
					d, rec := systemstest.Lane(
						t,
						mcpclient.EndpointOptions{URL: c.url, Tokens: []string{c.token}, Era: era},
						driver.Options{
							System: "sep-1803", Mode: mode, Event: c.event, Listener: driver.ListenerOptions{Authority: w.Authority},
							Arguments: func(int) json.RawMessage { return json.RawMessage(c.args) },
						},
					)
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					defer cancel()
					err := d.Attach(ctx, 0)
					if c.want != nil {
						if !errors.Is(err, c.want) {
							t.Errorf("error is %v", err)
						}
					} else if err == nil {
						t.Error("attached")
					}
					if got := rec.States(0); !slices.Equal(got, []eventmeter.State{eventmeter.Attaching, eventmeter.Failed}) {
						t.Errorf("states %v", got)
					}
				})
			}
		}
	}
}
