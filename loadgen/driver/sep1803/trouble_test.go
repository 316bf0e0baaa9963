package sep1803_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/driver/sep1803"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
	"github.com/eventmeter/eventmeter/sinks"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// withLedger opens a lane that reports to a ledger, all of whose subscriptions
// hear source 0.
func withLedger(t *testing.T, e mcpclient.EndpointOptions, o driver.Options) (driver.Driver, *ledger.Ledger, *eventmeter.Clock) {
	t.Helper()
	ep, err := mcpclient.NewEndpoint(e)
	if err != nil {
		t.Fatal(err)
	}
	clock := eventmeter.NewClock()
	ledger, err := ledger.New(ledger.Options{
		Clock:       clock,
		Run:         1,
		Sources:     1,
		DetachGrace: time.Minute,
		Lanes: []ledger.LaneSpec{
			{Name: "lane", System: "sep-1803", Mode: o.Mode, Subscriptions: o.Subscriptions, Ordered: o.Mode == eventmeter.Push},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	o.Clock, o.Recorder, o.Endpoint, o.System, o.Event, o.Published = clock, ledger, ep, "sep-1803", "chat.message", ledger
	d, err := systems.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), systemstest.Patience)
		defer cancel()
		if err := d.Close(ctx); err != nil {
			t.Errorf("closing the lane: %v", err)
		}
		if err := ep.Close(ctx); err != nil {
			t.Errorf("closing the endpoint: %v", err)
		}
	})
	return d, ledger, clock
}

// TestResourcesCutStreams cuts the streams of a lane while events happen. With
// redelivery every one of them comes, once; without it, those of the time
// without a stream are silent loss, and the sums hold.
func TestResourcesCutStreams(t *testing.T) {
	for _, forget := range []bool{false, true} {
		t.Run(fmt.Sprintf("forget=%t", forget), func(t *testing.T) {
			t.Parallel()
			w := systemstest.NewWorld(t, refserver.Options{})
			const subs, cuts = 6, 12
			d, ledger, clock := withLedger(t, mcpclient.EndpointOptions{URL: w.Srv.URL(), Era: mcpclient.Legacy}, driver.Options{
				Mode:          eventmeter.Push,
				Subscriptions: subs,
				Arguments: func(i int) json.RawMessage {
					return []json.RawMessage{nil, json.RawMessage(`{"channel":"c"}`)}[i%2]
				},
				Settings: sep1803.Settings{
					PerSession: 3,
					Redelivery: !forget,
					CutEvery:   80 * time.Millisecond,
					CutFor:     10 * time.Millisecond,
				},
			})
			systemstest.Attach(t, d, subs)
			figures := d.(driver.Figurer)
			seq := uint32(0)
			for figures.Figures().Values["cuts"] < cuts && seq < 100_000 {
				seq++
				w.Shoot(t, clock, ledger, "c", seq)
			}
			ctx, cancel := context.WithTimeout(t.Context(), systemstest.Patience)
			defer cancel()
			for !forget && ledger.Outstanding() > 0 && sinks.Sleep(ctx, 5*time.Millisecond) {
			}
			if forget { // what is under way must not count as lost
				sinks.Sleep(ctx, 500*time.Millisecond)
			}
			for i := range subs {
				if err := d.Detach(ctx, i); err != nil {
					t.Error(err)
				}
			}
			a := ledger.Account()
			if err := a.Check(); err != nil {
				t.Error(err)
			}
			l, own := a.Lanes[0], figures.Figures().Values
			if l.Unexpected.Total() != 0 || l.Duplicates.Total() != 0 || l.OutOfOrder != 0 || l.LostAnnounced != 0 {
				t.Errorf("%+v", l.SubCounts)
			}
			// What was lost last, at the end, cannot be told from what the detach
			// may have caught under way: excused.
			if got := l.Expected + l.Excused + l.InFlight; got != int64(seq)*subs || l.Delivered+l.LostSilent != l.Expected {
				t.Errorf("%d pairs, and %d events to %d: %+v", got, seq, subs, l.SubCounts)
			}
			if forget {
				if l.LostSilent+l.Excused == 0 || own["resumes"] != 0 || own["redelivered"] != 0 {
					t.Errorf("lost %d, figures %v", l.LostSilent, own)
				}
				return
			}
			if l.LostSilent+l.Excused != 0 || own["redelivered"] == 0 || own["resumes"] < cuts-2 || own["resumesRefused"] != 0 {
				t.Errorf("lost %d, excused %d, figures %v", l.LostSilent, l.Excused, own)
			}
		})
	}
}

