package events_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
)

func TestSilentStreamIsGivenUp(t *testing.T) {
	var streams atomic.Int32
	url := systemstest.Serve(t, nil, func(w http.ResponseWriter, r *http.Request, id json.RawMessage, method string) {
		streams.Add(1)
		systemstest.Open(w)
		<-r.Context().Done()
	})
	d, rec := systemstest.Lane(t, mcpclient.EndpointOptions{URL: url}, driver.Options{
		Mode: eventmeter.Push,
		Push: driver.Push{Heartbeat: 50 * time.Millisecond, Backoff: driver.Backoff{Min: time.Millisecond, Max: time.Millisecond}},
	})
	systemstest.Attach(t, d, 1)
	rec.Wait(t, "the second reconnect", func(m *systemstest.Memory) bool {
		return m.CountNotices(eventmeter.DeadStream) >= 2 && m.CountNotices(eventmeter.Reconnected) >= 2 &&
			m.Causes(eventmeter.Reconnect) >= 2
	})
	if got := rec.States(0); !slices.Equal(got, []eventmeter.State{eventmeter.Attaching, eventmeter.Active}) {
		t.Errorf("states %v", got)
	}
}

func TestManyStreamsTakeSeveralConnections(t *testing.T) {
	h2c := new(http.Protocols)
	h2c.SetHTTP1(true)
	h2c.SetUnencryptedHTTP2(true)
	url := systemstest.Serve(t, h2c, func(w http.ResponseWriter, r *http.Request, id json.RawMessage, method string) {
		systemstest.Open(w)
		<-r.Context().Done()
	})
	const streams = 350
	d, _ := systemstest.Lane(
		t,
		mcpclient.EndpointOptions{URL: url},
		driver.Options{Mode: eventmeter.Push, HTTP: "h2c", Subscriptions: streams},
	)
	ctx, cancel := context.WithTimeout(t.Context(), systemstest.Patience)
	defer cancel()
	var wg sync.WaitGroup
	for i := range streams {
		wg.Go(func() {
			if err := d.Attach(ctx, i); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := d.(driver.Meter).Traffic().Opened; n < 4 || n > 40 {
		t.Errorf("%d connections for %d streams at 100 each", n, streams)
	}
}

func TestThrottledUntilTheTimeIsUp(t *testing.T) {
	for _, mode := range []eventmeter.Mode{eventmeter.Poll, eventmeter.Push, eventmeter.Webhook} {
		t.Run(string(mode), func(t *testing.T) {
			var calls atomic.Int32
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			url := systemstest.Serve(t, nil, func(w http.ResponseWriter, r *http.Request, id json.RawMessage, method string) {
				if method == "events/unsubscribe" {
					fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{}}`, id)
					return
				}
				after := "0"
				if calls.Add(1) == 3 {
					after = time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
				}
				w.Header().Set("Retry-After", after)
				w.WriteHeader(http.StatusTooManyRequests)
			})
			fast := time.Millisecond
			d, rec := systemstest.Lane(t, mcpclient.EndpointOptions{URL: url}, driver.Options{
				Mode: mode, Push: driver.Push{Backoff: driver.Backoff{Min: fast, Max: fast}},
			})
			attached := make(chan error, 1)
			go func() { attached <- d.Attach(ctx, 0) }()
			failures := 0
			rec.Wait(t, "three refusals", func(m *systemstest.Memory) bool {
				failures = 0
				for _, c := range m.Calls {
					if c.Failure == "http 429" {
						failures++
					}
				}
				return failures >= 3
			})
			cancel()
			if err := <-attached; !errors.Is(err, mcpclient.ErrThrottled) && !errors.Is(err, mcpclient.ErrUnreachable) {
				t.Errorf("error is %v", err)
			}
			if failures != 3 || calls.Load() != 3 {
				t.Errorf("%d failures for %d calls", failures, calls.Load())
			}
		})
	}
}

func TestLostSessionIsMadeAnew(t *testing.T) {
	var sessions, polls atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m struct {
			ID     json.RawMessage
			Method string
		}
		json.Unmarshal(body, &m)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case m.Method == "initialize":
			w.Header().Set("Mcp-Session-Id", fmt.Sprintf("s%d", sessions.Add(1)))
			fmt.Fprintf(
				w,
				`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"x","version":"1"}}}`,
				m.ID,
			)
		case m.Method == "notifications/initialized":
			w.WriteHeader(http.StatusAccepted)
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNoContent)
		case polls.Add(1) == 3 || r.Header.Get("Mcp-Session-Id") != fmt.Sprintf("s%d", sessions.Load()):
			w.WriteHeader(http.StatusNotFound)
		default:
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"cursor":"c"}}`, m.ID)
		}
	}))
	t.Cleanup(srv.Close)
	d, rec := systemstest.Lane(t, mcpclient.EndpointOptions{URL: srv.URL, Era: mcpclient.Legacy}, driver.Options{
		Mode: eventmeter.Poll,
		Poll: &driver.Poll{MinInterval: time.Millisecond},
		Push: driver.Push{Backoff: driver.Backoff{Min: time.Millisecond, Max: time.Millisecond}},
	})
	systemstest.Attach(t, d, 1)
	rec.Wait(t, "polls in a second session", func(*systemstest.Memory) bool { return sessions.Load() == 2 && polls.Load() > 5 })
	if got := rec.States(0); !slices.Equal(got, []eventmeter.State{eventmeter.Attaching, eventmeter.Active}) {
		t.Errorf("states %v", got)
	}
}

