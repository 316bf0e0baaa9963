package sep2549_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/driver/sep2549"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// listWorld is clients of lists, a ledger that judges them and a way to change
// the lists.
type listWorld struct {
	d      driver.Driver
	ledger *ledger.Ledger
	clock  *eventmeter.Clock
	change func(list string, probe string) error
	seq    map[uint16]uint32
	run    uint32
}

// listRuns gives each world a run of its own: they share servers, whose lists
// still show the marks of the run before.
var listRuns atomic.Uint32

func newListWorld(
	t *testing.T,
	e mcpclient.EndpointOptions,
	o driver.Options,
	sources int,
	change func(list, probe string) error,
) *listWorld {
	t.Helper()
	w := &listWorld{clock: eventmeter.NewClock(), change: change, seq: map[uint16]uint32{}, run: listRuns.Add(1)}
	var err error
	w.ledger, err = ledger.New(ledger.Options{Clock: w.clock, Run: w.run, Sources: sources, Lanes: []ledger.LaneSpec{
		{Name: "lists", System: "sep-2549", Mode: eventmeter.Poll, Subscriptions: o.Subscriptions, Owed: o.Owed, Ordered: true},
	}})
	if err != nil {
		t.Fatal(err)
	}
	ep, err := mcpclient.NewEndpoint(e)
	if err != nil {
		t.Fatal(err)
	}
	o.System, o.Mode, o.Clock, o.Recorder, o.Endpoint = "sep-2549", eventmeter.Poll, w.clock, w.ledger, ep
	o.Published = w.ledger
	if w.d, err = systems.New(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), systemstest.Patience)
		defer cancel()
		if err := errors.Join(w.d.Close(ctx), ep.Close(ctx)); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return w
}

// injectList changes a list of the reference server.
func injectList(w *systemstest.World) func(list, probe string) error {
	return func(list, probe string) error {
		body := fmt.Sprintf(`{"name":"list.changed","data":{"list":%q,"probe":%q}}`, list, probe)
		resp, err := w.Client.Post(w.Srv.AdminURL()+"/inject", "application/json", bytes.NewReader([]byte(body)))
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusAccepted {
			return fmt.Errorf("inject: %s", resp.Status)
		}
		return nil
	}
}

// fire changes a list with the next probe of a source.
func (w *listWorld) fire(t *testing.T, list string, source uint16) {
	t.Helper()
	w.seq[source]++
	s := eventmeter.Stamp{Run: w.run, Source: source, Seq: w.seq[source]}
	now := w.clock.Now()
	w.ledger.Fired(eventmeter.Emission{Stamp: s, Intended: now, Fired: now, Measured: true})
	outcome := eventmeter.Accepted
	if err := w.change(list, s.String()); err != nil {
		t.Error(err)
		outcome = eventmeter.Uncertain
	}
	w.ledger.Resolved(s, outcome, w.clock.Now())
}

// settle waits until every client has learned of every change.
func (w *listWorld) settle(t *testing.T) {
	t.Helper()
	w.wait(t, "every change", func() bool { return w.ledger.Outstanding() == 0 })
}

// wait waits until ok.
func (w *listWorld) wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(systemstest.Patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("waited for %s; %d changes were not learned of", what, w.ledger.Outstanding())
			return
		}
	}
}

// finish ends all clients and compares the two accounts.
func (w *listWorld) finish(t *testing.T, clients int) (ledger.LaneAccount, driver.Figures) {
	t.Helper()
	for i := range clients {
		if err := w.d.Detach(t.Context(), i); err != nil {
			t.Error(err)
		}
	}
	account := w.ledger.Account()
	if err := account.Check(); err != nil {
		t.Errorf("the ledger: %v", err)
	}
	lane := account.Lanes[0]
	f := w.d.(driver.Figurer).Figures()
	v := f.Values
	if v["unbalanced"] != 0 {
		t.Errorf("the sums differ: %v", v)
	}
	if int64(v["changesOwed"]) != lane.Expected || int64(v["changesSeen"]+v["changesSuperseded"]) != lane.Delivered ||
		int64(v["changesNeverSeen"]) != lane.LostSilent {
		t.Errorf("the ledger has %d owed, %d delivered, %d lost; the lane %v", lane.Expected, lane.Delivered, lane.LostSilent, v)
	}
	if n := f.Timings["staleness"].Histogram.TotalCount(); n != lane.Delivered {
		t.Errorf("%d times of %d", n, lane.Delivered)
	}
	if lane.Unexpected.Total()+lane.Duplicates.Total()+lane.OutOfOrder != 0 {
		t.Errorf("unexpected %+v, duplicates %+v, out of order %d", lane.Unexpected, lane.Duplicates, lane.OutOfOrder)
	}
	return lane, f
}

