package upstream_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen"
	"github.com/eventmeter/eventmeter/loadgen/upstream"
)

// notes is a Recorder that counts.
type notes struct {
	eventmeter.Recorder // nil: nothing else is called
	mu                  sync.Mutex
	fired               map[eventmeter.Stamp]eventmeter.Emission
	outcomes            map[eventmeter.Stamp]eventmeter.Outcome
	dropped             map[uint64]bool
	bad                 int
}

func newNotes() *notes {
	return &notes{
		fired:    map[eventmeter.Stamp]eventmeter.Emission{},
		outcomes: map[eventmeter.Stamp]eventmeter.Outcome{},
		dropped:  map[uint64]bool{},
	}
}

func (r *notes) Fired(e eventmeter.Emission) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.fired[e.Stamp]; ok {
		r.bad++
	}
	r.fired[e.Stamp] = e
}

func (r *notes) Resolved(s eventmeter.Stamp, o eventmeter.Outcome, _ eventmeter.Instant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, fired := r.fired[s]
	if _, ok := r.outcomes[s]; ok || !fired {
		r.bad++
	}
	r.outcomes[s] = o
}

func (r *notes) Dropped(d eventmeter.Drop) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dropped[d.Emission] {
		r.bad++
	}
	r.dropped[d.Emission] = true
}

func newFiring(t *testing.T, r eventmeter.Recorder, o loadgen.FiringOptions) *loadgen.Firing {
	t.Helper()
	o.Clock, o.Recorder = eventmeter.NewClock(), r
	o.Stamper = loadgen.NewStamper(o.Clock, r, 5, 3)
	f, err := loadgen.NewFiring(o)
	must(t, err)
	return f
}

func TestLoop(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		stamp, ok := eventmeter.FindStamp(body)
		want := fmt.Sprintf("/hooks/%d?id=%s", stamp.Seq, stamp)
		if !ok || r.RequestURI != want || r.Header.Get("X-Source") != fmt.Sprint(stamp.Source) ||
			!bytes.Equal(body, []byte("body "+stamp.String())) {
			t.Errorf("%s %v %s", r.RequestURI, r.Header, body)
		}
		mu.Lock()
		defer mu.Unlock()
		seen[stamp.String()]++
		switch stamp.Seq % 3 {
		case 0:
			w.WriteHeader(http.StatusAccepted)
		case 1:
			w.WriteHeader(http.StatusBadRequest)
		case 2:
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	defer server.Close()
	r := newNotes()
	// A wide tolerance: how fast this machine is must not matter.
	f := newFiring(
		t,
		r,
		loadgen.FiringOptions{
			Schedule:  loadgen.Burst{Size: 9, Every: 20 * time.Millisecond},
			Warmup:    40 * time.Millisecond,
			Duration:  160 * time.Millisecond,
			Tolerance: 10 * time.Second,
		},
	)
	u := newHTTP(t, server.URL, "", patient)
	loadgen.Loop(context.Background(), f, loadgen.LoopOptions{Fire: u.Fire, Workers: 8})
	_ = u.Close()
	stats := f.Counts()
	if want := (loadgen.Counts{Fired: 90, Accepted: 30, Uncertain: 30, Refused: 30}); stats != want {
		t.Errorf("%+v", stats)
	}
	if len(r.fired) != 90 || len(r.outcomes) != 90 || r.bad != 0 || len(seen) != 90 {
		t.Errorf("%d published, %d resolved, %d wrong, %d seen", len(r.fired), len(r.outcomes), r.bad, len(seen))
	}
	measured := 0
	for _, e := range r.fired {
		if e.Fired < e.Intended {
			t.Errorf("early: %+v", e)
		}
		if e.Measured {
			measured++
		}
	}
	if measured != 72 {
		t.Errorf("%d measured", measured)
	}
}

// A server that holds the first emission until all others were dropped: with one
// worker, each finds none free within its tolerance, and none is sent.
func TestLoopDrops(t *testing.T) {
	r := newNotes()
	released := make(chan struct{})
	var dropped, hits atomic.Int64
	held := afterDrop{r, func() {
		if dropped.Add(1) == 19 {
			close(released)
		}
	}}
	f := newFiring(t, held, loadgen.FiringOptions{Schedule: loadgen.Constant{Rate: 1000}, Duration: 20 * time.Millisecond})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if hits.Add(1) == 1 {
			select {
			case <-released:
			case <-r.Context().Done():
			}
		}
	}))
	defer server.Close()
	u, err := upstream.NewHTTP(
		upstream.HTTPOptions{
			ClientOptions: upstream.ClientOptions{Timeout: time.Minute},
			Request: func(_ int, _ uint32, probe string) (string, http.Header, []byte) {
				return server.URL, nil, []byte(probe)
			},
		},
	)
	must(t, err)
	loadgen.Loop(context.Background(), f, loadgen.LoopOptions{Fire: u.Fire, Workers: 1})
	_ = u.Close()
	if stats := f.Counts(); stats.Fired != 1 || stats.Dropped != 19 || stats.Accepted != 1 || len(r.dropped) != 19 || r.bad != 0 ||
		hits.Load() != 1 {
		t.Errorf("%+v, %d dropped, %d wrong, %d sent", stats, len(r.dropped), r.bad, hits.Load())
	}
}

