package sinks

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/budget"
)

// Inbound is a request to a hook, with its body read.
type Inbound struct {
	Header http.Header
	// Body is only valid until Receive returns.
	Body []byte
	// At is when the last byte of the body was read.
	At eventmeter.Instant
	// Size is the size of body and header fields in bytes, as spelled in HTTP/1.1.
	Size int
}

// First returns the first value of a header field, whose name is canonical; "" = there is none.
func (in *Inbound) First(name string) string {
	if v := in.Header[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// Reply is a hook's answer.
type Reply struct {
	// Status is the HTTP status; 0 = 200.
	Status int
	// Body is sent as JSON when it is not empty.
	Body []byte
	// Delay is the wait before the answer is written.
	Delay time.Duration
	// Hang never answers: the request lasts until the sender abandons it or the
	// receiver is closed. Reset closes the connection without an answer.
	Hang, Reset bool
	// RetryAfter, rounded up to seconds, and Location are header fields of the
	// answer; the zero value leaves them out.
	RetryAfter time.Duration
	Location   string
}

// FollowedQuery is the query of the URL to which a sender is redirected that must not
// follow redirects.
const FollowedQuery = "followed"

// Hook receives the requests of one path, possibly concurrently. Its argument is only
// valid until Receive returns; the memory is reused.
type Hook interface {
	Receive(in *Inbound) Reply
}

// ReceiverOptions describes a Receiver. Clock must be set.
type ReceiverOptions struct {
	Clock *eventmeter.Clock
	// BodyLimit is the largest accepted body, in bytes; 0 = 272 KiB (the 256 KiB of
	// the MCP Events draft and a margin). Larger bodies are answered 413.
	BodyLimit int64
	// Budget is charged for bodies while they are read; nil = only single bodies are
	// bounded. A request that finds no room is answered 503, and reported to Turned.
	Budget *budget.Budget
	// MaxRequests bounds the concurrent deliveries; 0 = no bound. A further request
	// is answered 503, and reported to Turned.
	MaxRequests int
	// Turned, if not nil, is called for every request that reached no hook, or was
	// too large for one (hook is then not nil).
	Turned func(hook Hook, status int, at eventmeter.Instant, size int)
	// Followed, if not nil, is called when a redirect of a hook was followed.
	Followed func(hook Hook, at eventmeter.Instant)
	// Documents are JSON texts served on GET, by path. Asked, if not nil, is called
	// for every document that was fetched, with the sizes of the request and the text
	// in bytes.
	Documents map[string][]byte
	Asked     func(at eventmeter.Instant, size, answered int)
}

// DefaultBodyLimit is the BodyLimit of zero options.
const DefaultBodyLimit = 272 << 10

// Receiver is the handler of a webhook listener: it finds the hook of a path, reads
// the body into a pooled buffer and takes the time. It does not interpret what is
// delivered. It is safe for concurrent use.
type Receiver struct {
	opts     ReceiverOptions
	key      pathKey
	requests atomic.Int64 // in progress
	held     atomic.Int64 // answers that wait
	gaveUp   atomic.Int64 // when a sender last stopped waiting for one, an eventmeter.Instant
	closed   chan struct{}
	close    sync.Once

	mu    sync.RWMutex
	hooks map[string]Hook // by path
}

// NewReceiver returns a receiver without hooks.
func NewReceiver(opts ReceiverOptions) *Receiver {
	if opts.BodyLimit <= 0 {
		opts.BodyLimit = DefaultBodyLimit
	}
	return &Receiver{opts: opts, key: newPathKey(), hooks: map[string]Hook{}, closed: make(chan struct{})}
}

// Close ends the answers that are held back: those that hang and those that wait for
// their delay.
func (r *Receiver) Close() { r.close.Do(func() { close(r.closed) }) }

// Add registers hook for a path, which should come from [Receiver.Issue]. A path must
// not be registered twice.
func (r *Receiver) Add(path string, hook Hook) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hooks[path] = hook
}

// Retire removes the hook of a path. Requests for a path from [Receiver.Issue] are
// then answered 503, as the draft requires for an unknown subscription, while paths
// that were never issued are answered 404.
func (r *Receiver) Retire(path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.hooks, path)
}

