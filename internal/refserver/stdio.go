package refserver

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter/internal/crash"
	framing "github.com/eventmeter/eventmeter/internal/wire"
)

// stdioPrincipal is the principal of a client on standard input without tokens:
// the program that started this one.
const stdioPrincipal = "stdio"

// stdioServer serves one client over a pair of streams. Each line is a message,
// and all answers and streams share the output. It passes every message to the
// handler of HTTP requests.
type stdioServer struct {
	handler http.Handler
	token   string
	out     lineWriter
	life    context.Context
	work    sync.WaitGroup

	mu      sync.Mutex
	open    map[string]*stdioWriter // by the JSON-RPC id as received
	session string                  // of the legacy era
	version string                  // of the legacy era
}

// ServeStdio serves one client that writes newline-delimited messages to in and
// reads from out, until in or ctx ends. It returns when all requests are done.
// Requests are served concurrently. ServeStdio needs [Options.Stdio] and a
// started server, and is called once. The client is one principal: the first of
// [Options.Tokens], or "stdio".
//
// A blocked read of in is not interrupted when ctx ends.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := &stdioServer{
		handler: s.requests.counted(s.withStall(s.handler)), token: stdioPrincipal, life: ctx, open: map[string]*stdioWriter{},
		out: lineWriter{to: out, broken: cancel},
	}
	p.out.space = sync.NewCond(&p.out.mu)
	if len(s.opts.Tokens) > 0 {
		p.token = s.opts.Tokens[0]
	}
	ended := make(chan error, 1)
	lines := make(chan framing.Line)
	go func() {
		defer crash.Guard()
		ended <- readLines(ctx, in, lines)
	}() // ends with in
	var err error
	for reading := true; reading; {
		select {
		case l := <-lines:
			p.message(l)
		case err = <-ended:
			reading = false
		case <-ctx.Done():
			reading = false
		case <-s.closing:
			reading = false
		}
	}
	p.finish(s.closing, cancel)
	if err == nil {
		err = p.out.failure()
	}
	if err != nil {
		return fmt.Errorf("target: stdio: %w", err)
	}
	return nil
}

// finish waits for the open requests. If the server closes, streams end with
// their results. Otherwise requests may still be answered: a client may send a
// few requests and close its end before it reads the answers.
func (p *stdioServer) finish(closing <-chan struct{}, cancel context.CancelFunc) {
	done := make(chan struct{})
	go func() {
		defer crash.Guard()
		defer close(done)
		p.work.Wait()
	}()
	select {
	case <-closing:
	case <-done:
	case <-time.After(answerGrace):
		cancel()
	case <-p.life.Done():
	}
	<-done
}

// answerGrace is how long requests may take after the input has ended.
const answerGrace = 500 * time.Millisecond

