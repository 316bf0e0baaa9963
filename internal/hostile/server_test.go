//go:build linux

package hostile

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"
)

// exchange is one request and the connection for its answer.
type exchange struct {
	net.Conn
	method string // of JSON-RPC, or the path of another request
	id     string
	params struct {
		Cursor   json.RawMessage `json:"cursor"`
		Delivery struct {
			URL string `json:"url"`
		} `json:"delivery"`
	}
	done     <-chan struct{} // closed when the server closes
	again    bool            // every subscription of the row has been answered twice
	keepOpen bool            // the connection takes another request
}

// answerer answers one request. The connection is closed when it returns.
type answerer func(x *exchange)

// server is a tiny MCP server on bare sockets whose answers can be replaced one
// by one. It shares no code with the generator.
type server struct {
	t       *testing.T
	listen  net.Listener
	answers map[string]answerer
	h2      map[string]h2Answerer
	streams int          // of the row
	secure  bool         // over TLS
	publish net.Listener // receives the published events
	stall   string       // after the first request of this method, connections hang in the TLS handshake
	done    chan struct{}
	work    sync.WaitGroup

	mu           sync.Mutex
	taken        int
	conns        map[net.Conn]struct{}
	requestCount map[string]int // requests, by method
}

// start starts the server of a row. Requests without an answer in the row get
// the answer of a correct server.
func start(t *testing.T, r *row) *server {
	s := &server{
		t: t, answers: r.answers, h2: r.h2, streams: limit(r.streams, 20), secure: r.secure, stall: r.stall, done: make(chan struct{}),
		conns: map[net.Conn]struct{}{}, requestCount: map[string]int{},
	}
	for _, l := range []*net.Listener{&s.listen, &s.publish} {
		var err error
		if *l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	s.work.Go(func() { s.accept(s.listen) })
	s.work.Go(func() { s.accept(s.publish) })
	t.Cleanup(func() {
		close(s.done)
		_ = s.listen.Close()
		_ = s.publish.Close()
		s.mu.Lock()
		for c := range s.conns {
			_ = c.Close()
		}
		s.mu.Unlock()
		s.work.Wait()
	})
	return s
}

// certificate is that of all servers. The key of httptest takes long to sign with.
var certificate = sync.OnceValue(func() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	if err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
})

// target returns the server as the target of a profile.
func (s *server) target() string {
	if !s.secure {
		return fmt.Sprintf("{url: \"http://%s/mcp\"}", s.listen.Addr())
	}
	file := filepath.Join(s.t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate().Certificate[0]})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		s.t.Fatal(err)
	}
	return fmt.Sprintf("{url: \"https://%s/mcp\", caFile: %q}", s.listen.Addr(), file)
}

// publishURL is where the upstream publishes.
func (s *server) publishURL() string { return "http://" + s.publish.Addr().String() + "/publish" }

// requests returns the number of requests of a method.
func (s *server) requests(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requestCount[method]
}

func (s *server) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns[c] = struct{}{}
		s.taken++
		n := s.taken
		stalls := s.stall != "" && (s.stall == "none" || s.requestCount[s.stall] > 0)
		s.mu.Unlock()
		s.work.Go(func() {
			switch {
			case l == s.publish || !s.secure:
				s.serve(c)
			case stalls:
				stalledHandshake(n, c, s.done)
			default:
				s.serve(tls.Server(c, &tls.Config{Certificates: []tls.Certificate{certificate()}, NextProtos: []string{"h2", "http/1.1"}}))
			}
			_ = c.Close()
			s.mu.Lock()
			delete(s.conns, c)
			s.mu.Unlock()
		})
	}
}

// serve answers the requests of one connection, one after the other.
func (s *server) serve(c net.Conn) {
	r := bufio.NewReaderSize(c, 4<<10)
	if head, _ := r.Peek(3); string(head) == "PRI" {
		s.serveH2(c, r)
		return
	}
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		x := &exchange{Conn: c, method: req.URL.Path, done: s.done}
		x.read(body)
		if !s.answer(x) {
			return
		}
	}
}

// read reads a JSON-RPC request.
func (x *exchange) read(body []byte) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	if json.Unmarshal(body, &m) == nil && m.Method != "" {
		x.id, x.method = string(m.ID), m.Method
		_ = json.Unmarshal(m.Params, &x.params)
	}
}

