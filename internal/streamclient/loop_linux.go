//go:build linux && (amd64 || arm64)

package streamclient

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// smallBuffer is the size of a loop's buffer, which its streams use in turn;
	// lentBuffer is its size once a stream has filled it.
	smallBuffer, lentBuffer = 16 << 10, 64 << 10
	// readsAtOnce bounds the reads of one stream before the others have their
	// turn.
	readsAtOnce = 4
	// eventsAtOnce is how many ready streams one call asks for.
	eventsAtOnce = 256

	wakeSlot = -1
)

// task is a request to a loop: to add a stream, to end one (err), to hold one
// (hold > 0), or to read a held one again (hold < 0).
type task struct {
	c    *conn
	err  error
	hold time.Duration
}

// loop serves a share of the streams on one goroutine.
//
// It waits in the scheduler's poller, so that it blocks no thread. If that poller
// watched the sockets, each arrival would wake a thread even while the loop is
// busy. So the poller watches a second epoll instance, wakeup,
// which watches the one with the sockets and is armed once whenever the loop goes
// to sleep.
//
// Sockets are watched edge-triggered: a read that does not fill the buffer has
// emptied the socket, and more bytes cause another event.
type loop struct {
	client *loops
	ep     int      // watches the sockets
	wakeup int      // watches ep
	file   *os.File // wakeup, for the scheduler's poller
	raw    syscall.RawConn
	wake   int // an eventfd
	ready  func(uintptr) bool

	mu     sync.Mutex
	tasks  []task
	asleep bool
	awake  bool // woken since it last slept
	ended  bool
	gone   bool // the loop has ended

	// Of the loop's goroutine.
	spare   []task
	n       int // events
	events  [eventsAtOnce]unix.EpollEvent
	in      receiver
	stamps  stamps
	conns   []*conn // by slot
	free    []int32
	turn    uint32
	more    []*conn // with bytes that are still to be read
	waiting []*conn // not yet connected, in order of their deadlines
	alarm   *time.Timer
	alarmed time.Time
	taken   int
	sent    int
	scratch []byte
}

func newLoop(p *loops) (*loop, error) {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(ep)
		return nil, os.NewSyscallError("eventfd", err)
	}
	l := &loop{client: p, ep: ep, wake: wake, stamps: stamps{now: p.opts.Now, wall: wallClock}}
	l.ready = func(uintptr) bool { return l.poll() != 0 || !l.arm(unix.EPOLL_CTL_MOD) }
	l.in.init(smallBuffer)
	l.alarm = time.AfterFunc(time.Hour, l.wakeUp)
	l.alarm.Stop()
	if err := l.openWakeup(); err != nil {
		unix.Close(ep)
		unix.Close(wake)
		return nil, fmt.Errorf("watch sockets: %w", err)
	}
	return l, nil
}

func (l *loop) openWakeup() error {
	if err := unix.EpollCtl(l.ep, unix.EPOLL_CTL_ADD, l.wake, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: wakeSlot}); err != nil {
		return os.NewSyscallError("epoll_ctl", err)
	}
	wakeup, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	l.wakeup = wakeup
	if err = unix.SetNonblock(wakeup, true); err == nil && !l.arm(unix.EPOLL_CTL_ADD) {
		err = unix.EINVAL
	}
	l.file = os.NewFile(uintptr(wakeup), "epoll")
	if err == nil {
		l.raw, err = l.file.SyscallConn()
	}
	if err != nil {
		l.file.Close()
	}
	return err
}

// arm makes wakeup report once that a stream is ready, immediately if one is.
func (l *loop) arm(op int) bool {
	return unix.EpollCtl(l.wakeup, op, l.ep, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT}) == nil
}

// disarm stops wakeup from reporting until it is armed again, by fetching what it
// has reported.
func (l *loop) disarm() {
	var one [1]unix.EpollEvent
	_, _ = unix.EpollWait(l.wakeup, one[:], 0)
}

// post gives the loop a task. A loop that has ended has already closed every sink.
func (l *loop) post(t task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone {
		return
	}
	l.tasks = append(l.tasks, t)
	l.wakeUpLocked()
}

// add adds a stream to the loop, or ends it if the loop has ended.
func (l *loop) add(c *conn) {
	l.mu.Lock()
	if !l.ended {
		l.tasks = append(l.tasks, task{c: c})
		l.wakeUpLocked()
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	if c.fd >= 0 {
		unix.Close(int(c.fd))
	}
	c.settled()
	c.sink.Closed(ErrClosed)
}

func (l *loop) wakeUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wakeUpLocked()
}

// wakeUpLocked wakes the loop if it sleeps. The caller holds the lock.
func (l *loop) wakeUpLocked() {
	l.awake = true
	if !l.asleep || l.gone {
		return
	}
	l.asleep = false
	_, _ = unix.Write(l.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
}

// close asks the loop to end.
func (l *loop) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.wakeUpLocked()
}

// poll finds out which streams are ready, without waiting.
func (l *loop) poll() int {
	for {
		n, err := unix.EpollWait(l.ep, l.events[:], 0)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			n = -1
		}
		l.n = n
		return n
	}
}

// run serves the streams until the loop is closed.
func (l *loop) run() {
	defer l.leave()
	for {
		if !l.settle() {
			return
		}
		switch l.poll() {
		case -1:
			return
		case 0:
			if len(l.more) == 0 && !l.sleep() {
				return
			}
		}
		l.batch()
	}
}

