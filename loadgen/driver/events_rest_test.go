package driver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/loadgen/driver"
)

// Nothing of one principal reaches another, in any mode, whatever it costs:
// each note is one principal's.
func TestPrincipalsAreIsolated(t *testing.T) {
	w := newWorld(t, refserver.Options{NextPoll: 50 * time.Millisecond, TTLMin: time.Second})
	tokens := []string{"p-0", "p-1", "p-2", "p-3"}
	const events = 5
	type open struct {
		name string
		d    driver.Driver
		rec  *memory
	}
	var lanes []open
	for _, o := range []driver.Options{
		{Mode: eventmeter.Poll, Poll: driver.PollOptions{MinInterval: 10 * time.Millisecond, Timeout: 200 * time.Millisecond}},
		{Mode: eventmeter.Push},
		{Mode: eventmeter.Webhook, Webhook: driver.WebhookOptions{TTL: 3 * time.Second, RefreshAt: 0.1, RotateEvery: 1}},
		{System: "smithery", Mode: eventmeter.Webhook},
	} {
		for _, era := range []driver.Era{driver.Modern, driver.Legacy} {
			o.Event, o.Subscriptions, o.Webhook.Authority = "private.note", 2*len(tokens), w.authority
			d, rec := lane(t, driver.EndpointOptions{URL: w.srv.URL(), Era: era, Tokens: tokens}, o)
			attach(t, d, o.Subscriptions)
			lanes = append(lanes, open{fmt.Sprintf("%s %s %s", o.System, o.Mode, era), d, rec})
		}
	}
	for seq := range uint32(events) {
		for p, name := range tokens {
			w.note(t, name, uint16(p), seq+1)
		}
	}
	for _, l := range lanes {
		for i := range uint32(2 * len(tokens)) {
			l.rec.wait(t, l.name, func(m *memory) bool { return len(m.seen(i, uint16(i)%4)) == events })
		}
		for i := range 2 * len(tokens) { // so that nothing more can come
			if err := l.d.Detach(t.Context(), i); err != nil {
				t.Error(err)
			}
		}
		l.rec.mu.Lock()
		for _, d := range l.rec.deliveries {
			if uint32(d.Stamp.Source) != d.Sub.Index%4 {
				t.Errorf("%s: subscription %d got a note of %s", l.name, d.Sub.Index, tokens[d.Stamp.Source])
			}
		}
		l.rec.mu.Unlock()
	}
}

func TestChangesOfTheEventTypes(t *testing.T) {
	for _, era := range []driver.Era{driver.Modern, driver.Legacy} {
		t.Run(string(era), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, refserver.Options{})
			d, rec := lane(t, driver.EndpointOptions{URL: w.srv.URL(), Era: era, Tokens: []string{"a"}},
				driver.Options{Mode: eventmeter.Push, Events: driver.EventsOptions{Listen: true}})
			attach(t, d, 1)
			lists := func(n int) func(*memory) bool {
				return func(m *memory) bool {
					found := 0
					for _, c := range m.calls {
						if c.Method == "events/list" && c.Cause == eventmeter.Discovery && c.Failure == "" {
							found++
						}
					}
					return found >= n
				}
			}
			rec.wait(t, "the first list", lists(1))
			w.admin(t, "/types", `{"name":"tick","offered":false}`)
			rec.wait(t, "the second list", lists(2))
			w.admin(t, "/types", `{"name":"tick","offered":false}`) // nothing changes
			w.admin(t, "/types", `{"name":"tick","offered":true}`)
			rec.wait(t, "the third list", lists(3))
			// Closing the lane waits for the goroutine that counts.
			if err := d.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			f := d.(driver.Figurer).Figures()
			for name, want := range map[string]float64{"listens": 1, "listChanged": 2, "relists": 2, "typesVanished": 1, "typesAppeared": 1, "relistsFailed": 0} {
				if f.Values[name] != want {
					t.Errorf("%s is %v, want %v", name, f.Values[name], want)
				}
			}
			if n := f.Timings["relist"].Histogram.TotalCount(); n != 2 {
				t.Errorf("%d times of lists", n)
			}
		})
	}
}

