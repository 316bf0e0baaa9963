//go:build unix

package refserver

import (
	"net"
	"syscall"
	"testing"
)

// sendBuffer is the size of the send buffer of a connection that was accepted with a
// wish for one.
func sendBuffer(t *testing.T, wish int) (size int) {
	t.Helper()
	s := startServer(t, Options{SendBuffer: wish})
	if s.control.buffer != 0 {
		t.Errorf("the admin listener asks for %d", s.control.buffer)
	}
	in, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	l := &listener{Listener: in, buffer: s.mcp.buffer}
	defer l.Close()
	out, err := net.Dial("tcp", l.Addr().String())
	must(t, err)
	defer out.Close()
	conn, err := l.Accept()
	must(t, err)
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	must(t, err)
	var failed error
	if err := raw.Control(func(fd uintptr) {
		size, failed = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF)
	}); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	return size
}

// The kernel may double what it is asked for.
func TestSendBuffer(t *testing.T) {
	const wish = 8 << 10
	if with, without := sendBuffer(t, wish), sendBuffer(t, 0); with < wish || with > 2*wish || with >= without {
		t.Errorf("%d bytes with a wish for %d, %d without one", with, wish, without)
	}
}