// bodies are requests with room for their bodies, so that receiving one does not
// allocate.
var bodies = sync.Pool{New: func() any { return &Inbound{Body: make([]byte, 0, 4<<10)} }}

// maxPooledBody keeps rare large bodies out of the pool.
const maxPooledBody = 64 << 10

// ServeHTTP receives one request.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.RLock()
	hook := r.hooks[req.URL.Path]
	r.mu.RUnlock()
	if hook != nil && req.URL.RawQuery == FollowedQuery && r.opts.Followed != nil {
		r.opts.Followed(hook, r.opts.Clock.Now())
	}
	switch {
	case hook == nil:
		r.miss(w, req)
		return
	case req.Method != http.MethodPost:
		r.turn(w, req, hook, http.StatusMethodNotAllowed)
		return
	case req.ContentLength > r.opts.BodyLimit:
		r.turn(w, req, hook, http.StatusRequestEntityTooLarge)
		return
	}
	defer r.requests.Add(-1)
	if n := r.requests.Add(1); r.opts.MaxRequests > 0 && n > int64(r.opts.MaxRequests) {
		r.turn(w, req, hook, http.StatusServiceUnavailable)
		return
	}
	in := bodies.Get().(*Inbound)
	hold := budget.Of(r.opts.Budget)
	defer hold.Drop()
	var err error
	in.Body, err = readBody(in.Body[:0], req.Body, req.ContentLength, r.opts.BodyLimit, &hold)
	in.At = r.opts.Clock.Now()
	defer in.release()
	if err != nil {
		status := http.StatusBadRequest
		switch {
		case errors.Is(err, errBodyLimit):
			status = http.StatusRequestEntityTooLarge
		case errors.Is(err, budget.ErrExceeded):
			status = http.StatusServiceUnavailable
		}
		r.turn(w, req, hook, status)
		return
	}
	in.Header, in.Size = req.Header, headerSize(req)+len(in.Body)
	reply := hook.Receive(in)
	if reply.Delay > 0 || reply.Hang {
		r.hold(w, req, &reply)
	}
	if reply.Hang || reply.Reset {
		panic(http.ErrAbortHandler) // closes the connection; of HTTP/2, resets the stream
	}
	answer(w, reply)
}

// hold waits before a reply is written.
func (r *Receiver) hold(w http.ResponseWriter, req *http.Request, reply *Reply) {
	// Otherwise the read timeout of the request would end the wait.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	var over <-chan time.Time
	if !reply.Hang {
		t := time.NewTimer(reply.Delay)
		defer t.Stop()
		over = t.C
	}
	r.held.Add(1)
	defer r.held.Add(-1)
	select {
	case <-over:
	case <-req.Context().Done(): // the sender is gone
		r.gaveUp.Store(int64(r.opts.Clock.Now()))
	case <-r.closed:
	}
}

// Unsettled reports whether further copies of deliveries are to be expected: an answer is
// held back, or a sender stopped waiting for one after since, and may deliver again.
func (r *Receiver) Unsettled(since eventmeter.Instant) bool {
	return r.held.Load() > 0 || r.gaveUp.Load() > max(0, int64(since))
}

// miss answers a request for a path without a hook.
func (r *Receiver) miss(w http.ResponseWriter, req *http.Request) {
	text, ok := r.opts.Documents[req.URL.Path]
	switch {
	case ok && req.Method == http.MethodGet:
		r.serve(w, req, text)
	case r.issued(req.URL.Path):
		r.turn(w, req, nil, http.StatusServiceUnavailable)
	default:
		r.turn(w, req, nil, http.StatusNotFound)
	}
}

// release returns in to the pool.
func (in *Inbound) release() {
	if in.Header = nil; cap(in.Body) <= maxPooledBody {
		bodies.Put(in)
	}
}

