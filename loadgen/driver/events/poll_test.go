package events_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
)

// polled serves events/poll in the bare era: answer gives the result of the
// n-th poll, from 1.
func polled(t *testing.T, answer func(n int32, r *http.Request) string) (*httptest.Server, *atomic.Int32) {
	polls := &atomic.Int32{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.Unmarshal(body, &m)
		w.Header().Set("Content-Type", "application/json")
		switch m.Method {
		case "events/poll":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, answer(polls.Add(1), r))
		case "events/list":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"events":[]}}`, m.ID)
		default:
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	t.Cleanup(srv.Close)
	return srv, polls
}

// A cursor that moves without end is followed a thousand times, then slowly, and
// that is noticed. The poller never gets to the end.
func TestPollOfACursorThatNeverStops(t *testing.T) {
	srv, polls := polled(t, func(n int32, _ *http.Request) string {
		return fmt.Sprintf(`{"events":[],"cursor":"c%d","hasMore":%t}`, n, n > 1)
	})
	d, rec := systemstest.Lane(
		t,
		mcpclient.EndpointOptions{URL: srv.URL},
		driver.Options{Mode: eventmeter.Poll, Poll: &driver.Poll{MinInterval: time.Millisecond}},
	)
	must(t, d.Attach(t.Context(), 0))
	rec.Wait(t, "the notice", func(m *systemstest.Memory) bool { return m.CountNotices(eventmeter.Malformed) > 0 })
	// One to open, one that said hasMore first, and a thousand that were followed.
	if n := polls.Load(); n < 1002 || n > 1010 {
		t.Errorf("%d polls", n)
	}
	rec.Mu.Lock()
	if want := "hasMore in 1000 answers in a row"; !strings.Contains(rec.Notices[0].Detail, want) {
		t.Errorf("%q, want %q", rec.Notices[0].Detail, want)
	}
	rec.Mu.Unlock()
}

// TestBytesOfTheFirstPoll: those of its events are not part of what it costs to open the subscription.
func TestBytesOfTheFirstPoll(t *testing.T) {
	const event = `{"eventId":"e-1","name":"ticket.moved","timestamp":"2026-11-20T10:00:00Z","data":{}}`
	down := func(events string) map[eventmeter.Cause]int64 {
		srv, _ := polled(t, func(n int32, r *http.Request) string {
			if n > 1 {
				<-r.Context().Done()
			}
			return fmt.Sprintf(`{"events":[%s],"cursor":"c1","hasMore":false}`, events)
		})
		d, rec := systemstest.Lane(
			t,
			mcpclient.EndpointOptions{URL: srv.URL},
			driver.Options{Mode: eventmeter.Poll, Poll: &driver.Poll{MinInterval: time.Millisecond}},
		)
		systemstest.Attach(t, d, 1)
		out := map[eventmeter.Cause]int64{}
		rec.Mu.Lock()
		defer rec.Mu.Unlock()
		for _, c := range rec.Calls {
			out[c.Cause] += c.Down
		}
		return out
	}
	with, without := down(event), down("")
	// A longer response may have one more digit in its Content-Length.
	more := with[eventmeter.Subscribe] - without[eventmeter.Subscribe]
	if with[eventmeter.Events] != int64(len(event)) || more < 0 || more > 1 {
		t.Errorf("%v with an event of %d bytes, %v without", with, len(event), without)
	}
}

// TestPollOfNothingMore: each answer that says hasMore and leads nowhere is counted.
func TestPollOfNothingMore(t *testing.T) {
	srv, polls := polled(t, func(n int32, _ *http.Request) string {
		return fmt.Sprintf(`{"events":[],"cursor":"c","hasMore":%t}`, n == 2 || n == 3)
	})
	d, rec := systemstest.Lane(
		t,
		mcpclient.EndpointOptions{URL: srv.URL},
		driver.Options{Mode: eventmeter.Poll, Poll: &driver.Poll{MinInterval: time.Millisecond}},
	)
	systemstest.Attach(t, d, 1)
	rec.Wait(t, "a fifth poll", func(*systemstest.Memory) bool { return polls.Load() >= 5 })
	if n, ok := d.(driver.Figurer).Figures().Values["hasMoreUnmoved"]; n != 2 || !ok {
		t.Errorf("hasMoreUnmoved is %v (%t), want 2", n, ok)
	}
}

// A poller is behind until a poll that was sent since is answered without
// hasMore, and the end of its subscription says how far it had got.
func TestPollerIsBehind(t *testing.T) {
	answered := make(chan string)
	srv, _ := polled(t, func(_ int32, r *http.Request) string {
		select {
		case a := <-answered:
			return a
		case <-r.Context().Done():
			return "{}"
		}
	})
	clock := eventmeter.NewClock()
	d, rec := systemstest.Lane(t, mcpclient.EndpointOptions{URL: srv.URL}, driver.Options{
		Clock:         clock,
		Mode:          eventmeter.Poll,
		Subscriptions: 2,
		Poll:          &driver.Poll{MinInterval: time.Millisecond},
		Push:          driver.Push{Backoff: driver.Backoff{Min: time.Millisecond, Max: time.Millisecond}},
	})
	look := func(since eventmeter.Instant) int {
		behind, open := d.(driver.Asker).Behind(since)
		if open != 1 {
			t.Errorf("%d open", open)
		}
		return behind
	}
	calls := 0
	say := func(result string) {
		answered <- result
		calls++
		rec.Wait(t, "the answer", func(m *systemstest.Memory) bool {
			n := 0
			for _, c := range m.Calls {
				if c.Method == "events/poll" {
					n++
				}
			}
			return n >= calls
		})
	}
	began := clock.Now()
	attached := make(chan error, 1)
	go func() { attached <- d.Attach(t.Context(), 0) }()
	say(`{"events":[],"cursor":"c1"}`)
	must(t, <-attached)
	if n := look(began); n != 0 {
		t.Errorf("%d behind after the first poll", n)
	}
	fired := clock.Now()
	if n := look(fired); n != 1 {
		t.Errorf("%d behind before another", n)
	}
	// The second poll may have been sent before fired; the third was not.
	say(`{"events":[],"cursor":"c2"}`)
	say(`{"events":[],"cursor":"c3","hasMore":true}`)
	late := clock.Now()
	say(`{"events":[],"cursor":"c4","hasMore":true}`)
	say(`{"events":[],"cursor":"c5","hasMore":true}`)
	if n := look(late); n != 1 {
		t.Errorf("%d behind while there is more", n)
	}
	say(`{"events":[],"cursor":"c6"}`)
	for look(late) != 0 { // it is noted after the call is reported
		select {
		case <-t.Context().Done():
			t.Fatal("behind for ever")
		default:
		}
	}
	end := clock.Now()
	must(t, d.Detach(t.Context(), 0))
	rec.Mu.Lock()
	defer rec.Mu.Unlock()
	for _, s := range rec.Transitions {
		if s.To == eventmeter.Detaching && (s.Seen <= late || s.Seen >= end || s.At < end) {
			t.Errorf("seen until %d, which is not between %d and %d", s.Seen, late, end)
		}
	}
}

// A long poll that the target holds is as good as a stream.
func TestLongPollIsNotBehind(t *testing.T) {
	held := make(chan struct{})
	srv, _ := polled(t, func(n int32, r *http.Request) string {
		if n > 1 {
			close(held)
			<-r.Context().Done()
		}
		return `{"events":[],"cursor":"c1"}`
	})
	clock := eventmeter.NewClock()
	d, rec := systemstest.Lane(t, mcpclient.EndpointOptions{URL: srv.URL}, driver.Options{
		Clock: clock, Mode: eventmeter.Poll, Poll: &driver.Poll{MinInterval: time.Millisecond, Timeout: time.Minute},
	})
	must(t, d.Attach(t.Context(), 0))
	<-held
	if behind, open := d.(driver.Asker).Behind(clock.Now()); behind != 0 || open != 1 {
		t.Errorf("%d of %d behind", behind, open)
	}
	must(t, d.Detach(t.Context(), 0))
	rec.Mu.Lock()
	defer rec.Mu.Unlock()
	for _, s := range rec.Transitions {
		if s.Seen != 0 {
			t.Errorf("%+v", s)
		}
	}
}

// must ends the test if a step of it has failed.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
