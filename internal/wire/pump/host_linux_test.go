package pump

import (
	"errors"
	"fmt"
	"net"
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
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	sa, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
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
	each(t, func(t *testing.T, open func(Options) Pump) {
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
