package events_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
)

func TestEveryModeOverEveryTransport(t *testing.T) {
	w := systemstest.NewWorld(t, refserver.Options{NextPoll: 50 * time.Millisecond})
	for _, mode := range []eventmeter.Mode{eventmeter.Poll, eventmeter.Push, eventmeter.Webhook} {
		for _, proto := range []string{"1.1", "2", "h2c"} {
			for _, era := range []mcpclient.Era{mcpclient.Modern, mcpclient.Legacy} {
				for _, rev := range mcpclient.Revisions {
					t.Run(fmt.Sprintf("%s/%s/%s/%s", mode, proto, era, rev), func(t *testing.T) {
						t.Parallel()
						everyMode(t, w, mode, proto, era, rev)
					})
				}
			}
		}
	}
}

func everyMode(t *testing.T, w *systemstest.World, mode eventmeter.Mode, proto string, era mcpclient.Era, rev mcpclient.Revision) {
	e := mcpclient.EndpointOptions{URL: w.Srv.URL(), Era: era, Revision: rev, Tokens: []string{"a", "b"}}
	if proto == "2" {
		e.URL, e.Roots = w.Srv.TLSURL(), w.Roots()
	}
	const subs, events = 3, 5
	source := uint16(systemstest.Sources.Add(1))
	poll := &driver.Poll{MinInterval: 10 * time.Millisecond}
	if rev == mcpclient.LongPoll {
		poll.Timeout = 200 * time.Millisecond
	}
	d, rec := systemstest.Lane(t, e, driver.Options{
		Mode: mode, HTTP: proto, Subscriptions: subs,
		Arguments: func(i int) json.RawMessage { return json.RawMessage(fmt.Sprintf(`{"channel":%q}`, t.Name())) },
		Poll:      poll,
		Listener:  driver.ListenerOptions{Authority: w.Authority},
	})
	systemstest.Attach(t, d, subs)
	for seq := range uint32(events) {
		w.Fire(t, t.Name(), source, seq+1)
	}
	for i := range uint32(subs) {
		rec.Wait(t, "all events", func(m *systemstest.Memory) bool { return len(m.Seen(i, source)) == events })
	}
	for i := range subs {
		if err := d.Detach(t.Context(), i); err != nil {
			t.Error(err)
		}
	}
	rec.Mu.Lock()
	defer rec.Mu.Unlock()
	want := []eventmeter.State{eventmeter.Attaching, eventmeter.Active, eventmeter.Detaching, eventmeter.Detached}
	for i := range uint32(subs) {
		if got := rec.States(i); !slices.Equal(got, want) {
			t.Errorf("subscription %d went through %v", i, got)
		}
	}
	for _, n := range rec.Notices {
		if n.Kind == eventmeter.Claimed {
			continue // the cursor of an empty poll passes what other tests publish
		}
		t.Errorf("notice %v %s", n.Kind, n.Detail)
	}
	for _, c := range rec.Calls {
		if c.Failure != "" && c.Method != "" { // what the target itself calls may come too late for a path
			t.Errorf("%s failed: %s", c.Method, c.Failure)
		}
	}
	if traffic := d.(driver.Meter).Traffic(); traffic.Up == 0 || traffic.Down == 0 || traffic.Opened == 0 {
		t.Errorf("traffic %+v", traffic)
	}
}

func TestDiscoverTheReferenceTarget(t *testing.T) {
	w := systemstest.NewWorld(t, refserver.Options{})
	for _, era := range []mcpclient.Era{mcpclient.Auto, mcpclient.Modern, mcpclient.Legacy} {
		t.Run(string(era), func(t *testing.T) {
			d, _ := systemstest.Lane(t, mcpclient.EndpointOptions{URL: w.Srv.URL(), Era: era}, driver.Options{Mode: eventmeter.Poll})
			o, err := d.(driver.Discoverer).Discover(t.Context())
			must(t, err)
			e, ok := o.Event("chat.message")
			if !ok || !slices.Contains(e.Delivery, eventmeter.Push) || o.Server == "" || o.Version == "" || o.Capability == "" {
				t.Errorf("offer %+v", o)
			}
		})
	}
}

func TestAttachToNothing(t *testing.T) {
	w := systemstest.NewWorld(t, refserver.Options{Tokens: []string{"right"}})
	for _, c := range []struct {
		name  string
		url   string
		token string
		event string
		want  error
	}{
		{"no such event", w.Srv.URL(), "right", "no.such", mcpclient.ErrNotOffered},
		{"wrong token", w.Srv.URL(), "wrong", "chat.message", mcpclient.ErrAuth},
		{"nobody there", "http://127.0.0.1:1/mcp", "right", "chat.message", mcpclient.ErrUnreachable},
		{"no MCP there", w.Srv.AdminURL() + "/nothing", "right", "chat.message", mcpclient.ErrProtocol},
	} {
		for _, mode := range []eventmeter.Mode{eventmeter.Poll, eventmeter.Push, eventmeter.Webhook} {
			t.Run(c.name+"/"+string(mode), func(t *testing.T) {
				d, rec := systemstest.Lane(t, mcpclient.EndpointOptions{URL: c.url, Tokens: []string{c.token}},
					driver.Options{Mode: mode, Event: c.event, Listener: driver.ListenerOptions{Authority: w.Authority}})
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				err := d.Attach(ctx, 0)
				if !errors.Is(err, c.want) {
					t.Errorf("error is %v", err)
				}
				if got := rec.States(0); !slices.Equal(got, []eventmeter.State{eventmeter.Attaching, eventmeter.Failed}) {
					t.Errorf("states %v", got)
				}
			})
		}
	}
}
