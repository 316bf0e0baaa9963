package refserver

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// frameWriter is the client of a stream in a synctest bubble. A write blocks
// while a token is in busy.
type frameWriter struct {
	header http.Header
	busy   chan struct{} // holds a token during a write, or while a test blocks writes
	mu     sync.Mutex
	frames []string
}

func (w *frameWriter) Header() http.Header { return w.header }
func (w *frameWriter) WriteHeader(int)     {}
func (w *frameWriter) Flush()              {}
func (w *frameWriter) Write(b []byte) (int, error) {
	w.busy <- struct{}{}
	defer func() { <-w.busy }()
	w.mu.Lock()
	defer w.mu.Unlock()
	for frame := range strings.SplitSeq(strings.TrimSuffix(string(b), "\n\n"), "\n\n") {
		w.frames = append(w.frames, frame)
	}
	return len(b), nil
}

// kinds lists the received notifications: the end of the method name, and the
// event's id.
func (w *frameWriter) kinds() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var kinds []string
	for _, f := range w.frames {
		kind := "result"
		if _, after, ok := strings.Cut(f, `"notifications/events/`); ok {
			kind, _, _ = strings.Cut(after, `"`)
		}
		if _, after, ok := strings.Cut(f, `"eventId":"`); ok {
			kind, _, _ = strings.Cut(after, `"`)
		}
		if strings.Contains(f, `"truncated":true`) {
			kind += "!"
		}
		kinds = append(kinds, kind)
	}
	return strings.Join(kinds, " ")
}

// openStream runs a stream until the server of the bubble closes it or stop is
// called.
func openStream(s *Server, params string) (w *frameWriter, stop func()) {
	w = &frameWriter{header: http.Header{}, busy: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/mcp", nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.do(w, r, &call{method: "events/stream", id: []byte("7"), params: []byte(params)})
	}()
	return w, func() { cancel(); <-done }
}

