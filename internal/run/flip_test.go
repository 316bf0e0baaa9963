package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/dialguard"
	"github.com/eventmeter/eventmeter/internal/health"
	"github.com/eventmeter/eventmeter/internal/metrics"
	"github.com/eventmeter/eventmeter/internal/streamclient"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/upstream"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/dns/dnsmessage"
)

// twoHosts are the server of a name and another one on the same port, to which
// the name leads as soon as it was resolved once.
type twoHosts struct {
	addr          string // flip.test and the port
	right, thief  atomic.Int64
	stolen        atomic.Pointer[string] // an Authorization header
	lookups       atomic.Int64
	first, second netip.Addr
}

func newTwoHosts(t *testing.T) *twoHosts {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("it needs two loopback addresses")
	}
	h := &twoHosts{first: netip.MustParseAddr("127.0.0.1"), second: netip.MustParseAddr("127.0.0.2")}
	serve := func(l net.Listener, hits *atomic.Int64) {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			hits.Add(1)
			if a := r.Header.Get("Authorization"); a != "" && hits == &h.thief {
				h.stolen.Store(&a)
			}
			w.Header().Set("Connection", "close") // the next request needs another connection
			http.NotFound(w, r)
		}))
		s.Listener.Close()
		s.Listener = l
		s.Start()
		t.Cleanup(s.Close)
	}
	for range 10 { // both must have the same port
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		_, port, _ := net.SplitHostPort(l.Addr().String())
		other, err := net.Listen("tcp", "127.0.0.2:"+port)
		if err != nil {
			l.Close()
			continue
		}
		serve(l, &h.right)
		serve(other, &h.thief)
		h.addr = "flip.test:" + port
		return h
	}
	t.Fatal("there is no port that both addresses have free")
	return nil
}

// lookup is a resolver that changes its mind after the first answer.
func (h *twoHosts) lookup(context.Context, string) ([]netip.Addr, error) {
	if h.lookups.Add(1) == 1 {
		return []netip.Addr{h.first}, nil
	}
	return []netip.Addr{h.second}, nil
}

// nothing is a stream's sink that says when it is over.
type nothing struct{ over chan error }

func (nothing) Opened(streamclient.Head, streamclient.Arrival) error { return nil }
func (nothing) Piece([]byte, streamclient.Arrival) error             { return nil }
func (n nothing) Closed(err error)                                   { n.over <- err }

