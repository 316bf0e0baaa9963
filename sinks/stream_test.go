package sinks

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/eventmeter/eventmeter"
)

func TestReadStream(t *testing.T) {
	clock := eventmeter.NewClock()
	text := strings.Repeat("0123456789", 1000)
	for name, r := range map[string]io.Reader{
		"whole": strings.NewReader(text), "bytes": iotest.OneByteReader(strings.NewReader(text)),
		"end with data": iotest.DataErrReader(strings.NewReader(text)),
	} {
		var got strings.Builder
		var last eventmeter.Instant
		err := ReadStream(r, clock, nil, func(b []byte, at eventmeter.Instant) error {
			if at < last || at == 0 {
				t.Errorf("%s: read at %d after %d", name, at, last)
			}
			last = at
			got.Write(b)
			return nil
		})
		if err != nil || got.String() != text {
			t.Errorf("%s: %v, %d bytes", name, err, got.Len())
		}
	}
	broken := errors.New("broken")
	if err := ReadStream(iotest.ErrReader(broken), clock, nil, nil); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if err := ReadStream(
		strings.NewReader("x"),
		clock,
		nil,
		func([]byte, eventmeter.Instant) error { return broken },
	); !errors.Is(
		err,
		broken,
	) {
		t.Errorf("got %v", err)
	}
}

func TestWatchFindsSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := eventmeter.NewClock()
		w := NewWatch(clock, 100*time.Millisecond)
		start := time.Now()
		found := make(map[string]time.Duration)
		dead := func(name string) func() { return func() { found[name] = time.Since(start) } }
		w.Add(time.Second, dead("silent"))
		loud := w.Add(time.Second, dead("loud"))
		w.Remove(w.Add(time.Second, dead("gone")))
		for range 5 {
			time.Sleep(500 * time.Millisecond)
			loud.Beat(clock.Now())
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if d := found["silent"]; d <= time.Second || d > 1100*time.Millisecond {
			t.Errorf("silence found after %v", d)
		}
		if d := found["loud"]; d <= 3500*time.Millisecond || d > 3600*time.Millisecond {
			t.Errorf("the other was given up after %v", d)
		}
		if len(found) != 2 {
			t.Errorf("found %v", found)
		}
		w.Close()
	})
}

func TestBackoff(t *testing.T) {
	b := Backoff{Min: 100 * time.Millisecond, Max: time.Second, Rand: rand.New(rand.NewPCG(1, 2))}
	for range 2 {
		for _, bound := range []time.Duration{100, 200, 400, 800, 1000, 1000} {
			if d := b.Next(0); d <= 0 || d > bound*time.Millisecond+1 {
				t.Errorf("wait %v over %v", d, bound*time.Millisecond)
			}
		}
		b.Reset()
	}
	if d := b.Next(time.Minute); d < time.Minute || d > time.Minute+101*time.Millisecond {
		t.Errorf("asked for a minute, waits %v", d)
	}
	if d := new(Backoff).Next(0); d <= 0 || d > 2*time.Millisecond {
		t.Errorf("the zero value waits %v", d)
	}
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if !Sleep(ctx, 0) || !Sleep(ctx, 500*time.Millisecond) || Sleep(ctx, time.Hour) || Sleep(ctx, 0) {
			t.Error("slept wrongly")
		}
	})
}
