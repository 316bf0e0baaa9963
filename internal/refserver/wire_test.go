package refserver

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/eventmeter/eventmeter/internal/refserver/faults"
)

// The files of testdata/wire are scripts of what goes over the wire, written
// by hand from the protocol's text. Each section is a step:
//
//	options        settings of the server, one a line
//	call           an HTTP request, sent byte for byte (Host and Content-Length are added)
//	answer         status, media type and body of the last call
//	begin NAME     a call whose answer is read later, by finish NAME
//	polls          so many polls wait for an event
//	hooks          so many webhook subscriptions are open
//	open NAME      a call whose answer is a stream
//	frames NAME    the next frames of that stream
//	blocks NAME    the next blocks of that stream with all their lines, --- between
//	ended NAME     the stream is over
//	inject         name and data of an event
//	admin          path and body of a post to the admin listener
//	receiver       how the webhook receiver answers next
//	posts          the next posts that it gets: header lines, an empty line, the body
//	close          the server is closed, while streams are open
//	restart        it ends, and another one with its options takes its place
//
// In expectations <name:kind> matches a value of that kind and binds it; the
// same name must match the same value ever after. In what is sent, <name> is
// replaced by what it was bound to, and <receiver> by the receiver's URL.
func TestWire(t *testing.T) {
	files, err := filepath.Glob("testdata/wire/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no wire files", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			must(t, err)
			runWire(t, archive)
		})
	}
}

type wire struct {
	opts     Options
	server   *Server
	receiver *receiver
	bound    map[string]string
	streams  map[string]*bufio.Reader
	begun    map[string]net.Conn
	last     *http.Response
	body     string
	closed   bool
}

func runWire(t *testing.T, archive *txtar.Archive) {
	w := &wire{receiver: newReceiver(t), bound: map[string]string{}, streams: map[string]*bufio.Reader{}, begun: map[string]net.Conn{}}
	w.bound["receiver"] = w.receiver.URL
	opts := Options{AllowPrivateCallbacks: true, CallbackRoots: w.receiver.roots, RetryBase: time.Millisecond, InFlight: 1}
	if archive.Files[0].Name == "options" {
		setOptions(t, &opts, string(archive.Files[0].Data))
		archive.Files = archive.Files[1:]
	}
	w.opts = opts
	w.start(t)
	defer func() {
		if !w.closed {
			closeServer(t, w.server)
		}
	}()
	for i, f := range archive.Files {
		kind, name, _ := strings.Cut(f.Name, " ")
		if !w.step(t, kind, name, strings.TrimRight(string(f.Data), "\n")) || t.Failed() {
			t.Fatalf("failed at step %d: %s", i+1, f.Name)
		}
	}
}

func (w *wire) start(t *testing.T) {
	s, err := New(w.opts)
	must(t, err)
	must(t, s.Start(t.Context()))
	w.server = s
}

func (w *wire) step(t *testing.T, kind, name, text string) bool {
	switch kind {
	case "begin":
		w.begun[name] = w.write(t, text)
		return true
	case "finish":
		w.read(t, w.begun[name])
		return w.answered(t) && w.step(t, "answer", "", text)
	case "hooks":
		for n, _ := strconv.Atoi(text); w.server.hooks.count() != n; {
			runtime.Gosched()
		}
		return true
	case "polls":
		for n, _ := strconv.ParseInt(text, 10, 64); w.server.counts.waiting.Load() != n; {
			runtime.Gosched()
		}
		return true
	case "call", "open":
		w.read(t, w.write(t, text))
		if kind == "open" {
			if got := w.last.Header.Get("Content-Type"); got != "text/event-stream" || w.last.StatusCode != 200 {
				body, _ := io.ReadAll(w.last.Body)
				t.Fatalf("not a stream: %d %s %s", w.last.StatusCode, got, body)
			}
			w.streams[name] = bufio.NewReader(w.last.Body)
			return true
		}
		return w.answered(t)
	case "answer":
		media := w.last.Header.Get("Content-Type")
		got := strings.TrimRight(fmt.Sprintf("%d %s\n%s", w.last.StatusCode, media, w.body), "\n")
		return w.match(t, text, got)
	case "frames":
		for want := range strings.SplitSeq(text, "\n") {
			if want != "" && !w.match(t, want, nextFrame(t, w.streams[name])) {
				return false
			}
		}
		return true
	case "blocks":
		return w.blocks(t, name, text)
	case "ended":
		rest, err := io.ReadAll(w.streams[name])
		return err == nil && w.match(t, "", string(rest))
	case "inject":
		event, data, _ := strings.Cut(w.fill(text), " ")
		publish(t, w.server, event, data)
		return true
	case "admin":
		return w.admin(t, text)
	case "receiver":
		return w.teach(t, text)
	case "posts":
		for want := range strings.SplitSeq(text, "\n---\n") {
			if !w.matchPost(t, want, w.receiver.next(t)) {
				return false
			}
		}
		return true
	case "restart":
		closeServer(t, w.server)
		w.start(t)
		return true
	case "close":
		w.closed = true
		closeServer(t, w.server)
		return true
	}
	t.Fatalf("no such step: %s", kind)
	return false
}