func TestListsOfEveryKind(t *testing.T) {
	w := systemstest.NewWorld(t, refserver.Options{Lists: refserver.ListOptions{Entries: 7, Page: 3, TTL: 100 * time.Millisecond}})
	for _, list := range []string{"tools", "prompts", "resources", "templates", "resource"} {
		for _, era := range []mcpclient.Era{mcpclient.Modern, mcpclient.Legacy} {
			for _, told := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/told=%t", list, era, told), func(t *testing.T) {
					const clients, sources, rounds = 4, 3, 2
					o := driver.Options{
						Subscriptions: clients,
						Settings:      sep2549.Settings{Cache: true, List: list, Use: 200, Notifications: told, Jitter: 0.2},
					}
					lw := newListWorld(
						t,
						mcpclient.EndpointOptions{URL: w.Srv.URL(), Era: era, Tokens: []string{"a", "b"}},
						o,
						sources,
						injectList(w),
					)
					systemstest.Attach(t, lw.d, clients)
					for range rounds {
						for s := range uint16(sources) {
							lw.fire(t, list, s)
						}
						lw.settle(t)
					}
					lw.wait(t, "a use of a fresh copy", func() bool { return systemstest.Figure(lw.d, "fetchesAvoided") > 0 })
					lane, f := lw.finish(t, clients)
					if lane.Expected != clients*sources*rounds || lane.Delivered != lane.Expected {
						t.Errorf("%d expected, %d delivered", lane.Expected, lane.Delivered)
					}
					v := f.Values
					if v["fetchesAvoided"] == 0 || v["ttlMs"] != 100 || v["privatePages"] != 0 && list != "resources" {
						t.Errorf("figures %v", v)
					}
					if invalid := f.Timings["invalidation"].Histogram.TotalCount(); told != (invalid > 0) ||
						told != (v["changesNotified"] > 0) {
						t.Errorf("told %t: %d copies were made stale by %v notifications", told, invalid, v["changesNotified"])
					}
				})
			}
		}
	}
}

func TestListsOverEveryTransport(t *testing.T) {
	w := systemstest.NewWorld(t, refserver.Options{Lists: refserver.ListOptions{Entries: 5, Page: 2, TTL: 60 * time.Millisecond}})
	for _, proto := range []string{"1.1", "2", "h2c"} {
		t.Run(proto, func(t *testing.T) {
			e := mcpclient.EndpointOptions{URL: w.Srv.URL()}
			if proto == "2" {
				e.URL, e.Roots = w.Srv.TLSURL(), w.Roots()
			}
			const clients = 3
			o := driver.Options{Subscriptions: clients, HTTP: proto, Settings: sep2549.Settings{Cache: true, Use: 100, Notifications: true}}
			lw := newListWorld(t, e, o, 1, injectList(w))
			systemstest.Attach(t, lw.d, clients)
			for range 5 {
				lw.fire(t, "all", 0)
			}
			lw.settle(t)
			lane, _ := lw.finish(t, clients)
			if lane.Delivered != clients*5 {
				t.Errorf("%d delivered", lane.Delivered)
			}
			if traffic := lw.d.(driver.Meter).Traffic(); traffic.Up == 0 || traffic.Down == 0 || traffic.Opened == 0 {
				t.Errorf("traffic %+v", traffic)
			}
		})
	}
}