// answer answers one request, and reports whether the connection stays open.
func (s *server) answer(x *exchange) bool {
	s.mu.Lock()
	s.requestCount[x.method]++
	x.again = s.requestCount[x.method] > 2*s.streams
	s.mu.Unlock()
	if a := s.answers[x.method]; a != nil {
		a(x)
		return x.keepOpen
	}
	if text := goodAnswer(x); text != "" {
		x.json(200, text)
		return true
	}
	switch x.method {
	case "events/stream":
		x.stream()
		x.hold()
	case "/publish":
		x.json(200, "{}")
		return true
	default:
		x.json(200, x.fail(-32601, "Method not found"))
		return true
	}
	return false
}

// goodAnswer is the JSON answer of a correct server; "" if it has none.
func goodAnswer(x *exchange) string {
	switch x.method {
	case "server/discover":
		return x.result(
			`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"events":{}},` +
				`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"hostile","version":"1"}}}`,
		)
	case "events/list":
		return x.result(`{"events":[` + eventType + `]}`)
	case "events/poll":
		return x.result(`{"events":[],"cursor":"c1","hasMore":false,"nextPollMs":200}`)
	case "events/subscribe":
		return x.result(grant(time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))
	case "events/unsubscribe":
		return x.result(`{}`)
	}
	return ""
}

const eventType = `{"name":"e","description":"d","delivery":["push","poll","webhook"]}`

func grant(refreshBefore string) string {
	return `{"id":"sub","refreshBefore":"` + refreshBefore + `","cursor":"c0"}`
}

func (x *exchange) result(result string) string {
	return `{"jsonrpc":"2.0","id":` + x.id + `,"result":` + result + `}`
}

// fail is an error whose message needs no escapes.
func (x *exchange) fail(code int, message string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"`, x.id, code) + message + `"}}`
}

// json answers with a JSON text.
func (x *exchange) json(status int, body string) {
	x.say(fmt.Sprintf("HTTP/1.1 %d Status\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", status, len(body)) + body)
}

// open begins an answer that ends with the connection.
func (x *exchange) open(status int, kind string, fields ...string) bool {
	head := fmt.Sprintf("HTTP/1.1 %d Status\r\nContent-Type: %s\r\nConnection: close\r\n", status, kind)
	for _, f := range fields {
		head += f + "\r\n"
	}
	return x.say(head + "\r\n")
}

// active is the message that confirms a stream.
func (x *exchange) active() string {
	return "data: " + x.notification("active", `"cursor":"c0"`) + "\n\n"
}

func (x *exchange) notification(kind, members string) string {
	return `{"jsonrpc":"2.0","method":"notifications/events/` + kind + `","params":{"requestId":` + x.id + `,` + members + `}}`
}

// stream opens an event stream and confirms it. It returns false if the client has
// gone, or had its attacks: a client that opens its stream again at once would be
// attacked for as long as its run lasts, which finds no more and keeps the processor
// busy.
func (x *exchange) stream() bool {
	if !x.open(200, "text/event-stream") || !x.say(x.active()) {
		return false
	}
	if x.again {
		x.hold()
	}
	return !x.again
}

// say writes text. It returns false if the client has gone.
func (x *exchange) say(text string) bool {
	// Written as it is, without a copy of a text that may have megabytes.
	return x.write(net.Buffers{unsafe.Slice(unsafe.StringData(text), len(text))})
}

// write writes pieces. It returns false if the client has gone.
func (x *exchange) write(pieces net.Buffers) bool {
	_, err := pieces.WriteTo(x.Conn)
	return err == nil
}

// flood writes the same bytes repeatedly, at most total bytes. It returns false
// if the client has gone.
func (x *exchange) flood(what string, total int) bool {
	piece := bytes.Repeat([]byte(what), max(1, 64<<10/len(what)))
	for total > 0 {
		var pieces net.Buffers // a megabyte in one system call
		for ; total > 0 && len(pieces) < 16; total -= len(piece) {
			pieces = append(pieces, piece[:min(len(piece), max(total/len(what), 1)*len(what))])
		}
		if !x.write(pieces) {
			return false
		}
	}
	return true
}

// drip writes in pieces of size bytes, with a pause after each.
func (x *exchange) drip(text string, size int, pause time.Duration) bool {
	for text != "" {
		n := min(size, len(text))
		if !x.say(text[:n]) {
			return false
		}
		text = text[n:]
		if pause > 0 && !x.pause(pause) {
			return false
		}
	}
	return true
}

// pause waits. It returns false if the test has ended.
func (x *exchange) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-x.done:
		return false
	}
}

// hold keeps the connection open until the client, or the test, ends it.
func (x *exchange) hold() { _, _ = io.Copy(io.Discard, x) }

// pad is a text of n bytes, at most 32 MiB.
func pad(n int) string { return padding[:n] }

var padding = strings.Repeat("x", 32*mib)
