package mcpevents

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/refserver"
	"go.k6.io/k6/v2/lib"
	"go.k6.io/k6/v2/lib/netext"
	"go.k6.io/k6/v2/lib/types"
)

// cable is a TCP relay that counts: what passes it was sent and received by
// whoever connects to it.
type cable struct {
	port           net.Listener
	sent, received atomic.Int64
	work           sync.WaitGroup
}

// relay returns a cable to an address.
func relay(t *testing.T, to string) *cable {
	t.Helper()
	port, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	w := &cable{port: port}
	w.work.Go(func() {
		for {
			from, err := port.Accept()
			if err != nil {
				return
			}
			w.work.Go(func() { w.carry(from, to) })
		}
	})
	t.Cleanup(w.end)
	return w
}

// end takes no more connections, and waits until those that there are were
// closed and everything that was written is counted.
func (w *cable) end() {
	w.port.Close()
	w.work.Wait()
}

func (w *cable) carry(from net.Conn, address string) {
	defer from.Close()
	to, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer to.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(io.MultiWriter(to, &tally{&w.sent}), from)
		to.Close()
	}()
	_, _ = io.Copy(io.MultiWriter(&tally{&w.received}, from), to)
	from.Close()
	<-done
}

// tally counts what is written.
type tally struct{ n *atomic.Int64 }

func (t *tally) Write(b []byte) (int, error) {
	t.n.Add(int64(len(b)))
	return len(b), nil
}

// over replaces the host and port of an address by the cable's.
func (w *cable) over(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	must(t, err)
	u.Host = w.port.Addr().String()
	return u.String()
}

// hostOf is the host and port of an address.
func hostOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	must(t, err)
	return u.Host
}

// k6's data_sent and data_received are what passed the cable, byte for byte. Only a poll
// that is under way when its subscription ends has an answer that nobody reads.
func TestDataCounts(t *testing.T) {
	noLeaks(t)
	srv := serveHere(t, refserver.Options{}, "")
	for _, era := range []string{"modern", "legacy"} {
		t.Run(era, func(t *testing.T) {
			mcp, admin := relay(t, hostOf(t, srv.URL())), relay(t, hostOf(t, srv.AdminURL()))
			root := New()
			s := newStage(t, root)
			s.must(fmt.Sprintf(`
				const client = new Client(%q, {token: 'k6', era: %q});
				const up = new Upstream({event: 'chat.message', admin: %q, data: {channel: 'data', text: '{probe}'}});
				const tool = new Upstream({event: 'chat.message', client, tool: 'post_message', data: {channel: 'data', text: '{probe}'}});
				const sub = await client.poll('chat.message', {arguments: {channel: 'data'}, subscriptions: 5, minInterval: 0, settle: '20s'});
				await up.fire({count: 20, rate: 200});
				await tool.fire(3);
				await client.list('tools');
				globalThis.sums = await sub.close();
			`, mcp.over(t, srv.URL()), era, admin.over(t, srv.AdminURL())))
			finished(t, root)
			s.over()
			if s.value("sums.delivered") != s.value("sums.expected") || number(s.value("sums.delivered")) < 100 {
				t.Errorf("%v", s.value("JSON.stringify(sums)"))
			}
			mcp.end()
			admin.end()
			for metric, want := range map[string]int64{"data_sent": mcp.sent.Load() + admin.sent.Load(),
				"data_received": mcp.received.Load() + admin.received.Load()} {
				unread := int64(0)
				if metric == "data_received" {
					unread = 5 * 400 // of each poller, one without events
				}
				if got, _ := s.sum(metric); int64(got) > want || int64(got) < want-unread {
					t.Errorf("%s is %v, %d passed the cable", metric, got, want)
				}
				if got, _ := s.sum(metric, "mode", "poll", "scenario", "s"); got < 5000 {
					t.Errorf("%s of mode poll is %v", metric, got)
				}
			}
		})
	}
}

