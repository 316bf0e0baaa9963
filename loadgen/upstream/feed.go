package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/wire"
)

// FeedOptions describe a [Feed].
type FeedOptions struct {
	// Listen is the listener's address; "" means a free port of 127.0.0.1.
	Listen string
	// Event is the event name of each change, which may be empty.
	Event string
	// Payload is a change's data. Required.
	Payload Payload
	// Limit bounds the changes of one answer; 0 means 500. A request may set a lower
	// limit.
	Limit int
	// Wrap, if not nil, is called with the listener and returns the listener to use.
	Wrap func(net.Listener) net.Listener
	// Keep is how many of the newest changes are kept for requests; 0 means 100,000.
	Keep int
}

// Feed is a change feed that the target polls:
//
//	GET /changes?since=CURSOR&limit=N
//	{"changes":[{"id":"…","event":"…","time":"…","data":{…}}],"cursor":"…","hasMore":false}
//
// Without since, an answer begins with the oldest change that is kept. The answer to
// since=now has the current cursor and no changes. A cursor whose changes are no
// longer kept, or of another feed, is answered with status 410 and the oldest valid
// cursor. Every answer has an ETag, and a matching If-None-Match is answered with
// status 304.
//
// Fire makes a change available, so every emission is Accepted at once. The timing
// feedLag is how long it then takes until the target has fetched the change.
type Feed struct {
	o      FeedOptions
	epoch  string
	server *http.Server
	url    string
	done   chan struct{} // closed when the listener is closed

	mu      sync.Mutex
	first   uint64 // number of the oldest change that is kept, from 1
	changes []change
	counts  feedCounts
	lag     Timing // guarded by mu
}

type change struct {
	text     []byte
	at       time.Time
	measured bool
	fetched  bool
}

// feedCounts count the target's requests and the changes in the answers.
type feedCounts struct {
	requests, withChanges, empty, notModified, gone, bad float64
	served, repeated, bytes                              float64
	measured, fetched                                    float64
}

// NewFeed checks the options, opens the listener and serves it until Close.
func NewFeed(o FeedOptions) (*Feed, error) {
	if o.Payload == nil {
		return nil, errors.New("upstream feed: Payload must be given")
	}
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	if o.Limit <= 0 {
		o.Limit = 500
	}
	if o.Keep <= 0 {
		o.Keep = 100_000
	}
	l, err := wire.Listen(context.Background(), o.Listen)
	if err != nil {
		return nil, fmt.Errorf("upstream feed: %w; choose another address to listen on", err)
	}
	if o.Wrap != nil {
		l = o.Wrap(l)
	}
	f := &Feed{
		o: o, epoch: strconv.FormatInt(time.Now().UnixNano(), 36), first: 1, lag: newTiming(),
		url: "http://" + l.Addr().String() + "/changes", done: make(chan struct{}),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /changes", f.serve)
	f.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer crash.Guard()
		defer close(f.done)
		_ = f.server.Serve(l) // it ends with Close
	}()
	return f, nil
}

// URL returns the address that the target polls.
func (f *Feed) URL() string { return f.url }

// Fire implements [Upstream].
func (f *Feed) Fire(_ context.Context, emission Emission) eventmeter.Outcome {
	text := make([]byte, 0, 256)
	text = append(text, `{"id":"`...)
	text = append(text, guid(emission.Stamp.String())...)
	if f.o.Event != "" {
		name, _ := json.Marshal(f.o.Event) // a string always encodes
		text = append(append(text, `","event":`...), name...)
	} else {
		text = append(text, '"')
	}
	now := time.Now()
	text = append(text, `,"time":"`...)
	text = now.UTC().AppendFormat(text, "2006-01-02T15:04:05.000Z")
	text = append(text, `","data":`...)
	text = f.o.Payload.append(text, emission)
	text = append(text, '}')
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.changes) >= 2*f.o.Keep { // by halves, so that moving them costs little
		drop := len(f.changes) - f.o.Keep
		f.changes = append(make([]change, 0, 2*f.o.Keep), f.changes[drop:]...)
		f.first += uint64(drop)
	}
	f.changes = append(f.changes, change{text: text, at: time.Now(), measured: emission.Measured})
	if emission.Measured {
		f.counts.measured++
	}
	return eventmeter.Accepted
}

// Content implements [Recorded].
func (f *Feed) Content(emission Emission) (string, []byte) {
	return f.o.Event, f.o.Payload.append(nil, emission)
}

// oldest returns the number of the oldest change that is served.
func (f *Feed) oldest() uint64 {
	return f.first + uint64(max(0, len(f.changes)-f.o.Keep))
}

