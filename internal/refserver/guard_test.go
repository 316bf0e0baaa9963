package refserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"
)

// send sends a request with exactly the given header.
func send(t *testing.T, method, url, host string, header http.Header, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	must(t, err)
	if header != nil {
		req.Header = header.Clone()
	}
	if host != "" {
		req.Host = host
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp.StatusCode, string(text)
}

// A web page in a browser on the same machine can neither rebind its name to
// the admin listener nor post to it across sites.
func TestAdminRefusesWebPages(t *testing.T) {
	s := startServer(t, Options{})
	const body = `{"name":"tick","data":{}}`
	own := http.Header{"Content-Type": {"application/json"}}
	with := func(name, value string) http.Header {
		h := own.Clone()
		h.Set(name, value)
		return h
	}
	for name, c := range map[string]struct {
		method, path, host string
		header             http.Header
		status             int
		says               string
	}{
		"the client of this project":   {"POST", "/inject", "", own, 202, "eventId"},
		"with a character set":         {"POST", "/inject", "", with("Content-Type", "Application/JSON; charset=utf-8"), 202, "eventId"},
		"by localhost":                 {"POST", "/inject", "localhost:81", own, 202, "eventId"},
		"a rebound name":               {"POST", "/inject", "evil.example:81", own, 403, `Host "evil.example:81"`},
		"a rebound name that reads":    {"GET", "/stats", "evil.example", nil, 403, "Host"},
		"another site":                 {"POST", "/inject", "", with("Origin", "https://evil.example"), 403, "Origin"},
		"another page of this machine": {"POST", "/inject", "", with("Origin", "http://localhost:3000"), 403, "Origin"},
		"a page without an origin":     {"POST", "/inject", "", with("Origin", "null"), 403, "Origin"},
		"another site that reads":      {"GET", "/stats", "", http.Header{"Sec-Fetch-Site": {"cross-site"}}, 403, "Sec-Fetch-Site"},
		"typed into a browser":         {"GET", "/stats", "", http.Header{"Sec-Fetch-Site": {"none"}}, 200, "events"},
		"a form":                       {"POST", "/inject", "", with("Content-Type", "application/x-www-form-urlencoded"), 415, "curl"},
		"plain text":                   {"POST", "/revoke", "", with("Content-Type", "text/plain"), 415, "application/json"},
		"a form with files":            {"POST", "/disturb", "", with("Content-Type", "multipart/form-data"), 415, "application/json"},
		"no type at all":               {"POST", "/types", "", http.Header{}, 415, "application/json"},
	} {
		status, text := send(t, c.method, s.AdminURL()+c.path, c.host, c.header, body)
		if status != c.status || !strings.Contains(text, c.says) {
			t.Errorf("%s: %d %q, want %d with %q", name, status, text, c.status, c.says)
		}
	}
}

// The MCP endpoint on loopback answers pages of this machine, such as MCP
// inspectors, and no others.
func TestForeignOriginIsRefused(t *testing.T) {
	s := startServer(t, Options{})
	for origin, want := range map[string]int{"": 405, "http://localhost:6274": 405, "http://[::1]:1": 405,
		"https://evil.example": 403, "null": 403, "http://127.0.0.1.evil.example": 403} {
		header := http.Header{}
		if origin != "" {
			header.Set("Origin", origin)
		}
		if status, text := send(t, http.MethodPut, s.URL(), "", header, ""); status != want {
			t.Errorf("Origin %q: %d %s, want %d", origin, status, text, want)
		}
	}
}

// Clients that never finish a request, or never send one, lose their
// connections.
func TestStalledClientsAreCut(t *testing.T) {
	const soon = 50 * time.Millisecond
	s, err := New(Options{})
	must(t, err)
	s.readTimeout, s.idleTimeout = soon, soon
	must(t, s.Start(t.Context()))
	t.Cleanup(func() { closeServer(t, s) })
	for name, text := range map[string]string{
		"half a body of MCP":   "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
		"half a body of admin": "POST /inject HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
		"half a header":        "POST /mcp HTTP/1.1\r\nHost: loc",
		"idle after an answer": "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			at := s.mcp.Addr().String()
			if strings.Contains(text, "/inject") || strings.Contains(text, "/healthz") {
				at = s.control.Addr().String()
			}
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", at)
			must(t, err)
			defer conn.Close()
			if _, err := io.WriteString(conn, text); err != nil {
				t.Fatal(err)
			}
			must(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
			if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the connection is still open after 10 s")
			}
		})
	}
}