// readLines sends a copy of each line until in ends.
func readLines(ctx context.Context, in io.Reader, lines chan<- framing.Line) error {
	parser := framing.LineParser{Limit: maxBody}
	emit := func(l framing.Line) {
		l.Data = bytes.Clone(l.Data)
		select {
		case lines <- l:
		case <-ctx.Done():
		}
	}
	buf := make([]byte, 64<<10)
	for ctx.Err() == nil {
		n, err := in.Read(buf)
		parser.Feed(buf[:n], emit)
		if err != nil {
			parser.End(emit)
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
	return nil
}

// message starts to serve one message.
func (p *stdioServer) message(l framing.Line) {
	var e envelope
	switch {
	case l.TooLong:
		p.refuse(nil, codeInvalidRequest, fmt.Sprintf("the message exceeds %d bytes", maxBody))
		return
	case len(bytes.TrimSpace(l.Data)) == 0:
		return
	case json.Unmarshal(l.Data, &e) != nil:
		p.refuse(nil, codeParse, "Parse error")
		return
	}
	if e.Method == "notifications/cancelled" {
		p.cancel(e.Params)
	}
	ctx, cancel := context.WithCancel(p.life)
	w := &stdioWriter{server: p, id: e.ID, cancel: cancel, header: http.Header{}}
	r := p.request(ctx, e, l.Data)
	if e.Method != "" && validID(e.ID) {
		p.mu.Lock()
		_, duplicate := p.open[string(e.ID)]
		if !duplicate {
			p.open[string(e.ID)] = w
		}
		p.mu.Unlock()
		if duplicate {
			cancel()
			p.refuse(e.ID, codeInvalidRequest, "a request with this id is under way")
			return
		}
	}
	serve := func() {
		defer cancel()
		p.handler.ServeHTTP(w, r)
		w.finish()
		p.noteSession(e, w)
	}
	// A message that changes the session must be done before the next one is
	// read; no other message may block the reader.
	if e.Method == "initialize" || e.Method == "notifications/initialized" {
		serve()
		return
	}
	p.work.Go(crash.Guarded(serve))
}

// request turns a message into the HTTP request that the handler expects.
func (p *stdioServer) request(ctx context.Context, e envelope, body []byte) *http.Request {
	p.mu.Lock()
	session, version := p.session, p.version
	p.mu.Unlock()
	if claimed := requestMeta(e.Params); claimed != "" {
		session, version = "", claimed
	}
	r := p.newRequest(ctx, http.MethodPost, body, session, version)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if version >= modernVersion {
		r.Header.Set(headerMethod, e.Method)
		if name := nameHeader(e); name != "" {
			r.Header.Set(headerName, name)
		}
	}
	return r
}

// newRequest makes a request of this client. An empty session or version has no header.
func (p *stdioServer) newRequest(ctx context.Context, method string, body []byte, session, version string) *http.Request {
	r, err := http.NewRequestWithContext(ctx, method, "http://localhost/mcp", bytes.NewReader(body))
	if err != nil { // cannot fail: the URL is constant
		panic(err)
	}
	r.RequestURI = "/mcp"
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Authorization", "Bearer "+p.token)
	for name, value := range map[string]string{headerSession: session, headerVersion: version} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	return r
}

// nameHeader returns the value of the Mcp-Name header of a request.
func nameHeader(e envelope) string {
	var p struct{ Name, URI string }
	switch e.Method {
	case "tools/call", "prompts/get", "resources/read":
	default:
		return ""
	}
	_ = json.Unmarshal(e.Params, &p) // invalid params are reported later
	name := p.Name
	if e.Method == "resources/read" {
		name = p.URI
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(name)) + "?="
	}
	return name
}

// noteSession keeps the session that an initialize opened, and opens its stream
// when the client is initialized.
func (p *stdioServer) noteSession(e envelope, w *stdioWriter) {
	switch e.Method {
	case "initialize":
		var answer struct {
			Result struct{ ProtocolVersion string }
		}
		_ = json.Unmarshal(w.body.Bytes(), &answer) // an error has no version
		p.mu.Lock()
		defer p.mu.Unlock()
		p.session, p.version = w.header.Get(headerSession), answer.Result.ProtocolVersion
	case "notifications/initialized":
		p.mu.Lock()
		session, version := p.session, p.version
		p.mu.Unlock()
		if session == "" {
			return
		}
		ctx, cancel := context.WithCancel(p.life)
		r := p.newRequest(ctx, http.MethodGet, nil, session, version)
		stream := &stdioWriter{server: p, cancel: cancel, header: http.Header{}}
		p.work.Go(func() {
			defer crash.Guard()
			defer cancel()
			p.handler.ServeHTTP(stream, r)
		})
	}
}

// cancel ends the request that a notification names. The request gets no
// answer.
func (p *stdioServer) cancel(params json.RawMessage) {
	var c struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	if json.Unmarshal(params, &c) != nil {
		return
	}
	p.mu.Lock()
	w := p.open[string(c.RequestID)]
	p.mu.Unlock()
	if w != nil {
		w.mute()
		w.cancel()
	}
}

// refuse answers a message that is not served.
func (p *stdioServer) refuse(id json.RawMessage, code int, message string) {
	line := append(encodeRPCError(id, &rpcError{Code: code, Message: message}), '\n')
	_ = p.out.write(line) // a client that is gone ends ServeStdio
}

// maxPending bounds the bytes that wait to be written; writers block at the
// bound. A slow client so holds back all of its streams together.
const maxPending = 1 << 20

// lineWriter is the output to the client. A caller that finds no write in
// progress writes for all, so that many small messages make few system calls.
type lineWriter struct {
	to     io.Writer
	broken context.CancelFunc // called when the client is gone

	mu      sync.Mutex
	space   *sync.Cond
	waiting []byte
	spare   []byte
	writing bool
	err     error
}

// write sends whole lines. It does not keep b. It returns when the lines were
// written, or when another caller is about to write them.
func (o *lineWriter) write(b []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.err == nil && o.writing && len(o.waiting)+len(b) > maxPending && len(o.waiting) > 0 {
		o.space.Wait()
	}
	if o.err != nil {
		return o.err
	}
	o.waiting = append(o.waiting, b...)
	if o.writing {
		return nil
	}
	o.writing = true
	for len(o.waiting) > 0 && o.err == nil {
		batch := o.waiting
		o.waiting, o.spare = o.spare[:0], nil
		o.mu.Unlock()
		_, err := o.to.Write(batch)
		o.mu.Lock()
		o.spare = batch
		if cap(batch) > maxPending {
			o.spare = nil
		}
		if err != nil {
			o.err = err
			o.broken()
		}
		o.space.Broadcast()
	}
	o.writing = false
	return o.err
}

func (o *lineWriter) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// stdioWriter is an [http.ResponseWriter] that turns an answer into lines: one
// for a JSON body, or one for each event of an event stream. One goroutine at a
// time uses it, except for mute.
type stdioWriter struct {
	server *stdioServer
	id     []byte // of the request; nil = none
	cancel context.CancelFunc
	header http.Header
	status int
	stream bool
	body   bytes.Buffer
	parser framing.EventParser
	lines  []byte // scratch

	mu       sync.Mutex
	muted    bool // the request was cancelled
	answered bool
}

// mute discards all further output.
func (w *stdioWriter) mute() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.muted = true
}