// sleep waits until a stream is ready or there is a task.
func (l *loop) sleep() bool {
	l.mu.Lock()
	if l.awake {
		l.awake = false
		l.mu.Unlock()
		return true
	}
	l.asleep = true
	l.mu.Unlock()
	err := l.raw.Read(l.ready)
	l.disarm()
	l.mu.Lock()
	l.asleep, l.awake = false, false
	l.mu.Unlock()
	return err == nil && l.n >= 0
}

// batch serves the streams that are ready.
func (l *loop) batch() {
	if l.client.opts.KernelTimestamps {
		l.stamps.update(l.client.opts.Now())
	}
	later := l.more
	l.more = nil
	for i := range l.events[:max(l.n, 0)] {
		e := &l.events[i]
		if e.Fd == wakeSlot {
			var b [8]byte
			_, _ = unix.Read(l.wake, b[:])
			continue
		}
		if c := l.conns[e.Fd]; c != nil && c.turn == uint32(e.Pad) {
			l.serve(c, e.Events)
		}
	}
	for _, c := range later {
		if !c.over {
			l.read(c, true)
		}
	}
	if l.taken > 0 {
		l.client.opts.Count.Taken(l.taken)
		l.taken = 0
	}
	if l.sent > 0 {
		l.client.opts.Count.Sent(l.sent)
		l.sent = 0
	}
}

// settle performs the tasks. It returns false when the loop is to end.
func (l *loop) settle() bool {
	l.mu.Lock()
	l.tasks, l.spare = l.spare[:0], l.tasks
	ended := l.ended
	l.mu.Unlock()
	for i, t := range l.spare {
		switch c := t.c; {
		case t.hold > 0:
			l.hold(c, t.hold)
		case t.hold < 0:
			l.release(c)
		case t.err == nil:
			l.admit(c)
		case c.over:
		case !c.known: // admit ends it
			if c.early == nil {
				c.early = t.err
			}
		case t.err != ErrClosed && c.opening == nil: // the context ended after the stream was open
		default:
			l.finish(c, t.err)
		}
		l.spare[i] = task{}
	}
	l.expire()
	return !ended
}

// leave ends every stream and releases what the loop holds.
func (l *loop) leave() {
	l.mu.Lock()
	l.ended, l.gone = true, true
	rest := l.tasks
	l.tasks = nil
	l.mu.Unlock()
	for _, t := range rest {
		if t.err == nil && t.hold == 0 {
			l.finish(t.c, ErrClosed)
		}
	}
	for _, c := range l.conns {
		if c != nil {
			l.finish(c, ErrClosed)
		}
	}
	l.alarm.Stop()
	l.file.Close()
	unix.Close(l.ep)
	unix.Close(l.wake)
}

// loops is a client of several loops. Each has an epoll instance, a share of the
// streams, and a buffer for the stream that it is reading.
type loops struct {
	opts           Options
	to             *resolver
	local4, local6 []netip.Addr
	nextIP         atomic.Uint32
	next           atomic.Uint32
	shards         []*loop
	life           context.Context
	end            context.CancelFunc
	work           sync.WaitGroup // loops and look-ups
	closing        sync.Mutex     // held while work may grow
	closed         bool
}

// receiver reads sockets into one buffer, with the kernel's receive times. It
// keeps what a call needs, so that reading allocates nothing.
type receiver struct {
	buf []byte
	msg unix.Msghdr
	iov unix.Iovec
	oob [8]uint64 // as bytes, and aligned as the kernel's structs are
}

// init gives r a new buffer of size bytes.
func (r *receiver) init(size int) {
	r.buf = make([]byte, size)
	r.iov.Base = &r.buf[0]
	r.iov.SetLen(size)
	r.msg.Iov = &r.iov
	r.msg.SetIovlen(1)
}

// recv reads once. stamp is the kernel's time of the last segment read, in
// nanoseconds since 1970, 0 if there is none. The socket does not block, so raw
// system calls, of which the scheduler does not know, hold nobody up.
func (r *receiver) recv(fd int32, stamped bool) (n int, stamp int64, errno unix.Errno) {
	if !stamped {
		got, _, e := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&r.buf[0])), uintptr(len(r.buf)))
		return int(got), 0, e
	}
	r.msg.Control = (*byte)(unsafe.Pointer(&r.oob))
	r.msg.SetControllen(int(unsafe.Sizeof(r.oob)))
	got, _, e := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&r.msg)), 0)
	if e != 0 {
		return 0, 0, e
	}
	return int(got), r.stamp(), 0
}

// stamp returns the time in the control message of SO_TIMESTAMPNS, 0 if there is none.
func (r *receiver) stamp() int64 {
	head := unix.CmsgLen(0)
	if int(r.msg.Controllen) < head+int(unsafe.Sizeof(unix.Timespec{})) {
		return 0
	}
	h := (*unix.Cmsghdr)(unsafe.Pointer(&r.oob))
	if h.Level != unix.SOL_SOCKET || h.Type != unix.SCM_TIMESTAMPNS {
		return 0
	}
	ts := (*unix.Timespec)(unsafe.Add(unsafe.Pointer(&r.oob), head))
	return ts.Nano()
}