func (w *wire) admin(t *testing.T, text string) bool {
	path, body, _ := strings.Cut(w.fill(text), " ")
	resp, err := http.Post(w.server.AdminURL()+path, "application/json", strings.NewReader(body))
	must(t, err)
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	w.last = resp
	answer, err := io.ReadAll(resp.Body)
	w.body = string(answer)
	return err == nil && resp.StatusCode/100 == 2
}

func (w *wire) teach(t *testing.T, text string) bool {
	if text == "silent" {
		w.receiver.mu.Lock()
		defer w.receiver.mu.Unlock()
		w.receiver.silent = true
		return true
	}
	for field := range strings.FieldsSeq(text) {
		status, err := strconv.Atoi(field)
		must(t, err)
		w.receiver.answer(status)
	}
	return true
}

// answered reads the body of the last answer.
func (w *wire) answered(t *testing.T) bool {
	body, err := io.ReadAll(w.last.Body)
	must(t, err)
	w.body = string(body)
	return true
}

// write writes a request on a connection of its own.
func (w *wire) write(t *testing.T, text string) net.Conn {
	head, body, _ := strings.Cut(w.fill(text), "\n\n")
	line, fields, _ := strings.Cut(head, "\n")
	host := strings.TrimSuffix(strings.TrimPrefix(w.server.URL(), "http://"), "/mcp")
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s HTTP/1.1\r\nHost: %s\r\n", line, host)
	if fields != "" {
		b.WriteString(strings.ReplaceAll(fields, "\n", "\r\n") + "\r\n")
	}
	fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(body), body)
	conn, err := net.Dial("tcp", host)
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	must(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	if _, err := conn.Write(b.Bytes()); err != nil {
		t.Fatal(err)
	}
	return conn
}

// read reads the head of the answer on a connection.
func (w *wire) read(t *testing.T, conn net.Conn) {
	var err error
	if w.last, err = http.ReadResponse(bufio.NewReader(conn), nil); err != nil {
		t.Fatal(err)
	}
	if id := w.last.Header.Get("Mcp-Session-Id"); id != "" {
		w.bound["session"] = id
	}
}

// nextFrame reads the next frame with data. Its other lines may only be an
// explicit default, a position to resume from, or a comment.
func nextFrame(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	found := ""
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("reading a frame: %v (got %q)", err, line)
		}
		data, is := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "data: ")
		switch {
		case is && found == "":
			found = data
		case line == "\n" && found != "":
			return found
		case line == "\n", line == "event: message\n", line == "data:\n", strings.HasPrefix(line, "id: "), strings.HasPrefix(line, ":"):
		default:
			t.Fatalf("in a frame: %q", line)
		}
	}
}

// matchPost compares the given header lines and the body.
func (w *wire) matchPost(t *testing.T, want string, got received) bool {
	head, body, _ := strings.Cut(strings.TrimSpace(want), "\n\n")
	for line := range strings.SplitSeq(head, "\n") {
		key, value, _ := strings.Cut(line, ": ")
		if !w.match(t, value, got.header.Get(key)) {
			t.Logf("in header %s", key)
			return false
		}
	}
	return w.match(t, body, string(got.body))
}

