//go:build linux && (amd64 || arm64)

package streamclient

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/eventmeter/eventmeter/internal/crash"
)

// conn is one stream. It belongs to its loop once it was added.
type conn struct {
	loop *loop
	sink Sink
	answer
	opening *opening // nil once the head was read
	early   error    // why it was ended before the loop knew it
	fd      int32
	slot    int32  // -1 = none
	turn    uint32 // of the slot
	known   bool   // to the loop
	over    bool
	held    bool // nothing is read, see Hold
	late    bool // the bytes that are read next waited because of Hold
}

// opening is what a stream needs until it is open.
type opening struct {
	req       Request
	addrs     []netip.AddrPort // not yet tried
	to        netip.AddrPort
	rest      []byte // of the request, not yet sent
	connected bool
	sent      bool
	deadline  time.Time
	stop      func() bool // stops watching the context; may be nil
	err       error       // why no connect could be begun
}

// Close implements Stream.
func (c *conn) Close() { c.loop.post(task{c: c, err: ErrClosed}) }

// Hold implements Stream.
func (c *conn) Hold(d time.Duration) { c.loop.post(task{c: c, hold: d}) }

// hold stops reading a stream for a while.
func (l *loop) hold(c *conn, d time.Duration) {
	if c.held || c.over || !c.known {
		return
	}
	c.held = true
	time.AfterFunc(d, func() {
		defer crash.Guard()
		l.post(task{c: c, hold: -1})
	})
}

// release reads a held stream again.
func (l *loop) release(c *conn) {
	if c.over {
		return
	}
	c.held, c.late = false, true
	l.more = append(l.more, c)
}

// settled releases what was needed to open the stream.
func (c *conn) settled() {
	if c.opening != nil && c.opening.stop != nil {
		c.opening.stop()
	}
	c.opening = nil
}

// admit adds a new stream.
func (l *loop) admit(c *conn) {
	c.known = true
	switch {
	case c.early != nil:
		l.finish(c, c.early)
	case c.fd < 0:
		l.finish(c, c.opening.err)
	case l.watch(c):
		l.waiting = append(l.waiting, c)
	}
}

// watch adds a stream's socket to the poller. If that fails, it ends the stream.
func (l *loop) watch(c *conn) bool {
	if n := len(l.free); n > 0 {
		c.slot, l.free = l.free[n-1], l.free[:n-1]
	} else {
		c.slot = int32(len(l.conns))
		l.conns = append(l.conns, nil)
	}
	l.turn++
	c.turn = l.turn
	l.conns[c.slot] = c
	err := unix.EpollCtl(l.ep, unix.EPOLL_CTL_ADD, int(c.fd), &unix.EpollEvent{
		Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET, Fd: c.slot, Pad: int32(c.turn),
	})
	if err != nil {
		l.finish(c, fmt.Errorf("watch the socket to %s: %w", c.opening.to, os.NewSyscallError("epoll_ctl", err)))
	}
	return err == nil
}

// hangUp closes a stream's socket without waiting for unsent bytes.
func (l *loop) hangUp(c *conn) {
	if c.slot >= 0 {
		l.conns[c.slot] = nil
		l.free = append(l.free, c.slot)
		c.slot = -1
	}
	if c.fd >= 0 {
		unix.Close(int(c.fd))
		c.fd = -1
	}
}

// finish ends a stream and calls Closed of its sink.
func (l *loop) finish(c *conn, err error) {
	l.hangUp(c)
	c.settled()
	c.drop()
	c.over = true
	c.sink.Closed(err)
}