// Streams and webhooks count as well: what the target opened, too, and what was
// kept open beyond an iteration.
func TestDataOfDeliveries(t *testing.T) {
	noLeaks(t)
	srv := serveHere(t, refserver.Options{}, "")
	for name, open := range map[string]string{
		"push":    "stream('chat.message', {arguments: {channel: 'd'}, streams: 10, settle: '20s', keep: 'k'})",
		"h2c":     "stream('chat.message', {arguments: {channel: 'd'}, streams: 10, settle: '20s', keep: 'k', http: 'h2c'})",
		"webhook": "subscribe('chat.message', {arguments: {channel: 'd'}, subscriptions: 10, settle: '20s', keep: 'k'})",
		"sink":    "subscribe('chat.message', {arguments: {channel: 'd'}, subscriptions: 10, settle: '20s', keep: 'k', sink: new WebhookSink()})",
	} {
		t.Run(name, func(t *testing.T) {
			mcp := relay(t, hostOf(t, srv.URL()))
			root := New()
			setup, vu := newStage(t, root), newStage(t, root)
			setup.must(fmt.Sprintf("await new Client(%q, {token: 'k6'}).%s", mcp.over(t, srv.URL()), open))
			before, _ := setup.sum("data_received")
			vu.must(at(srv, `
				await new Upstream({event: 'chat.message', admin: ADMIN, data: {channel: 'd', text: '{probe}' + 'x'.repeat(1000)}}).fire(20);
				globalThis.sums = await kept('k').close();
			`))
			finished(t, root)
			setup.over()
			if vu.value("sums.delivered") != int64(200) {
				t.Errorf("%v", vu.value("JSON.stringify(sums)"))
			}
			mcp.end()
			after, _ := setup.sum("data_received")
			if least := 200 * 1000.0; after-before < least {
				t.Errorf("data_received grew from %v to %v, and 200 events of 1000 bytes came", before, after)
			}
			if sent, _ := setup.sum("data_sent"); sent < 10*100 || name != "webhook" && name != "sink" && int64(sent) != mcp.sent.Load() {
				t.Errorf("data_sent is %v, %d passed the cable", sent, mcp.sent.Load())
			}
		})
	}
}

// A change feed is asked by the target, and counts.
func TestDataOfFeed(t *testing.T) {
	noLeaks(t)
	root := New()
	s := newStage(t, root)
	if _, err := s.VU.Runtime().
		RunString(`const f = new Upstream({event: 'chat.message', feed: '127.0.0.1:0', data: {channel: 'f', text: '{probe}'}})`); err != nil {
		t.Fatal(err)
	}
	feed := ""
	for _, v := range root.hub.life.shared {
		feed = v.(interface{ URL() string }).URL()
	}
	feeds := relay(t, hostOf(t, feed))
	srv := serveHere(t, refserver.Options{Feed: feeds.over(t, feed), FeedEvery: 10 * time.Millisecond}, "")
	s.must(at(srv, `
		const sub = await new Client(TARGET, {token: 'k6'}).stream('chat.message', {arguments: {channel: 'f'}, settle: '20s'});
		await f.fire(5);
		globalThis.sums = await sub.close();
	`))
	finished(t, root)
	s.over()
	all, _ := s.sum("data_received")
	push, _ := s.sum("data_received", "mode", "push")
	if s.value("sums.delivered") != int64(5) || all-push < 100 {
		t.Errorf("%v delivered, %v bytes received, %v of them by streams", s.value("sums.delivered"), all, push)
	}
}

// names is a resolver that knows one name, and counts who asks.
type names struct {
	name  string
	asked atomic.Int64
}

func (n *names) LookupIP(host string) (net.IP, error) {
	n.asked.Add(1)
	if host != n.name {
		return nil, fmt.Errorf("lookup %s: not known to k6", host)
	}
	return net.IPv4(127, 0, 0, 1), nil
}

// k6Dialer is the dialer that k6 makes of its options.
func k6Dialer(resolver netext.Resolver) *netext.Dialer {
	return netext.NewDialer(net.Dialer{}, resolver)
}

