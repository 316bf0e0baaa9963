package streamclient

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestHold: a stream that is held reads nothing, and then everything, in order, and
// says that it waited. The end of the stream comes after that. A hold that was over
// before the server wrote, on a busy machine, says nothing: a longer one is tried.
func TestHold(t *testing.T) {
	each(t, func(t *testing.T, open func(Options) Client) {
		for hold := 300 * time.Millisecond; !waitsFor(t, hold, open(Options{Addr: heldServer(t), Shards: 1})); hold *= 3 {
			if t.Failed() || hold > time.Minute {
				t.Fatalf("nothing waited for a hold of %v", hold)
			}
		}
	})
}

const heldChunk, heldChunks = 1 << 16, 128 // more than buffers of sockets hold

// heldServer says one thing on each stream, and much more when it is told to go on
// with the stream at /held, by a request of /goon.
func heldServer(t *testing.T) string {
	goOn := make(chan struct{})
	return listen(t, "tcp", "127.0.0.1:0", func(c net.Conn, r *bufio.Reader) {
		req, err := http.ReadRequest(r)
		if err != nil {
			t.Error(err)
			return
		}
		io.WriteString(c, streamHead+"5\r\nfirst\r\n")
		switch req.URL.Path {
		case "/held":
			<-goOn
			for i := range heldChunks {
				fmt.Fprintf(c, "%x\r\n%s\r\n", heldChunk, held(i))
			}
		case "/goon":
			defer close(goOn) // when this stream has ended
		}
		io.WriteString(c, "0\r\n\r\n")
	})
}

// held is the text of a chunk.
func held(i int) string {
	number := strconv.Itoa(i)
	return strings.Repeat("0", heldChunk-len(number)) + number
}

// waitsFor holds a stream, and reports whether what came then waited.
func waitsFor(t *testing.T, hold time.Duration, p Client) bool {
	t.Helper()
	w := watch(t)
	s := p.Open(t.Context(), Request{Method: "GET", Path: "/held"}, w)
	w.read("first")
	s.Hold(hold)
	s.Hold(time.Hour) // it is held already
	other := watch(t)
	p.Open(t.Context(), Request{Method: "GET", Path: "/goon"}, other) // a loop that has served this one knows of the hold
	if err := other.end(); err != io.EOF {
		t.Errorf("the other stream ended with %v", err)
	}
	if err := w.end(); err != io.EOF {
		t.Errorf("ended with %v", err)
	}
	var want strings.Builder
	want.WriteString("first")
	for i := range heldChunks {
		want.WriteString(held(i))
	}
	if w.body.String() != want.String() {
		t.Errorf("%d bytes of %d, or others", w.body.Len(), want.Len())
	}
	for _, at := range other.at {
		if at.Held {
			t.Errorf("the other stream was held: %+v", at)
		}
	}
	if w.at[0].Held || w.at[1].Held && w.at[1].Kernel {
		t.Errorf("%+v", w.at[:2])
	}
	return w.at[1].Held && !t.Failed()
}

// TestH2Hold: what comes within the window of a stream that is held is kept, and the
// window is not given back, while another stream of the connection goes on.
func TestH2Hold(t *testing.T) {
	const window, size = 64 << 10, 512 << 10
	goOn, written := make(chan struct{}), make(chan struct{})
	_, o := oracle(t, false, nil, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(200)
		http.NewResponseController(w).Flush()
		select {
		case <-goOn:
		case <-r.Context().Done():
		}
		io.WriteString(w, strings.Repeat(string(body), size))
		http.NewResponseController(w).Flush()
		if string(body) == "a" {
			close(written)
		}
	})
	p := startH2(t, o, func(l *h2Limits) { l.window = window })
	held, other := newHeard(), newHeard()
	s := p.Open(t.Context(), post("a"), held).(*h2Stream)
	p.Open(t.Context(), post("b"), other)
	held.opened(t)
	other.opened(t)
	s.Hold(time.Hour)
	close(goOn)
	other.until(t, "all of the other stream", func() bool { return len(other.body) == size })
	held.until(t, "nothing of the one that is held", func() bool { return len(held.body) == 0 })
	select {
	case <-written:
		t.Error("the server has written all in spite of the window")
	default:
	}
	s.release()
	held.until(t, "all of the one that was held", func() bool { return len(held.body) == size })
}
