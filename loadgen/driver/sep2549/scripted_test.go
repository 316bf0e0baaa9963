package sep2549

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/streamclient"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// scriptedLists is a server without a network: it runs in the bubble of a test
// whose clock does not wait.
type scriptedLists struct {
	mu     sync.Mutex
	ttl    time.Duration
	took   time.Duration // to answer
	seq    uint32
	broken bool
	bare   bool            // answers have no hints
	random bool            // the order of entries differs from answer to answer
	asked  []time.Duration // when, since the start
	start  time.Time
	clock  *eventmeter.Clock
	waited time.Duration // what came on the stream, for this program, by the kernel's clock
	tell   chan string   // frames of the one stream of notifications
}

func (s *scriptedLists) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := func(status int, media string, body io.Reader) *http.Response {
		return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {media}}, Body: io.NopCloser(body)}
	}
	s.mu.Lock()
	s.asked = append(s.asked, time.Since(s.start))
	request, _ := io.ReadAll(r.Body)
	first, second := "a", "b"
	if s.random && len(s.asked)%2 == 0 {
		first, second = second, first
	}
	text := fmt.Sprintf(`{"id":%s,"result":{"tools":[{"name":"%s","description":"%s"},{"name":"%s"}],"ttlMs":%d,"cacheScope":"public"}}`,
		wire.RequestID(request), first, eventmeter.Stamp{Run: 1, Seq: s.seq}, second, s.ttl.Milliseconds())
	if s.bare {
		text, _, _ = strings.Cut(text, `,"ttlMs"`)
		text += "}}"
	}
	broken, took := s.broken, s.took
	s.mu.Unlock()
	time.Sleep(took)
	if broken {
		return answer(http.StatusBadGateway, "text/plain", bytes.NewReader(nil)), nil
	}
	return answer(200, "application/json", bytes.NewReader([]byte(text))), nil
}

// Open implements streamclient.Client: it plays the stream of notifications.
func (s *scriptedLists) Open(_ context.Context, _ streamclient.Request, to streamclient.Sink) streamclient.Stream {
	ctx, cancel := context.WithCancel(context.Background())
	now := func() streamclient.Arrival {
		at := s.clock.Now()
		return streamclient.Arrival{At: int64(at.Add(-s.waited)), Read: int64(at), Kernel: s.waited > 0}
	}
	say := func(text string) error { return to.Piece([]byte("data: "+text+"\n\n"), now()) }
	go func() {
		err := to.Opened(streamclient.Head{Status: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}}, now())
		for text := `{"method":"` + driver.MethodAcknowledged + `","params":{"notifications":{"toolsListChanged":true}}}`; err == nil; {
			if err = say(text); err != nil {
				break
			}
			select {
			case method := <-s.tell:
				text = `{"method":"` + method + `"}`
			case <-ctx.Done():
				err = streamclient.ErrClosed
			}
		}
		to.Closed(err)
	}()
	return hangUp(cancel)
}

// Close implements streamclient.Client.
func (s *scriptedLists) Close() error { return nil }

type hangUp func()

func (h hangUp) Close() { h() }

func (hangUp) Hold(time.Duration) {}

func (s *scriptedLists) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// firedLog is a recorder and the table of what was fired.
type firedLog struct {
	eventmeter.Recorder
	mu    sync.Mutex
	fired []eventmeter.Instant
}

func (l *firedLog) Run() uint32 { return 1 }

func (l *firedLog) Sources() int { return 1 }

func (l *firedLog) AckedAt(eventmeter.Stamp) eventmeter.Instant { return 0 }

func (l *firedLog) Emission(s eventmeter.Stamp) (eventmeter.Emission, eventmeter.Outcome, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.Run != 1 || s.Source != 0 || s.Seq == 0 || int(s.Seq) > len(l.fired) {
		return eventmeter.Emission{}, eventmeter.Pending, false
	}
	return eventmeter.Emission{Stamp: s, Fired: l.fired[s.Seq-1], Measured: true}, eventmeter.Accepted, true
}

// bubble runs a lane against a scripted server on a clock that does not wait.
func bubble(t *testing.T, clients int, set Settings, s *scriptedLists, play func(d *lane, change func())) driver.Figures {
	t.Helper()
	var out driver.Figures
	synctest.Test(t, func(t *testing.T) {
		ep, err := mcpclient.NewEndpoint(mcpclient.EndpointOptions{URL: "http://127.0.0.1:1/mcp"})
		if err != nil {
			t.Fatal(err)
		}
		ep.Presume(mcpclient.Modern)
		log := &firedLog{Recorder: eventmeter.Tee()}
		d, err := newLane(driver.Options{
			Clock:         eventmeter.NewClock(),
			Recorder:      log,
			Endpoint:      ep,
			Mode:          eventmeter.Poll,
			Subscriptions: clients,
			Settings:      set,
			Published:     log,
			Seed:          7,
		}.WithDefaults())
		if err != nil {
			t.Fatal(err)
		}
		s.start, s.tell, s.clock = time.Now(), make(chan string), d.Clock
		d.Transport = s
		if d.streams != nil {
			if err := d.streams.Carry(s).Close(); err != nil {
				t.Fatal(err)
			}
		}
		for i := range clients {
			if err := d.Attach(t.Context(), i); err != nil {
				t.Fatal(err)
			}
		}
		play(d, func() {
			log.mu.Lock()
			log.fired = append(log.fired, d.Clock.Now())
			log.mu.Unlock()
			s.set(func() { s.seq++ })
		})
		for i := range clients {
			if err := d.Detach(t.Context(), i); err != nil {
				t.Fatal(err)
			}
		}
		out = d.Figures()
		if err := d.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		if err := ep.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	})
	if out.Values["unbalanced"] != 0 {
		t.Errorf("the sums differ: %v", out.Values)
	}
	return out
}

func expect(t *testing.T, f driver.Figures, want map[string]float64) {
	t.Helper()
	for name, v := range want {
		if f.Values[name] != v {
			t.Errorf("%s is %v, want %v", name, f.Values[name], v)
		}
	}
}