func TestHeartbeatOnlyInSilence(t *testing.T) {
	bubble(t, Options{Heartbeat: 10 * time.Second}, func(t *testing.T, s *Server, _ *fakeReceiver) {
		w, stop := openStream(s, `{"name":"tick","cursor":null}`)
		defer stop()
		for range 5 { // an event every 6 s: never 10 s without a frame
			time.Sleep(6 * time.Second)
			publish(t, s, "tick", `{}`)
		}
		time.Sleep(25 * time.Second)
		synctest.Wait()
		if got, want := w.kinds(), "active e-1 e-2 e-3 e-4 e-5 heartbeat heartbeat"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

func TestHeartbeatOfAFilterMovesItsCursor(t *testing.T) {
	bubble(t, Options{Heartbeat: time.Second}, func(t *testing.T, s *Server, _ *fakeReceiver) {
		w, stop := openStream(s, `{"name":"chat.message","arguments":{"channel":"quiet"},"cursor":null}`)
		defer stop()
		synctest.Wait()
		for range 3 {
			publish(t, s, "chat.message", `{"channel":"busy"}`)
		}
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		if got := w.frames[1]; w.kinds() != "active heartbeat" || !strings.Contains(got, `-3","_meta"`) {
			t.Errorf("got %s", got)
		}
	})
}

func TestSlowStreamIsToldOfItsGap(t *testing.T) {
	bubble(t, Options{QueueLen: 2}, func(t *testing.T, s *Server, _ *fakeReceiver) {
		w, stop := openStream(s, `{"name":"tick","cursor":null}`)
		defer stop()
		synctest.Wait()
		w.busy <- struct{}{} // the client stops reading
		publish(t, s, "tick", `{}`)
		synctest.Wait()
		for range 5 {
			publish(t, s, "tick", `{}`)
		}
		<-w.busy
		synctest.Wait()
		if got, want := w.kinds(), "active e-1 active! e-5 e-6"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if n := s.Stats().QueueOverflow; n != 3 {
			t.Errorf("overflow %d, want 3", n)
		}
	})
}

func TestReplayIsNotHeldAgainstTheQueue(t *testing.T) {
	bubble(t, Options{QueueLen: 2}, func(t *testing.T, s *Server, _ *fakeReceiver) {
		cursor := s.broker.topics["tick"].cursor(0)
		for range 5 {
			publish(t, s, "tick", `{}`)
		}
		w, stop := openStream(s, `{"name":"tick","cursor":"`+cursor+`"}`)
		defer stop()
		synctest.Wait()
		if got, want := w.kinds(), "active e-1 e-2 e-3 e-4 e-5"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

func TestMaxAgeBoundsTheReplay(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Server, _ *fakeReceiver) {
		cursor := s.broker.topics["tick"].cursor(0)
		publish(t, s, "tick", `{}`)
		time.Sleep(10 * time.Second)
		publish(t, s, "tick", `{}`)
		for _, c := range []struct{ ms, want string }{{"20000", "active e-1 e-2"}, {"5000", "active! e-2"}} {
			w, stop := openStream(s, `{"name":"tick","cursor":"`+cursor+`","maxAgeMs":`+c.ms+`}`)
			synctest.Wait()
			if got := w.kinds(); got != c.want {
				t.Errorf("maxAgeMs %s: got %s, want %s", c.ms, got, c.want)
			}
			stop()
		}
	})
}

func TestLongPoll(t *testing.T) {
	opts := Options{Revision: RevisionLongPoll, LongPollMax: time.Minute}
	for _, c := range []struct {
		name    string
		timeout string
		event   time.Duration // 0 = none
		close   time.Duration
		want    time.Duration
		events  int
	}{
		{"an event ends it", "30000", 5 * time.Second, 0, 5 * time.Second, 1},
		{"nothing comes", "30000", 0, 0, 30 * time.Second, 0},
		{"the wish is bounded", "9000000", 0, 0, time.Minute, 0},
		{"the server closes", "30000", 0, 3 * time.Second, 3 * time.Second, 0},
		{"no wish", "0", 0, 0, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, opts, func(t *testing.T, s *Server, _ *fakeReceiver) {
				cursor := s.broker.topics["chat.message"].cursor(0)
				if c.event > 0 {
					time.AfterFunc(c.event/2, func() { publish(t, s, "chat.message", `{"channel":"other"}`) })
					time.AfterFunc(c.event, func() { publish(t, s, "chat.message", `{"channel":"a"}`) })
				}
				if c.close > 0 {
					time.AfterFunc(c.close, func() { s.closeOnce.Do(func() { close(s.closing) }) })
				}
				began := time.Now()
				r := result(
					t,
					s,
					"",
					"events/poll",
					`{"name":"chat.message","arguments":{"channel":"a"},"cursor":"`+cursor+`","timeoutMs":`+c.timeout+`}`,
				)
				if took := time.Since(began); took != c.want || len(r["events"].([]any)) != c.events || r["truncated"] != false {
					t.Errorf("took %v, want %v; result %v", took, c.want, r)
				}
			})
		})
	}
}

// TestTransports opens streams over every kind of connection, many over one
// where possible, and injects over the admin listener.
func TestTransports(t *testing.T) {
	s := startServer(t, Options{TLS: true})
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(s.CertPEM()) {
		t.Fatal("no certificate")
	}
	protocols := func(set func(*http.Protocols)) *http.Protocols { p := new(http.Protocols); set(p); return p }
	for _, c := range []struct {
		name, url, proto string
		protocols        *http.Protocols
	}{
		{"http1", s.URL(), "HTTP/1.1", protocols(func(p *http.Protocols) { p.SetHTTP1(true) })},
		{"h2c", s.URL(), "HTTP/2.0", protocols(func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) })},
		{"https1", s.TLSURL(), "HTTP/1.1", protocols(func(p *http.Protocols) { p.SetHTTP1(true) })},
		{"h2", s.TLSURL(), "HTTP/2.0", protocols(func(p *http.Protocols) { p.SetHTTP2(true) })},
	} {
		t.Run(c.name, func(t *testing.T) {
			transport := &http.Transport{Protocols: c.protocols, TLSClientConfig: &tls.Config{RootCAs: roots}}
			defer transport.CloseIdleConnections()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			const streams, events = 30, 10
			var wg sync.WaitGroup
			var ready sync.WaitGroup
			for i := range streams {
				ready.Add(1)
				wg.Go(func() { readStream(ctx, t, transport, c.url, c.proto, i, events, &ready) })
			}
			ready.Wait()
			for range events {
				publish(t, s, "tick", `{"x":"`+strings.Repeat("y", 300)+`"}`)
			}
			wg.Wait()
		})
	}
}

// readStream opens one stream, reads a number of events in order, and closes
// it.
func readStream(ctx context.Context, t *testing.T, transport http.RoundTripper, url, proto string, i, events int, ready *sync.WaitGroup) {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"events/stream","params":{"name":"tick","cursor":null}}`, i)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Error(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := transport.RoundTrip(r)
	if err != nil {
		t.Error(err)
		ready.Done()
		return
	}
	defer resp.Body.Close()
	if resp.Proto != proto {
		t.Errorf("spoke %s, want %s", resp.Proto, proto)
	}
	lines := bufio.NewReader(resp.Body)
	if first := nextFrame(t, lines); !strings.Contains(first, "events/active") {
		t.Errorf("first frame %s", first)
	}
	ready.Done()
	last := ""
	for range events {
		frame := nextFrame(t, lines)
		_, id, _ := strings.Cut(frame, `"eventId":"e-`)
		id, _, _ = strings.Cut(id, `"`)
		if len(id) < len(last) || len(id) == len(last) && id <= last || !strings.HasSuffix(frame, fmt.Sprintf(`:%d}}}`, i)) {
			t.Errorf("after e-%s: %s", last, frame)
		}
		last = id
	}
}
