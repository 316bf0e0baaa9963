// Package refserver is the embedded reference server: an MCP server that
// delivers events by poll, push and webhook as the MCP Events draft describes.
// The toolkit is run, tested and calibrated against it, because every one of
// its events is known.
//
// Clients reach it as they reach any server: over real HTTP/1.1, HTTP/2 and
// TLS, with bearer tokens and signed callbacks. It shares no protocol code with
// the client side of the toolkit, so that a mistake on one side cannot cancel
// out on the other.
//
// # Parts
//
// The broker (topics, bounded buffers, cursors, fan-out) knows nothing of HTTP.
// The MCP handler (HTTP, JSON-RPC, both protocol eras) stands in front of the
// official Go SDK's handler: it answers events/* and passes everything else on.
// The poster sends signed webhooks. The admin listener, on a port of its own,
// injects events and shows counters.
//
// # Event types
//
//	chat.message  arguments {channel?}  data {channel, text, …}
//	ticket.moved  arguments {board?}    data {board, …}
//	tick          no arguments          data of any shape
//
// An argument filters: an event matches when its data holds the same string
// under the same name.
package refserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/budget"
	"github.com/eventmeter/eventmeter/internal/cputime"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/dialguard"
	"github.com/eventmeter/eventmeter/internal/figure"
	"github.com/eventmeter/eventmeter/internal/refserver/breach"
	"github.com/eventmeter/eventmeter/internal/refserver/issuer"
	"github.com/eventmeter/eventmeter/internal/refserver/state"
)

// Server is the reference server. Make it with [New], open it with
// [Server.Start] and end it with [Server.Close]. Its methods are safe for
// concurrent use.
type Server struct {
	opts          Options
	rules         *rules
	started       time.Time
	broker        *broker
	hooks         *hooks
	principals    *principals
	counts        *counters
	handler       http.Handler // the MCP endpoint
	base          *base
	faultInjector *faultInjector // nil without faults
	breach        *breach.Set    // the rows of conformance that are broken; nil = none
	capacity      *capacity      // nil without Options.Capacity
	forgetMu      sync.Mutex
	forgotten     chan struct{} // closed when the Forget fault strikes; nil without faults

	subscriptions atomic.Int64
	closing       chan struct{}
	closeOnce     sync.Once
	background    sync.WaitGroup
	requests      requests
	typeListeners typeListeners
	resources     *resources
	lists         *lists // nil without Options.Lists
	resumables    *resumables
	state         *state.File    // nil without Options.State
	issuer        *issuer.Issuer // nil without Options.TokenLife
	feed          *url.URL       // nil without Options.Feed
	feedGuard     *dialguard.Guard

	// readTimeout bounds the reading of one request with its body. idleTimeout
	// bounds how long a kept connection waits for the next request.
	readTimeout, idleTimeout time.Duration
	// maxConnections bounds the connections of each listener, bodies the memory that
	// the bodies of all open requests take.
	maxConnections int
	bodies         *budget.Budget

	cert        tls.Certificate
	certPEM     []byte
	listeners   []*listener
	mcp, secure *listener
	control     *listener
}

// listener is one open port.
type listener struct {
	net.Listener
	http   *http.Server
	buffer int // see Options.SendBuffer
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok && l.buffer > 0 {
		_ = tcp.SetWriteBuffer(l.buffer) // a connection that is gone already fails when it is used
	}
	return conn, err
}

// The timeouts of requests and kept connections. The toolkit's clients close
// idle connections after 90 s.
const (
	readTimeout = 30 * time.Second
	idleTimeout = 3 * time.Minute
)

// spareConnections are open beside those of subscriptions: those of pollers and calls.
const spareConnections = 4096

// URL is the plain MCP endpoint. It is empty before Start, and with
// [Options.Stdio].
func (s *Server) URL() string { return s.mcp.url("http", "/mcp") }

// TLSURL is the MCP endpoint over TLS. It is empty without [Options.TLS].
func (s *Server) TLSURL() string { return s.secure.url("https", "/mcp") }

// AdminURL is the root of the admin listener, without a trailing slash.
func (s *Server) AdminURL() string { return s.control.url("http", "") }

// CertPEM is the certificate of the TLS listener. It is nil without
// [Options.TLS].
func (s *Server) CertPEM() []byte { return slices.Clone(s.certPEM) }

func (l *listener) url(scheme, path string) string {
	if l == nil {
		return ""
	}
	return scheme + "://" + l.Addr().String() + path
}