func (r *Receiver) turn(w http.ResponseWriter, req *http.Request, hook Hook, status int) {
	if r.opts.Turned != nil {
		size := headerSize(req) + int(max(req.ContentLength, 0))
		r.opts.Turned(hook, status, r.opts.Clock.Now(), size)
	}
	answer(w, Reply{Status: status})
}

// serve answers with a document.
func (r *Receiver) serve(w http.ResponseWriter, req *http.Request, text []byte) {
	if r.opts.Asked != nil {
		r.opts.Asked(r.opts.Clock.Now(), headerSize(req), len(text))
	}
	w.Header().Set("Cache-Control", "no-store") // the next run's listener may have the same address
	answer(w, Reply{Body: text})
}

func answer(w http.ResponseWriter, reply Reply) {
	if reply.Status == 0 {
		reply.Status = http.StatusOK
	}
	if reply.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(int64((reply.RetryAfter+time.Second-1)/time.Second), 10))
	}
	if reply.Location != "" {
		w.Header().Set("Location", reply.Location)
	}
	if len(reply.Body) == 0 {
		w.WriteHeader(reply.Status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(reply.Status)
	_, _ = w.Write(reply.Body)
}

var errBodyLimit = errors.New("body is larger than the limit")

// readBody reads all of body into buf, which hold pays for. length is the announced
// number of bytes, -1 if it is not known.
func readBody(buf []byte, body io.Reader, length, limit int64, hold *budget.Hold) ([]byte, error) {
	if length > int64(cap(buf)) {
		if err := hold.Resize(int(length + 1)); err != nil {
			return buf, err
		}
		buf = make([]byte, 0, length+1) // one more, so that the end is seen without growing
	}
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
			if err := hold.Resize(cap(buf)); err != nil {
				return buf, err
			}
		}
		n, err := body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if int64(len(buf)) > limit {
			return buf, errBodyLimit
		}
		if err == io.EOF {
			return buf, nil
		}
		if err != nil {
			return buf, err
		}
	}
}

// headerSize returns the size of the request line and the header fields in HTTP/1.1,
// in bytes.
func headerSize(req *http.Request) int {
	n := len(req.Method) + len(req.URL.Path) + len(" HTTP/1.1\r\n") + 1 + len("Host: \r\n\r\n") + len(req.Host)
	for k, vs := range req.Header {
		for _, v := range vs {
			n += len(k) + len(v) + 4
		}
	}
	return n
}

// A path ends in a proof that it was issued: a nonce, which makes paths unique, and a
// MAC of everything before it, both in the URL-safe Base64 alphabet. A path that is
// no longer in use can thus be distinguished from one that was never issued without
// storing it.
const (
	nonceSize = 8
	macSize   = 10 // 80 bits, which cannot be guessed at the rate of a listener
)

var (
	nonceLen = base64.RawURLEncoding.EncodedLen(nonceSize + macSize)
	pathText = base64.RawURLEncoding.Strict()
)

// pathKey signs the paths of one Receiver.
type pathKey [sha256.Size]byte

func newPathKey() (k pathKey) {
	rand.Read(k[:])
	return k
}

// mac signs a prefix and the nonce that follows it.
func (k *pathKey) mac(prefix string, nonce []byte) []byte {
	m := hmac.New(sha256.New, k[:])
	m.Write([]byte(prefix))
	m.Write(nonce)
	return m.Sum(nil)[:macSize]
}

// Issue returns a path that begins with prefix and cannot be guessed. Requests for it
// are answered 503 while it has no hook.
func (r *Receiver) Issue(prefix string) string {
	var end [nonceSize + macSize]byte
	rand.Read(end[:nonceSize])
	copy(end[nonceSize:], r.key.mac(prefix, end[:nonceSize]))
	return prefix + pathText.EncodeToString(end[:])
}

// issued reports whether path came from Issue.
func (r *Receiver) issued(path string) bool {
	cut := len(path) - nonceLen
	if cut < 0 {
		return false
	}
	end, err := pathText.DecodeString(path[cut:])
	return err == nil && len(end) == nonceSize+macSize && hmac.Equal(end[nonceSize:], r.key.mac(path[:cut], end[:nonceSize]))
}
