package events_test

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
	"github.com/eventmeter/eventmeter/internal/settings"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/driver/events"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
)

// Nothing of one principal reaches another, in any mode, whatever it costs:
// each note is one principal's.
func TestPrincipalsAreIsolated(t *testing.T) {
	w := systemstest.NewWorld(
		t,
		refserver.Options{Revision: refserver.RevisionLongPoll, NextPoll: 50 * time.Millisecond, TTLMin: time.Second},
	)
	tokens := []string{"p-0", "p-1", "p-2", "p-3"}
	const events = 5
	type open struct {
		name string
		d    driver.Driver
		rec  *systemstest.Memory
	}
	var lanes []open
	for _, o := range []driver.Options{
		{Mode: eventmeter.Poll, Poll: &driver.Poll{MinInterval: 10 * time.Millisecond, Timeout: 200 * time.Millisecond}},
		{Mode: eventmeter.Push},
		{Mode: eventmeter.Webhook, Webhook: driver.Webhook{TTL: "3s", RefreshAt: 0.1, RotateEvery: 1}},
		{System: "smithery", Mode: eventmeter.Webhook},
	} {
		for _, era := range []mcpclient.Era{mcpclient.Modern, mcpclient.Legacy} {
			o.Event, o.Subscriptions, o.Listener.Authority = "private.note", 2*len(tokens), w.Authority
			d, rec := systemstest.Lane(t, mcpclient.EndpointOptions{URL: w.Srv.URL(), Era: era, Tokens: tokens}, o)
			systemstest.Attach(t, d, o.Subscriptions)
			lanes = append(lanes, open{fmt.Sprintf("%s %s %s", o.System, o.Mode, era), d, rec})
		}
	}
	for seq := range uint32(events) {
		for p, name := range tokens {
			w.Note(t, name, uint16(p), seq+1)
		}
	}
	for _, l := range lanes {
		for i := range uint32(2 * len(tokens)) {
			l.rec.Wait(t, l.name, func(m *systemstest.Memory) bool { return len(m.Seen(i, uint16(i)%4)) == events })
		}
		for i := range 2 * len(tokens) { // so that nothing more can come
			if err := l.d.Detach(t.Context(), i); err != nil {
				t.Error(err)
			}
		}
		l.rec.Mu.Lock()
		for _, d := range l.rec.Deliveries {
			if uint32(d.Stamp.Source) != d.Sub.Index%4 {
				t.Errorf("%s: subscription %d got a note of %s", l.name, d.Sub.Index, tokens[d.Stamp.Source])
			}
		}
		l.rec.Mu.Unlock()
	}
}

