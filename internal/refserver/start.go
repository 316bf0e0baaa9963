package refserver

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter/internal/budget"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/dialguard"
	framing "github.com/eventmeter/eventmeter/internal/wire"
)

// New makes a server that is not open yet. It fails on options out of range, on
// a CA file or a state file that cannot be read, and if it cannot make a
// certificate. A server that is never started has to be closed nevertheless.
func New(opts Options) (*Server, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{
		opts: opts, rules: rulesByRevision[opts.Revision], started: time.Now(), principals: newPrincipals(), counts: &counters{},
		closing: make(chan struct{}), readTimeout: readTimeout, idleTimeout: idleTimeout,
		maxConnections: opts.MaxSubscriptions + spareConnections, bodies: budget.New(0),
	}
	s.broker = newBroker(opts, s.started)
	s.capacity = newCapacity(opts.Capacity, opts.CapacityBurst)
	if s.hooks, err = newHooks(opts, s.counts, s.capacity, s.unreserve); err != nil {
		return nil, err
	}
	s.hooks.dropped = func(h *hook, why *rpcError) {
		if s.breach.Breaks("ttl-no-expiry-gc-terminated") {
			s.hooks.remove(h, nil)
			return
		}
		s.terminate(h, why, true)
	}
	s.installFaults()
	s.issuer = s.newIssuer()
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
	if err = s.openState(); err == nil {
		err = s.makeIdentity()
	}
	if err != nil {
		return nil, errors.Join(err, s.state.Close())
	}
	s.resumables = newResumables(s)
	s.lists = newLists(opts.Lists, s.faultInjector)
	s.resources = newResources(s)
	s.base = newBase(s)
	s.handler = http.HandlerFunc(s.serveMCP)
	return s, nil
}

// Start opens the listeners and returns when they accept connections. ctx
// bounds only the opening. Start is called once; after an error the server is
// closed.
func (s *Server) Start(ctx context.Context) error {
	var err error
	open := func(address string, handler http.Handler, secure bool, buffer int) *listener {
		if err != nil {
			return nil
		}
		var l net.Listener
		if l, err = framing.Listen(ctx, address); err != nil {
			err = fmt.Errorf("target: listen on %s: %w", address, err)
			return nil
		}
		open := &listener{Listener: l, buffer: buffer, http: s.httpServer(handler, secure)}
		s.listeners = append(s.listeners, open)
		return open
	}
	if !s.opts.Stdio {
		s.mcp = open(s.opts.Addr, s.withStall(s.handler), false, s.opts.SendBuffer)
	}
	if s.opts.TLS {
		s.secure = open(s.opts.TLSAddr, s.withStall(s.handler), true, s.opts.SendBuffer)
	}
	s.control = open(s.opts.AdminAddr, s.withStall(s.admin()), false, 0)
	if err == nil {
		err = s.allowFeed(ctx)
	}
	if err != nil {
		return errors.Join(err, s.Close(ctx))
	}
	s.startBackground()
	for _, l := range s.listeners {
		s.background.Go(func() {
			defer crash.Guard()
			serve := l.http.Serve
			if l.http.TLSConfig != nil {
				serve = func(on net.Listener) error { return l.http.ServeTLS(on, "", "") }
			}
			if err := serve(l); !errors.Is(err, http.ErrServerClosed) {
				s.opts.Logger.Error("listener failed", "address", l.Addr().String(), "error", err)
			}
		})
	}
	return nil
}

// startBackground starts the goroutines that serve no listener.
func (s *Server) startBackground() {
	s.restore()
	s.background.Go(func() {
		defer crash.Guard()
		s.hooks.agenda.run(s.hooks.ctx)
	})
	if s.feed != nil {
		s.background.Go(func() {
			defer crash.Guard()
			s.runFeed(s.feed)
		})
	}
	if s.opts.TypesEvery > 0 {
		s.background.Go(crash.Guarded(s.toggleSeasonal))
	}
}

func (s *Server) httpServer(handler http.Handler, secure bool) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(secure)
	protocols.SetUnencryptedHTTP2(!secure)
	h := &http.Server{
		Handler:           s.requests.counted(s.withBody(handler)),
		Protocols:         protocols,
		ReadHeaderTimeout: s.readTimeout,
		IdleTimeout:       s.idleTimeout,
		MaxHeaderBytes:    64 << 10,
		ConnState:         s.boundConnections(),
		// No WriteTimeout: a stream lives as long as its client. ReadTimeout
		// would end it, too; withBody bounds only the body.
		HTTP2:    &http.HTTP2Config{MaxConcurrentStreams: 250_000},
		ErrorLog: slog.NewLogLogger(s.opts.Logger.Handler(), slog.LevelWarn),
	}
	if secure {
		h.TLSConfig = &tls.Config{Certificates: []tls.Certificate{s.cert}, MinVersion: tls.VersionTLS12}
	}
	return h
}

// boundConnections closes the connections of one listener that are too many.
func (s *Server) boundConnections() func(net.Conn, http.ConnState) {
	var open atomic.Int64
	return func(c net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			if open.Add(1) > int64(s.maxConnections) {
				s.opts.Logger.Warn("a connection is closed: too many are open", "limit", s.maxConnections)
				_ = c.Close() // its goroutine notices, and ends with StateClosed
			}
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
		}
	}
}

// withBody reads the body of a request, in bounded time and memory, before next serves it. A body
// takes memory until its request is over: streams keep what they were asked for.
func (s *Server) withBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		control := http.NewResponseController(w)
		// Every writer of net/http supports deadlines.
		_ = control.SetReadDeadline(time.Now().Add(s.readTimeout))
		body := heldBody{Reader: http.MaxBytesReader(w, r.Body, maxBody), hold: budget.Of(s.bodies)}
		defer body.hold.Drop()
		text, err := io.ReadAll(&body)
		var tooLarge *http.MaxBytesError
		switch {
		case err == nil:
			_ = control.SetReadDeadline(time.Time{})
			r.Body = io.NopCloser(bytes.NewReader(text))
			next.ServeHTTP(w, r)
		case errors.Is(err, budget.ErrExceeded):
			http.Error(w, "the bodies of open requests take all the memory that this server has for them", http.StatusServiceUnavailable)
		case errors.As(err, &tooLarge):
			http.Error(w, fmt.Sprintf("the request body is too large: more than %d bytes", tooLarge.Limit), http.StatusRequestEntityTooLarge)
		default:
			http.Error(w, "the body broke off, or took too long", http.StatusBadRequest)
		}
	})
}

// heldBody is a body that is being read, and the memory that it takes.
type heldBody struct {
	io.Reader
	hold budget.Hold
	size int
}

// Read implements [io.Reader].
func (b *heldBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.size += n
	if full := b.hold.Resize(b.size); full != nil {
		return 0, full
	}
	return n, err
}

// selfSigned makes a certificate for loopback and the host of address, valid
// for 30 days. It also returns the PEM form.
func selfSigned(address string) (tls.Certificate, []byte, error) {
	fail := func(err error) (tls.Certificate, []byte, error) {
		return tls.Certificate{}, nil, fmt.Errorf("target: self-signed certificate: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fail(err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return fail(err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: "eventmeter reference server"},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(30 * 24 * time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true, // so that clients can add it to their roots
		DNSNames:              []string{"localhost"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	if host, _, err := net.SplitHostPort(address); err == nil && host != "" {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return fail(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
