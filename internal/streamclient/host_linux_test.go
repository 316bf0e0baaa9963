package streamclient

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
	"time"
)

const kernelHasLoopbackNet = true

// full is a listener that accepts nothing and whose queue is full, so that a
// connection to it is never made.
func full(t *testing.T) string {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Skip(err)
	}
	f := os.NewFile(uintptr(fd), "listener")
	t.Cleanup(func() { f.Close() })
	must(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	must(t, syscall.Listen(fd, 0))
	sa, err := syscall.Getsockname(fd)
	must(t, err)
	addr := fmt.Sprintf("127.0.0.1:%d", sa.(*syscall.SockaddrInet4).Port)
	for range 8 {
		c, err := net.DialTimeout("tcp", addr, 50*time.Millisecond)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { c.Close() })
	}
	t.Skip("the queue of a listener has no end here")
	return ""
}

func TestConnectTimeout(t *testing.T) {
	addr := full(t)
	each(t, func(t *testing.T, open func(Options) Client) {
		p := open(Options{Addr: addr, ConnectTimeout: 20 * time.Millisecond, Shards: 1})
		one, two := watch(t), watch(t)
		p.Open(t.Context(), get, one)
		p.Open(t.Context(), get, two)
		for _, w := range []*watcher{one, two} {
			if err := w.end(); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error(err)
			}
		}
	})
}

// openFiles is how many files this process has open.
func openFiles() int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	return len(list)
}

// TestKernelTimes looks that a piece that lay in the socket is placed where it
// came, not where it was read.
func TestKernelTimes(t *testing.T) {
	const lay = 300 * time.Millisecond
	said := make(chan int64, 2)
	start := time.Now()
	now := func() int64 { return int64(time.Since(start)) + 1 }
	busy, free := make(chan struct{}), make(chan struct{})
	addr := listen(t, "tcp", "127.0.0.1:0", func(c net.Conn, r *bufio.Reader) {
		http.ReadRequest(r)
		io.WriteString(c, streamHead+"1\r\na\r\n")
		<-busy // the loop is held up by the first piece
		said <- now()
		io.WriteString(c, "1\r\nb\r\n")
		said <- now()
		<-free
	})
	p, err := New(Options{Addr: addr, Now: now, KernelTimestamps: true, Shards: 1})
	must(t, err)
	defer p.Close()
	defer close(free)
	var from, to int64
	var got []Arrival
	done := make(chan struct{})
	p.Open(t.Context(), get, &taker{func(at Arrival) {
		got = append(got, at)
		if len(got) == 1 {
			close(busy)
			from, to = <-said, <-said
			time.Sleep(lay) // what is tested is a wait
		} else {
			close(done)
		}
	}})
	<-done
	at := got[1]
	if !at.Kernel || !got[0].Kernel {
		t.Skipf("the kernel gave no times: %+v", got)
	}
	slack := early
	if at.At < from-slack || at.At > to+slack || at.Read-at.At < int64(lay)-slack || at.Shared {
		t.Errorf("%+v, but it was written from %d to %d", at, from, to)
	}
}

type taker struct{ piece func(Arrival) }

func (*taker) Opened(Head, Arrival) error         { return nil }
func (k *taker) Piece(_ []byte, at Arrival) error { k.piece(at); return nil }
func (*taker) Closed(error)                       {}

// TestNoFilesLeft opens streams while the process may open no more files.
func TestNoFilesLeft(t *testing.T) {
	addr := listen(t, "tcp", "127.0.0.1:0", func(c net.Conn, r *bufio.Reader) {})
	p, err := New(Options{Addr: addr})
	must(t, err)
	defer p.Close()
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Skip(err)
	}
	none := was
	none.Cur = 3
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		t.Skip(err)
	}
	w := watch(t)
	p.Open(t.Context(), get, w)
	err = w.end()
	if rerr := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); rerr != nil {
		t.Fatal(rerr)
	}
	if !errors.Is(err, syscall.EMFILE) {
		t.Error(err)
	}
}