// expire ends streams that could not be connected in time.
func (l *loop) expire() {
	if len(l.waiting) == 0 {
		return
	}
	now := time.Now()
	done := 0
	for _, c := range l.waiting {
		if c.over || c.opening == nil || c.opening.connected {
			done++
			continue
		}
		if c.opening.deadline.After(now) {
			break
		}
		done++
		l.finish(c, fmt.Errorf("connect to %s: %w", c.opening.to, os.ErrDeadlineExceeded))
	}
	clear(l.waiting[:done])
	if l.waiting = l.waiting[done:]; len(l.waiting) == 0 {
		l.waiting = nil
		return
	}
	if due := l.waiting[0].opening.deadline; due != l.alarmed {
		l.alarmed = due
		l.alarm.Reset(due.Sub(now))
	}
}

// serve handles the events of a stream's socket.
func (l *loop) serve(c *conn, events uint32) {
	if o := c.opening; o != nil && !o.connected && !l.connected(c, events) {
		return
	}
	hung := events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0
	if o := c.opening; o != nil && !o.sent && !l.send(c) {
		hung = true // the server may have answered all the same
	}
	if hung || events&unix.EPOLLIN != 0 {
		l.read(c, hung)
	}
}

// connected finds out whether a connection was established. If not, it tries the
// next address.
func (l *loop) connected(c *conn, events uint32) bool {
	if events&(unix.EPOLLOUT|unix.EPOLLERR|unix.EPOLLHUP) == 0 {
		return false
	}
	o := c.opening
	err := connected(int(c.fd))
	if err == nil {
		o.connected = true
		l.client.opts.Count.Opened()
		return true
	}
	l.hangUp(c)
	o.err = fmt.Errorf("connect to %s: %w", o.to, err)
	if l.attempt(c); c.fd < 0 {
		l.finish(c, o.err)
	} else {
		l.watch(c)
	}
	return false
}

// send writes as much of the request as the socket accepts. It returns false when
// the connection accepts no more bytes at all.
func (l *loop) send(c *conn) bool {
	o := c.opening
	b := o.rest
	if b == nil {
		l.scratch = appendRequest(l.scratch[:0], &o.req, l.client.opts.Host)
		b = l.scratch
	}
	for len(b) > 0 {
		n, err := unix.Write(int(c.fd), b)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			o.rest = append([]byte(nil), b...)
			return true
		case err != nil:
			o.sent, o.rest, o.req = true, nil, Request{}
			return false
		default:
			l.sent += n
			b = b[n:]
		}
	}
	o.sent, o.rest, o.req = true, nil, Request{}
	return true
}

// read reads what the socket holds. With all, it goes on after a read that does
// not fill the buffer: the server has hung up, and the end of the stream causes no
// further edge.
func (l *loop) read(c *conn, all bool) {
	if c.held {
		return
	}
	for range readsAtOnce {
		n, stamp, errno := l.in.recv(c.fd, l.client.opts.KernelTimestamps)
		switch {
		case errno == unix.EINTR:
			continue
		case errno == unix.EAGAIN:
			c.late = false
			return
		case errno != 0:
			l.finish(c, fmt.Errorf("read: %w", os.NewSyscallError("read", errno)))
			return
		case n == 0:
			l.finish(c, c.end())
			return
		}
		l.taken += n
		at := Arrival{At: l.client.opts.Now(), Held: true}
		if !c.late {
			at = l.arrival(n, stamp)
		}
		err := c.feed(l.in.buf[:n], at, c.sink)
		if c.opened() {
			c.settled()
		}
		switch {
		case err == errWhole:
			l.finish(c, io.EOF)
			return
		case err != nil:
			l.finish(c, err)
			return
		case n == len(l.in.buf) && n < lentBuffer:
			l.in.init(lentBuffer)
		case n < len(l.in.buf) && !all:
			return
		}
	}
	l.more = append(l.more, c)
}

// arrival returns the Arrival of n bytes that were just read.
func (l *loop) arrival(n int, stamp int64) Arrival {
	a := Arrival{At: l.client.opts.Now(), Shared: n == len(l.in.buf)}
	if stamp != 0 {
		a.Read = a.At
		a.At, a.Kernel = l.stamps.at(stamp, a.Read)
	}
	return a
}
