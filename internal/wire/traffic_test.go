package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
)

func TestTraffic(t *testing.T) {
	var tr Traffic
	near, far := net.Pipe()
	dial := tr.Dial(func(context.Context, string, string) (net.Conn, error) { return near, nil })
	c, err := dial(t.Context(), "tcp", "x")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		io.CopyN(io.Discard, far, 3)
		far.Write([]byte("hello"))
		far.Close()
	}()
	c.Write([]byte("abc"))
	io.ReadAll(c)
	c.Close()
	if tr.Up() != 3 || tr.Down() != 5 || tr.Opened() != 1 {
		t.Errorf("up %d down %d opened %d", tr.Up(), tr.Down(), tr.Opened())
	}
	if a, b := tr.TakeOpened(), tr.TakeOpened(); a != 1 || b != 0 {
		t.Errorf("charged %d and %d", a, b)
	}
	failed := tr.Dial(func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no") })
	if _, err := failed(t.Context(), "tcp", "x"); err == nil || tr.Opened() != 1 {
		t.Error("a connection that failed was counted")
	}
}
