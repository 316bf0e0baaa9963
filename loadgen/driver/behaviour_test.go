package driver_test

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
)

// serve starts a server that knows the modern handshake and leaves the rest to f.
func serve(t *testing.T, protocols *http.Protocols, f func(w http.ResponseWriter, r *http.Request, id json.RawMessage, method string)) string {
	t.Helper()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m struct {
			ID     json.RawMessage
			Method string
		}
		json.Unmarshal(body, &m)
		if m.Method == "server/discover" {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{}}}`, m.ID)
			return
		}
		f(w, r, m.ID, m.Method)
	}))
	srv.Config.Protocols = protocols
	srv.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 100}
	srv.Start()
	t.Cleanup(srv.Close)
	return srv.URL + "/mcp"
}

// open begins a stream and confirms it.
func open(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/events/active\",\"params\":{\"cursor\":\"c1\"}}\n\n")
	w.(http.Flusher).Flush()
}

func TestSilentStreamIsGivenUp(t *testing.T) {
	var streams atomic.Int32
	url := serve(t, nil, func(w http.ResponseWriter, r *http.Request, id json.RawMessage, method string) {
		streams.Add(1)
		open(w)
		<-r.Context().Done()
	})
	d, rec := lane(t, driver.EndpointOptions{URL: url}, driver.Options{
		Mode: eventmeter.Push, Push: driver.PushOptions{Heartbeat: 50 * time.Millisecond, BackoffMin: time.Millisecond, BackoffMax: time.Millisecond},
	})
	attach(t, d, 1)
	rec.wait(t, "the second reconnect", func(m *memory) bool {
		return m.noticed(eventmeter.DeadStream) >= 2 && m.noticed(eventmeter.Reconnected) >= 2 && m.causes(eventmeter.Reconnect) >= 2
	})
	if got := rec.states(0); !slices.Equal(got, []eventmeter.State{eventmeter.Attaching, eventmeter.Active}) {
		t.Errorf("states %v", got)
	}
}

func TestManyStreamsTakeSeveralConnections(t *testing.T) {
	h2c := new(http.Protocols)
	h2c.SetHTTP1(true)
	h2c.SetUnencryptedHTTP2(true)
	url := serve(t, h2c, func(w http.ResponseWriter, r *http.Request, id json.RawMessage, method string) {
		open(w)
		<-r.Context().Done()
	})
	const streams = 350
	d, _ := lane(t, driver.EndpointOptions{URL: url}, driver.Options{Mode: eventmeter.Push, HTTP: "h2c", Subscriptions: streams})
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
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
			url := serve(t, nil, func(w http.ResponseWriter, r *http.Request, id json.RawMessage, method string) {
				if method == "events/unsubscribe" {
					fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{}}`, id)
					return
				}
				after := "0"
				if calls.Add(1) == 3 {
					after = time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
					time.AfterFunc(10*time.Millisecond, cancel)
				}
				w.Header().Set("Retry-After", after)
				w.WriteHeader(http.StatusTooManyRequests)
			})
			fast := time.Millisecond
			d, rec := lane(t, driver.EndpointOptions{URL: url}, driver.Options{
				Mode: mode, Poll: driver.PollOptions{BackoffMin: fast, BackoffMax: fast}, Push: driver.PushOptions{BackoffMin: fast, BackoffMax: fast},
			})
			if err := d.Attach(ctx, 0); !errors.Is(err, driver.ErrThrottled) && !errors.Is(err, driver.ErrUnreachable) {
				t.Errorf("error is %v", err)
			}
			rec.mu.Lock()
			defer rec.mu.Unlock()
			failures := 0
			for _, c := range rec.calls {
				if c.Failure == "http 429" {
					failures++
				}
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
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"x","version":"1"}}}`, m.ID)
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
	d, rec := lane(t, driver.EndpointOptions{URL: srv.URL, Era: driver.Legacy}, driver.Options{
		Mode: eventmeter.Poll, Poll: driver.PollOptions{MinInterval: time.Millisecond, BackoffMin: time.Millisecond, BackoffMax: time.Millisecond},
	})
	attach(t, d, 1)
	rec.wait(t, "polls in a second session", func(*memory) bool { return sessions.Load() == 2 && polls.Load() > 5 })
	if got := rec.states(0); !slices.Equal(got, []eventmeter.State{eventmeter.Attaching, eventmeter.Active}) {
		t.Errorf("states %v", got)
	}
}

func TestRotationAndRefreshLoseNothing(t *testing.T) {
	w := newWorld(t, refserver.Options{TTLMin: 300 * time.Millisecond, DualSignGrace: 100 * time.Millisecond})
	d, rec := lane(t, driver.EndpointOptions{URL: w.srv.URL(), Tokens: []string{"a"}}, driver.Options{
		Mode:      eventmeter.Webhook,
		Arguments: func(int) json.RawMessage { return json.RawMessage(`{"channel":"r"}`) },
		Webhook:   driver.WebhookOptions{Authority: w.authority, TTL: 300 * time.Millisecond, RotateEvery: 1},
	})
	attach(t, d, 1)
	seq := uint32(0)
	for refreshed := 0; refreshed < 5; {
		seq++
		w.fire(t, "r", 0, seq)
		rec.wait(t, "the event", func(m *memory) bool { refreshed = m.causes(eventmeter.Refresh); return m.seen(0, 0)[seq] > 0 })
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if n := rec.noticed(eventmeter.Rejected); n > 0 {
		t.Errorf("%d deliveries were rejected", n)
	}
}

func TestRefusedCopiesComeAgain(t *testing.T) {
	w := newWorld(t, refserver.Options{RetryBase: 5 * time.Millisecond})
	d, rec := lane(t, driver.EndpointOptions{URL: w.srv.URL(), Tokens: []string{"a"}}, driver.Options{
		Mode: eventmeter.Webhook, Seed: 7,
		Webhook: driver.WebhookOptions{Authority: w.authority, Refuse: 0.5, AckDelay: time.Millisecond},
	})
	attach(t, d, 1)
	const events = 40
	for seq := range uint32(events) {
		w.fire(t, "x", 0, seq+1)
	}
	rec.wait(t, "every event, accepted", func(m *memory) bool {
		accepted := 0
		for _, d := range m.deliveries {
			if !d.Refused {
				accepted++
			}
		}
		return accepted >= events
	})
	rec.mu.Lock()
	defer rec.mu.Unlock()
	refused := 0
	for _, d := range rec.deliveries {
		if d.Refused {
			refused++
		}
	}
	if refused < 5 || refused > 35 || rec.causes(eventmeter.Retry) < refused {
		t.Errorf("%d of %d refused, %d retries", refused, events, rec.causes(eventmeter.Retry))
	}
}

func TestChurn(t *testing.T) {
	w := newWorld(t, refserver.Options{NextPoll: 50 * time.Millisecond})
	for _, mode := range []eventmeter.Mode{eventmeter.Poll, eventmeter.Push, eventmeter.Webhook} {
		t.Run(string(mode), func(t *testing.T) {
			d, rec := lane(t, driver.EndpointOptions{URL: w.srv.URL(), Tokens: []string{"a"}}, driver.Options{
				Mode: mode, Subscriptions: 4, Webhook: driver.WebhookOptions{Authority: w.authority},
			})
			var wg sync.WaitGroup
			for i := range 4 {
				wg.Go(func() {
					for range 5 {
						if err := d.Attach(t.Context(), i); err != nil {
							t.Error(err)
						}
						if err := d.Attach(t.Context(), i); !errors.Is(err, driver.ErrState) {
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
			if err := d.Attach(t.Context(), 0); !errors.Is(err, driver.ErrState) {
				t.Errorf("attached after the end: %v", err)
			}
			for i := range uint32(4) {
				if s := rec.states(i); len(s) != 24 || s[23] != eventmeter.Detached {
					t.Errorf("subscription %d went through %v", i, s)
				}
			}
		})
	}
}

func TestDetachWhileAttaching(t *testing.T) {
	for _, mode := range []eventmeter.Mode{eventmeter.Poll, eventmeter.Push, eventmeter.Webhook} {
		t.Run(string(mode), func(t *testing.T) {
			asked := make(chan struct{}, 1)
			url := serve(t, nil, func(w http.ResponseWriter, r *http.Request, id json.RawMessage, method string) {
				if method == "events/unsubscribe" {
					fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{}}`, id)
					return
				}
				asked <- struct{}{}
				<-r.Context().Done()
			})
			d, rec := lane(t, driver.EndpointOptions{URL: url}, driver.Options{Mode: mode})
			attached := make(chan error)
			go func() { attached <- d.Attach(t.Context(), 0) }()
			<-asked
			if err := d.Detach(t.Context(), 0); err != nil {
				t.Error(err)
			}
			if err := <-attached; err == nil {
				t.Error("attached all the same")
			}
			if s := rec.states(0); !slices.Equal(s, []eventmeter.State{eventmeter.Attaching, eventmeter.Detaching, eventmeter.Detached}) {
				t.Errorf("states %v", s)
			}
		})
	}
}