// between is a proxy in front of a target that a test can look into.
type between struct {
	*httputil.ReverseProxy
	before func(r *http.Request, body []byte)
	after  func(r *http.Request, body []byte)
}

func newBetween(t *testing.T, to string) (*between, string) {
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	b := &between{ReverseProxy: &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: u.Scheme, Host: u.Host})
			r.Out.Host = u.Host
		},
		FlushInterval: -1, Transport: transport,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}}
	srv := httptest.NewServer(b)
	t.Cleanup(func() {
		srv.Close()
		transport.CloseIdleConnections()
	})
	return b, srv.URL + u.Path
}

// ServeHTTP passes a request on. What after does comes before the answer.
func (b *between) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if b.before != nil {
		b.before(r, body)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if b.after == nil || r.Method == http.MethodGet {
		b.ReverseProxy.ServeHTTP(w, r)
		return
	}
	kept := httptest.NewRecorder()
	b.ReverseProxy.ServeHTTP(kept, r)
	b.after(r, body)
	for k, v := range kept.Header() {
		w.Header()[k] = v
	}
	w.WriteHeader(kept.Code)
	w.Write(kept.Body.Bytes())
}

// TestResourcesBeforeTheSecret has an event delivered before the answer that
// tells the secret.
func TestResourcesBeforeTheSecret(t *testing.T) {
	for _, refuse := range []bool{false, true} {
		t.Run(fmt.Sprintf("refuse=%t", refuse), func(t *testing.T) {
			t.Parallel()
			w := systemstest.NewWorld(t, refserver.Options{RetryBase: time.Millisecond})
			b, address := newBetween(t, w.Srv.URL())
			var figures atomic.Pointer[func() driver.Figures]
			b.after = func(_ *http.Request, body []byte) {
				if !bytes.Contains(body, []byte("subscriptions/register")) {
					return
				}
				w.Fire(t, "c", 0, 1)
				for (*figures.Load())().Values["beforeSecret"] == 0 && sinks.Sleep(t.Context(), time.Millisecond) {
				}
			}
			d, rec := systemstest.Lane(t, mcpclient.EndpointOptions{URL: address, Tokens: []string{"a"}}, driver.Options{
				System:   "sep-1803",
				Mode:     eventmeter.Webhook,
				Settings: sep1803.Settings{Early: map[bool]string{true: "refuse", false: "hold"}[refuse]},
				Listener: driver.ListenerOptions{Authority: w.Authority},
			})
			f := d.(driver.Figurer).Figures
			figures.Store(&f)
			systemstest.Attach(t, d, 1)
			rec.Wait(t, "the event", func(m *systemstest.Memory) bool { return m.Seen(0, 0)[1] == 1 })
			got := f()
			want := map[string]float64{"registrations": 1, "registrationsRaced": 1, "secretsStandard": 1, "registrationsUnanswered": 0}
			for name, n := range want {
				if got.Values[name] != n {
					t.Errorf("%s is %v", name, got.Values[name])
				}
			}
			refused := got.Values["beforeSecretRefused"]
			if refuse != (refused > 0) || refused > got.Values["beforeSecret"] {
				t.Errorf("%v of %v refused", refused, got.Values["beforeSecret"])
			}
			for _, name := range []string{"secretWindow", "secretLate"} {
				if n := got.Timings[name].Histogram.TotalCount(); n != 1 {
					t.Errorf("%s has %d samples", name, n)
				}
			}
			if rec.CountNotices(eventmeter.Rejected) != 0 {
				t.Error("a delivery was rejected")
			}
		})
	}
}

