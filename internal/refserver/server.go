package refserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/dialguard"
)

// Server is the reference target. Make one with [New], open it with
// [Server.Start] and end it with [Server.Close]. Its methods are safe for
// concurrent use.
type Server struct {
	opts          Options
	started       time.Time
	broker        *broker
	hooks         *hooks
	principals    *principals
	counts        *counters
	face          *face
	base          *base
	faultInjector *faultInjector // nil without faults
	capacity      *capacity      // nil without Options.Capacity
	forgetMu      sync.Mutex
	forgotten     chan struct{} // closed when the server forgets; nil without faults

	subscriptions atomic.Int64
	closing       chan struct{}
	closeOnce     sync.Once
	background    sync.WaitGroup
	requests      requests
	audience      audience
	resources     *resources
	lists         *lists // nil without Options.Lists
	resumables    *resumables
	feed          *url.URL // nil without Options.Feed
	feedGuard     *dialguard.Guard

	// readTimeout bounds the reading of one request, its body included;
	// idleTimeout is how long a kept connection may wait for the next one.
	readTimeout, idleTimeout time.Duration

	cert        tls.Certificate
	certPEM     []byte
	listeners   []*listener
	mcp, secure *listener
	control     *listener
}

// listener is one open port.
type listener struct {
	net.Listener
	http *http.Server
}

// New makes a server that is not yet open. It fails on options out of range,
// on a CA file that cannot be read, and if no certificate can be made.
func New(opts Options) (*Server, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{
		opts: opts, started: time.Now(), principals: newPrincipals(), counts: &counters{},
		closing: make(chan struct{}), readTimeout: readTimeout, idleTimeout: idleTimeout,
	}
	s.broker = newBroker(opts, s.started)
	s.capacity = newCapacity(opts.Capacity, opts.CapacityBurst)
	if s.hooks, err = newHooks(opts, s.counts, s.capacity, s.unreserve); err != nil {
		return nil, err
	}
	s.strike()
	if opts.Feed != "" {
		if s.feed, err = checkFeed(opts.Feed); err != nil {
			return nil, err
		}
		s.feedGuard = dialguard.New(nil)
	}
	if opts.TLS {
		if s.cert, s.certPEM, err = selfSigned(opts.TLSAddr); err != nil {
			return nil, err
		}
	}
	s.resumables = newResumables(s)
	s.lists = newLists(opts.Lists, s.faultInjector)
	s.resources = newResources(s)
	s.base = newBase(s)
	s.face = &face{server: s, base: s.base, supported: supportedVersions()}
	return s, nil
}

// Start opens the listeners and returns when they accept. ctx bounds the
// opening only. A server is started once; after an error it is closed.
func (s *Server) Start(ctx context.Context) error {
	var err error
	open := func(address string, handler http.Handler, secure bool) *listener {
		if err != nil {
			return nil
		}
		var l net.Listener
		if l, err = new(net.ListenConfig).Listen(ctx, "tcp", address); err != nil {
			err = fmt.Errorf("target: listen on %s: %w", address, err)
			return nil
		}
		open := &listener{Listener: l, http: s.httpServer(handler, secure)}
		s.listeners = append(s.listeners, open)
		return open
	}
	if !s.opts.Stdio {
		s.mcp = open(s.opts.Addr, s.stalling(s.face), false)
	}
	if s.opts.TLS {
		s.secure = open(s.opts.TLSAddr, s.stalling(s.face), true)
	}
	s.control = open(s.opts.AdminAddr, s.stalling(s.admin()), false)
	if err == nil {
		err = s.allowFeed(ctx)
	}
	if err != nil {
		return errors.Join(err, s.Close(ctx))
	}
	s.launch()
	for _, l := range s.listeners {
		s.background.Go(func() {
			defer crash.Guard()
			serve := l.http.Serve
			if l.http.TLSConfig != nil {
				serve = func(on net.Listener) error { return l.http.ServeTLS(on, "", "") }
			}
			if err := serve(l.Listener); !errors.Is(err, http.ErrServerClosed) {
				s.opts.Logger.Error("listener failed", "address", l.Addr().String(), "error", err)
			}
		})
	}
	return nil
}

// launch starts what runs without a listener.
func (s *Server) launch() {
	s.background.Go(func() {
		defer crash.Guard()
		s.hooks.agenda.run(s.hooks.ctx)
	})
	s.background.Go(crash.Guarded(s.resumables.run))
	if s.feed != nil {
		s.background.Go(func() {
			defer crash.Guard()
			s.runFeed(s.feed)
		})
	}
	if s.opts.TypesEvery > 0 {
		s.background.Go(crash.Guarded(s.comeAndGo))
	}
}

func (s *Server) httpServer(handler http.Handler, secure bool) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(secure)
	protocols.SetUnencryptedHTTP2(!secure)
	h := &http.Server{
		Handler:           s.requests.counted(s.readInTime(handler)),
		Protocols:         protocols,
		ReadHeaderTimeout: s.readTimeout,
		IdleTimeout:       s.idleTimeout,
		// No write timeout: a stream lives as long as its client. ReadTimeout
		// would end it, too; readInTime bounds the body alone.
		HTTP2:    &http.HTTP2Config{MaxConcurrentStreams: 250_000},
		ErrorLog: slog.NewLogLogger(s.opts.Logger.Handler(), slog.LevelWarn),
	}
	if secure {
		h.TLSConfig = &tls.Config{Certificates: []tls.Certificate{s.cert}, MinVersion: tls.VersionTLS12}
	}
	return h
}

// The timeouts of requests and kept connections. Clients of ours close a
// connection themselves after 90 s.
const (
	readTimeout = 30 * time.Second
	idleTimeout = 3 * time.Minute
)