// What a listening lane sends, to the byte, and that a target which has no such
// stream is left alone.
func TestListeningOnTheWire(t *testing.T) {
	for _, c := range []struct {
		era  driver.Era
		want string
	}{
		{driver.Modern, `POST events/poll|POST subscriptions/listen application/json, text/event-stream {"jsonrpc":"2.0","id":N,"method":"subscriptions/listen","params":{"notifications":{"eventsListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"eventmeter","version":"0.1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`},
		{driver.Legacy, `GET text/event-stream s1|POST events/poll`},
	} {
		t.Run(string(c.era), func(t *testing.T) {
			var mu sync.Mutex
			var seen []string
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				var m struct {
					ID     json.RawMessage
					Method string
				}
				json.Unmarshal(body, &m)
				line := ""
				status, result := 200, `{}`
				switch {
				case r.Method == http.MethodDelete:
				case r.Method == http.MethodGet:
					line, status = "GET "+r.Header.Get("Accept")+" "+r.Header.Get("Mcp-Session-Id")+string(body), 405
				case m.Method == "subscriptions/listen":
					text := strings.Replace(string(body), `"id":`+string(m.ID), `"id":N`, 1)
					line, status = "POST "+r.Header.Get("Mcp-Method")+" "+r.Header.Get("Accept")+" "+text, 404
				case m.Method == "server/discover" && c.era == driver.Modern:
					result = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{}}`
				case m.Method == "initialize" && c.era == driver.Legacy:
					w.Header().Set("Mcp-Session-Id", "s1")
					result = `{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"x","version":"1"}}`
				case m.Method == "notifications/initialized":
					status = 202
				case m.Method == "events/poll":
					line, result = "POST events/poll", `{"events":[],"cursor":"c1","nextPollMs":600000}`
				default:
					status = 400
				}
				if line != "" {
					mu.Lock()
					if !slices.Contains(seen, line) {
						seen = append(seen, line)
					}
					mu.Unlock()
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(status)
				if status == 200 {
					fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
				}
			}))
			t.Cleanup(srv.Close)
			d, rec := lane(t, driver.EndpointOptions{URL: srv.URL + "/mcp", Era: c.era}, driver.Options{Mode: eventmeter.Poll, Events: driver.EventsOptions{Listen: true}})
			attach(t, d, 1)
			rec.wait(t, "the refusal", func(m *memory) bool {
				return slices.ContainsFunc(m.calls, func(c eventmeter.Call) bool {
					return c.Method == "subscriptions/listen" && c.Failure != "" && c.Cause == eventmeter.Discovery
				})
			})
			if err := d.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			defer mu.Unlock()
			slices.Sort(seen)
			if got := strings.Join(seen, "|"); got != c.want {
				t.Errorf("sent\n%s\nwant\n%s", got, c.want)
			}
			if got := figure(d, "listensRefused"); got != 1 {
				t.Errorf("listensRefused is %v", got)
			}
		})
	}
}

// A stream of notifications that showed signs of life and fell silent is opened
// again.
func TestAStreamOfNotificationsDies(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		json.NewDecoder(r.Body).Decode(&m)
		if m.Method == "subscriptions/listen" {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, ": alive\n\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		result := `{"events":[],"cursor":"c1","nextPollMs":600000}`
		if m.Method == "server/discover" {
			result = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{}}`
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}))
	t.Cleanup(srv.Close)
	d, rec := lane(t, driver.EndpointOptions{URL: srv.URL + "/mcp", Era: driver.Modern}, driver.Options{
		Mode: eventmeter.Poll, Events: driver.EventsOptions{Listen: true},
		Push: driver.PushOptions{Heartbeat: 20 * time.Millisecond, BackoffMin: time.Millisecond, BackoffMax: time.Millisecond},
	})
	attach(t, d, 1)
	rec.wait(t, "the second stream", func(m *memory) bool {
		n := 0
		for _, c := range m.calls {
			if c.Method == "subscriptions/listen" && c.Requests == 1 && c.Failure == "" {
				n++
			}
		}
		return n >= 2
	})
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := figure(d, "listensDead"); got < 1 {
		t.Errorf("listensDead is %v", got)
	}
}