// every is every way in which the extension connects. Each is one line of a
// script that has NAME instead of the target's host. The headers name a host
// that the target lets in.
var every = []struct{ name, script string }{
	{"push", "await (await new Client('http://NAME:MCP/mcp', {token: 'k', headers}).stream('tick')).close()"},
	{"push over h2c", "await (await new Client('http://NAME:MCP/mcp', {token: 'k', headers}).stream('tick', {http: 'h2c'})).close()"},
	{"push over TLS", "await (await new Client('https://NAME:TLS/mcp', {token: 'k', headers, ca}).stream('tick')).close()"},
	{
		"push over HTTP/2 and TLS",
		"await (await new Client('https://NAME:TLS/mcp', {token: 'k', headers, ca}).stream('tick', {http: '2'})).close()",
	},
	{"poll", "await (await new Client('http://NAME:MCP/mcp', {token: 'k', headers}).poll('tick')).close()"},
	{"poll over TLS", "await (await new Client('https://NAME:TLS/mcp', {token: 'k', headers, ca}).poll('tick')).close()"},
	{"poll over h2c", "await (await new Client('http://NAME:MCP/mcp', {token: 'k', headers}).poll('tick', {http: 'h2c'})).close()"},
	{"webhook", "await (await new Client('http://NAME:MCP/mcp', {token: 'k', headers}).subscribe('tick')).close()"},
	{"sep-1803", "await (await new Client('http://NAME:MCP/mcp', {token: 'k', headers}).stream('tick', {system: 'sep-1803'})).close()"},
	{"lists", "await (await new Client('http://NAME:MCP/mcp', {token: 'k', headers}).watchLists('tools', {notifications: true})).close()"},
	{
		"resumable",
		"await (await new Client('http://NAME:MCP/mcp', {token: 'k', headers}).resumable('work', {steps: 2, step: 10, " +
			"disconnect: 'none'})).close()",
	},
	{"list", "await new Client('http://NAME:MCP/mcp', {token: 'k', headers}).list('tools')"},
	{
		"tool",
		"const f = await new Upstream({event: 'e', client: new Client('http://NAME:MCP/mcp', {token: 'k', headers}), tool: " +
			"'post_message', data: {channel: 'c', text: '{probe}'}}).fire(); if (!f.accepted) throw new " +
			"Error(JSON.stringify(f))",
	},
	{
		"admin",
		"const f = await new Upstream({event: 'tick', admin: 'http://NAME:ADMIN'}).fire(); if (!f.accepted) throw new Error(JSON.stringify(f))",
	},
	{
		"url",
		"const f = await new Upstream({event: 'tick', url: 'http://NAME:ADMIN/inject', data: {name: 'tick', data: {text: " +
			"'{probe}'}}}).fire(); if (!f.accepted) throw new Error(JSON.stringify(f))",
	},
}

// within fills a target's ports, and a name for its host, into a script.
func within(t *testing.T, srv *refserver.Server, name, script string) string {
	t.Helper()
	port := func(address string) string {
		_, p, err := net.SplitHostPort(hostOf(t, address))
		must(t, err)
		return p
	}
	return "const headers = {Host: 'localhost'};" + strings.NewReplacer("NAME", name, ":MCP", ":"+port(srv.URL()), ":TLS",
		":"+port(srv.TLSURL()), ":ADMIN", ":"+port(byAnyName(t, srv.AdminURL()))).
		Replace(script)
}

// byAnyName passes requests on to an address, whatever host they name: the admin
// listener takes no foreign one.
func byAnyName(t *testing.T, address string) string {
	t.Helper()
	to, err := url.Parse(address)
	must(t, err)
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport: &http.Transport{DisableKeepAlives: true},
	})
	t.Cleanup(proxy.Close)
	return proxy.URL
}

// Names are looked up by k6's resolver, which its options hosts and dns are
// for, on every way and also for what is made in the init context.
func TestNamesAreK6s(t *testing.T) {
	noLeaks(t)
	srv := serveHere(t, refserver.Options{TLS: true}, "")
	known := &names{name: "mcp.example"}
	run := func(t *testing.T, dialer *netext.Dialer, name, script string) {
		root := New()
		s := newStage(t, root)
		s.dialer = dialer
		// The certificate is for 127.0.0.1: whether it fits is no matter here.
		s.tls = &tls.Config{InsecureSkipVerify: true}
		must(t, s.VU.Runtime().Set("ca", string(srv.CertPEM())))
		if err := s.run(within(t, srv, name, script)); err != nil {
			t.Error(err)
		}
		finished(t, root)
	}
	for _, c := range every {
		t.Run("dns/"+c.name, func(t *testing.T) {
			before := known.asked.Load()
			run(t, k6Dialer(known), "mcp.example", c.script)
			if known.asked.Load() == before {
				t.Error("k6's resolver was not asked")
			}
		})
		t.Run("hosts/"+c.name, func(t *testing.T) {
			d := k6Dialer(known)
			hosts, err := types.NewHosts(map[string]types.Host{"*.example.org": {IP: net.IPv4(127, 0, 0, 1)}})
			must(t, err)
			d.Hosts = hosts
			run(t, d, "mcp.example.org", c.script)
		})
	}
	t.Run("init context", func(t *testing.T) {
		root := New()
		s := newStage(t, root)
		s.dialer = k6Dialer(known)
		if _, err := s.VU.Runtime().RunString(within(t, srv, "mcp.example", `
			const client = new Client('http://NAME:MCP/mcp', {token: 'k', headers}), up = new Upstream({event: 'tick', admin: 'http://NAME:ADMIN'});
		`)); err != nil {
			t.Fatal(err)
		}
		s.must("const sub = await client.stream('tick', {settle: '10s'}); await up.fire(2); globalThis.sums = await sub.close()")
		if s.value("sums.delivered") != int64(2) {
			t.Error(s.value("JSON.stringify(sums)"))
		}
		finished(t, root)
	})
}

