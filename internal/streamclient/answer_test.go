package streamclient

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// keeper is a Sink that keeps what it is told.
type keeper struct {
	head   Head
	heads  int
	body   bytes.Buffer
	pieces []Arrival
	refuse error
}

func (k *keeper) Opened(h Head, at Arrival) error { k.head = h; k.heads++; return k.refuse }
func (k *keeper) Piece(b []byte, at Arrival) error {
	k.body.Write(b)
	k.pieces = append(k.pieces, at)
	return nil
}
func (k *keeper) Closed(error) {}

// take feeds text in pieces of n bytes; the end of the text is the end of the
// connection. nil means that the answer was whole.
func take(text []byte, n int) (*keeper, error) {
	k := &keeper{}
	var a answer
	for len(text) > 0 {
		n := min(n, len(text))
		if err := a.feed(text[:n], Arrival{At: 1}, k); err != nil {
			if err == errWhole {
				err = nil
			}
			return k, err
		}
		text = text[n:]
	}
	err := a.end()
	if err == io.EOF {
		err = nil
	}
	return k, err
}

func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		name, text, body string
		status           int
		err              error
	}{
		{"length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello and more", "hello", 200, nil},
		{"rest", "HTTP/1.1 200 OK\r\nA: b\r\n\r\nhello", "hello", 200, nil},
		{"old", "HTTP/1.0 200\nA: b\n\nhello", "", 0, nil}, // body below
		{"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n", "hello", 200, nil},
		{"upper case", "HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\nA \r\n0123456789\r\n00\r\n\r\n", "0123456789", 200, nil},
		{"trailer", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nA: b\r\nC: d\r\n\r\nrest", "x", 200, nil},
		{"coding over length", "HTTP/1.1 200 OK\r\nContent-Length: 99\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", "x", 200, nil},
		{"interim", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n" +
			"HTTP/1.1 429 No\r\nContent-Length: 0\r\n\r\n", "", 429, nil},
		{"no content", "HTTP/1.1 204 No\r\nContent-Length: 7\r\n\r\n", "", 204, nil},
		{"cut head", "HTTP/1.1 200 OK\r\nA: b\r\n", "", 0, io.ErrUnexpectedEOF},
		{"nothing", "", "", 0, io.ErrUnexpectedEOF},
		{"cut body", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", "hel", 200, io.ErrUnexpectedEOF},
		{"cut chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", "hel", 200, io.ErrUnexpectedEOF},
		{"cut before the last chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n", "hel", 200, io.ErrUnexpectedEOF},
		{"long chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhello\r\n", "hel", 200, ErrMalformed},
		{"bad size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\nhello\r\n", "", 200, ErrMalformed},
		{"huge size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("f", 16) + "\r\nhello\r\n", "", 200, ErrMalformed},
		{"bare LF", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\nx", "", 200, ErrMalformed},
		{"lengths", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", "", 0, ErrMalformed},
		{"negative", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "", 0, ErrMalformed},
		{"coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "", 0, ErrMalformed},
		{"not HTTP", "SSH-2.0-OpenSSH\r\n\r\n", "", 0, ErrMalformed},
		{"two", "HTTP/2.0 200 OK\r\n\r\n", "", 0, ErrMalformed},
		{"field", "HTTP/1.1 200 OK\r\nA b: c\r\n\r\n", "", 0, ErrMalformed},
		{"long head", "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("a", maxHead) + "\r\n\r\n", "", 0, ErrMalformed},
		{"long line", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;" + strings.Repeat("a", maxLine) + "\r\nx", "", 200, ErrMalformed},
		{"interim for ever", strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", maxInterim+1), "", 0, ErrMalformed},
	} {
		if c.name == "old" {
			c.text, c.body, c.status = "HTTP/1.0 200 OK\nTransfer-Encoding: chunked\n\nhello", "hello", 200
		}
		for _, n := range []int{1, 2, 7, 1 << 20} {
			k, err := take([]byte(c.text), n)
			if !errors.Is(err, c.err) || k.body.String() != c.body || k.head.Status != c.status {
				t.Errorf("%s by %d: %d, %q, %v", c.name, n, k.head.Status, k.body.String(), err)
			}
		}
	}
}

func TestHead(t *testing.T) {
	text := "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nX-A:1\r\nx-a: \t2 \r\n  and more\r\nTransfer-Encoding: chunked\r\n\r\n"
	k, _ := take([]byte(text), 5)
	want := http.Header{"Content-Type": {"text/event-stream"}, "X-A": {"1", "2 and more"}}
	if !maps.EqualFunc(k.head.Header, want, slices.Equal) || k.head.Proto != "HTTP/1.1" || k.head.Size != int64(len(text)) {
		t.Errorf("%+v", k.head)
	}
}

func TestChunksThatShareARead(t *testing.T) {
	head := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	k, _ := take([]byte(head+"1\r\na\r\n1\r\nb\r\n1\r\nc\r\n"), 1<<10)
	shared := []bool{}
	for _, p := range k.pieces {
		shared = append(shared, p.Shared)
	}
	if !slices.Equal(shared, []bool{true, true, false}) {
		t.Errorf("%v", shared)
	}
}

func TestSinkMayRefuse(t *testing.T) {
	k := &keeper{refuse: errors.New("no")}
	var a answer
	if err := a.feed([]byte("HTTP/1.1 200 OK\r\n\r\nx"), Arrival{}, k); err != k.refuse || k.body.Len() > 0 {
		t.Error(err)
	}
}

func TestChunksAllocateNothing(t *testing.T) {
	feed := chunks(t)
	if n := testing.AllocsPerRun(100, feed); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

func chunks(t testing.TB) func() {
	k := &counter{}
	var a answer
	must(t, a.feed([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), Arrival{}, k))
	text := []byte("172\r\n" + strings.Repeat("x", 0x172) + "\r\n")
	return func() {
		must(t, a.feed(text[:100], Arrival{}, k))
		must(t, a.feed(text[100:], Arrival{}, k))
	}
}

func BenchmarkChunk(b *testing.B) {
	feed := chunks(b)
	b.ReportAllocs()
	for b.Loop() {
		feed()
	}
}

// FuzzAnswer holds the parser to net/http, and to itself in other pieces.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nA: b\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\nA: b\n c\n\nhello",
		"HTTP/1.0 304 \r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
		"HTTP/1.1 204 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	} {
		f.Add([]byte(s), byte(3))
	}
	f.Fuzz(func(t *testing.T, text []byte, n byte) {
		k, err := take(text, 1<<20)
		again, err2 := take(text, int(n)+1)
		if (err == nil) != (err2 == nil) || k.head.Status != again.head.Status || k.body.String() != again.body.String() {
			t.Fatalf("in pieces of %d: %v and %v, %q and %q", n+1, err, err2, k.body.String(), again.body.String())
		}
		resp, body, oracle := read(text)
		switch {
		case k.head.Status == 101:
		case err == nil && oracle == nil:
			if resp.StatusCode != k.head.Status || string(body) != k.body.String() {
				t.Fatalf("%d %q, but net/http has %d %q", k.head.Status, k.body.String(), resp.StatusCode, body)
			}
			for _, vs := range resp.Header {
				for i := range vs {
					vs[i] = strings.TrimSpace(vs[i]) // which it does but for an empty line that goes on
				}
			}
			for _, h := range []http.Header{resp.Header, k.head.Header} {
				h.Del("Content-Length")
				h.Del("Cache-Control") // net/http adds it
				h.Del("Trailer")
			}
			if !maps.EqualFunc(resp.Header, k.head.Header, slices.Equal) {
				t.Fatalf("%v, but net/http has %v", k.head.Header, resp.Header)
			}
		case err == nil && !lax(text):
			t.Fatalf("taken, but net/http says %v", oracle)
		case oracle == nil && !strict(resp, text):
			t.Fatalf("%v, but net/http takes it", err)
		}
	})
}

// read is the oracle.
func read(text []byte) (*http.Response, []byte, error) {
	r := bufio.NewReader(bytes.NewReader(text))
	for range maxInterim + 1 {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			return nil, nil, err
		}
		if resp.StatusCode >= 100 && resp.StatusCode < 200 && resp.StatusCode != 101 {
			continue
		}
		body, err := io.ReadAll(resp.Body)
		return resp, body, err
	}
	return nil, nil, errors.New("too many")
}

// lax: where we take more. A trailer is passed over unread, and nobody needs to
// know the fields that Trailer promises.
func lax(text []byte) bool {
	return bytes.Contains(bytes.ToLower(text), []byte("chunked"))
}

// strict: where we take less than net/http does, and mean to.
func strict(resp *http.Response, text []byte) bool {
	if resp.ProtoMajor != 1 || resp.StatusCode < 100 || len(resp.Status) < 3 || strings.ContainsAny(resp.Status[:3], "+-") ||
		resp.StatusCode == 101 {
		return true
	}
	// Interim answers are held to the same rules; their fields are not at hand.
	return bytes.Count(text, []byte("HTTP/")) > 1 ||
		slices.ContainsFunc(slices.Collect(maps.Keys(resp.Header)), func(k string) bool { return !token([]byte(k)) })
}

// must ends the test if a step of it has failed.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
