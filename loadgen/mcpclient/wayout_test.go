package mcpclient

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/streamclient"
	"github.com/eventmeter/eventmeter/internal/wire"
)

// certified starts a server at 127.0.0.1 with a certificate of its own.
func certified(t *testing.T, name string, from, until time.Duration) (address string, roots *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(from), NotAfter: time.Now().Add(until),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	if ip := net.ParseIP(name); ip != nil {
		form.IPAddresses = []net.IP{ip}
	} else {
		form.DNSNames = []string{name}
	}
	text, err := x509.CreateCertificate(rand.Reader, form, form, key.Public(), key)
	must(t, err)
	cert, err := x509.ParseCertificate(text)
	must(t, err)
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{text}, PrivateKey: key}}}
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	roots = x509.NewCertPool()
	roots.AddCert(cert)
	return s.URL, roots
}

// ended is the sink of a stream that is to fail.
type ended chan error

func (ended) Opened(streamclient.Head, streamclient.Arrival) error { return nil }
func (ended) Piece([]byte, streamclient.Arrival) error             { return nil }
func (c ended) Closed(err error)                                   { c <- err }

// TestErrorsNameTheWayOut: a server that is up is not asked whether it is up, whatever connects to it.
func TestErrorsNameTheWayOut(t *testing.T) {
	const hour = time.Hour
	for _, c := range []struct {
		name, host  string
		from, until time.Duration
		stranger    bool
		want        string
	}{
		{"unknown authority", "127.0.0.1", -hour, hour, true, "target.caFile"},
		{"another host name", "other.example", -hour, hour, false, "a host name of the certificate"},
		{"expired", "127.0.0.1", -2 * hour, -hour, false, "the certificate is valid from "},
		{"not valid yet", "127.0.0.1", hour, 2 * hour, false, "renew it, or look at the clock"},
	} {
		address, roots := certified(t, c.host, c.from, c.until)
		if c.stranger {
			roots = nil
		}
		endpoint := func(o EndpointOptions) *Endpoint {
			o.Roots = roots
			e, err := NewEndpoint(o)
			must(t, err)
			t.Cleanup(func() { _ = e.Close(context.Background()) })
			return e
		}
		says := func(by string, err error) {
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "server up") {
				t.Errorf("%s, %s: %v, want %q", c.name, by, err, c.want)
			}
		}
		e := endpoint(EndpointOptions{URL: address})
		says("handshake", e.Connect(t.Context()))
		says("token", endpoint(EndpointOptions{URL: "http://127.0.0.1:1", OAuth: &OAuth{
			Grant: GrantCredentials, Principals: 1, ClientID: func(int) string { return "c" }, Secret: "s3cret", TokenURL: address + "/token",
			Timeout: time.Minute, RefreshAt: 1,
		}}).Connect(t.Context()))
		for _, version := range []string{"1.1", "2"} {
			streams, err := e.StreamClient(version, eventmeter.NewClock(), false, 0, &wire.Traffic{})
			must(t, err)
			over := make(ended, 1)
			streams.Open(t.Context(), streamclient.Request{Method: http.MethodGet, Path: "/"}, over)
			err = TransportError(t.Context(), <-over)
			if err.(*CallError).Kind != "tls" {
				t.Errorf("%s, HTTP/%s: %q, want tls", c.name, version, err.(*CallError).Kind)
			}
			says("HTTP/"+version, err)
			if err := streams.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	for text, err := range map[string]*CallError{
		"ip_local_port_range": TransportError(t.Context(), &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EADDRNOTAVAIL)}),
		"is the server up":    TransportError(t.Context(), syscall.ECONNREFUSED),
		"session lost":        {Kind: KindSession},
	} {
		if got := err.Error(); !strings.Contains(got, text) || strings.Contains(got, "server up") != (text == "is the server up") {
			t.Errorf("%q lacks %q", got, text)
		}
	}
}

func TestRedirectNamesTheLocation(t *testing.T) {
	const to = "https://other.example/mcp/"
	with := http.Header{"Location": {strings.Replace(to, "//", "//u:secret@", 1)}}
	resp := &http.Response{StatusCode: http.StatusPermanentRedirect, Header: with}
	if e := judge(resp, &wire.Message{}, false); e == nil || !strings.Contains(e.Error(), to) {
		t.Errorf("a redirect: %v", e)
	}
	issuer := httptest.NewServer(http.RedirectHandler(to, http.StatusFound))
	defer issuer.Close()
	e, err := NewEndpoint(EndpointOptions{URL: "http://127.0.0.1:1", OAuth: &OAuth{
		Grant: GrantCredentials, Principals: 1, ClientID: func(int) string { return "c" }, Secret: "s3cret", TokenURL: issuer.URL,
		Timeout: time.Minute, RefreshAt: 1,
	}})
	must(t, err)
	defer e.Close(context.Background())
	if err := e.Connect(t.Context()); err == nil || !strings.Contains(err.Error(), to) {
		t.Errorf("a redirect of the issuer: %v", err)
	}
}

// must ends the test if a step of it has failed.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
