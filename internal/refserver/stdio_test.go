package refserver

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
)

// The files of testdata/stdio are handwritten scripts of a conversation over
// standard input and output. options, inject, admin, posts and close work as in
// wire files, and so do expectations. send holds lines that the client writes,
// lines the next lines of the server, oversize a line that is too long. streams
// and polls wait until that many are open or waiting. eof ends the input: no
// further line may come.
func TestStdioFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/stdio/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no stdio files", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			must(t, err)
			runStdio(t, archive)
		})
	}
}

// stdioClient is the client of a server on standard input and output.
type stdioClient struct {
	wire
	in     *io.PipeWriter
	lines  *bufio.Reader
	served chan error
}

func newStdioClient(t *testing.T, opts Options) *stdioClient {
	c := &stdioClient{wire: wire{receiver: newReceiver(t), bound: map[string]string{}}, served: make(chan error, 1)}
	c.bound["receiver"] = c.receiver.URL
	opts.Stdio, opts.AllowPrivateCallbacks, opts.CallbackRoots = true, true, c.receiver.roots
	s, err := New(opts)
	must(t, err)
	must(t, s.Start(t.Context()))
	if s.URL() != "" {
		t.Errorf("it listens at %s", s.URL())
	}
	c.server = s
	in, inWriter := io.Pipe()
	out, outWriter := io.Pipe()
	c.in, c.lines = inWriter, bufio.NewReader(out)
	go func() {
		c.served <- s.ServeStdio(context.WithoutCancel(t.Context()), in, outWriter)
		outWriter.Close()
	}()
	t.Cleanup(func() {
		inWriter.Close()
		go func() { _, _ = io.Copy(io.Discard, c.lines) }()
		closeServer(t, s)
	})
	return c
}

func runStdio(t *testing.T, archive *txtar.Archive) {
	opts := Options{RetryBase: time.Millisecond}
	if archive.Files[0].Name == "options" {
		setOptions(t, &opts, string(archive.Files[0].Data))
		archive.Files = archive.Files[1:]
	}
	c := newStdioClient(t, opts)
	for i, f := range archive.Files {
		if !c.play(t, f.Name, strings.TrimSuffix(string(f.Data), "\n")) || t.Failed() {
			t.Fatalf("failed at step %d: %s", i+1, f.Name)
		}
	}
}

func (c *stdioClient) play(t *testing.T, kind, text string) bool {
	switch kind {
	case "send":
		c.send(t, c.fill(text)+"\n")
	case "oversize":
		c.send(t, strings.Repeat("x", maxBody+1)+"\n")
	case "lines":
		for want := range strings.SplitSeq(text, "\n") {
			if !c.match(t, want, c.next(t)) {
				return false
			}
		}
	case "lines in any order":
		var got []string
		want := strings.Split(text, "\n")
		for range want {
			got = append(got, c.next(t))
		}
		slices.Sort(got)
		slices.Sort(want)
		return c.match(t, strings.Join(want, "\n"), strings.Join(got, "\n"))
	case "streams", "polls":
		n, _ := strconv.ParseInt(text, 10, 64)
		for have := int64(-1); have != n; runtime.Gosched() {
			if have = c.server.counts.streams.Load(); kind == "polls" {
				have = c.server.counts.waiting.Load()
			}
		}
	case "eof":
		c.in.Close()
		return c.over(t)
	case "close":
		go closeServer(t, c.server)
	default:
		return c.step(t, kind, "", text)
	}
	return true
}

// over waits until ServeStdio returns; it may write nothing more.
func (c *stdioClient) over(t *testing.T) bool {
	rest, err := io.ReadAll(c.lines)
	if err != nil || len(rest) > 0 {
		t.Errorf("after the end: %q, %v", rest, err)
	}
	if err := <-c.served; err != nil {
		t.Error(err)
	}
	return true
}

func (c *stdioClient) send(t *testing.T, text string) {
	if _, err := io.WriteString(c.in, text); err != nil {
		t.Fatal(err)
	}
}

func (c *stdioClient) next(t *testing.T) string {
	line, err := c.lines.ReadString('\n')
	if err != nil {
		t.Fatalf("reading a line: %v (got %q)", err, line)
	}
	return strings.TrimSuffix(line, "\n")
}

// A client that closes its end at once still gets its answers.
func TestStdioAnswersBeforeItEnds(t *testing.T) {
	c := newStdioClient(t, Options{})
	const n = 20
	for i := range n {
		c.send(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"events/poll","params":{"name":"tick"}}`+"\n", i+1))
	}
	c.in.Close()
	for range n {
		if line := c.next(t); !strings.Contains(line, `"result"`) {
			t.Errorf("%s", line)
		}
	}
	c.over(t)
}

// ServeStdio ends when its client is gone.
func TestStdioClientGone(t *testing.T) {
	s := startServer(t, Options{Stdio: true})
	in, write := io.Pipe()
	out, outWriter := io.Pipe()
	out.Close()
	go func() {
		_, _ = io.WriteString(write, `{"jsonrpc":"2.0","id":1,"method":"events/stream","params":{"name":"tick"}}`+"\n")
	}()
	if err := s.ServeStdio(t.Context(), in, outWriter); err == nil || !strings.Contains(err.Error(), "closed pipe") {
		t.Errorf("%v", err)
	}
	write.Close()
}

func TestStdioOptions(t *testing.T) {
	if _, err := New(Options{Stdio: true, TLS: true}); err == nil {
		t.Error("TLS is taken")
	}
}
