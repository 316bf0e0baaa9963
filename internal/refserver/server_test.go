package refserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestOptionsOutOfRange(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(empty, nil, 0o600))
	for want, o := range map[string]Options{
		"NextPoll is 10µs":          {NextPoll: 10 * time.Microsecond},
		"BufferEvents is -1":        {BufferEvents: -1},
		"TTLDefault is 1s":          {TTLDefault: time.Second},
		"TTLMax is 1m0s":            {TTLMin: time.Minute, TTLDefault: time.Hour, TTLMax: time.Minute},
		"RetryMax is -2":            {RetryMax: -2},
		"holds no certificate":      {CallbackCAFile: empty},
		"CallbackCAFile: open /no/": {CallbackCAFile: "/no/such/file"},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New: %v, want %s", err, want)
		}
	}
}

func TestStartOnABusyPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	s, err := New(Options{AdminAddr: l.Addr().String()})
	must(t, err)
	if err := s.Start(t.Context()); err == nil {
		t.Error("Start took a busy port")
	}
}

func TestAdmin(t *testing.T) {
	s := startServer(t, Options{})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"POST", "/inject", `{"name":"tick","data":{"a":1}}`, 202, `{"eventId":"e-1"}`},
		{"POST", "/inject", `{"name":"tock","data":{}}`, 404, `unknown event type`},
		{"POST", "/inject", `{"name":"tick","data":[]}`, 400, `not a JSON object`},
		{"POST", "/inject", `{"name":"tick"}`, 400, `not a JSON object`},
		{"POST", "/inject", `[{"name":"tick","data":{}}]`, 400, `not the JSON object`},
		{"POST", "/inject", `{"name":"tick","data":{"a":"` + strings.Repeat("x", maxData) + `"}}`, 413, `too large`},
		{"POST", "/inject", strings.Repeat(" ", maxBody+1), 413, `too large`},
		{"POST", "/inject", `{"name":"tick","data":{}}`, 202, `{"eventId":"e-2"}`},
		{"POST", "/disturb", `{"name":"tock"}`, 404, `unknown event type`},
		{"POST", "/disturb", `{"name":"tick","message":"m"}`, 204, ``},
		{"POST", "/revoke", `{"token":"a"}`, 204, ``},
		{"POST", "/revoke", `{"token":"a","restore":true}`, 204, ``},
		{"GET", "/healthz", ``, 200, `{"status":"ok"}`},
		{"GET", "/inject", ``, 405, ``},
		{"GET", "/nowhere", ``, 404, ``},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, s.AdminURL()+c.path, strings.NewReader(c.body))
		must(t, err)
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		must(t, err)
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != c.status || !strings.Contains(string(text), c.want) {
			t.Errorf("%s %s %.40s: %d %s (%v), want %d %s", c.method, c.path, c.body, resp.StatusCode, text, err, c.status, c.want)
		}
	}
	resp, err := client.Get(s.AdminURL() + "/stats")
	must(t, err)
	defer resp.Body.Close()
	decoder := json.NewDecoder(resp.Body)
	decoder.DisallowUnknownFields()
	var st Stats
	if err := decoder.Decode(&st); err != nil || st.Events != 2 || st.Goroutines == 0 {
		t.Errorf("stats %+v, %v", st, err)
	}
	if _, denied := s.principals.watch("a"); denied {
		t.Error("restore did not restore")
	}
}

func TestForeignHostIsRefused(t *testing.T) {
	s := startServer(t, Options{})
	for host, want := range map[string]int{"localhost": 405, "evil.example": 403, "127.0.0.1:99": 405, "[::1]:1": 405} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, s.URL(), nil)
		must(t, err)
		req.Host, req.Close = host, true
		resp, err := http.DefaultTransport.RoundTrip(req)
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("Host %s: %d, want %d", host, resp.StatusCode, want)
		}
	}
}

// TestCloseCutsWhoDoesNotRead closes a server while the client of a stream does
// not read, a session listens, and a callback hangs.
func TestCloseCutsWhoDoesNotRead(t *testing.T) {
	s, err := New(Options{BufferEvents: 1000})
	must(t, err)
	must(t, s.Start(t.Context()))
	conn, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(s.URL(), "http://"), "/mcp"))
	must(t, err)
	defer conn.Close()
	must(t, conn.(*net.TCPConn).SetReadBuffer(16<<10)) // only the server's side grows
	body := `{"jsonrpc":"2.0","id":1,"method":"events/stream","params":{"name":"tick","cursor":"cother-1"}}`
	large := `{"x":"` + strings.Repeat("x", 200_000) + `"}`
	for range 50 { // more than the socket's buffers hold
		publish(t, s, "tick", large)
	}
	fmt.Fprintf(
		conn,
		"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		len(body),
		body,
	)
	if _, err := conn.Read(make([]byte, 1)); err != nil { // the stream is open
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := s.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close: %v", err)
	}
	if n := s.counts.streams.Load(); n != 0 {
		t.Errorf("%d streams are open after Close", n)
	}
}

func ExampleServer() {
	s, err := New(Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	if err := s.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	id, err := s.Publish("tick", []byte(`{"n":1}`))
	fmt.Println(id, err, s.Stats().Events)
	fmt.Println(s.Close(ctx))
	// Output:
	// e-1 <nil> 1
	// <nil>
}