// newest returns the number of the newest change, first-1 if there is none.
func (f *Feed) newest() uint64 { return f.first + uint64(len(f.changes)) - 1 }

func (f *Feed) cursor(n uint64) string { return f.epoch + "-" + strconv.FormatUint(n, 10) }

// serve answers one request of the target.
func (f *Feed) serve(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	limit := f.o.Limit
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			f.refuse(w, http.StatusBadRequest, "limit must be a number of 1 or more")
			return
		}
		limit = min(n, limit)
	}
	from, to, answer, tag, wrong := f.answer(query.Get("since"), limit)
	if wrong != "" {
		f.refuse(w, http.StatusGone, wrong)
		return
	}
	h := w.Header()
	h.Set("ETag", tag)
	h.Set("Cache-Control", "no-cache")
	if matches(r.Header.Values("If-None-Match"), tag) {
		f.count(func(c *feedCounts) { c.notModified++ })
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(answer)))
	_, err := w.Write(answer)
	if err == nil {
		err = http.NewResponseController(w).Flush()
	}
	if err == nil {
		f.fetched(from, to, len(answer))
	}
}

// answer returns the answer to a cursor, with the changes from+1 to to, and its entity
// tag; or, in wrong, the body of the answer to a cursor that is not valid.
func (f *Feed) answer(since string, limit int) (from, to uint64, text []byte, tag, wrong string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch since {
	case "":
		from = f.oldest() - 1
	case "now":
		from = f.newest()
	default:
		epoch, number, _ := strings.Cut(since, "-")
		n, err := strconv.ParseUint(number, 10, 64)
		if epoch != f.epoch || err != nil || n+1 < f.oldest() || n > f.newest() {
			f.counts.gone++
			return 0, 0, nil, "", fmt.Sprintf(`{"error":"this cursor is not known, or too old","cursor":%q}`, f.cursor(f.oldest()-1))
		}
		from = n
	}
	to = min(from+uint64(limit), f.newest())
	more := to < f.newest()
	text = append(text, `{"changes":[`...)
	for n := from + 1; n <= to; n++ {
		if n > from+1 {
			text = append(text, ',')
		}
		text = append(text, f.changes[n-f.first].text...)
	}
	text = fmt.Appendf(text, `],"cursor":%q,"hasMore":%t}`, f.cursor(to), more)
	return from, to, text, fmt.Sprintf(`"%s-%d-%d-%t"`, f.epoch, from, to, more), ""
}

// fetched counts an answer that was written.
func (f *Feed) fetched(from, to uint64, size int) {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	c := &f.counts
	c.requests++
	c.bytes += float64(size)
	c.served += float64(to - from)
	if from == to {
		c.empty++
	} else {
		c.withChanges++
	}
	for n := max(from+1, f.first); n <= to; n++ { // changes before first were dropped meanwhile
		ch := &f.changes[n-f.first]
		if ch.fetched {
			c.repeated++
			continue
		}
		ch.fetched = true
		if ch.measured {
			c.fetched++
			f.lag.record(int64(now.Sub(ch.at)))
		}
	}
}

func (f *Feed) count(note func(*feedCounts)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts.requests++
	note(&f.counts)
}

func (f *Feed) refuse(w http.ResponseWriter, status int, text string) {
	f.count(func(c *feedCounts) {
		if status == http.StatusBadRequest {
			c.bad++
		}
	})
	if strings.HasPrefix(text, "{") {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // the target may be gone
}

// matches reports whether one of the entity tags of If-None-Match is tag, by weak
// comparison.
func matches(values []string, tag string) bool {
	for _, value := range values {
		for one := range strings.SplitSeq(value, ",") {
			one = strings.TrimSpace(one)
			if one == "*" || strings.TrimPrefix(one, "W/") == tag {
				return true
			}
		}
	}
	return false
}

// Figures implements [Figurer].
func (f *Feed) Figures() Figures {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.counts
	return Figures{
		Values: map[string]float64{
			"feedRequests": c.requests, "feedWithChanges": c.withChanges, "feedEmpty": c.empty, "feedNotModified": c.notModified,
			"feedGone": c.gone, "feedBadRequests": c.bad, "feedServed": c.served, "feedRepeated": c.repeated,
			"feedBytes": c.bytes, "feedUnfetched": c.measured - c.fetched,
		},
		Timings: map[string]Timing{"feedLag": f.lag.copy()},
	}
}

// Close implements [Upstream]. It waits at most a second for requests in progress.
func (f *Feed) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if f.server.Shutdown(ctx) != nil {
		_ = f.server.Close() // closes the connections that are left
	}
	<-f.done
	return nil
}