func TestRotationAndRefreshLoseNothing(t *testing.T) {
	w := systemstest.NewWorld(t, refserver.Options{TTLMin: 300 * time.Millisecond, DualSignGrace: 100 * time.Millisecond})
	d, rec := systemstest.Lane(t, mcpclient.EndpointOptions{URL: w.Srv.URL(), Tokens: []string{"a"}}, driver.Options{
		Mode:      eventmeter.Webhook,
		Arguments: func(int) json.RawMessage { return json.RawMessage(`{"channel":"r"}`) },
		Listener:  driver.ListenerOptions{Authority: w.Authority}, Webhook: driver.Webhook{TTL: "1s", RefreshAt: 0.25, RotateEvery: 1},
	})
	systemstest.Attach(t, d, 1)
	seq := uint32(0)
	for refreshed := 0; refreshed < 5; {
		seq++
		w.Fire(t, "r", 0, seq)
		rec.Wait(t, "the event", func(m *systemstest.Memory) bool {
			refreshed = m.Causes(eventmeter.Refresh)
			return m.Seen(0, 0)[seq] > 0
		})
	}
	rec.Mu.Lock()
	defer rec.Mu.Unlock()
	if n := rec.CountNotices(eventmeter.Rejected); n > 0 {
		t.Errorf("%d deliveries were rejected", n)
	}
}

func TestRefusedCopiesComeAgain(t *testing.T) {
	for name, refusal := range map[string]driver.Answer{
		"unavailable": {Status: 503},
		"throttled":   {Status: 429},
		"redirected":  {Status: 307},
		"reset":       {Reset: true},
		"hung":        {Hang: true},
		"twice":       {Status: 425, Times: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := systemstest.NewWorld(t, refserver.Options{RetryBase: 5 * time.Millisecond, AckTimeout: 2 * time.Second})
			events, least, most := 40, 5, 35
			if refusal.Share = 0.5; refusal.Hang {
				events, refusal.Share, least, most = 3, 1, 3, 3 // each takes as long as the target waits
			}
			d, rec := systemstest.Lane(t, mcpclient.EndpointOptions{URL: w.Srv.URL(), Tokens: []string{"a"}}, driver.Options{
				Mode: eventmeter.Webhook,
				Seed: 7,
				Listener: driver.ListenerOptions{
					Authority: w.Authority,
				},
				Webhook: driver.Webhook{Answer: []driver.Answer{refusal, {Delay: time.Millisecond}}},
			})
			systemstest.Attach(t, d, 1)
			for seq := range uint32(events) {
				w.Fire(t, t.Name(), 0, seq+1)
			}
			rec.Wait(t, "every event, accepted, and a retry for each that was not", func(m *systemstest.Memory) bool {
				accepted := 0
				for _, d := range m.Deliveries {
					if !d.Refused {
						accepted++
					}
				}
				return accepted >= events && m.Causes(eventmeter.Retry) >= (len(m.Deliveries)-accepted)/max(refusal.Times, 1)
			})
			rec.Mu.Lock()
			defer rec.Mu.Unlock()
			copies := 0
			for _, d := range rec.Deliveries {
				if d.Refused {
					copies++
				}
			}
			refused := copies / max(refusal.Times, 1)
			if refused < least || refused > most || rec.Causes(eventmeter.Retry) < refused || copies%max(refusal.Times, 1) != 0 {
				t.Errorf("%d of %d refused, %d copies, %d retries", refused, events, copies, rec.Causes(eventmeter.Retry))
			}
			if n := rec.CountNotices(eventmeter.Malformed); n > 0 {
				t.Errorf("%d notices: %s", n, strings.Join(rec.Log, "\n"))
			}
		})
	}
}