// Close ends the server and waits for its goroutines. Streams end with the
// empty result, long polls get an empty answer, and webhook deliveries stop. If
// ctx ends first, Close cuts the connections and returns the error of ctx;
// nothing is left running.
func (s *Server) Close(ctx context.Context) error {
	s.closeOnce.Do(func() { close(s.closing) })
	s.base.close() // streams of sessions would keep the listeners open
	s.hooks.close()
	s.resumables.close()
	s.issuer.Close()
	// Shutdown closes the listeners at once, but waits for ever for an HTTP/2
	// connection that is being opened meanwhile: net/http never sends it
	// GOAWAY. So Shutdown gets a bounded time after the last answer.
	graceful, stop := context.WithCancel(ctx)
	defer stop()
	var wait sync.WaitGroup
	for _, l := range s.listeners {
		wait.Go(func() {
			defer crash.Guard()
			if l.http.Shutdown(graceful) != nil {
				_ = l.http.Close() // Shutdown has closed what it could
			}
			_ = l.Listener.Close() // for a listener that never served
		})
	}
	err := s.requests.wait(ctx)
	linger := time.AfterFunc(closeLinger, stop)
	defer linger.Stop()
	wait.Wait()
	// Closing a connection does not wait for its handler.
	_ = s.requests.wait(context.WithoutCancel(ctx)) // cannot fail: the context never ends
	s.background.Wait()
	if err = errors.Join(err, s.state.Close()); err != nil {
		return fmt.Errorf("target: close: %w", err)
	}
	return nil
}

// closeLinger is how long Close waits for connections to end after the last
// request. HTTP/2 takes a second between GOAWAY and the end.
const closeLinger = 2 * time.Second

// Publish publishes one event and returns its id. When it returns, the queue of
// every subscriber holds the event, and later events come after it everywhere.
// data is a JSON object of at most 255 KiB; Publish does not keep it. The error
// wraps errUnknownEvent or errTooLarge, or says what is wrong with the
// data.
func (s *Server) Publish(name string, data []byte) (eventID string, err error) {
	return s.PublishAs("", name, data)
}

// PublishAs is Publish for an event that has an id upstream, which becomes the
// eventId: paths that carry the same event so agree on its id. An id that does
// not fit into headers (see validEventID), and "", are replaced.
func (s *Server) PublishAs(id, name string, data []byte) (eventID string, err error) {
	if name == eventListChanged && s.lists != nil {
		return s.changeList(data)
	}
	id, err = s.broker.publish(id, name, data)
	if err != nil {
		return "", fmt.Errorf("target: %w", err)
	}
	s.lists.applyEvent(data)
	return id, nil
}

// Revoke takes a token's access to events away. It terminates the streams and
// webhook subscriptions of the token, and calls are forbidden until
// [Server.Restore].
func (s *Server) Revoke(token string) {
	s.principals.revoke(token)
	for _, h := range s.hooks.openHooks(func(h *hook) bool { return h.principal == token || token == everybody }) {
		if !s.breach.Breaks("authz-delivery-time-reverify", eventmeter.Webhook) {
			s.terminate(h, forbidden(reasonRevoked), false)
		}
	}
	s.flushState()
	s.resources.endAll(token)
}

// Restore undoes Revoke. Terminated subscriptions stay terminated.
func (s *Server) Restore(token string) { s.principals.restore(token) }

// Disturb sends a transient error to every stream of an event type. The streams
// stay open. The error wraps errUnknownEvent.
func (s *Server) Disturb(name, message string) error {
	t := s.broker.topic(eventmeter.Push, name)
	if t == nil {
		return fmt.Errorf("target: disturb %q: %w", name, errUnknownEvent)
	}
	t.disturb(rpcError{Code: codeInternal, Message: message})
	return nil
}

// whileValid returns the request of a stream, whose context ends with its token
// where [Options.TokenEndsStreams] says so.
func (s *Server) whileValid(r *http.Request) (*http.Request, context.CancelFunc) {
	if !s.opts.TokenEndsStreams {
		return r, func() {}
	}
	ctx, cancel := s.issuer.Until(r.Context(), bearer(r))
	return r.WithContext(ctx), cancel
}

// admits reports whether a bearer token may use this server.
func (s *Server) admits(token string) bool {
	return len(s.opts.Tokens) == 0 || slices.Contains(s.opts.Tokens, token)
}

// reserve counts one more subscription, unless the limit is reached.
func (s *Server) reserve() *rpcError {
	if s.subscriptions.Add(1) > int64(s.opts.MaxSubscriptions) {
		s.subscriptions.Add(-1)
		return exhausted("subscriptions", s.opts.MaxSubscriptions)
	}
	return nil
}

func (s *Server) unreserve() { s.subscriptions.Add(-1) }

// leave is unreserve for a stream that is over.
func (s *Server) leave() {
	if !s.breach.Breaks("stream-cancel-stops-delivery") {
		s.unreserve()
	}
}

// capacity is a token bucket for the deliveries of all modes together: a rate
// per second, and a burst after a pause. Deliveries without a token wait in
// line, first come, first served. The events behind them wait in the queues of
// their subscribers, which [Options.QueueLen] bounds and which count what they
// skip. A nil capacity is unlimited.
//
// A waiter that leaves the line takes no token, so an overload has no effect
// after its subscribers have gone.
type capacity struct {
	turn chan struct{} // held by the head of the line
	// every is the time of one token; credit bounds how far back unused tokens
	// count.
	every, credit time.Duration
	next          time.Time // when the next token is due; guarded by turn
}