var (
	placeholder = regexp.MustCompile(`<([a-z0-9]+)(?::([a-z]+))?>`)
	valueKinds  = map[string]string{
		"cursor": `c[0-9a-z]+-[0-9]+`,
		"event":  `e-[0-9]+`,
		"time":   `[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z`,
		"unix":   `[0-9]{10}`,
		"sub":    `sub_[0-9a-f]{24}`,
		"random": `[A-Za-z0-9]+`,
		"sig":    `v1,[A-Za-z0-9+/]{43}=`,
		"place":  `c[0-9a-z]+(?:-[0-9]+)+`,
		"whsec":  `[A-Za-z0-9+/]+=*`,
		"hex":    `[0-9a-f]{64}`,
		"any":    `.*`,
	}
)

// match compares a text with a pattern and binds the pattern's names.
func (w *wire) match(t *testing.T, pattern, got string) bool {
	t.Helper()
	var expr strings.Builder
	var names []string
	rest := pattern
	expr.WriteString(`(?s)^`)
	for {
		loc := placeholder.FindStringSubmatchIndex(rest)
		if loc == nil {
			break
		}
		expr.WriteString(regexp.QuoteMeta(rest[:loc[0]]))
		name := rest[loc[2]:loc[3]]
		if value, ok := w.bound[name]; ok {
			expr.WriteString(regexp.QuoteMeta(value))
		} else {
			kind := valueKinds[rest[max(loc[4], 0):max(loc[5], 0)]]
			if kind == "" {
				t.Fatalf("unbound %s in %q", name, pattern)
			}
			expr.WriteString("(" + kind + ")")
			names = append(names, name)
		}
		rest = rest[loc[1]:]
	}
	expr.WriteString(regexp.QuoteMeta(rest) + `$`)
	found := regexp.MustCompile(expr.String()).FindStringSubmatch(got)
	if found == nil {
		t.Errorf("\nwant %s\ngot  %s\nwith %v", pattern, got, w.bound)
		return false
	}
	for i, name := range names {
		if name != "any" {
			w.bound[name] = found[i+1]
		}
	}
	return true
}

func (w *wire) fill(text string) string {
	return placeholder.ReplaceAllStringFunc(text, func(p string) string {
		if value, ok := w.bound[strings.Trim(p, "<>")]; ok {
			return value
		}
		return p
	})
}

func setOptions(t *testing.T, o *Options, text string) {
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		name, value, _ := strings.Cut(line, " ")
		number, _ := strconv.Atoi(value) // 0 for kinds other than numbers
		length, _ := time.ParseDuration(value)
		switch name {
		case "Tokens":
			o.Tokens = strings.Fields(value)
		case "MaxSubscriptions":
			o.MaxSubscriptions = number
		case "BufferEvents":
			o.BufferEvents = number
		case "RetryMax":
			o.RetryMax = number
		case "Faults":
			var err error
			if o.Faults, err = faults.Parse(value); err != nil {
				t.Fatal(err)
			}
		case "State":
			o.State = filepath.Join(t.TempDir(), value)
		case "AllowList":
			o.Proof, o.CallbackHosts = ProofAllowList, strings.Fields(value)
		case "ResumeAny":
			o.ResumeAny = length
		case "DropAfter":
			o.DropAfter = length
		case "Presence":
			o.Presence = value == "true"
		case "Revision":
			o.Revision = value
		case "WebhookID":
			o.WebhookID = value
		case "TypesPage":
			o.TypesPage = number
		case "NextPoll":
			o.NextPoll = length
		case "Heartbeat":
			o.Heartbeat = length
		case "TTLMin":
			o.TTLMin = length
		case "ResumeOverlap":
			o.ResumeOverlap = length
		case "ListEntries":
			o.Lists.Entries = number
		case "ListPage":
			o.Lists.Page = number
		case "ListTTL":
			o.Lists.TTL = length
		case "ListManner":
			o.Lists.Private, o.Lists.Older, o.Lists.Strict = value == "private", value == "older", value == "strict"
			o.Lists.NoHints = value == "nohints"
		case "SSEAnswers":
			o.SSEAnswers = value == "true"
		case "PublicOnly":
			o.AllowPrivateCallbacks = false
		default:
			t.Fatalf("no such option: %s", name)
		}
	}
}
