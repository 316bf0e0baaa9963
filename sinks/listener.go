package sinks

import (
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
	"log"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/wire"
)

// Authority signs the certificates of a run's webhook listeners. A target
// trusts all of them by trusting its PEM. The key never leaves the process.
// It is safe for concurrent use.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// certLife is how long certificates are valid: longer than any run.
const certLife = 30 * 24 * time.Hour

// NewAuthority makes a new authority.
func NewAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("webhook authority: making a key: %w", err)
	}
	serial, err := serialNumber()
	if err != nil {
		return nil, fmt.Errorf("webhook authority: %w", err)
	}
	tmpl := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: "eventmeter webhook listeners"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(certLife),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("webhook authority: signing: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("webhook authority: %w", err)
	}
	return &Authority{cert: cert, key: key, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

// PEM returns the authority's certificate. The caller must not change it.
func (a *Authority) PEM() []byte { return a.pem }

// leaf makes a server certificate for hosts, names or addresses.
func (a *Authority) leaf(hosts []string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	serial, err := serialNumber()
	if err != nil {
		return tls.Certificate{}, err
	}
	tmpl := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "eventmeter webhook listener"},
		NotBefore:    a.cert.NotBefore,
		NotAfter:     a.cert.NotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			tmpl.IPAddresses = append(tmpl.IPAddresses, ip)
		} else if h != "" {
			tmpl.DNSNames = append(tmpl.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

func serialNumber() (*big.Int, error) {
	return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
}

// ListenerOptions describes a webhook listener.
type ListenerOptions struct {
	// Listen is a host:port; "" = a free port of 127.0.0.1.
	Listen string
	// Callback is the address, without a path, under which the target reaches
	// the listener; "" = the listener's own. It is https, or, on a loopback
	// address, http: then the listener speaks plain HTTP/1.1. Port 0 stands for
	// the listener's own port.
	Callback string
	// Authority signs the certificate; nil = a new one.
	Authority *Authority
	// Certificate, if not nil, is used instead of one that Authority signs; the
	// target must already trust it.
	Certificate *tls.Certificate
	// Wrap, if not nil, is called with the listener below TLS and returns the
	// listener to use.
	Wrap func(net.Listener) net.Listener
	// Shared, if not nil, receives the deliveries instead, below Prefix; see
	// [SharedListener]. It has its own Listen, Callback, Authority, Certificate and
	// Wrap.
	Shared  *SharedListener
	Prefix  string
	Handler http.Handler
	// MaxConnections bounds the connections open at once; 0 =
	// [DefaultMaxConnections]. A further connection is closed at once, and reported
	// to Failed with a reason that begins with [TooManyConnections].
	MaxConnections int
	// Failed, if not nil, is called for every connection that failed before it
	// carried a request, usually in the TLS handshake, with the reason. It must not
	// block, and may be called concurrently. Each failure at a shared listener is
	// reported to one of its lanes.
	Failed func(reason string)
}

// Listener is an HTTPS server (HTTP/1.1 and HTTP/2) for webhook deliveries.
type Listener struct {
	server    *http.Server
	authority *Authority
	port      net.Listener
	base      string
	done      chan struct{}
	accepted  atomic.Int64
	charged   atomic.Int64
	guest     *guest // of a SharedListener; the other fields are then unused
	failed    func(reason string)

	most int // connections open at once

	mu      sync.Mutex
	open    int                  // connections
	fresh   map[net.Conn]newConn // connections that have not sent a request
	closing bool                 // no further connections are followed
	served  bool                 // a connection has carried a request
}

// Listen opens the listener's port and serves opts.Handler until Close.
func Listen(opts ListenerOptions) (*Listener, error) {
	if opts.Shared != nil {
		return opts.Shared.join(opts)
	}
	addr := opts.Listen
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	a := opts.Authority
	if a == nil {
		var err error
		if a, err = NewAuthority(); err != nil {
			return nil, err
		}
	}
	ln, err := wire.Listen(context.Background(), addr)
	if err != nil {
		return nil, fmt.Errorf("webhook listener: %s: %w: choose another listen address", addr, err)
	}
	base, hosts, err := callback(opts.Callback, ln.Addr())
	if err != nil {
		ln.Close()
		return nil, err
	}
	l := &Listener{
		port:      ln,
		authority: a,
		base:      base,
		done:      make(chan struct{}),
		failed:    opts.Failed,
		most:      opts.MaxConnections,
		fresh:     map[net.Conn]newConn{},
	}
	if l.most <= 0 {
		l.most = DefaultMaxConnections
	}
	l.server = &http.Server{
		Handler:           opts.Handler,
		ReadHeaderTimeout: 10 * time.Second, // and of the TLS handshake
		ReadTimeout:       30 * time.Second, // until the end of the body
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          log.New(io.Discard, "", 0), // failed handshakes are counted by state
		ConnState:         l.state,
	}
	port := ln
	if opts.Wrap != nil {
		port = opts.Wrap(ln)
	}
	serve := func() error { return l.server.Serve(port) }
	if l.Secure() {
		var cert tls.Certificate
		if opts.Certificate != nil {
			cert = *opts.Certificate
		} else if cert, err = a.leaf(hosts); err != nil {
			ln.Close()
			return nil, fmt.Errorf("webhook listener: certificate for %v: %w", hosts, err)
		}
		l.server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
		serve = func() error { return l.server.ServeTLS(port, "", "") }
	}
	go func() {
		defer crash.Guard()
		defer close(l.done)
		_ = serve()
	}()
	return l, nil
}

// callback returns the address that targets use, and the hosts that the certificate
// must name.
func callback(want string, addr net.Addr) (base string, hosts []string, err error) {
	_, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return "", nil, fmt.Errorf("webhook listener: %w", err)
	}
	host := addr.(*net.TCPAddr).IP
	if host.IsUnspecified() {
		host = net.IPv4(127, 0, 0, 1)
	}
	hosts = []string{host.String(), "localhost"}
	if want == "" {
		return "https://" + net.JoinHostPort(host.String(), port), hosts, nil
	}
	u, err := url.Parse(want)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || (u.Path != "" && u.Path != "/") || u.RawQuery != "" {
		return "", nil, fmt.Errorf("webhook listener: callback %q: use https://host:port without a path", want)
	}
	if u.Scheme == "http" && (!Loopback(u.Hostname()) || !addr.(*net.TCPAddr).IP.IsLoopback()) {
		return "", nil, fmt.Errorf(
			"webhook listener: callback %q: plain http is for loopback only, on both ends: use https, or listen and be called at 127.0.0.1",
			want,
		)
	}
	at := u.Host
	if u.Port() == "0" {
		name := u.Hostname()
		if name == "127.0.0.1" && host.Equal(net.IPv6loopback) { // see wire.Listen
			name = host.String()
		}
		at = net.JoinHostPort(name, port)
	}
	return u.Scheme + "://" + at, append(hosts, u.Hostname()), nil
}

// Loopback reports whether host is a loopback address or localhost.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// URL returns the address of path, which begins with a slash, as the target must call
// it.
func (l *Listener) URL(path string) string { return l.base + path }

// Secure reports whether the listener speaks TLS.
func (l *Listener) Secure() bool { return strings.HasPrefix(l.base, "https:") }

// CertPEM returns the certificate that a target must trust. The caller must not
// change it.
func (l *Listener) CertPEM() []byte { return l.authority.pem }

// Accepted returns the number of connections so far. Connections of a shared listener
// belong to no lane and are not counted here.
func (l *Listener) Accepted() int64 { return l.accepted.Load() }

// TakeAccepted returns how many connections were taken since the last call, so
// that each is charged once.
func (l *Listener) TakeAccepted() int {
	if l.guest != nil { // charged to the first lane that asks
		l = l.guest.at.own
	}
	now := l.accepted.Load()
	for {
		was := l.charged.Load()
		if was >= now {
			return 0
		}
		if l.charged.CompareAndSwap(was, now) {
			return int(now - was)
		}
	}
}

// hangUp closes connections that a sender opened in reserve; Shutdown would wait five
// seconds for a request on each. It forgets them first, because a connection that
// this side closes has not failed.
func (l *Listener) hangUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closing = true
	for c := range l.fresh {
		delete(l.fresh, c)
		c.Close()
	}
}

// Close stops listening, waits until current deliveries are answered or ctx is done,
// and then closes their connections.
func (l *Listener) Close(ctx context.Context) error {
	if l.guest != nil {
		l.guest.leave()
		return nil
	}
	l.port.Close() // first, so that no new connection arrives
	l.hangUp()
	err := l.server.Shutdown(ctx)
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	if err != nil {
		err = errors.Join(err, l.server.Close())
	}
	<-l.done
	if err != nil {
		return fmt.Errorf("webhook listener: closing %s: %w", l.base, err)
	}
	return nil
}
