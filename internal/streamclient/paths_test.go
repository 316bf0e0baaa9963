package streamclient

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
)

func TestAddresses(t *testing.T) {
	serve := func(c net.Conn, r *bufio.Reader) {
		http.ReadRequest(r)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"+c.RemoteAddr().String())
	}
	each(t, func(t *testing.T, open func(Options) Client) {
		t.Run("name", func(t *testing.T) {
			// The name may stand for ::1 first, where nobody listens.
			_, port, _ := net.SplitHostPort(listen(t, "tcp4", "127.0.0.1:0", serve))
			w := watch(t)
			open(Options{Addr: "localhost:" + port}).Open(t.Context(), get, w)
			if err := w.end(); err != io.EOF || !strings.HasPrefix(w.body.String(), "127.") {
				t.Errorf("%v from %s", err, w.body.String())
			}
		})
		t.Run("IPv6", func(t *testing.T) {
			addr := listen(t, "tcp6", "[::1]:0", serve)
			w := watch(t)
			open(Options{Addr: addr}).Open(t.Context(), get, w)
			if err := w.end(); err != io.EOF || !strings.HasPrefix(w.body.String(), "[::1]") {
				t.Errorf("%v from %s", err, w.body.String())
			}
		})
		t.Run("resolved", func(t *testing.T) {
			// Each connection asks anew, and the second may not be made.
			addr := listen(t, "tcp4", "127.0.0.1:0", serve)
			refused := errors.New("not there")
			var asked atomic.Int64
			p := open(Options{Addr: "nobody.invalid:99", Resolve: func(_ context.Context, of string) (netip.AddrPort, error) {
				if asked.Add(1); of != "nobody.invalid:99" || asked.Load() > 1 {
					return netip.AddrPort{}, refused
				}
				return netip.ParseAddrPort(addr)
			}})
			w := watch(t)
			p.Open(t.Context(), get, w)
			if err := w.end(); err != io.EOF || !strings.HasPrefix(w.body.String(), "127.") {
				t.Errorf("%v from %s", err, w.body.String())
			}
			w = watch(t)
			p.Open(t.Context(), get, w)
			if err := w.end(); !errors.Is(err, refused) || asked.Load() != 2 {
				t.Errorf("%v, asked %d times", err, asked.Load())
			}
		})
		t.Run("from", func(t *testing.T) {
			addr := listen(t, "tcp4", "127.0.0.1:0", serve)
			ip := net.IPv4(127, 0, 0, 1)
			if kernelHasLoopbackNet {
				ip = net.IPv4(127, 0, 0, 77)
			}
			w := watch(t)
			open(Options{Addr: addr, LocalIPs: []net.IP{ip}}).Open(t.Context(), get, w)
			if err := w.end(); err != io.EOF || !strings.HasPrefix(w.body.String(), ip.String()+":") {
				t.Errorf("%v from %s", err, w.body.String())
			}
		})
	})
}

func TestLargeRequest(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789"), 1<<20)
	each(t, func(t *testing.T, open func(Options) Client) {
		go1 := make(chan struct{})
		addr := listen(t, "tcp", "127.0.0.1:0", func(c net.Conn, r *bufio.Reader) {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			if req.URL.Path == "/early" {
				io.WriteString(c, "HTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\nno")
				<-go1
				return
			}
			got, _ := io.ReadAll(req.Body)
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\n\r\n%t", bytes.Equal(got, body))
		})
		p := open(Options{Addr: addr})
		w, early := watch(t), watch(t)
		p.Open(t.Context(), Request{Method: "POST", Path: "/", Body: body}, w)
		if err := w.end(); err != io.EOF || w.body.String() != "true" {
			t.Errorf("%v: %s", err, w.body.String())
		}
		if _, ok := p.(*portable); !ok { // that one reads when it has written
			p.Open(t.Context(), Request{Method: "POST", Path: "/early", Body: body}, early)
			if err := early.end(); err != io.EOF || early.body.String() != "no" {
				t.Errorf("%v: %s", err, early.body.String())
			}
		}
		close(go1)
	})
}

func TestTLS(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.Proto)
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // one client does not trust it
	srv.StartTLS()
	defer srv.Close()
	n := &traffic{}
	pool := srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	p, err := New(
		Options{Addr: strings.TrimPrefix(srv.URL, "https://"), TLS: &tls.Config{RootCAs: pool, ServerName: "example.com"}, Count: n},
	)
	must(t, err)
	defer p.Close()
	w := watch(t)
	p.Open(t.Context(), get, w)
	if err := w.end(); err != io.EOF || w.body.String() != "HTTP/1.1" || n.opened.Load() != 1 {
		t.Errorf("%v: %s", err, w.body.String())
	}
	strange, err := New(Options{Addr: strings.TrimPrefix(srv.URL, "https://"), TLS: &tls.Config{ServerName: "example.com"}})
	must(t, err)
	defer strange.Close()
	w = watch(t)
	strange.Open(t.Context(), get, w)
	if err := w.end(); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Error(err)
	}
}