func TestAnEventTypeIsRemoved(t *testing.T) {
	w := newWorld(t, refserver.Options{NextPoll: 50 * time.Millisecond})
	var recs []*memory
	for _, mode := range []eventmeter.Mode{eventmeter.Poll, eventmeter.Push, eventmeter.Webhook} {
		for _, wait := range []time.Duration{0, 10 * time.Second} {
			d, rec := lane(t, driver.EndpointOptions{URL: w.srv.URL(), Tokens: []string{"a"}}, driver.Options{
				Mode: mode, Poll: driver.PollOptions{MinInterval: time.Millisecond, Timeout: wait}, Webhook: driver.WebhookOptions{Authority: w.authority},
			})
			attach(t, d, 1)
			recs = append(recs, rec)
		}
	}
	w.admin(t, "/types", `{"name":"chat.message","offered":false}`)
	for _, rec := range recs {
		rec.wait(t, "the end", func(m *memory) bool { return slices.Contains(m.states(0), eventmeter.Failed) })
		rec.mu.Lock()
		if rec.noticed(eventmeter.Terminated) != 1 || !strings.Contains(rec.transitions[len(rec.transitions)-1].Reason, "-32011") {
			t.Errorf("told:\n%s", strings.Join(rec.log, "\n"))
		}
		rec.mu.Unlock()
	}
}

func TestResumeAfterDetach(t *testing.T) {
	w := newWorld(t, refserver.Options{NextPoll: 50 * time.Millisecond})
	for i, mode := range []eventmeter.Mode{eventmeter.Poll, eventmeter.Push, eventmeter.Webhook} {
		for j, resume := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/%t", mode, resume), func(t *testing.T) {
				source := uint16(900 + 2*i + j)
				d, rec := lane(t, driver.EndpointOptions{URL: w.srv.URL(), Tokens: []string{"a"}}, driver.Options{
					Mode: mode, MaxAge: time.Minute, Events: driver.EventsOptions{Resume: resume},
					Arguments: func(int) json.RawMessage { return json.RawMessage(fmt.Sprintf(`{"channel":%q}`, t.Name())) },
					Poll:      driver.PollOptions{MinInterval: time.Millisecond, Timeout: 10 * time.Second},
					Webhook:   driver.WebhookOptions{Authority: w.authority},
				})
				attach(t, d, 1)
				w.fire(t, t.Name(), source, 1)
				rec.wait(t, "the first event", func(m *memory) bool { return m.seen(0, source)[1] > 0 })
				if err := d.Detach(t.Context(), 0); err != nil {
					t.Fatal(err)
				}
				w.fire(t, t.Name(), source, 2)
				attach(t, d, 1)
				w.fire(t, t.Name(), source, 3)
				rec.wait(t, "the last event", func(m *memory) bool { return m.seen(0, source)[3] > 0 })
				if err := d.Detach(t.Context(), 0); err != nil {
					t.Fatal(err)
				}
				rec.mu.Lock()
				defer rec.mu.Unlock()
				if got := rec.seen(0, source)[2] > 0; got != resume {
					t.Errorf("what happened meanwhile came: %t", got)
				}
				if resume && figure(d, "resumed") != 1 {
					t.Errorf("figures %v", d.(driver.Figurer).Figures().Values)
				}
			})
		}
	}
}