// newCapacity makes a full bucket that gains perSecond tokens per second and
// holds burst. It returns nil for a rate of 0.
func newCapacity(perSecond float64, burst int) *capacity {
	if perSecond <= 0 {
		return nil
	}
	every := time.Duration(float64(time.Second) / perSecond)
	return &capacity{turn: make(chan struct{}, 1), every: every, credit: time.Duration(burst-1) * every}
}

// take waits for n tokens. It returns false if ctx or stop ends first.
func (c *capacity) take(ctx context.Context, stop <-chan struct{}, n int) bool {
	if c == nil || n < 1 {
		return true
	}
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return false
	case <-stop:
		return false
	}
	defer func() { <-c.turn }()
	next := c.next
	if oldest := time.Now().Add(-c.credit); next.Before(oldest) {
		next = oldest
	}
	last := next.Add(time.Duration(n-1) * c.every)
	if !pause(ctx, stop, time.Until(last)) {
		return false
	}
	// Count from when the tokens were due, not from now: a timer that fires
	// late must not cost capacity.
	c.next = last.Add(c.every)
	return true
}

// pause waits. It returns false if ctx or stop ends first.
func pause(ctx context.Context, stop <-chan struct{}, wait time.Duration) bool {
	if wait <= 0 {
		return true
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
	case <-stop:
	}
	return false
}

// Stats holds a server's counters since its start, and its current state.
// Counters only grow. They are read one after the other, so sums over them may
// be slightly off.
type Stats struct {
	// UptimeSeconds is the time since New.
	UptimeSeconds float64 `json:"uptimeSeconds"`
	// Subscriptions that are open now. A poller leaves no state behind: polls that wait for
	// an event count.
	Subscriptions ByMode `json:"subscriptions"`
	// Events is the number of published events.
	Events int64 `json:"events"`
	// Deliveries of events that succeeded, as far as the server can tell.
	Deliveries ByMode `json:"deliveries"`
	counts[int64]
	// QueueOverflow counts events that were skipped because a subscriber
	// lagged.
	QueueOverflow int64 `json:"queueOverflow"`
	// Resumable counts requests that outlive their connections.
	Resumable Resumable `json:"resumable"`
	// Tokens counts what the issuer did. All zero without one.
	Tokens     issuer.Stats `json:"tokens"`
	Goroutines int          `json:"goroutines"`
	// HeapBytes is allocated heap memory, including garbage not yet collected.
	HeapBytes uint64 `json:"heapBytes"`
	// CPUSeconds is the user and system time of the process; 0 when unknown.
	CPUSeconds float64 `json:"cpuSeconds"`
}

// ByMode is a number for each delivery mode.
type ByMode struct {
	Poll    int64 `json:"poll"`
	Push    int64 `json:"push"`
	Webhook int64 `json:"webhook"`
}

// counts are the counters of [Stats] as an N: int64, or [atomic.Int64] while they grow.
type counts[N any] struct {
	// Polls is the number of answered polls, EmptyPolls of those without an
	// event.
	Polls      N `json:"polls"`
	EmptyPolls N `json:"emptyPolls"`
	// Attempts counts webhook posts of events and envelopes, Retries the
	// repeated ones, Failures the failed ones. Abandoned counts deliveries
	// given up, Gaps the gap envelopes made.
	Attempts  N `json:"attempts"`
	Retries   N `json:"retries"`
	Failures  N `json:"failures"`
	Abandoned N `json:"abandoned"`
	Gaps      N `json:"gaps"`
	// Verifications counts webhook handshakes that began; the others count
	// subscriptions that were opened, refreshed or expired.
	Verifications N `json:"verifications"`
	Subscribed    N `json:"subscribed"`
	Refreshes     N `json:"refreshes"`
	Expired       N `json:"expired"`
}

// counters are the values behind Stats.
type counters struct {
	counts[atomic.Int64]
	polled, pushed, posted atomic.Int64 // deliveries
	waiting, streams       atomic.Int64 // gauges
}

// Stats reads the counters.
func (s *Server) Stats() Stats {
	c := s.counts
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	st := Stats{
		UptimeSeconds: time.Since(s.started).Seconds(),
		Subscriptions: ByMode{Poll: c.waiting.Load(), Push: c.streams.Load(), Webhook: int64(s.hooks.count())},
		Events:        s.broker.published.Load(),
		Deliveries:    ByMode{Poll: c.polled.Load(), Push: c.pushed.Load(), Webhook: c.posted.Load()},
		QueueOverflow: s.broker.overflow.Load(),
		Resumable:     s.resumables.stats(),
		Tokens:        s.issuer.Stats(),
		Goroutines:    runtime.NumGoroutine(),
		HeapBytes:     memory.HeapAlloc,
		CPUSeconds:    cputime.Used().Seconds(),
	}
	figure.Read(&st.counts, &c.counts)
	return st
}
