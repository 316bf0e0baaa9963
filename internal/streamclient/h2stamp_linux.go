package streamclient

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxStampAge is how long bytes may have waited in the kernel. An older stamp is
// not used: the clock has probably been set.
const maxStampAge = 10 * time.Second

// h2Stamped returns a function that reads a bare TCP connection, with the kernel's
// receive time of the last segment in each read; nil if the connection has no
// receive times.
func h2Stamped(nc net.Conn, now func() int64) func([]byte) (int, Arrival, error) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	set := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	})
	if set != nil || err != nil {
		return nil
	}
	s := &h2Socket{raw: raw, now: now}
	s.once = s.receive
	return s.read
}

// h2Socket keeps what recvmsg needs, so that a read allocates nothing.
type h2Socket struct {
	raw  syscall.RawConn
	now  func() int64
	once func(fd uintptr) bool

	buf   []byte
	msg   unix.Msghdr
	iov   unix.Iovec
	oob   [64]byte
	n     int
	errno syscall.Errno
}

func (s *h2Socket) read(b []byte) (int, Arrival, error) {
	s.buf, s.n, s.errno = b, 0, 0
	err := s.raw.Read(s.once)
	at := Arrival{At: s.now()}
	s.buf = nil
	switch {
	case err != nil:
		return 0, at, err
	case s.errno != 0:
		return 0, at, os.NewSyscallError("recvmsg", s.errno)
	case s.n == 0:
		return 0, at, io.EOF
	}
	if stamp := s.stamp(); stamp != 0 {
		if age := time.Now().UnixNano() - stamp; age >= 0 && age < int64(maxStampAge) {
			at.Read = at.At
			at.At -= age
			at.Kernel = true
		}
	}
	return s.n, at, nil
}

// receive reads once; false if there is nothing to read.
func (s *h2Socket) receive(fd uintptr) bool {
	s.iov.Base = &s.buf[0]
	s.iov.SetLen(len(s.buf))
	s.msg = unix.Msghdr{Iov: &s.iov, Iovlen: 1, Control: &s.oob[0]}
	s.msg.SetControllen(len(s.oob))
	for {
		n, _, errno := unix.Syscall(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&s.msg)), 0)
		switch errno {
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return false
		}
		if s.errno = errno; errno == 0 {
			s.n = int(n)
		}
		return true
	}
}

// stamp returns the receive time of the last read, in nanoseconds since 1970, 0 if
// there is none.
func (s *h2Socket) stamp() int64 {
	var h unix.Cmsghdr
	body := unix.CmsgLen(0)
	if int(s.msg.Controllen) < body+16 {
		return 0
	}
	h = *(*unix.Cmsghdr)(unsafe.Pointer(&s.oob[0]))
	if h.Level != unix.SOL_SOCKET || h.Type != unix.SCM_TIMESTAMPNS || unsafe.Sizeof(unix.Timespec{}) != 16 {
		return 0
	}
	b := s.oob[body:]
	return int64(binary.NativeEndian.Uint64(b))*1e9 + int64(binary.NativeEndian.Uint64(b[8:]))
}
