package updates_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/driver/updates"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
)

var lists = refserver.ListOptions{Entries: 20, Page: 10}

// world is a reference server whose numbered resources and lists change.
type world struct{ *systemstest.World }

func newWorld(t *testing.T, o refserver.Options) world {
	o.Lists = lists
	return world{systemstest.NewWorld(t, o)}
}

func (w world) endpoint(era mcpclient.Era) mcpclient.EndpointOptions {
	return mcpclient.EndpointOptions{URL: w.Srv.URL(), Roots: w.Roots(), Era: era}
}

func (w world) change(t *testing.T, what string, s eventmeter.Stamp) {
	t.Helper()
	w.Admin(t, "/inject", fmt.Sprintf(`{"name":"list.changed","data":{%s,"probe":%q}}`, what, s))
}

func items(n int) driver.Options {
	return driver.Options{
		System: "updates", Mode: eventmeter.Push, Subscriptions: n,
		Arguments: func(i int) json.RawMessage { return fmt.Appendf(nil, `{"n":%d}`, i) },
		Settings:  updates.Settings{Resource: "list://item/{n}"},
	}
}

func eachEra(t *testing.T, f func(t *testing.T, era mcpclient.Era)) {
	for _, era := range []mcpclient.Era{mcpclient.Modern, mcpclient.Legacy} {
		t.Run(string(era), func(t *testing.T) { f(t, era) })
	}
}

func figure(d driver.Driver, name string) int { return int(systemstest.Figure(d, name)) }

func TestEachClientLearnsOfItsOwnResource(t *testing.T) {
	eachEra(t, func(t *testing.T, era mcpclient.Era) {
		w := newWorld(t, refserver.Options{})
		w.change(t, `"uri":"list://item/1"`, eventmeter.Stamp{Run: 1, Source: 1, Seq: 1}) // before anybody subscribes
		d, rec := systemstest.Lane(t, w.endpoint(era), items(3))
		systemstest.Attach(t, d, 3)
		for seq := uint32(2); seq <= 4; seq++ {
			w.change(t, `"uri":"list://item/1"`, eventmeter.Stamp{Run: 1, Source: 1, Seq: seq})
			rec.Wait(t, "the change", func(m *systemstest.Memory) bool { return m.Seen(1, 1)[seq] == 1 })
		}
		rec.Wait(t, "the end of the reads", func(*systemstest.Memory) bool { return figure(d, "reads") == 3+3 })
		if n := len(rec.Seen(1, 1)); n != 3 {
			t.Errorf("client 1 learned of %d changes, and 3 were made after it subscribed: %v", n, rec.Seen(1, 1))
		}
		if len(rec.Seen(0, 1)) > 0 || len(rec.Seen(2, 1)) > 0 {
			t.Error("a client learned of the change of another one's resource")
		}
		for name, want := range map[string]int{
			"notifications": 3, "updatesObserved": 0, "readsUnchanged": 0, "changesSuperseded": 0, "unrouted": 0, "refused": 0,
			"sessionsForgotten": 0, "readsFailed": 0,
			"sessions": map[mcpclient.Era]int{mcpclient.Legacy: 3}[era],
		} {
			if got := figure(d, name); got != want {
				t.Errorf("%s is %d, want %d", name, got, want)
			}
		}
	})
}

func TestListsAreReadAgainWhenTheyHaveChanged(t *testing.T) {
	eachEra(t, func(t *testing.T, era mcpclient.Era) {
		w := newWorld(t, refserver.Options{})
		o := items(2)
		o.Settings = updates.Settings{List: "tools"}
		d, rec := systemstest.Lane(t, w.endpoint(era), o)
		systemstest.Attach(t, d, 2)
		w.change(t, `"list":"tools"`, eventmeter.Stamp{Run: 1, Source: 15, Seq: 1}) // on the second page
		rec.Wait(t, "both clients", func(m *systemstest.Memory) bool { return m.Seen(0, 15)[1] == 1 && m.Seen(1, 15)[1] == 1 })
		if got := figure(d, "notifications"); got != 2 {
			t.Errorf("notifications is %d, want 2", got)
		}
		if era == mcpclient.Modern {
			return // it asked for changes of tools alone
		}
		w.change(t, `"list":"prompts"`, eventmeter.Stamp{Run: 1, Source: 15, Seq: 2})
		rec.Wait(t, "a notification of another list", func(*systemstest.Memory) bool { return figure(d, "otherNotifications") == 2 })
	})
}

func TestUpdatesThatAreNotRead(t *testing.T) {
	eachEra(t, func(t *testing.T, era mcpclient.Era) {
		w := newWorld(t, refserver.Options{})
		o := items(1)
		o.Settings = updates.Settings{Resource: "list://item/7", Identify: updates.IdentifyNone}
		stamp := eventmeter.Stamp{Run: 1, Seq: 1}
		o.Sole = func(eventmeter.Sub, eventmeter.Instant) (eventmeter.Emission, bool) {
			return eventmeter.Emission{Stamp: stamp, Measured: true}, true
		}
		d, rec := systemstest.Lane(t, w.endpoint(era), o)
		systemstest.Attach(t, d, 1)
		w.change(t, `"uri":"list://item/7"`, stamp)
		rec.Wait(t, "the update", func(*systemstest.Memory) bool { return figure(d, "updatesIdentified") == 1 })
		if figure(d, "reads") != 0 {
			t.Error("the resource was read")
		}
	})
}

func TestForgottenSessionsAreReplaced(t *testing.T) {
	spec, err := faults.Parse("forget(at=1ms)")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, refserver.Options{Faults: spec})
	o := items(2)
	o.Push.Backoff.Min, o.Push.Backoff.Max = 1e6, 1e7
	d, rec := systemstest.Lane(t, w.endpoint(mcpclient.Legacy), o)
	systemstest.Attach(t, d, 2)
	w.Fire(t, "anywhere", 0, 1) // from the first event on, the fault counts
	rec.Wait(t, "new streams", func(m *systemstest.Memory) bool { return m.CountNotices(eventmeter.Reconnected) == 2 })
	w.change(t, `"uri":"list://item/1"`, eventmeter.Stamp{Run: 1, Source: 1, Seq: 1})
	rec.Wait(t, "a change in the new session", func(m *systemstest.Memory) bool { return m.Seen(1, 1)[1] == 1 })
	if f, s := figure(d, "sessionsForgotten"), figure(d, "sessions"); f != 2 || s != 4 {
		t.Errorf("%d sessions were forgotten and %d opened, want 2 and 4", f, s)
	}
}