func TestOptionsAreChecked(t *testing.T) {
	ep, err := driver.NewEndpoint(driver.EndpointOptions{URL: "http://127.0.0.1:1/mcp"})
	if err != nil {
		t.Fatal(err)
	}
	good := driver.Options{Clock: eventmeter.NewClock(), Recorder: newMemory(), Endpoint: ep, Mode: eventmeter.Poll, Event: "e"}
	for want, change := range map[string]func(*driver.Options){
		"system":    func(o *driver.Options) { o.System = "x" },
		"mode":      func(o *driver.Options) { o.Mode = "x" },
		"event":     func(o *driver.Options) { o.Event = "" },
		"Clock":     func(o *driver.Options) { o.Clock = nil },
		"http":      func(o *driver.Options) { o.HTTP = "3" },
		"https":     func(o *driver.Options) { o.HTTP = "2" },
		"refreshAt": func(o *driver.Options) { o.Mode, o.Webhook.RefreshAt = eventmeter.Webhook, 2 },
		"refuse":    func(o *driver.Options) { o.Mode, o.Webhook.Refuse = eventmeter.Webhook, 2 },
		"callback":  func(o *driver.Options) { o.Mode, o.Webhook.Callback = eventmeter.Webhook, "http://x" },
	} {
		o := good
		change(&o)
		if _, err := driver.New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	for _, o := range []driver.EndpointOptions{{}, {URL: "ftp://x"}, {URL: "http://x", Era: "old"}, {URL: "http://x", Revision: "new"}} {
		if _, err := driver.NewEndpoint(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

// The draft wants heartbeats as messages: comments do not reach the client
// behind most libraries, and so keep nothing alive.
func TestCommentsAreNoHeartbeat(t *testing.T) {
	var streams atomic.Int32
	url := serve(t, nil, func(w http.ResponseWriter, r *http.Request, id json.RawMessage, method string) {
		streams.Add(1)
		open(w)
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
	d, rec := lane(t, driver.EndpointOptions{URL: url}, driver.Options{
		Mode: eventmeter.Push, Push: driver.PushOptions{Heartbeat: 30 * time.Millisecond, BackoffMin: time.Millisecond, BackoffMax: time.Millisecond},
	})
	attach(t, d, 1)
	rec.wait(t, "a second stream", func(m *memory) bool { return streams.Load() > 1 && m.noticed(eventmeter.DeadStream) > 0 })
}

// A stream's field retry is the least time that clients stay away.
func TestStreamComesBackNoSoonerThanAsked(t *testing.T) {
	const asked = 150 * time.Millisecond
	var mu sync.Mutex
	var ended, began time.Time
	url := serve(t, nil, func(w http.ResponseWriter, r *http.Request, id json.RawMessage, method string) {
		mu.Lock()
		first := ended.IsZero()
		if !first && began.IsZero() {
			began = time.Now()
		}
		mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "retry: %d\n\n", asked.Milliseconds())
		open(w)
		if first {
			mu.Lock()
			defer mu.Unlock()
			ended = time.Now()
			return
		}
		<-r.Context().Done()
	})
	d, rec := lane(t, driver.EndpointOptions{URL: url}, driver.Options{
		Mode: eventmeter.Push, Push: driver.PushOptions{BackoffMin: time.Millisecond, BackoffMax: time.Millisecond},
	})
	attach(t, d, 1)
	rec.wait(t, "the second stream", func(m *memory) bool { return m.noticed(eventmeter.Reconnected) > 0 })
	mu.Lock()
	defer mu.Unlock()
	if away := began.Sub(ended); away < asked {
		t.Errorf("it came back after %v, asked for %v", away, asked)
	}
}