// TestResourcesSessionIsLost ends a lane's session behind its back.
func TestResourcesSessionIsLost(t *testing.T) {
	w := systemstest.NewWorld(t, refserver.Options{})
	b, address := newBetween(t, w.Srv.URL())
	var session atomic.Value
	b.before = func(r *http.Request, _ []byte) {
		if r.Method == http.MethodGet {
			session.Store(r.Header.Get("Mcp-Session-Id"))
		}
	}
	d, rec := systemstest.Lane(t, mcpclient.EndpointOptions{URL: address, Era: mcpclient.Legacy}, driver.Options{
		System: "sep-1803", Mode: eventmeter.Push, Subscriptions: 3, Settings: sep1803.Settings{PerSession: 3, Redelivery: true},
		Arguments: func(i int) json.RawMessage { return json.RawMessage(fmt.Sprintf(`{"channel":"c%d"}`, i)) },
		Push:      driver.Push{Backoff: driver.Backoff{Min: time.Millisecond, Max: 2 * time.Millisecond}},
	})
	systemstest.Attach(t, d, 3)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, w.Srv.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Mcp-Session-Id", session.Load().(string))
	resp, err := w.Client.Do(req)
	if err != nil || resp.StatusCode/100 != 2 {
		t.Fatal(resp, err)
	}
	resp.Body.Close()
	rec.Wait(t, "the subscriptions", func(m *systemstest.Memory) bool {
		again := 0
		for _, c := range m.Calls {
			if c.Cause == eventmeter.Reconnect && c.Method == "resources/subscribe" && c.Failure == "" {
				again++
			}
		}
		return again == 3 && m.CountNotices(eventmeter.Reconnected) >= 3
	})
	for i := range uint32(3) {
		w.Fire(t, fmt.Sprintf("c%d", i), 0, i+1)
		rec.Wait(t, "an event", func(m *systemstest.Memory) bool { return m.Seen(i, 0)[i+1] == 1 && len(m.Seen(i, 0)) == 1 })
	}
	if got := d.(driver.Figurer).Figures().Values["sessions"]; got != 2 {
		t.Errorf("%v sessions", got)
	}
}

// TestResourcesComeAndGo detaches and attaches subscriptions of a shared
// session while events happen.
func TestResourcesComeAndGo(t *testing.T) {
	for _, era := range []mcpclient.Era{mcpclient.Legacy, mcpclient.Modern} {
		t.Run(string(era), func(t *testing.T) {
			t.Parallel()
			w := systemstest.NewWorld(t, refserver.Options{})
			const subs = 6
			d, ledger, clock := withLedger(t, mcpclient.EndpointOptions{URL: w.Srv.URL(), Era: era}, driver.Options{
				Mode: eventmeter.Push, Subscriptions: subs, Settings: sep1803.Settings{PerSession: 3, Redelivery: true},
			})
			systemstest.Attach(t, d, subs)
			done := make(chan struct{})
			go func() {
				defer close(done)
				for round := range 10 {
					// Now one of a session, now all of it.
					gone := []int{round % subs}
					if round%3 == 2 {
						gone = []int{0, 1, 2}
					}
					for _, i := range gone {
						if err := d.Detach(t.Context(), i); err != nil {
							t.Error(err)
						}
					}
					for _, i := range gone {
						if err := d.Attach(t.Context(), i); err != nil {
							t.Error(err)
						}
					}
				}
			}()
			seq := uint32(0)
			for churning := true; churning; {
				select {
				case <-done:
					churning = false
				default:
				}
				seq++
				w.Shoot(t, clock, ledger, "c", seq)
			}
			ctx, cancel := context.WithTimeout(t.Context(), systemstest.Patience)
			defer cancel()
			for ledger.Outstanding() > 0 && sinks.Sleep(ctx, 5*time.Millisecond) {
			}
			a := ledger.Account()
			if err := a.Check(); err != nil {
				t.Error(err)
			}
			l := a.Lanes[0]
			if l.Expected == 0 || l.LostSilent != 0 || l.LostAnnounced != 0 || l.Duplicates.Total() != 0 || l.Unexpected.Total() != 0 ||
				l.Windows != subs+10+2*3 {
				t.Errorf("%d events: %+v", seq, l.SubCounts)
			}
		})
	}
}
