package selfbench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter/internal/wire"
)

// senders is the number of connections that a sender delivers on.
const senders = 32

// sender sends signed events to webhook subscriptions over TLS connections that
// it keeps open, as fast as they are answered and with as little work as
// possible. It implements just enough of the protocol to accept subscriptions.
type sender struct {
	jobs   chan job
	work   sync.WaitGroup
	events atomic.Int64
	failed atomic.Int64

	mu   sync.Mutex
	subs map[string]subscriber // by URL
}

type subscriber struct {
	host, path string
	key        *wire.Key
	id         string
}

type job struct {
	to   subscriber
	id   string
	body []byte
}

func serveSender(ctx context.Context, _ spec, l *link) error {
	s := &sender{jobs: make(chan job, 4*senders), subs: map[string]subscriber{}}
	for range senders {
		s.work.Go(func() { s.send() })
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /mcp", s.answer)
	mux.HandleFunc("POST /inject", s.inject)
	err := serveHandler(ctx, l, mux, func() *served { return &served{Failed: s.failed.Load()} })
	close(s.jobs) // every handler has returned
	s.work.Wait()
	return err
}

// answer answers one JSON-RPC request.
func (s *sender) answer(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Delivery struct{ URL, Secret string } `json:"delivery"`
		} `json:"params"`
	}
	status, text := http.StatusOK, ""
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil || m.ID == nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	switch m.Method {
	case "server/discover":
		text = `"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"experimental":{"events":{}}},"serverInfo":{"name":"sender","version":"0.1"},"ttlMs":3600000,"cacheScope":"public"}`
	case "events/subscribe":
		id, err := s.subscribe(m.Params.Delivery.URL, m.Params.Delivery.Secret)
		if err != nil {
			text = `"error":{"code":-32602,"message":"Invalid params"}`
			break
		}
		text = `"result":{"resultType":"complete","id":"` + id + `","refreshBefore":"` + time.Now().
			Add(time.Hour).
			UTC().
			Format(time.RFC3339) +
			`","cursor":null,"truncated":false}`
	case "events/unsubscribe":
		s.mu.Lock()
		delete(s.subs, m.Params.Delivery.URL)
		s.mu.Unlock()
		text = `"result":{"resultType":"complete"}`
	default:
		status, text = http.StatusNotFound, `"error":{"code":-32601,"message":"Method not found"}`
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,`+text+`}`)
}

func (s *sender) subscribe(address, secret string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	key, err := wire.ParseSecret(secret)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id := "sub-" + strconv.Itoa(len(s.subs))
	s.subs[address] = subscriber{host: u.Host, path: u.Path, key: key, id: id}
	return id, nil
}

// inject delivers an event to all subscriptions. It answers when all deliveries
// are queued, so that events are posted no faster than they are delivered.
func (s *sender) inject(w http.ResponseWriter, r *http.Request) {
	in, err := readInjected(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	subs := make([]subscriber, 0, len(s.subs))
	for _, v := range s.subs {
		subs = append(subs, v)
	}
	s.mu.Unlock()
	id := "e-" + strconv.FormatInt(s.events.Add(1), 10)
	head := `{"eventId":"` + id + `","name":"` + in.Name + `","timestamp":"` + time.Now().
		UTC().
		Format("2006-01-02T15:04:05.000Z") +
		`","cursor":null,"data":` + string(
		in.Data,
	) + `,"pad":"`
	body := []byte(head + strings.Repeat("x", max(0, frameSize-len(head)-2)) + `"}`)
	for _, to := range subs {
		s.jobs <- job{to: to, id: id, body: body}
	}
	w.WriteHeader(http.StatusAccepted)
}

// send delivers on one connection at a time.
func (s *sender) send() {
	var c *hookConn
	for j := range s.jobs {
		if c == nil || c.host != j.to.host {
			c.close()
			var err error
			if c, err = dialHook(j.to.host); err != nil {
				s.failed.Add(1)
				continue
			}
		}
		if err := c.deliver(j); err != nil {
			s.failed.Add(1)
			c.close()
			c = nil
		}
	}
	c.close()
}

// hookConn is an open connection to a receiver.
type hookConn struct {
	host string
	conn net.Conn
	in   *bufio.Reader
	out  []byte
}

func dialHook(host string) (*hookConn, error) {
	// The receiver has just made its own certificate.
	d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}}
	conn, err := d.DialContext(context.Background(), "tcp", host)
	if err != nil {
		return nil, err
	}
	return &hookConn{host: host, conn: conn, in: bufio.NewReader(conn)}, nil
}

// close ends the connection, if there is one.
func (c *hookConn) close() {
	if c != nil {
		c.conn.Close()
	}
}

// deliver posts one event and reads the response, whose status must be 200.
func (c *hookConn) deliver(j job) error {
	now := time.Now()
	b := c.out[:0]
	b = append(b, "POST "...)
	b = append(b, j.to.path...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, j.to.host...)
	b = append(b, "\r\nContent-Type: application/json\r\nwebhook-id: "...)
	b = append(b, j.id...)
	b = append(b, "\r\nwebhook-timestamp: "...)
	b = strconv.AppendInt(b, now.Unix(), 10)
	b = append(b, "\r\nwebhook-signature: "...)
	b = append(b, j.to.key.Sign(j.id, now, j.body)...)
	b = append(b, "\r\nX-MCP-Subscription-Id: "...)
	b = append(b, j.to.id...)
	b = append(b, "\r\nContent-Length: "...)
	b = strconv.AppendInt(b, int64(len(j.body)), 10)
	b = append(b, "\r\n\r\n"...)
	b = append(b, j.body...)
	c.out = b
	if _, err := c.conn.Write(b); err != nil {
		return err
	}
	return c.answered()
}

var lengthField = []byte("content-length:")

func (c *hookConn) answered() error {
	first, length := true, 0
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		switch {
		case first && !bytes.HasPrefix(line, []byte("HTTP/1.1 200")):
			return fmt.Errorf("answered %q", bytes.TrimSpace(line))
		case len(line) == 2:
			if length < 0 {
				return errors.New("answered without a length")
			}
			_, err := c.in.Discard(length)
			return err
		case len(line) > len(lengthField) && bytes.EqualFold(line[:len(lengthField)], lengthField):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(line[len(lengthField):]))); err != nil {
				return err
			}
		}
		first = false
	}
}