// A loop that is broken off ends soon although the next emission is an hour
// away, and waits for what is under way.
func TestLoopCancelled(t *testing.T) {
	for name, c := range map[string]struct {
		schedule loadgen.Schedule
		workers  int
	}{
		"pacing":    {loadgen.Constant{Rate: 1.0 / 3600}, 4},
		"no worker": {loadgen.Constant{Rate: 1000}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			release := make(chan struct{})
			server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				cancel()
				<-release
			}))
			defer server.Close()
			context.AfterFunc(ctx, func() { close(release) })
			r := newNotes()
			f := newFiring(t, r, loadgen.FiringOptions{Schedule: c.schedule, Tolerance: time.Hour})
			u, err := upstream.NewHTTP(
				upstream.HTTPOptions{
					ClientOptions: upstream.ClientOptions{Timeout: time.Minute},
					Request: func(_ int, _ uint32, probe string) (string, http.Header, []byte) {
						return server.URL, nil, []byte(probe)
					},
				},
			)
			must(t, err)
			loadgen.Loop(ctx, f, loadgen.LoopOptions{Fire: u.Fire, Workers: c.workers})
			_ = u.Close()
			if stats := f.Counts(); stats.Fired != 1 || stats.Accepted != 1 || stats.Dropped != 0 {
				t.Errorf("%+v", stats)
			}
		})
	}
}

// afterDrop calls done after each emission that is dropped.
type afterDrop struct {
	*notes
	done func()
}

func (a afterDrop) Dropped(d eventmeter.Drop) {
	a.notes.Dropped(d)
	a.done()
}

// With a worker for each emission of a burst, every emission finds a free worker, and
// none is dropped, however long the machine takes to send them all.
func TestLoopBurst(t *testing.T) {
	const size = 500
	released := make(chan struct{})
	release := sync.OnceFunc(func() { close(released) })
	var received atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if received.Add(1) == size {
			release()
		}
		<-released
	}))
	defer server.Close()
	r := newNotes()
	f := newFiring(
		t,
		afterDrop{r, release},
		loadgen.FiringOptions{Schedule: loadgen.Burst{Size: size, Every: time.Hour}, Duration: time.Minute},
	)
	u, err := upstream.NewHTTP(
		upstream.HTTPOptions{
			ClientOptions: upstream.ClientOptions{Timeout: time.Minute, Connections: size},
			Request: func(_ int, _ uint32, probe string) (string, http.Header, []byte) {
				return server.URL, nil, []byte(probe)
			},
		},
	)
	must(t, err)
	loadgen.Loop(context.Background(), f, loadgen.LoopOptions{Fire: u.Fire, Workers: size})
	_ = u.Close()
	if stats := f.Counts(); stats.Fired != size || stats.Accepted != size || stats.Dropped != 0 || received.Load() != size ||
		len(r.dropped) != 0 ||
		r.bad != 0 {
		t.Errorf("%+v, %d received, %d dropped, %d wrong", stats, received.Load(), len(r.dropped), r.bad)
	}
}