func TestChangesOfTheEventTypes(t *testing.T) {
	for _, era := range []mcpclient.Era{mcpclient.Modern, mcpclient.Legacy} {
		t.Run(string(era), func(t *testing.T) {
			t.Parallel()
			w := systemstest.NewWorld(t, refserver.Options{})
			d, rec := systemstest.Lane(t, mcpclient.EndpointOptions{URL: w.Srv.URL(), Era: era, Tokens: []string{"a"}},
				driver.Options{Mode: eventmeter.Push, Settings: events.Settings{Listen: true}})
			systemstest.Attach(t, d, 1)
			lists := func(n int) func(*systemstest.Memory) bool {
				return func(m *systemstest.Memory) bool {
					found := 0
					for _, c := range m.Calls {
						if c.Method == "events/list" && c.Cause == eventmeter.Discovery && c.Failure == "" {
							found++
						}
					}
					return found >= n
				}
			}
			rec.Wait(t, "the first list", lists(1))
			w.Admin(t, "/types", `{"name":"tick","offered":false}`)
			rec.Wait(t, "the second list", lists(2))
			w.Admin(t, "/types", `{"name":"tick","offered":false}`) // nothing changes
			w.Admin(t, "/types", `{"name":"tick","offered":true}`)
			rec.Wait(t, "the third list", lists(3))
			// Closing the lane waits for the goroutine that counts.
			must(t, d.Close(t.Context()))
			f := d.(driver.Figurer).Figures()
			for name, want := range map[string]float64{"listens": 1, "listChanged": 2, "relists": 2, "typesVanished": 1,
				"typesAppeared": 1, "relistsFailed": 0} {
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
		era  mcpclient.Era
		want string
	}{
		{mcpclient.Modern, `POST events/poll|POST subscriptions/listen application/json, text/event-stream {"jsonrpc":"2.0",` +
			`"id":N,"method":"subscriptions/listen","params":{"notifications":{"eventsListChanged":true},` +
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
			`"io.modelcontextprotocol/clientInfo":{"name":"eventmeter","version":"0.1"},` +
			`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/events":{}}}}}}`},
		{mcpclient.Legacy, `GET text/event-stream s1|POST events/poll`},
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
				case m.Method == "server/discover" && c.era == mcpclient.Modern:
					result = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{}}`
				case m.Method == "initialize" && c.era == mcpclient.Legacy:
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
			d, rec := systemstest.Lane(
				t,
				mcpclient.EndpointOptions{URL: srv.URL + "/mcp", Era: c.era},
				driver.Options{Mode: eventmeter.Poll, Settings: events.Settings{Listen: true}},
			)
			systemstest.Attach(t, d, 1)
			// The refusal is counted after the call was reported, unless the lane was closed in between.
			rec.Wait(t, "the refusal", func(m *systemstest.Memory) bool {
				return systemstest.Figure(d, "listensRefused") > 0 && slices.ContainsFunc(m.Calls, func(c eventmeter.Call) bool {
					return c.Method == "subscriptions/listen" && c.Failure != "" && c.Cause == eventmeter.Discovery
				})
			})
			must(t, d.Close(t.Context()))
			mu.Lock()
			defer mu.Unlock()
			slices.Sort(seen)
			if got := strings.Join(seen, "|"); got != c.want {
				t.Errorf("sent\n%s\nwant\n%s", got, c.want)
			}
			if got := systemstest.Figure(d, "listensRefused"); got != 1 {
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
	d, rec := systemstest.Lane(t, mcpclient.EndpointOptions{URL: srv.URL + "/mcp", Era: mcpclient.Modern}, driver.Options{
		Mode: eventmeter.Poll, Settings: events.Settings{Listen: true},
		Push: driver.Push{Heartbeat: 20 * time.Millisecond, Backoff: driver.Backoff{Min: time.Millisecond, Max: time.Millisecond}},
	})
	systemstest.Attach(t, d, 1)
	rec.Wait(t, "the second stream", func(m *systemstest.Memory) bool {
		n := 0
		for _, c := range m.Calls {
			if c.Method == "subscriptions/listen" && c.Requests == 1 && c.Failure == "" {
				n++
			}
		}
		return n >= 2
	})
	must(t, d.Close(t.Context()))
	if got := systemstest.Figure(d, "listensDead"); got < 1 {
		t.Errorf("listensDead is %v", got)
	}
}

func TestAnEventTypeIsRemoved(t *testing.T) {
	for revision, code := range map[string]string{refserver.RevisionSEP3415: "-32023", refserver.RevisionLongPoll: "-32011"} {
		t.Run(revision, func(t *testing.T) { eventTypeIsRemoved(t, revision, code) })
	}
}

func eventTypeIsRemoved(t *testing.T, revision, code string) {
	w := systemstest.NewWorld(t, refserver.Options{Revision: revision, NextPoll: 50 * time.Millisecond})
	var recs []*systemstest.Memory
	for _, mode := range []eventmeter.Mode{eventmeter.Poll, eventmeter.Push, eventmeter.Webhook} {
		for _, wait := range []time.Duration{0, 10 * time.Second} {
			d, rec := systemstest.Lane(t, mcpclient.EndpointOptions{URL: w.Srv.URL(), Tokens: []string{"a"}}, driver.Options{
				Mode:     mode,
				Poll:     &driver.Poll{MinInterval: time.Millisecond, Timeout: wait},
				Listener: driver.ListenerOptions{Authority: w.Authority},
			})
			systemstest.Attach(t, d, 1)
			recs = append(recs, rec)
		}
	}
	w.Admin(t, "/types", `{"name":"chat.message","offered":false}`)
	for _, rec := range recs {
		rec.Wait(t, "the end", func(m *systemstest.Memory) bool { return slices.Contains(m.States(0), eventmeter.Failed) })
		rec.Mu.Lock()
		if rec.CountNotices(eventmeter.Terminated) != 1 || !strings.Contains(rec.Transitions[len(rec.Transitions)-1].Reason, code) {
			t.Errorf("told:\n%s", strings.Join(rec.Log, "\n"))
		}
		rec.Mu.Unlock()
	}
}

func TestResumeAfterDetach(t *testing.T) {
	w := systemstest.NewWorld(t, refserver.Options{NextPoll: 50 * time.Millisecond})
	for i, mode := range []eventmeter.Mode{eventmeter.Poll, eventmeter.Push, eventmeter.Webhook} {
		for j, resume := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/%t", mode, resume), func(t *testing.T) {
				source := uint16(900 + 2*i + j)
				d, rec := systemstest.Lane(t, mcpclient.EndpointOptions{URL: w.Srv.URL(), Tokens: []string{"a"}}, driver.Options{
					Mode: mode, MaxAge: time.Minute, Settings: events.Settings{Resume: resume},
					Arguments: func(int) json.RawMessage { return json.RawMessage(fmt.Sprintf(`{"channel":%q}`, t.Name())) },
					Poll:      &driver.Poll{MinInterval: time.Millisecond, Timeout: 10 * time.Second},
					Listener:  driver.ListenerOptions{Authority: w.Authority},
				})
				systemstest.Attach(t, d, 1)
				w.Fire(t, t.Name(), source, 1)
				rec.Wait(t, "the first event", func(m *systemstest.Memory) bool { return m.Seen(0, source)[1] > 0 })
				must(t, d.Detach(t.Context(), 0))
				w.Fire(t, t.Name(), source, 2)
				systemstest.Attach(t, d, 1)
				w.Fire(t, t.Name(), source, 3)
				rec.Wait(t, "the last event", func(m *systemstest.Memory) bool { return m.Seen(0, source)[3] > 0 })
				must(t, d.Detach(t.Context(), 0))
				rec.Mu.Lock()
				defer rec.Mu.Unlock()
				if got := rec.Seen(0, source)[2] > 0; got != resume {
					t.Errorf("what happened meanwhile came: %t", got)
				}
				if resume && systemstest.Figure(d, "resumed") != 1 {
					t.Errorf("figures %v", d.(driver.Figurer).Figures().Values)
				}
			})
		}
	}
}

// ackedBy knows when emissions were acknowledged, and nothing else.
type ackedBy func(eventmeter.Stamp) eventmeter.Instant

func (f ackedBy) AckedAt(s eventmeter.Stamp) eventmeter.Instant { return f(s) }

func (ackedBy) Run() uint32 { return 1 }

func (ackedBy) Sources() int { return 1 }

func (ackedBy) Emission(eventmeter.Stamp) (eventmeter.Emission, eventmeter.Outcome, bool) {
	return eventmeter.Emission{}, eventmeter.Pending, false
}

func TestStreamsThatAreCut(t *testing.T) {
	w := systemstest.NewWorld(t, refserver.Options{})
	var mu sync.Mutex
	acked := map[eventmeter.Stamp]eventmeter.Instant{}
	d, rec := systemstest.Lane(t, mcpclient.EndpointOptions{URL: w.Srv.URL(), Tokens: []string{"a"}}, driver.Options{
		Mode: eventmeter.Push, Push: driver.Push{Backoff: driver.Backoff{Min: time.Millisecond, Max: 2 * time.Millisecond}},
		Settings: events.Settings{CutEvery: 20 * time.Millisecond, CutFor: 20 * time.Millisecond},
		Published: ackedBy(func(s eventmeter.Stamp) eventmeter.Instant {
			mu.Lock()
			defer mu.Unlock()
			return acked[s]
		}),
	})
	systemstest.Attach(t, d, 1)
	seq := uint32(0)
	for systemstest.Figure(d, "replayedOnReconnect") < 3 {
		seq++
		w.Fire(t, "c", 1, seq)
		mu.Lock()
		acked[eventmeter.Stamp{Run: 1, Source: 1, Seq: seq}] = 1 // before any reconnect
		mu.Unlock()
		if seq == 20_000 {
			t.Fatalf("figures %v", d.(driver.Figurer).Figures().Values)
		}
	}
	rec.Wait(t, "all events", func(m *systemstest.Memory) bool { return len(m.Seen(0, 1)) == int(seq) })
	rec.Mu.Lock()
	defer rec.Mu.Unlock()
	if rec.CountNotices(eventmeter.Reconnected) == 0 || rec.CountNotices(eventmeter.TransientError) > 0 {
		t.Errorf("notices %v", rec.Notices)
	}
	f := d.(driver.Figurer).Figures()
	if n := f.Timings["outage"].Histogram.TotalCount(); f.Values["cuts"] == 0 || n == 0 || float64(n) > f.Values["cuts"] {
		t.Errorf("%v cuts, %d outages", f.Values["cuts"], n)
	}
}

func TestTheReceiversDocumentIsProofEnough(t *testing.T) {
	w := systemstest.NewWorld(t, refserver.Options{Proof: refserver.ProofWellKnown})
	opts := driver.Options{Mode: eventmeter.Webhook, Listener: driver.ListenerOptions{Authority: w.Authority}}
	d, rec := systemstest.Lane(t, mcpclient.EndpointOptions{URL: w.Srv.URL(), Tokens: []string{"a"}}, opts)
	systemstest.Attach(t, d, 1)
	w.Fire(t, "c", 1, 1)
	rec.Wait(t, "the event", func(m *systemstest.Memory) bool { return len(m.Seen(0, 1)) == 1 })
	rec.Mu.Lock()
	defer rec.Mu.Unlock()
	if broken := brokenOf(judged(d)); len(broken) > 0 {
		t.Errorf("broken: %v", broken)
	}
	if !slices.ContainsFunc(rec.Calls, func(c eventmeter.Call) bool {
		return c.Cause == eventmeter.Verification && c.Method == http.MethodGet && c.Up > 0 && c.Down > 0
	}) {
		t.Errorf("told:\n%s", strings.Join(rec.Log, "\n"))
	}
}

// A target that has a list of hosts asks its callbacks nothing, and those at other
// hosts are refused. Without word of the list, events without any proof break a row, once for each
// callback.
func TestTheAllowListIsProofEnough(t *testing.T) {
	for _, c := range []struct {
		host                  string
		taken, proven, shared bool
		broken                int64
	}{
		{host: "127.0.0.1", taken: true, broken: 1}, {host: "127.0.0.1", taken: true, shared: true, broken: 1},
		{host: "127.0.0.1", taken: true, proven: true}, {host: "hook.example"},
	} {
		host, taken := c.host, c.taken
		w := systemstest.NewWorld(t, refserver.Options{Proof: refserver.ProofAllowList, CallbackHosts: []string{host}})
		opts := driver.Options{Mode: eventmeter.Webhook, Listener: driver.ListenerOptions{Authority: w.Authority}}
		opts.Webhook.Proven, opts.Webhook.ShareURL = c.proven, c.shared
		d, rec := systemstest.Lane(t, mcpclient.EndpointOptions{URL: w.Srv.URL(), Tokens: []string{"a"}}, opts)
		if !taken {
			err := d.Attach(t.Context(), 0)
			if err == nil || !strings.Contains(err.Error(), "challenge_failed") {
				t.Errorf("a callback that is not on the list: %v", err)
			}
			continue
		}
		systemstest.Attach(t, d, 1)
		w.Fire(t, "c", 1, 1)
		w.Fire(t, "c", 1, 2)
		rec.Wait(t, "the events", func(m *systemstest.Memory) bool { return len(m.Seen(0, 1)) == 2 })
		if got := judged(d)["verification-required-before-delivery"]; got.Broken != c.broken || got.Seen != c.broken {
			t.Errorf("%+v: %+v", c, got)
		}
		rec.Mu.Lock()
		defer rec.Mu.Unlock()
		if slices.ContainsFunc(rec.Calls, func(c eventmeter.Call) bool { return c.Cause == eventmeter.Verification }) ||
			w.Srv.Stats().Verifications != 0 {
			t.Errorf("it was asked; told:\n%s", strings.Join(rec.Log, "\n"))
		}
	}
}

// Signatures with a key of the target stand beside those with the secret, and
// change nothing for a lane.
func TestTheTargetSignsWithItsOwnKeyToo(t *testing.T) {
	w := systemstest.NewWorld(t, refserver.Options{Signature: refserver.SignBoth})
	d, rec := systemstest.Lane(
		t,
		mcpclient.EndpointOptions{URL: w.Srv.URL(), Tokens: []string{"a"}},
		driver.Options{Mode: eventmeter.Webhook, Listener: driver.ListenerOptions{Authority: w.Authority}},
	)
	systemstest.Attach(t, d, 1)
	w.Fire(t, "c", 1, 1)
	rec.Wait(t, "the event", func(m *systemstest.Memory) bool { return len(m.Seen(0, 1)) == 1 })
	rec.Mu.Lock()
	defer rec.Mu.Unlock()
	if len(rec.Notices) > 0 {
		t.Errorf("notices %+v", rec.Notices)
	}
}

// A target drops a subscription without an expiry when its callback fails for
// long. The lane hears why, and the subscription has ended.
func TestDroppedForLongFailure(t *testing.T) {
	w := systemstest.NewWorld(t, refserver.Options{DropAfter: 50 * time.Millisecond, RetryBase: 10 * time.Millisecond})
	d, rec := systemstest.Lane(t, mcpclient.EndpointOptions{URL: w.Srv.URL(), Tokens: []string{"a"}}, driver.Options{
		Mode:     eventmeter.Webhook,
		Listener: driver.ListenerOptions{Authority: w.Authority},
		Webhook:  driver.Webhook{TTL: "none", Answer: []driver.Answer{{Status: http.StatusServiceUnavailable, Times: 1000}}},
	})
	systemstest.Attach(t, d, 1)
	w.Fire(t, "c", 1, 1)
	rec.Wait(t, "the end", func(m *systemstest.Memory) bool { return strings.Contains(strings.Join(m.Log, "\n"), "http_5xx") })
	if n := systemstest.Figure(d, "grantsWithoutEnd"); n != 1 {
		t.Errorf("%v grants without an end, want 1", n)
	}
}

// A target that signs with one secret only, and receivers that know one only:
// what is refused in the race comes again, and is counted to the last delivery.
func TestRotationUnderLoad(t *testing.T) {
	for _, secrets := range []string{settings.SecretsBoth, settings.SecretsEarly, settings.SecretsLate} {
		t.Run(string(secrets), func(t *testing.T) {
			t.Parallel()
			w := systemstest.NewWorld(
				t,
				refserver.Options{TTLMin: time.Second, DualSignGrace: -1, RetryBase: 10 * time.Millisecond, RetryMax: 10},
			)
			d, rec := systemstest.Lane(t, mcpclient.EndpointOptions{URL: w.Srv.URL(), Tokens: []string{"a"}}, driver.Options{
				Mode:          eventmeter.Webhook,
				Subscriptions: 4,
				Listener: driver.ListenerOptions{
					Authority: w.Authority,
				},
				Webhook: driver.Webhook{TTL: "2s", RefreshAt: 0.1, RotateEvery: 1, Secrets: secrets},
			})
			systemstest.Attach(t, d, 4)
			seq := uint32(0)
			for systemstest.Figure(d, "rotations") < 24 {
				seq++
				w.Fire(t, "c", 1, seq)
				if seq == 100_000 {
					t.Fatalf("figures %v", d.(driver.Figurer).Figures().Values)
				}
			}
			for i := range uint32(4) {
				rec.Wait(t, "all events", func(m *systemstest.Memory) bool { return len(m.Seen(i, 1)) == int(seq) })
			}
			ctx, cancel := context.WithTimeout(t.Context(), systemstest.Patience)
			defer cancel()
			if err := d.Close(ctx); err != nil {
				t.Error(err)
			}
			rec.Mu.Lock()
			defer rec.Mu.Unlock()
			// A delivery may be older than two changes, and is of no race then.
			if got, most := systemstest.Figure(d, "rejectedInRace"), rec.CountNotices(eventmeter.Rejected); got > float64(most) {
				t.Errorf("rejectedInRace is %v, and %d were rejected", got, most)
			}
			if secrets == settings.SecretsBoth && systemstest.Figure(d, "rejectedInRace") > 0 {
				t.Error("rejected although both secrets were known")
			}
			t.Logf("%d events: %v", seq, d.(driver.Figurer).Figures().Values)
		})
	}
}