// Header implements [http.ResponseWriter].
func (w *stdioWriter) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter].
func (w *stdioWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
		w.stream = strings.HasPrefix(w.header.Get("Content-Type"), "text/event-stream")
	}
}

// Write implements [http.ResponseWriter].
func (w *stdioWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if !w.stream {
		return w.body.Write(b)
	}
	w.lines = w.lines[:0]
	if err := w.parser.Feed(b, w.event); err != nil {
		return 0, err
	}
	if err := w.send(); err != nil {
		return 0, err
	}
	if cap(w.lines) > 64<<10 {
		w.lines = nil
	}
	return len(b), nil
}

// Flush implements [http.Flusher]. It does nothing: no output is held back.
func (w *stdioWriter) Flush() {}

// event appends a line for an event of the stream.
func (w *stdioWriter) event(e framing.Event) {
	if len(e.Data) == 0 {
		return // a comment: stdio needs no keep-alive
	}
	if !bytes.HasPrefix(e.Data, []byte(`{"jsonrpc":"2.0","method":`)) {
		var m framing.Message
		w.answered = w.answered || framing.ScanMessage(e.Data, &m) && (m.HasResult || m.HasError)
	}
	from := len(w.lines)
	w.lines = append(w.lines, e.Data...)
	for i, c := range w.lines[from:] {
		if c == '\n' || c == '\r' { // between tokens: the data is JSON
			w.lines[from+i] = ' '
		}
	}
	w.lines = append(w.lines, '\n')
}

// send writes the lines, unless the request was cancelled. It writes under the
// lock, so that nothing follows a cancellation.
func (w *stdioWriter) send() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.muted {
		return context.Canceled
	}
	if len(w.lines) == 0 {
		return nil
	}
	return w.server.out.write(w.lines)
}

// finish sends the rest when the handler is done: a JSON body, an error in
// place of an HTTP refusal, or an error if a stream broke off.
func (w *stdioWriter) finish() {
	request := validID(w.id)
	if request {
		w.server.mu.Lock()
		if w.server.open[string(w.id)] == w {
			delete(w.server.open, string(w.id))
		}
		w.server.mu.Unlock()
	}
	w.lines = w.lines[:0]
	isJSON := strings.HasPrefix(w.header.Get("Content-Type"), "application/json")
	switch {
	case !w.stream && isJSON && w.body.Len() > 0:
		w.event(framing.Event{Data: w.body.Bytes()})
	case !request || w.answered || w.server.life.Err() != nil:
	case w.stream:
		w.fail(codeInternal, "the stream broke off")
	default:
		text := strings.TrimSpace(w.body.String())
		if text == "" {
			text = fmt.Sprintf("refused with HTTP status %d", w.status)
		}
		w.fail(codeInvalidRequest, text)
	}
	_ = w.send() // the client may be gone, or may have cancelled
}

func (w *stdioWriter) fail(code int, text string) {
	w.lines = append(append(w.lines, encodeRPCError(w.id, &rpcError{Code: code, Message: text})...), '\n')
}
