package systemstest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"golang.org/x/tools/txtar"
)

// asServer makes the test binary a server that plays the file that it names.
const asServer = "EVENTMETER_TEST_STDIO_SERVER"

// A stdio file is a conversation over a pipe, written by hand. lane, told and
// figures are as in wire files. request is a line that the client must write,
// answer has the lines that the server then writes (<CR> stands for a carriage
// return), exit is the status with which the server ends after it has written the
// rest of the section to standard error. pipe has the counts of lines at the end.
//
// serveFile plays the server's side, and returns the exit status: 9 if the
// client wrote something else.
func serveFile(name string) int {
	archive, err := txtar.ParseFile(name)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 9
	}
	var cfg laneFile
	in := bufio.NewReader(os.Stdin)
	for _, f := range archive.Files {
		text := strings.TrimSuffix(string(f.Data), "\n")
		switch f.Name {
		case "lane":
			if err := json.Unmarshal(f.Data, &cfg); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 9
			}
			if !greet(in, cfg.Era) {
				return 9
			}
		case "request":
			got, err := in.ReadString('\n')
			if got = strings.TrimSuffix(got, "\n"); err != nil || got != text {
				fmt.Fprintf(os.Stderr, "got %q (%v), want %q\n", got, err, text)
				return 9
			}
		case "answer":
			fmt.Print(strings.ReplaceAll(text, "<CR>", "\r"), "\n")
		case "exit":
			status, words, _ := strings.Cut(text, " ")
			fmt.Fprintln(os.Stderr, words)
			code, _ := strconv.Atoi(status)
			return code
		}
	}
	for { // until the client closes its end
		if _, err := in.ReadString('\n'); err != nil {
			return 0
		}
	}
}

// greet answers the handshake.
func greet(in *bufio.Reader, era mcpclient.Era) bool {
	for {
		line, err := in.ReadBytes('\n')
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if err != nil || json.Unmarshal(line, &m) != nil {
			fmt.Fprintf(os.Stderr, "no handshake: %q, %v\n", line, err)
			return false
		}
		switch {
		case m.Method == "server/discover" && era != mcpclient.Legacy:
			fmt.Printf(
				`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],`+
					`"capabilities":{"events":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"script",`+
					`"version":"1"}}}}`+"\n",
				m.ID,
			)
			return true
		case m.Method == "server/discover":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`+"\n", m.ID)
		case m.Method == "initialize":
			fmt.Printf(
				`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"events":{}},`+
					`"serverInfo":{"name":"script","version":"1"}}}`+"\n",
				m.ID,
			)
		case m.Method == "notifications/initialized":
			return true
		}
	}
}

// Scripted is an endpoint whose server plays a file.
func Scripted(t *testing.T, file string) mcpclient.EndpointOptions {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if file, err = filepath.Abs(file); err != nil {
		t.Fatal(err)
	}
	return mcpclient.EndpointOptions{
		Command: []string{self},
		Env:     []string{asServer + "=" + file, "GORACE=" + os.Getenv("GORACE") + " atexit_sleep_ms=0"},
	}
}

// PlayStdioFiles plays every stdio file that a pattern matches.
func PlayStdioFiles(t *testing.T, pattern string) { eachFile(t, pattern, playStdio) }

func playStdio(t *testing.T, name string, archive *txtar.Archive) {
	var told, pipe string
	p := &play{t: t}
	for _, f := range archive.Files {
		switch f.Name {
		case "lane":
			decodeStrictly(t, f.Data, &p.cfg)
		case "told":
			told = string(f.Data)
		case "pipe":
			pipe = strings.TrimSpace(string(f.Data))
		}
	}
	e := Scripted(t, name)
	e.Revision, e.Era = p.cfg.Revision, p.cfg.Era
	o := p.options()
	declare(t, &e, &o)
	told = strings.ReplaceAll(told, "<self>", e.Command[0])
	ep, err := mcpclient.NewEndpoint(e)
	if err != nil {
		t.Fatal(err)
	}
	rec := NewMemory()
	o.Clock, o.Recorder, o.Endpoint, o.Subscriptions = eventmeter.NewClock(), rec, ep, 1
	d, err := systems.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	p.attach(ctx, d)
	p.end(ctx, d, rec, told)
	if err := d.Close(ctx); err != nil {
		t.Errorf("closing the lane: %v", err)
	}
	status := ep.Err()
	if err := ep.Close(ctx); err != nil { // it has read everything then
		t.Errorf("closing the endpoint: %v", err)
	}
	if status != nil && !strings.Contains(told, "server ended") {
		t.Errorf("the server: %v", status)
	}
	s, _ := ep.Pipe()
	if text := pipeText(s); text != pipe {
		t.Errorf("the pipe: %s, want %s; %s", text, pipe, s.Stderr)
	}
	balanced(t, s, d.(driver.Meter).Traffic())
}

// shortened cuts long reasons where the recorder cuts them.
func shortened(text string) (lines []string) {
	for l := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		if i := strings.Index(l, " ended: exit"); i > 0 { // paths differ
			l = l[:strings.Index(l, "the server ")] + "the server" + l[i:]
		}
		lines = append(lines, l)
	}
	return lines
}

func pipeText(s mcpclient.PipeStats) string {
	text := fmt.Sprintf("lines %d", s.Lines)
	for _, x := range []struct {
		name string
		n    int64
	}{{"late", s.Late}, {"unknown", s.Unknown}, {"unaddressed", s.Unaddressed}, {"requests", s.Requests}, {"malformed",
		s.Malformed}, {"too long", s.TooLong}} {
		if x.n > 0 {
			text += fmt.Sprintf(" %s %d", x.name, x.n)
		}
	}
	return text
}

// balanced checks that every byte belongs to a lane or to the handshake.
func balanced(t *testing.T, s mcpclient.PipeStats, lanes ...mcpclient.Traffic) {
	t.Helper()
	up, down := s.HandshakeUp, s.HandshakeDown
	for _, l := range lanes {
		up, down = up+l.Up, down+l.Down
	}
	if down != s.Routed {
		t.Errorf("%d bytes were routed, lanes and handshakes have %d", s.Routed, down)
	}
	if up > s.Up {
		t.Errorf("%d bytes were written, lanes and handshakes have %d", s.Up, up)
	}
	if s.Requests == 0 && up != s.Up {
		t.Errorf("%d bytes were written, lanes and handshakes have %d", s.Up, up)
	}
	if s.Late+s.Unknown+s.Unaddressed+s.Requests+s.Malformed+s.TooLong == 0 && s.Routed != s.Down {
		t.Errorf("%d bytes of %d were routed", s.Routed, s.Down)
	}
}