// readInTime gives a request's body the read timeout. It ends with the body, so
// that the answer may take as long as it likes.
func (s *Server) readInTime(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil && r.Body != http.NoBody {
			control := http.NewResponseController(w)
			// Every writer of net/http takes a deadline.
			_ = control.SetReadDeadline(time.Now().Add(s.readTimeout))
			r.Body = &timedBody{ReadCloser: r.Body, control: control}
		}
		next.ServeHTTP(w, r)
	})
}

// timedBody lifts the read deadline at its end.
type timedBody struct {
	io.ReadCloser
	control *http.ResponseController
}

// Read implements [io.Reader].
func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// URL is the plain MCP endpoint. It is "" before Start, and with
// [Options.Stdio].
func (s *Server) URL() string { return s.mcp.url("http", "/mcp") }

// TLSURL is the MCP endpoint over TLS, "" without [Options.TLS].
func (s *Server) TLSURL() string { return s.secure.url("https", "/mcp") }

// AdminURL is the admin listener's root, without a slash at its end.
func (s *Server) AdminURL() string { return s.control.url("http", "") }

// CertPEM is the certificate of the TLS listener, nil without [Options.TLS].
func (s *Server) CertPEM() []byte { return slices.Clone(s.certPEM) }

func (l *listener) url(scheme, path string) string {
	if l == nil {
		return ""
	}
	return scheme + "://" + l.Addr().String() + path
}

// Close ends the server and waits for every goroutine of it. Streams end with
// the empty result, long polls are answered empty, webhook deliveries stop
// where they are. When ctx ends first, connections are cut; ctx's error is
// returned, but nothing is left running.
func (s *Server) Close(ctx context.Context) error {
	s.closeOnce.Do(func() { close(s.closing) })
	s.base.close() // streams of sessions would hold the listeners open
	s.hooks.close()
	s.resources.close()
	s.resumables.close()
	// Shutdown closes the listeners at once, but it waits for ever for an HTTP/2
	// connection that was being made meanwhile: net/http never tells it to go.
	// So it gets a bounded time once the last request is answered.
	graceful, stop := context.WithCancel(ctx)
	defer stop()
	var wait sync.WaitGroup
	for _, l := range s.listeners {
		wait.Go(func() {
			defer crash.Guard()
			if l.http.Shutdown(graceful) != nil {
				_ = l.http.Close() // it has closed what it could
			}
			_ = l.Listener.Close() // for one that was never served
		})
	}
	err := s.requests.wait(ctx)
	linger := time.AfterFunc(closeLinger, stop)
	defer linger.Stop()
	wait.Wait()
	// Cutting a connection does not wait for its handler.
	_ = s.requests.wait(context.WithoutCancel(ctx)) // without an end there is no error
	s.background.Wait()
	if err != nil {
		return fmt.Errorf("target: close: %w", err)
	}
	return nil
}

// closeLinger is how long Close lets connections wind up after the last
// request. HTTP/2 takes a second between its farewell and the end.
const closeLinger = 2 * time.Second

// Publish publishes one event and returns its id. When it returns, every
// subscriber's queue holds the event, and an event published after it comes
// after it everywhere. data is a JSON object of at most 255 KiB; it is not kept.
// The error wraps [ErrUnknownEvent], [ErrTooLarge], or says what is wrong with
// the data.
func (s *Server) Publish(name string, data []byte) (eventID string, err error) {
	if name == eventListChanged && s.lists != nil {
		return s.changeList(data)
	}
	id, err := s.broker.publish(name, data)
	if err != nil {
		return "", fmt.Errorf("target: %w", err)
	}
	s.lists.follow(data)
	return id, nil
}

// Revoke takes a token's access to events away: its streams and webhook
// subscriptions are terminated, and its calls are refused with -32012 until
// [Server.Restore].
func (s *Server) Revoke(token string) {
	s.principals.revoke(token)
	for _, h := range s.hooks.of(token) {
		s.terminate(h, forbidden(reasonRevoked))
	}
	s.resources.revoke(token)
}

// Restore takes back a Revoke. What was terminated stays so.
func (s *Server) Restore(token string) { s.principals.restore(token) }

// Disturb tells every stream of an event type of a transient error. The streams
// go on. The error wraps [ErrUnknownEvent].
func (s *Server) Disturb(name, message string) error {
	t := s.broker.in(eventmeter.Push, name)
	if t == nil {
		return fmt.Errorf("target: disturb %q: %w", name, ErrUnknownEvent)
	}
	t.disturb(rpcError{Code: codeInternal, Message: message})
	return nil
}

// admits reports whether a bearer token may talk to this server at all.
func (s *Server) admits(token string) bool {
	return len(s.opts.Tokens) == 0 || slices.Contains(s.opts.Tokens, token)
}

// do answers one call of a system that this server serves itself.
func (s *Server) do(w http.ResponseWriter, r *http.Request, c *call) {
	if _, revoked := s.principals.watch(c.principal); revoked {
		c.fail(w, forbidden(reasonRevoked))
		return
	}
	if answer, ok := methods[c.method]; ok {
		answer(s, w, r, c)
		return
	}
	if s.resources.do(w, r, c) {
		return
	}
	c.fail(w, &rpcError{Code: codeMethodNotFound, Message: "Method not found: " + c.method})
}

// reserve counts one more subscription if there may be one.
func (s *Server) reserve() *rpcError {
	if s.subscriptions.Add(1) > int64(s.opts.MaxSubscriptions) {
		s.subscriptions.Add(-1)
		return exhausted("subscriptions", s.opts.MaxSubscriptions)
	}
	return nil
}

func (s *Server) unreserve() { s.subscriptions.Add(-1) }
