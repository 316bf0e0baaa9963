package boards

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/promtest"
)

// front is where Prometheus scrapes a command: it is there before the command,
// so that nobody has to guess a port. It scrapes the command itself, for as long
// as an answer takes, and gives Prometheus the answers in their order, and the
// last one again until a newer has come. So a machine that is too busy for
// Prometheus' scrapes to be answered in time makes them late, and loses none.
type front struct {
	*httptest.Server

	mu      sync.Mutex
	knocked http.Header // of Prometheus' last request, nil before the first
	waiting []scrape    // the answer that Prometheus gets next, and those after it
	since   time.Time   // when the first of them became the first
	given   int         // answers that Prometheus came for, each counted once
	over    bool        // the last one is known to have come
	broken  error
}

// scrape is one answer of a command.
type scrape struct {
	header http.Header
	body   []byte
	given  bool
}

func newFront(t *testing.T) *front {
	t.Helper()
	f := &front{}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

// ServeHTTP implements [http.Handler].
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.knocked = r.Header
	if len(f.waiting) == 0 || f.over {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if f.waiting[0].given && len(f.waiting) > 1 {
		f.waiting, f.since = f.waiting[1:], time.Now()
	}
	next := &f.waiting[0]
	for _, name := range []string{"Content-Type", "Content-Encoding"} {
		if v := next.header.Get(name); v != "" {
			w.Header().Set(name, v)
		}
	}
	_, _ = w.Write(next.body) // whether it arrived is asked of Prometheus
	if !next.given {
		next.given = true
		f.given++
	}
}

// asPrometheus are the headers of Prometheus' own requests, nil before one came.
func (f *front) asPrometheus() http.Header {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.knocked
}

// awaitGiven waits until Prometheus came for n answers.
func (f *front) awaitGiven(t *testing.T, what string, n int) {
	t.Helper()
	promtest.Await(t, what+" to be scraped", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.given >= n
	})
}

// awaitLast waits until Prometheus has the last answer of a command that ended.
func (f *front) awaitLast(t *testing.T, s *promtest.Server, what string) {
	t.Helper()
	expr := fmt.Sprintf(`timestamp(up{instance=%q} == 1)`, f.Listener.Addr())
	promtest.Await(t, "the last scrape of "+what, func() bool {
		f.mu.Lock()
		last, since := len(f.waiting) == 1 && f.waiting[0].given, f.since
		f.mu.Unlock()
		if !last {
			return false
		}
		got, err := s.TryQuery(expr, time.Time{})
		return err == nil && len(got) == 1 && got[0].Value > float64(since.UnixMicro())/1e6
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	t.Logf("Prometheus came for %d answers of %s", f.given, what)
	if f.given < 2 || f.broken != nil { // the first says where counters began, the last where they ended
		t.Fatalf("%s gave %d answers: %v", what, f.given, f.broken)
	}
}

// follow scrapes a command as often as Prometheus would, until it has ended.
func (f *front) follow(ctx context.Context, at string) {
	again := time.NewTicker(promtest.Every)
	defer again.Stop()
	for {
		one, err := f.scrape(ctx, at)
		if err != nil {
			return // nobody is there any more: the last answer is that of the linger
		}
		f.mu.Lock()
		if len(f.waiting) == 0 {
			f.since = time.Now()
		}
		f.waiting = append(f.waiting, one)
		f.mu.Unlock()
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

// scrape asks once. Where nobody answers it is an error, and where the answer is
// none the test's.
func (f *front) scrape(ctx context.Context, at string) (scrape, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return scrape{}, err
	}
	r.Header = f.asPrometheus().Clone()
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return scrape{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	if err != nil {
		f.mu.Lock()
		f.broken = err
		f.mu.Unlock()
	}
	return scrape{header: resp.Header, body: body}, err
}