func TestStreamsThatAreCut(t *testing.T) {
	w := newWorld(t, refserver.Options{})
	var mu sync.Mutex
	acked := map[eventmeter.Stamp]eventmeter.Instant{}
	d, rec := lane(t, driver.EndpointOptions{URL: w.srv.URL(), Tokens: []string{"a"}}, driver.Options{
		Mode: eventmeter.Push, Push: driver.PushOptions{BackoffMin: time.Millisecond, BackoffMax: 2 * time.Millisecond},
		Events: driver.EventsOptions{CutEvery: 20 * time.Millisecond, CutFor: 20 * time.Millisecond},
		Acked: func(s eventmeter.Stamp) eventmeter.Instant {
			mu.Lock()
			defer mu.Unlock()
			return acked[s]
		},
	})
	attach(t, d, 1)
	seq := uint32(0)
	for figure(d, "replayedOnReconnect") < 3 {
		seq++
		w.fire(t, "c", 1, seq)
		mu.Lock()
		acked[eventmeter.Stamp{Run: 1, Source: 1, Seq: seq}] = 1 // before any reconnect
		mu.Unlock()
		if seq == 20_000 {
			t.Fatalf("figures %v", d.(driver.Figurer).Figures().Values)
		}
	}
	rec.wait(t, "all events", func(m *memory) bool { return len(m.seen(0, 1)) == int(seq) })
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if rec.noticed(eventmeter.Reconnected) == 0 || rec.noticed(eventmeter.TransientError) > 0 {
		t.Errorf("notices %v", rec.notices)
	}
	f := d.(driver.Figurer).Figures()
	if n := f.Timings["outage"].Histogram.TotalCount(); f.Values["cuts"] == 0 || n == 0 || float64(n) > f.Values["cuts"] {
		t.Errorf("%v cuts, %d outages", f.Values["cuts"], n)
	}
}

func TestTheReceiversDocumentIsProofEnough(t *testing.T) {
	w := newWorld(t, refserver.Options{Proof: refserver.ProofWellKnown})
	opts := driver.Options{Mode: eventmeter.Webhook, Webhook: driver.WebhookOptions{Authority: w.authority}}
	d, rec := lane(t, driver.EndpointOptions{URL: w.srv.URL(), Tokens: []string{"a"}}, opts)
	attach(t, d, 1)
	w.fire(t, "c", 1, 1)
	rec.wait(t, "the event", func(m *memory) bool { return len(m.seen(0, 1)) == 1 })
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if !slices.ContainsFunc(rec.calls, func(c eventmeter.Call) bool {
		return c.Cause == eventmeter.Verification && c.Method == http.MethodGet && c.Up > 0 && c.Down > 0
	}) {
		t.Errorf("told:\n%s", strings.Join(rec.log, "\n"))
	}
}

// A target that signs with one secret only, and receivers that know one only:
// what is refused in the race comes again, and is counted to the last delivery.
func TestRotationUnderLoad(t *testing.T) {
	for _, secrets := range []driver.Secrets{driver.SecretsBoth, driver.SecretsEarly, driver.SecretsLate} {
		t.Run(string(secrets), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, refserver.Options{TTLMin: time.Second, DualSignGrace: -1, RetryBase: 10 * time.Millisecond, RetryMax: 10})
			d, rec := lane(t, driver.EndpointOptions{URL: w.srv.URL(), Tokens: []string{"a"}}, driver.Options{
				Mode: eventmeter.Webhook, Subscriptions: 4,
				Webhook: driver.WebhookOptions{Authority: w.authority, TTL: 2 * time.Second, RefreshAt: 0.1, RotateEvery: 1, Secrets: secrets},
			})
			attach(t, d, 4)
			seq := uint32(0)
			for figure(d, "rotations") < 24 {
				seq++
				w.fire(t, "c", 1, seq)
				if seq == 100_000 {
					t.Fatalf("figures %v", d.(driver.Figurer).Figures().Values)
				}
			}
			for i := range uint32(4) {
				rec.wait(t, "all events", func(m *memory) bool { return len(m.seen(i, 1)) == int(seq) })
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := d.Close(ctx); err != nil {
				t.Error(err)
			}
			rec.mu.Lock()
			defer rec.mu.Unlock()
			// A delivery may be older than two changes, and is of no race then.
			if got, most := figure(d, "rejectedInRace"), rec.noticed(eventmeter.Rejected); got > float64(most) {
				t.Errorf("rejectedInRace is %v, and %d were rejected", got, most)
			}
			if secrets == driver.SecretsBoth && figure(d, "rejectedInRace") > 0 {
				t.Error("rejected although both secrets were known")
			}
			t.Logf("%d events: %v", seq, d.(driver.Figurer).Figures().Values)
		})
	}
}