// The read timeout ends with the request: a stream stays open.
func TestReadTimeoutSparesStreams(t *testing.T) {
	const soon = 50 * time.Millisecond
	s, err := New(Options{Heartbeat: soon})
	must(t, err)
	s.readTimeout, s.idleTimeout = soon, soon
	must(t, s.Start(t.Context()))
	t.Cleanup(func() { closeServer(t, s) })
	req, err := http.NewRequestWithContext(
		t.Context(),
		http.MethodPost,
		s.URL(),
		strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"events/stream","params":{"name":"tick"}}`),
	)
	must(t, err)
	req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	must(t, err)
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for beats := 0; beats < 6; { // six heartbeats take at least three read timeouts
		if !lines.Scan() {
			t.Fatalf("the stream ended after %d heartbeats: %v", beats, lines.Err())
		}
		if strings.Contains(lines.Text(), "heartbeat") {
			beats++
		}
	}
}

func TestSessionsAreBounded(t *testing.T) {
	s := startServer(t, Options{})
	s.base.sessions.limit = 3
	open := func() (int, string, http.Header) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL(), strings.NewReader(
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},`+
				`"clientInfo":{"name":"c","version":"1"}}}`,
		))
		must(t, err)
		req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
		resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
		must(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		must(t, err)
		return resp.StatusCode, string(text), resp.Header
	}
	var last http.Header
	for i := range 3 {
		status, text, header := open()
		if status != http.StatusOK {
			t.Fatalf("session %d: %d %s", i, status, text)
		}
		last = header
	}
	if status, text, _ := open(); status != http.StatusServiceUnavailable || !strings.Contains(text, "3 sessions are open") {
		t.Errorf("the fourth session: %d %s", status, text)
	}
	send(t, http.MethodDelete, s.URL(), "", http.Header{headerSession: {last.Get(headerSession)}}, "")
	if status, text, _ := open(); status != http.StatusOK {
		t.Errorf("after one ended: %d %s", status, text)
	}
}

// The replay buffer and each answer are also bounded in bytes.
func TestBufferedBytesAreBounded(t *testing.T) {
	s := startServer(t, Options{BufferBytes: 4 << 20})
	data := `{"a":"` + strings.Repeat("x", 200<<10) + `"}`
	for range 40 {
		publish(t, s, "tick", data)
	}
	var tick *topic
	for _, c := range s.broker.order {
		if c.kind.name == "tick" {
			tick = c
		}
	}
	held := 0
	for i := tick.all.first; i < tick.all.end(); i++ {
		held += cap(tick.all.at(i).frame)
	}
	if held > 4<<20 || tick.all.count < 15 || tick.bytes != held {
		t.Errorf(
			"%d events with %d bytes are buffered, %d counted; want at most 4 MiB and at least 15 events",
			tick.all.count,
			held,
			tick.bytes,
		)
	}
	status, text := rpc(t, s, "", `{"jsonrpc":"2.0","id":1,"method":"events/poll","params":{"name":"tick","cursor":"`+tick.cursor(0)+`"}}`)
	if status != http.StatusOK || len(text) > 2<<20 || !strings.Contains(text, `"hasMore":true`) {
		t.Errorf("a poll answered %d with %d bytes: %.80s", status, len(text), text)
	}
}

// TestSpecialAddressesAreNotPublic checks isPublic against IANA's two
// registries of special-purpose addresses, and older deprecated ranges.
func TestSpecialAddressesAreNotPublic(t *testing.T) {
	for _, special := range strings.Fields(`
		0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.0.0/29 192.0.0.8/32 192.0.0.9/32
		192.0.0.10/32 192.0.0.170/32 192.0.0.171/32 192.0.2.0/24 192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16
		192.175.48.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4 255.255.255.255/32
		::1/128 ::/128 ::/96 ::ffff:0:0/104 ::ffff:0:0:0/96 64:ff9b::/96 64:ff9b:1::/48 100::/64 100:0:0:1::/64 2001::/23 2001::/32 2001:1::1/128
		2001:1::2/128 2001:1::3/128 2001:2::/48 2001:3::/32 2001:4:112::/48 2001:10::/28 2001:20::/28 2001:30::/28 2001:db8::/32
		2002::/16 2620:4f:8000::/48 3fff::/20 5f00::/16 fc00::/7 fe80::/10 fec0::/10 ff00::/8`) {
		p := netip.MustParsePrefix(special)
		last := p.Addr().AsSlice()
		for bit := p.Bits(); bit < len(last)*8; bit++ {
			last[bit/8] |= 0x80 >> (bit % 8)
		}
		end, _ := netip.AddrFromSlice(last)
		for _, ip := range []netip.Addr{p.Addr(), end} {
			if isPublic(ip) {
				t.Errorf("%s of %s counts as public", ip, special)
			}
			if ip.Is4() && isPublic(netip.AddrFrom16(ip.As16())) {
				t.Errorf("%s of %s counts as public when it is mapped to IPv6", ip, special)
			}
		}
	}
	for _, public := range strings.Fields("8.8.8.8 1.1.1.1 100.63.255.255 172.32.0.1 192.0.1.1 2606:4700:4700::1111 " +
		"2a00:1450:4001::1 2001:4860:4860::8888 2001:200::1") {
		if !isPublic(netip.MustParseAddr(public)) {
			t.Errorf("%s does not count as public", public)
		}
	}
}

func TestCapacityIsANumber(t *testing.T) {
	nan := 0.0
	nan /= nan
	if _, err := New(Options{Capacity: nan}); err == nil || !strings.Contains(fmt.Sprint(err), "Capacity is NaN") {
		t.Errorf("New took a capacity of NaN: %v", err)
	}
}
