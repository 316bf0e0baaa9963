//go:build linux

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/sinks"
)

// callers is the reference client of polls and of refreshes: one epoll loop over open connections, a
// fixed request with the cursor of the last response, and a scan of responses for the beginning of
// probe ids. Calls are due at an even rate, each subscription's once in an interval.
type callers struct {
	base
	every  time.Duration
	calls  []call
	conns  map[int]*callConn // by file descriptor
	idle   []int             // those that wait for no response
	loop   *loop
	hook   *sinks.Listener // of webhook subscriptions
	opened atomic.Int64    // responses with a result
	failed atomic.Int64
	out    []byte
	buf    []byte
	work   sync.WaitGroup
	over   atomic.Bool
}

// call is the request of one poller or subscription.
type call struct {
	head, before, cursor, after string

	waiting bool // for a response
}

// callConn is a connection.
type callConn struct {
	in   []byte // of a response that is not complete
	call *call  // that waits for a response; nil = none
}

func newPollers(s spec, _ *eventmeter.Clock) (client, error) {
	return newCallers(s, s.PollEvery)
}

// newHooks makes webhook subscriptions. Deliveries go to a listener as the generator's, with a handler
// that reads the body and answers 200.
func newHooks(s spec, _ *eventmeter.Clock) (client, error) {
	c, err := newCallers(s, time.Duration(refreshedAt*float64(s.TTL)))
	if err == nil {
		c.hook, err = sinks.Listen(sinks.ListenerOptions{Handler: http.HandlerFunc(c.deliver)})
	}
	return c, err
}

func newCallers(s spec, every time.Duration) (*callers, error) {
	l, err := newLoop()
	return &callers{base: base{spec: s}, every: every, conns: map[int]*callConn{}, loop: l, buf: make([]byte, 64<<10)}, err
}

func (c *callers) deliver(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err == nil && bytes.Contains(body, []byte(probe)) {
		c.seen.Add(1)
	}
	w.WriteHeader(http.StatusOK)
}

// open connects and makes every call once, as fast as the target answers.
func (c *callers) open(ctx context.Context) error {
	u, err := url.Parse(c.spec.URL)
	if err != nil {
		return err
	}
	secret := wire.FormatSecret(make([]byte, 32))
	for i := range c.spec.Streams {
		method, params := "events/poll", ""
		if c.hook != nil {
			method = "events/subscribe"
			params = fmt.Sprintf(`"delivery":{"mode":"webhook","url":%q,"secret":%q},"ttlMs":%d,`,
				c.hook.URL("/h/"+strconv.Itoa(i)), secret, c.spec.TTL.Milliseconds())
		}
		one := call{head: requestHead(u, method), cursor: "null"}
		one.before, one.after = callOf(method, params)
		c.calls = append(c.calls, one)
	}
	for range min(cmp.Or(c.spec.Conns, opening), c.spec.Streams) {
		fd, err := dial(u.Host)
		if err != nil {
			return err
		}
		c.idle, c.conns[fd] = append(c.idle, fd), &callConn{}
		if err := c.loop.add(fd); err != nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
	}
	c.work.Go(c.run)
	return c.confirm(ctx, &c.opened)
}

// run makes the calls that are due until the client is closed: each at once, then at an even rate.
func (c *callers) run() {
	n := len(c.calls)
	began := time.Now()
	due := func(i int) time.Duration {
		return time.Until(began.Add(time.Duration(float64(c.every) * float64(i) / float64(n))))
	}
	for next := 0; !c.over.Load(); {
		if next == n {
			began = time.Now().Add(-c.every) // when the first of the calls at an even rate is due
		}
		for ; len(c.idle) > 0 && (next < n || due(next) <= 0); next++ {
			c.send(&c.calls[next%n])
		}
		c.loop.each(min(1000, max(1, int(due(next)/time.Millisecond)+1)), func(fd int) {
			if err := c.receive(fd); err != nil {
				c.failed.Add(1)
				_ = unix.EpollCtl(c.loop.fd, unix.EPOLL_CTL_DEL, fd, nil) // it is never idle again
			}
		})
	}
}

// send makes a call on an idle connection, unless its last one has no response yet.
func (c *callers) send(one *call) {
	if one.waiting {
		return
	}
	last := len(c.idle) - 1
	fd := c.idle[last]
	c.idle = c.idle[:last]
	b := append(c.out[:0], one.head...)
	b = strconv.AppendInt(b, int64(len(one.before)+len(one.cursor)+len(one.after)), 10)
	b = append(b, "\r\n\r\n"...)
	b = append(append(append(b, one.before...), one.cursor...), one.after...)
	c.out = b
	one.waiting, c.conns[fd].call = true, one
	if _, err := unix.Write(fd, b); err != nil { // into an empty socket
		c.failed.Add(1)
	}
}

// receive reads what has arrived of a response, and takes it when it is complete.
func (c *callers) receive(fd int) error {
	n, err := unix.Read(fd, c.buf)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return nil
	}
	if err != nil || n <= 0 {
		return errors.Join(err, io.ErrUnexpectedEOF)
	}
	conn, text := c.conns[fd], c.buf[:n]
	if len(conn.in) > 0 {
		text = append(conn.in, text...)
	}
	body, length, err := bodyOf(text)
	if err != nil {
		return err
	}
	if length < 0 || len(body) < length {
		conn.in = append(conn.in[:0], text...)
		return nil
	}
	one := conn.call
	conn.in, conn.call, c.idle = nil, nil, append(c.idle, fd)
	c.take(one, text, body)
	return nil
}

// take reads a response.
func (c *callers) take(one *call, text, body []byte) {
	if one != nil {
		one.waiting = false
	}
	if one == nil || !bytes.HasPrefix(text, []byte("HTTP/1.1 200")) || !bytes.Contains(body, []byte(`"result"`)) {
		c.failed.Add(1)
		return
	}
	c.opened.Add(1)
	if c.hook != nil {
		return
	}
	if seen := bytes.Count(body, []byte(probe)); seen > 0 {
		c.seen.Add(int64(seen))
	}
	const key = `"cursor":`
	if at := bytes.LastIndex(body, []byte(key)); at >= 0 {
		cursor := body[at+len(key):]
		if end := bytes.IndexAny(cursor, ",}"); end > 0 && string(cursor[:end]) != one.cursor {
			one.cursor = string(cursor[:end])
		}
	}
}

// bodyOf is the body of a response and its full length; -1 = the head is not complete.
func bodyOf(text []byte) (body []byte, length int, err error) {
	head, body, ok := bytes.Cut(text, []byte("\r\n\r\n"))
	if !ok {
		return nil, -1, nil
	}
	const key = "Content-Length: "
	at := bytes.Index(head, []byte(key))
	if at < 0 {
		return nil, 0, fmt.Errorf("a response without a length: %s", head)
	}
	for _, digit := range head[at+len(key):] {
		if digit < '0' || digit > '9' {
			break
		}
		length = 10*length + int(digit-'0')
	}
	return body, length, nil
}

func (c *callers) finish(o *outcome) {
	o.Values["connections"] = float64(len(c.conns))
	o.Values["failed"] = float64(c.failed.Load())
}

func (c *callers) close(ctx context.Context) error {
	c.over.Store(true)
	c.work.Wait()
	c.loop.close()
	if c.hook != nil {
		return c.hook.Close(ctx)
	}
	return nil
}