// TestAChallengeIsNotEchoed: the target says why it does not deliver, in the words
// of the draft, for each way in which a callback can fail.
func TestAChallengeIsNotEchoed(t *testing.T) {
	for want, a := range map[string]driver.Answer{
		"challenge_failed": {}, "http_4xx": {Status: 404}, "http_5xx": {Status: 500}, "timeout": {Hang: true},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			o := refserver.Options{AckTimeout: systemstest.Patience}
			if a.Challenge = true; a.Hang {
				o.AckTimeout = 3 * time.Second // the callback answers the second challenge within it
			}
			w := systemstest.NewWorld(t, o)
			d, _ := systemstest.Lane(t, mcpclient.EndpointOptions{URL: w.Srv.URL(), Tokens: []string{"a"}}, driver.Options{
				Mode:     eventmeter.Webhook,
				Listener: driver.ListenerOptions{Authority: w.Authority},
				Webhook:  driver.Webhook{Answer: []driver.Answer{a}},
			})
			if err := d.Attach(t.Context(), 0); !errors.Is(err, mcpclient.ErrInvalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("attach: %v", err)
			}
			if n := systemstest.Figure(d, "challengesFailed"); n != 1 {
				t.Errorf("%v challenges failed", n)
			}
			if err := d.Attach(t.Context(), 0); err != nil { // the second is answered as it should be
				t.Error(err)
			}
		})
	}
}