// TestNamesAreResolvedOnce has every dialer of the generator connect several
// times by a name that leads elsewhere after the first answer. And none connects to
// an address that nobody allowed.
func TestNamesAreResolvedOnce(t *testing.T) {
	payload := func(dst []byte, _ int, _ uint32, probe string) []byte { return fmt.Appendf(dst, `{"p":%q}`, probe) }
	fire := func(u upstream.Upstream, err error) error {
		if err != nil {
			return err
		}
		defer u.Close()
		if outcome := u.Fire(context.Background(), upstream.Emission{Stamp: eventmeter.Stamp{Run: 1}}); outcome != eventmeter.Refused {
			return fmt.Errorf("outcome %v", outcome)
		}
		return nil
	}
	streamed := func(open func(streamclient.Options) (streamclient.Client, error)) func(string, *dialguard.Guard) error {
		return func(addr string, g *dialguard.Guard) error {
			p, err := open(streamclient.Options{Addr: addr, Guard: g, ConnectTimeout: 5 * time.Second})
			if err != nil {
				return err
			}
			defer p.Close()
			over := make(chan error, 1)
			p.Open(context.Background(), streamclient.Request{Method: "GET", Path: "/mcp", Header: http.Header{}}, nothing{over})
			return <-over
		}
	}
	pushed := func(start func(metrics.PushOptions) (*metrics.Pusher, error)) func(string, *dialguard.Guard) error {
		return func(addr string, g *dialguard.Guard) error {
			p, err := start(
				metrics.PushOptions{
					URL:   "http://" + addr + "/v1/metrics",
					Every: time.Hour,
					From:  prometheus.NewRegistry(),
					Job:   "test",
					Guard: g,
				},
			)
			if err != nil {
				return err
			}
			return p.Close()
		}
	}
	dial := func(g *dialguard.Guard) upstream.DialFunc { return g.Dial(&net.Dialer{Timeout: 5 * time.Second}) }
	for name, once := range map[string]func(addr string, g *dialguard.Guard) error{
		"handshake": func(addr string, g *dialguard.Guard) error {
			e, err := mcpclient.NewEndpoint(mcpclient.EndpointOptions{URL: "http://" + addr + "/mcp", Tokens: []string{"secret"}, Guard: g})
			if err != nil {
				return err
			}
			defer e.Close(context.Background())
			return e.Connect(context.Background())
		},
		"streams by epoll":            streamed(streamclient.New),
		"streams, one goroutine each": streamed(streamclient.NewPortable),
		"streams over HTTP/2":         streamed(streamclient.NewHTTP2),
		"upstream inject": func(addr string, g *dialguard.Guard) error {
			return fire(upstream.NewInject(upstream.InjectOptions{Admin: "http://" + addr, Event: "e", Payload: payload,
				ClientOptions: upstream.ClientOptions{Dial: dial(g)}}))
		},
		"upstream github": func(addr string, g *dialguard.Guard) error {
			return fire(upstream.NewGitHub(upstream.GitHubOptions{WebhookOptions: upstream.WebhookOptions{URL: "http://" + addr,
				Secret: "s", ClientOptions: upstream.ClientOptions{Dial: dial(g)}}}))
		},
		"upstream replay": func(addr string, g *dialguard.Guard) error {
			return fire(upstream.NewReplay(upstream.ReplayOptions{URL: "http://" + addr, Probe: "p",
				Trace: []upstream.TraceEntry{{Payload: []byte(`{}`)}}, ClientOptions: upstream.ClientOptions{Dial: dial(g)}}))
		},
		"the target's metrics": func(addr string, g *dialguard.Guard) error {
			w, err := health.Start(health.WatchOptions{TargetMetrics: health.NewMetrics("http://"+addr, g)})
			if err == nil {
				w.Stop(0)
			}
			return err
		},
		"the admin listener's counters": func(addr string, g *dialguard.Guard) error {
			resp, err := g.Client().Get("http://" + addr + "/stats")
			if err == nil {
				resp.Body.Close()
			}
			return err
		},
		"remote write": pushed(func(o metrics.PushOptions) (*metrics.Pusher, error) { return metrics.StartRemoteWrite(o), nil }),
		"OTLP":         pushed(metrics.StartOTLP),
	} {
		t.Run(name, func(t *testing.T) {
			h := newTwoHosts(t)
			g := dialguard.New(h.lookup)
			for range 3 {
				_ = once(h.addr, g) // the server answers 404
			}
			want := int64(3)
			if name == "streams over HTTP/2" {
				want = 0 // the server does not speak it without TLS
			}
			if h.thief.Load() != 0 || h.right.Load() < want || h.lookups.Load() != 1 {
				t.Errorf(
					"%d requests to the right host, %d to the other, %d look-ups: want at least %d, 0 and 1",
					h.right.Load(),
					h.thief.Load(),
					h.lookups.Load(),
					want,
				)
			}
			if name == "remote write" || name == "OTLP" {
				return // their receiver is allowed by naming it
			}
			err := once("192.0.2.1:9", dialguard.New(nil))
			if err == nil || strings.HasPrefix(name, "stream") && !errors.Is(err, dialguard.ErrRefused) {
				if !strings.HasPrefix(name, "upstream") { // those only count it as refused
					t.Errorf("an address that nobody allowed: %v", err)
				}
			}
		})
	}
}

// With the system's resolver answered by a server that flips, neither the search
// for what a target offers nor a run hands its token to the second host.
func TestFlippedNameGetsNoToken(t *testing.T) {
	h := newTwoHosts(t)
	was := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go h.answer(far)
		return near, nil
	}}
	t.Cleanup(func() { net.DefaultResolver = was })
	_, err := DiscoverTarget(t.Context(), profiles.Target{URL: "http://" + h.addr + "/mcp", Tokens: []string{"secret"}}, nil, "test")
	if err == nil || h.thief.Load() != 0 || h.right.Load() == 0 {
		got := ""
		if s := h.stolen.Load(); s != nil {
			got = *s
		}
		t.Errorf("discover: %v; %d requests to the right host, %d to the other, which got %q", err, h.right.Load(), h.thief.Load(), got)
	}
}

// answer serves DNS on one connection: an address to the first question for one,
// another to all others.
func (h *twoHosts) answer(c net.Conn) {
	defer c.Close()
	var head [2]byte
	for {
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return
		}
		question := make([]byte, int(head[0])<<8|int(head[1]))
		if _, err := io.ReadFull(c, question); err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(question) != nil || len(m.Questions) != 1 {
			return
		}
		m.Header.Response, m.Additionals = true, nil
		if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
			to, _ := h.lookup(context.Background(), "")
			m.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}, Body: &dnsmessage.AResource{A: to[0].As4()},
			}}
		}
		text, err := m.Pack()
		if err != nil {
			return
		}
		if _, err := c.Write(append([]byte{byte(len(text) >> 8), byte(len(text))}, text...)); err != nil {
			return
		}
	}
}