// An address that k6's options block is not connected to, and the error says
// which option's rule that was.
func TestBlocked(t *testing.T) {
	noLeaks(t)
	srv := serveHere(t, refserver.Options{TLS: true}, "")
	loopback, err := lib.ParseCIDR("127.0.0.0/8")
	must(t, err)
	blocked, err := types.NewHostnameTrie([]string{"*.example"})
	must(t, err)
	for option, c := range map[string]struct {
		set        func(*netext.Dialer)
		name, want string
	}{
		"blacklistIPs": {func(d *netext.Dialer) { d.Blacklist = []*lib.IPNet{loopback} }, "127.0.0.1",
			"IP (127.0.0.1) is in a blacklisted range (127.0.0.0/8)"},
		"blockHostnames": {func(d *netext.Dialer) { d.BlockedHostnames = blocked }, "mcp.example",
			"hostname (mcp.example) is in a blocked pattern (*.example)"},
	} {
		for _, way := range every {
			t.Run(option+"/"+way.name, func(t *testing.T) {
				root := New()
				s := newStage(t, root)
				d := k6Dialer(&names{name: "mcp.example"})
				c.set(d)
				s.dialer = d
				must(t, s.VU.Runtime().Set("ca", string(srv.CertPEM())))
				err := s.run(within(t, srv, c.name, way.script))
				if err == nil {
					t.Fatal("it was connected to")
				}
				// What an upstream fires is refused, and why is said once, in the log.
				if said := err.Error() + s.log.String(); !strings.Contains(said, c.want) {
					t.Errorf("%s\nwant %s", said, c.want)
				}
				finished(t, root)
			})
		}
	}
}

// k6's option localIPs says where connections come from.
func TestLocalIPs(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has all of 127.0.0.0/8")
	}
	noLeaks(t)
	var mu sync.Mutex
	from := map[string]string{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		from[r.URL.Path], _, _ = net.SplitHostPort(r.RemoteAddr)
		http.Error(w, "no more than that", http.StatusBadRequest)
	}))
	defer srv.Close()
	root := New()
	s := newStage(t, root)
	d := k6Dialer(&names{})
	d.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 77)}
	s.dialer = d
	s.must(fmt.Sprintf(`
		try { await new Client('%[1]s/client').stream('e'); } catch {}
		await new Upstream({event: 'e', url: '%[1]s/up'}).fire();
	`, srv.URL))
	finished(t, root)
	mu.Lock()
	defer mu.Unlock()
	if from["/client"] != "127.0.0.77" || from["/up"] != "127.0.0.77" {
		t.Errorf("connections came from %v", from)
	}
}

// selfSigned makes a certificate with a name.
func selfSigned(t *testing.T, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	about := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	must(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// k6's option tlsAuth gives the certificate that servers ask for.
func TestTLSAuth(t *testing.T) {
	noLeaks(t)
	var mu sync.Mutex
	shown := map[string]string{}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range r.TLS.PeerCertificates {
			shown[r.URL.Path+" "+r.Proto] = c.Subject.CommonName
		}
		http.Error(w, "no more than that", http.StatusBadRequest)
	}))
	srv.EnableHTTP2 = true
	srv.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	srv.StartTLS()
	defer srv.Close()
	root := New()
	s := newStage(t, root)
	s.dialer = k6Dialer(&names{})
	s.tls = &tls.Config{
		InsecureSkipVerify: true, NextProtos: []string{"none"}, // left there by k6's own clients
		Certificates: []tls.Certificate{selfSigned(t, "the tester")},
	}
	s.must(fmt.Sprintf(`
		const failed = async (what) => { try { await what; } catch { return; } throw new Error('it was accepted'); };
		await failed(new Client('%[1]s/one').stream('e'));
		await failed(new Client('%[1]s/two', {era: 'legacy'}).poll('e', {http: '2'}));
		await new Upstream({event: 'e', url: '%[1]s/up'}).fire();
	`, srv.URL))
	finished(t, root)
	mu.Lock()
	defer mu.Unlock()
	for _, path := range []string{"/one HTTP/1.1", "/two HTTP/1.1", "/up HTTP/2.0"} {
		if shown[path] != "the tester" {
			t.Errorf("%s: the certificate is of %q; all: %v", path, shown[path], shown)
		}
	}
}