func TestChurn(t *testing.T) {
	w := systemstest.NewWorld(t, refserver.Options{NextPoll: 50 * time.Millisecond})
	for _, mode := range []eventmeter.Mode{eventmeter.Poll, eventmeter.Push, eventmeter.Webhook} {
		t.Run(string(mode), func(t *testing.T) {
			d, rec := systemstest.Lane(t, mcpclient.EndpointOptions{URL: w.Srv.URL(), Tokens: []string{"a"}}, driver.Options{
				Mode: mode, Subscriptions: 4, Listener: driver.ListenerOptions{Authority: w.Authority},
			})
			var wg sync.WaitGroup
			for i := range 4 {
				wg.Go(func() {
					for range 5 {
						if err := d.Attach(t.Context(), i); err != nil {
							t.Error(err)
						}
						if err := d.Attach(t.Context(), i); !errors.Is(err, mcpclient.ErrState) {
							t.Errorf("attached twice: %v", err)
						}
						if err := d.Detach(t.Context(), i); err != nil {
							t.Error(err)
						}
					}
					if err := d.Attach(t.Context(), i); err != nil { // left for Close
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if err := d.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if err := d.Attach(t.Context(), 0); !errors.Is(err, mcpclient.ErrState) {
				t.Errorf("attached after the end: %v", err)
			}
			for i := range uint32(4) {
				if s := rec.States(i); len(s) != 24 || s[23] != eventmeter.Detached {
					t.Errorf("subscription %d went through %v", i, s)
				}
			}
		})
	}
}

func TestDetachWhileAttaching(t *testing.T) {
	t.Parallel() // it mostly waits
	for _, mode := range []eventmeter.Mode{eventmeter.Poll, eventmeter.Push, eventmeter.Webhook} {
		t.Run(string(mode), func(t *testing.T) {
			asked := make(chan struct{}, 1)
			url := systemstest.Serve(t, nil, func(w http.ResponseWriter, r *http.Request, id json.RawMessage, method string) {
				if method == "events/unsubscribe" {
					fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{}}`, id)
					return
				}
				asked <- struct{}{}
				<-r.Context().Done()
			})
			d, rec := systemstest.Lane(t, mcpclient.EndpointOptions{URL: url}, driver.Options{Mode: mode, Timeout: time.Second})
			attached := make(chan error)
			go func() { attached <- d.Attach(t.Context(), 0) }()
			<-asked
			if err := d.Detach(t.Context(), 0); err != nil {
				t.Error(err)
			}
			if err := <-attached; err == nil {
				t.Error("attached all the same")
			}
			if s := rec.States(0); !slices.Equal(s, []eventmeter.State{eventmeter.Attaching, eventmeter.Detaching, eventmeter.Detached}) {
				t.Errorf("states %v", s)
			}
		})
	}
}

func TestOptionsAreChecked(t *testing.T) {
	ep, err := mcpclient.NewEndpoint(mcpclient.EndpointOptions{URL: "http://127.0.0.1:1/mcp"})
	must(t, err)
	good := driver.Options{Clock: eventmeter.NewClock(), Recorder: systemstest.NewMemory(), Endpoint: ep, Mode: eventmeter.Poll, Event: "e"}
	for want, change := range map[string]func(*driver.Options){
		"system":    func(o *driver.Options) { o.System = "x" },
		"mode":      func(o *driver.Options) { o.Mode = "x" },
		"event":     func(o *driver.Options) { o.Event = "" },
		"Clock":     func(o *driver.Options) { o.Clock = nil },
		"http":      func(o *driver.Options) { o.HTTP = "3" },
		"https":     func(o *driver.Options) { o.HTTP = "2" },
		"refreshAt": func(o *driver.Options) { o.Mode, o.Webhook.RefreshAt = eventmeter.Webhook, 2 },
		"answer":    func(o *driver.Options) { o.Mode, o.Webhook.Answer = eventmeter.Webhook, []driver.Answer{{Share: 2}} },
		"callback":  func(o *driver.Options) { o.Mode, o.Webhook.Callback = eventmeter.Webhook, "http://x" },
	} {
		o := good
		change(&o)
		if _, err := systems.New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	for _, o := range []mcpclient.EndpointOptions{{}, {URL: "ftp://x"}, {URL: "http://x", Era: "old"}, {URL: "http://x", Revision: "new"}} {
		if _, err := mcpclient.NewEndpoint(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

// The draft wants heartbeats as messages: comments do not reach the client
// behind most libraries, and so keep nothing alive.
func TestCommentsAreNoHeartbeat(t *testing.T) {
	var streams atomic.Int32
	url := systemstest.Serve(t, nil, func(w http.ResponseWriter, r *http.Request, id json.RawMessage, method string) {
		streams.Add(1)
		systemstest.Open(w)
		for tick := time.NewTicker(2 * time.Millisecond); ; {
			select {
			case <-r.Context().Done():
				return
			case <-tick.C:
				io.WriteString(w, ": still here\n\n")
				w.(http.Flusher).Flush()
			}
		}
	})
	d, rec := systemstest.Lane(t, mcpclient.EndpointOptions{URL: url}, driver.Options{
		Mode: eventmeter.Push,
		Push: driver.Push{Heartbeat: 30 * time.Millisecond, Backoff: driver.Backoff{Min: time.Millisecond, Max: time.Millisecond}},
	})
	systemstest.Attach(t, d, 1)
	rec.Wait(t, "a second stream", func(m *systemstest.Memory) bool {
		return streams.Load() > 1 && m.CountNotices(eventmeter.DeadStream) > 0
	})
}

// A stream's field retry is the least time that clients stay away.
func TestStreamComesBackNoSoonerThanAsked(t *testing.T) {
	const asked = 150 * time.Millisecond
	var mu sync.Mutex
	var ended, began time.Time
	url := systemstest.Serve(t, nil, func(w http.ResponseWriter, r *http.Request, id json.RawMessage, method string) {
		mu.Lock()
		first := ended.IsZero()
		if !first && began.IsZero() {
			began = time.Now()
		}
		mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "retry: %d\n\n", asked.Milliseconds())
		systemstest.Open(w)
		if first {
			mu.Lock()
			defer mu.Unlock()
			ended = time.Now()
			return
		}
		<-r.Context().Done()
	})
	d, rec := systemstest.Lane(t, mcpclient.EndpointOptions{URL: url}, driver.Options{
		Mode: eventmeter.Push, Push: driver.Push{Backoff: driver.Backoff{Min: time.Millisecond, Max: time.Millisecond}},
	})
	systemstest.Attach(t, d, 1)
	rec.Wait(t, "the second stream", func(m *systemstest.Memory) bool { return m.CountNotices(eventmeter.Reconnected) > 0 })
	mu.Lock()
	defer mu.Unlock()
	if away := began.Sub(ended); away < asked {
		t.Errorf("it came back after %v, asked for %v", away, asked)
	}
}