func TestListsInEveryManner(t *testing.T) {
	for _, c := range []struct {
		name  string
		lists refserver.ListOptions
		set   sep2549.Settings
		holds func(v map[string]float64) bool
	}{
		{"no cache", refserver.ListOptions{TTL: time.Hour}, sep2549.Settings{},
			func(v map[string]float64) bool { return v["fetchesAvoided"] == 0 && v["fetchesUncached"] > 0 }},
		{"no time to live", refserver.ListOptions{}, sep2549.Settings{Cache: true},
			func(v map[string]float64) bool { return v["fetchesAvoided"] == 0 && v["fetchesUncached"] > 0 }},
		{"notifications alone", refserver.ListOptions{TTL: time.Hour}, sep2549.Settings{Cache: true, Notifications: true},
			func(v map[string]float64) bool { return v["fetchesExpired"] == 0 && v["fetchesChanged"] > 0 }},
		{"the earlier spelling", refserver.ListOptions{TTL: time.Second, Older: true}, sep2549.Settings{Cache: true},
			func(v map[string]float64) bool {
				return v["ttlMs"] == 1000 && v["fetchesExpired"] > 0 && v["privatePages"] > 0
			}},
		{"cursors that fail", refserver.ListOptions{TTL: 20 * time.Millisecond, Strict: true}, sep2549.Settings{Cache: true, Jitter: 0.9},
			func(v map[string]float64) bool { return v["cursorFailures"] > 0 }},
		{"shared", refserver.ListOptions{TTL: 50 * time.Millisecond}, sep2549.Settings{Cache: true, Shared: true},
			func(v map[string]float64) bool { return v["fetchesFirst"] == 4 && v["fetchesExpired"] > 0 }},
		{"shared and told", refserver.ListOptions{TTL: time.Hour}, sep2549.Settings{Cache: true, Shared: true, Notifications: true},
			func(v map[string]float64) bool { return v["fetchesFirst"] == 4 && v["fetchesChanged"] > 0 }},
		{"shared, but private", refserver.ListOptions{TTL: 50 * time.Millisecond, Private: true}, sep2549.Settings{Cache: true, Shared: true},
			func(v map[string]float64) bool { return v["fetchesFirst"] == 8 && v["privatePages"] >= 8 }},
		{"in the background", refserver.ListOptions{TTL: 80 * time.Millisecond}, sep2549.Settings{Cache: true, Background: true, Jitter: 0.5},
			func(v map[string]float64) bool { return v["fetchesBackground"] > 0 }},
		{"in the background and told", refserver.ListOptions{TTL: 300 * time.Millisecond},
			sep2549.Settings{Cache: true, Background: true, Jitter: 0.5, Notifications: true, Shared: true},
			func(v map[string]float64) bool { return v["fetchesChanged"]+v["fetchesBackground"] > 0 }},
		{"only some sources", refserver.ListOptions{TTL: 30 * time.Millisecond}, sep2549.Settings{Cache: true},
			func(v map[string]float64) bool { return v["changesOwed"] == 4*4 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.lists.Entries, c.lists.Page = 5, 2
			w := systemstest.NewWorld(t, refserver.Options{Lists: c.lists})
			const clients, sources = 4, 2
			rounds := 4
			if c.lists.Strict {
				rounds = 6 // chance decides which cursors fail
			}
			c.set.Use = 200
			o := driver.Options{Subscriptions: clients, Settings: c.set}
			if c.name == "only some sources" {
				o.Owed = func(i int) []uint16 { return []uint16{uint16(i % 2)} }
			}
			lw := newListWorld(t, mcpclient.EndpointOptions{URL: w.Srv.URL(), Tokens: []string{"a", "b"}}, o, sources, injectList(w))
			systemstest.Attach(t, lw.d, clients)
			for range rounds {
				for s := range uint16(sources) {
					lw.fire(t, "tools", s)
				}
				if c.name != "the earlier spelling" {
					lw.settle(t)
				}
			}
			lw.settle(t)
			lane, f := lw.finish(t, clients)
			if lane.LostSilent != 0 || lane.Delivered == 0 {
				t.Errorf("%d delivered, %d lost", lane.Delivered, lane.LostSilent)
			}
			if !c.holds(f.Values) {
				t.Errorf("figures %v", f.Values)
			}
		})
	}
}

// Clients that come and go keep the account exact, and a change that nobody
// fetched in time is lost.
func TestListsChurnAndLoss(t *testing.T) {
	w := systemstest.NewWorld(t, refserver.Options{Lists: refserver.ListOptions{Entries: 3, Page: 10, TTL: time.Hour}})
	const clients = 3
	lw := newListWorld(
		t,
		mcpclient.EndpointOptions{URL: w.Srv.URL()},
		driver.Options{Subscriptions: clients, Settings: sep2549.Settings{Cache: true, Use: 100}},
		1,
		injectList(w),
	)
	systemstest.Attach(t, lw.d, clients)
	lw.fire(t, "tools", 0)
	if err := lw.d.Detach(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	lw.fire(t, "tools", 0)
	if err := lw.d.Attach(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	lw.fire(t, "tools", 0)
	lane, _ := lw.finish(t, clients)
	// Clients 0 and 2 were there for three changes, client 1 for the first and
	// the third.
	if lane.Expected != 8 || lane.LostSilent != 8 {
		t.Errorf("%d expected, %d lost", lane.Expected, lane.LostSilent)
	}
	if err := lw.d.Attach(t.Context(), 99); !errors.Is(err, mcpclient.ErrState) {
		t.Errorf("attach 99: %v", err)
	}
}

func TestListsRefuseNonsense(t *testing.T) {
	ep, err := mcpclient.NewEndpoint(mcpclient.EndpointOptions{URL: "http://127.0.0.1:1/mcp"})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []driver.Options{
		{Mode: eventmeter.Push},
		{Mode: eventmeter.Poll, Settings: sep2549.Settings{Cache: true, List: "nonsense"}},
		{Mode: eventmeter.Poll, Settings: sep2549.Settings{Cache: true, Jitter: 2}},
		{Mode: eventmeter.Poll, Settings: sep2549.Settings{Cache: true, Background: true}},
	} {
		o.System, o.Clock, o.Recorder, o.Endpoint = "sep-2549", eventmeter.NewClock(), eventmeter.Tee(), ep
		if _, err := systems.New(o); err == nil {
			t.Errorf("%+v was taken", o.Settings)
		}
	}
}
