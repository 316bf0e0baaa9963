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

// stdioPrincipal is who calls over standard input where no tokens are set: the
// program that started this one.
const stdioPrincipal = "stdio"

// pipeline serves one client over a pair of streams: each line is a message,
// and all answers and streams share the way back. It brings every message to
// the same face that HTTP requests come to.
type pipeline struct {
	handler http.Handler
	token   string
	out     outlet
	life    context.Context
	work    sync.WaitGroup

	mu      sync.Mutex
	open    map[string]*pipeWriter // by the JSON-RPC id as it came
	session string                 // of the legacy era
	version string                 // likewise
}

// ServeStdio serves one client that writes newline-delimited messages to in and
// reads from out, until in ends or ctx does; it returns when everything that
// was under way is over. Requests are served concurrently. It needs
// [Options.Stdio] and a server that was started, and is called once. The client
// is one principal: the first of [Options.Tokens], or "stdio".
//
// A read of in that blocks is not broken off when ctx ends.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := &pipeline{
		handler: s.requests.counted(s.stalling(s.face)), token: stdioPrincipal, life: ctx, open: map[string]*pipeWriter{},
		out: outlet{to: out, broken: cancel},
	}
	p.out.room = sync.NewCond(&p.out.mu)
	if len(s.opts.Tokens) > 0 {
		p.token = s.opts.Tokens[0]
	}
	ended := make(chan error, 1)
	lines := make(chan framing.Line)
	go func() {
		defer crash.Guard()
		ended <- readLines(ctx, in, lines)
	}() // over when in ends
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

// finish waits for what is under way. When the server closes, streams end in
// order, with their results. Otherwise what can be answered still is: a client
// that sends a few requests and closes its end wants to know what came of them.
func (p *pipeline) finish(closing <-chan struct{}, cancel context.CancelFunc) {
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

// answerGrace is how long requests may take when the input has ended.
const answerGrace = 500 * time.Millisecond

// readLines hands over each line, which is a copy, until in ends.
func readLines(ctx context.Context, in io.Reader, lines chan<- framing.Line) error {
	parser := framing.LineParser{Limit: maxBody}
	give := func(l framing.Line) {
		l.Data = bytes.Clone(l.Data)
		select {
		case lines <- l:
		case <-ctx.Done():
		}
	}
	buf := make([]byte, 64<<10)
	for ctx.Err() == nil {
		n, err := in.Read(buf)
		parser.Feed(buf[:n], give)
		if err != nil {
			parser.End(give)
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
	return nil
}

// message begins to serve one message.
func (p *pipeline) message(l framing.Line) {
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
	w := &pipeWriter{p: p, id: e.ID, cancel: cancel, header: http.Header{}}
	r := p.request(ctx, e, l.Data)
	if e.Method != "" && validID(e.ID) {
		p.mu.Lock()
		_, twice := p.open[string(e.ID)]
		if !twice {
			p.open[string(e.ID)] = w
		}
		p.mu.Unlock()
		if twice {
			cancel()
			p.refuse(e.ID, codeInvalidRequest, "a request with this id is under way")
			return
		}
	}
	serve := func() {
		defer cancel()
		p.handler.ServeHTTP(w, r)
		w.finish()
		p.learn(e, w)
	}
	// What changes the session must be over before the next message is looked
	// at; nothing else may hold it up.
	if e.Method == "initialize" || e.Method == "notifications/initialized" {
		serve()
		return
	}
	p.work.Go(crash.Guarded(serve))
}

// request gives a message the form in which the face knows it.
func (p *pipeline) request(ctx context.Context, e envelope, body []byte) *http.Request {
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "application/json, text/event-stream")
	h.Set("Authorization", "Bearer "+p.token)
	p.mu.Lock()
	session, version := p.session, p.version
	p.mu.Unlock()
	if claimed := requestMeta(e.Params); claimed != "" {
		session, version = "", claimed
	}
	if version != "" {
		h.Set(headerVersion, version)
	}
	if session != "" {
		h.Set(headerSession, session)
	}
	if version >= modernVersion {
		h.Set(headerMethod, e.Method)
		if name := mirrored(e); name != "" {
			h.Set("Mcp-Name", name)
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/mcp", bytes.NewReader(body))
	if err != nil { // the address is a good one
		panic(err)
	}
	r.Header, r.RequestURI = h, "/mcp"
	return r
}

// mirrored is what the Mcp-Name header says of a request: what it is about.
func mirrored(e envelope) string {
	var p struct{ Name, URI string }
	switch e.Method {
	case "tools/call", "prompts/get", "resources/read":
	default:
		return ""
	}
	_ = json.Unmarshal(e.Params, &p) // what is wrong with them is found later
	name := p.Name
	if e.Method == "resources/read" {
		name = p.URI
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(name)) + "?="
	}
	return name
}

// learn keeps the session that an initialize opened, and opens its stream once
// the client is ready for it.
func (p *pipeline) learn(e envelope, w *pipeWriter) {
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
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/mcp", http.NoBody)
		if err != nil { // the address is a good one
			panic(err)
		}
		r.Header.Set("Accept", "text/event-stream")
		r.Header.Set("Authorization", "Bearer "+p.token)
		r.Header.Set(headerSession, session)
		r.Header.Set(headerVersion, version)
		own := &pipeWriter{p: p, cancel: cancel, header: http.Header{}}
		p.work.Go(func() {
			defer crash.Guard()
			defer cancel()
			p.handler.ServeHTTP(own, r)
		})
	}
}

// cancel ends the request that a notification names. It is not answered.
func (p *pipeline) cancel(params json.RawMessage) {
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
		w.silence()
		w.cancel()
	}
}

// refuse answers a message that is not served.
func (p *pipeline) refuse(id json.RawMessage, code int, message string) {
	if !validID(id) {
		id = json.RawMessage("null")
	}
	b := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	b = append(b, `,"error":`...)
	// A code and a text always encode.
	e, _ := json.Marshal(rpcError{Code: code, Message: message})
	_ = p.out.write(append(append(b, e...), "}\n"...)) // a client that is gone ends the serving
}

// outletRoom bounds what waits to be written, in bytes; writers wait then. A
// client that reads slowly so holds back all of its streams together.
const outletRoom = 1 << 20

// outlet is the one way back to the client. Whoever finds nobody writing writes
// for all, so that many small messages make few system calls.
type outlet struct {
	to     io.Writer
	broken context.CancelFunc // called when the client is gone

	mu      sync.Mutex
	room    *sync.Cond
	waiting []byte
	spare   []byte
	writing bool
	err     error
}

// write sends whole lines. b is not kept. It returns when they were written, or
// when somebody else is about to.
func (o *outlet) write(b []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.err == nil && o.writing && len(o.waiting)+len(b) > outletRoom && len(o.waiting) > 0 {
		o.room.Wait()
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
		if cap(batch) > outletRoom {
			o.spare = nil
		}
		if err != nil {
			o.err = err
			o.broken()
		}
		o.room.Broadcast()
	}
	o.writing = false
	return o.err
}

func (o *outlet) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// pipeWriter is an [http.ResponseWriter] that makes lines of an answer: one of
// a JSON body, and one of each event of an event stream. It is used by one
// goroutine at a time, except for silence.
type pipeWriter struct {
	p      *pipeline
	id     []byte // of the request; nil = it has none
	cancel context.CancelFunc
	header http.Header
	status int
	stream bool
	body   bytes.Buffer
	parser framing.EventParser
	lines  []byte // scratch

	mu       sync.Mutex
	silent   bool // it was cancelled
	answered bool
}

// silence lets nothing more through.
func (w *pipeWriter) silence() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent = true
}

// Header implements [http.ResponseWriter].
func (w *pipeWriter) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter].
func (w *pipeWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
		w.stream = strings.HasPrefix(w.header.Get("Content-Type"), "text/event-stream")
	}
}

// Write implements [http.ResponseWriter].
func (w *pipeWriter) Write(b []byte) (int, error) {
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

// Flush implements [http.Flusher]: nothing is held back.
func (w *pipeWriter) Flush() {}

// event makes a line of an event of the stream.
func (w *pipeWriter) event(e framing.Event) {
	if len(e.Data) == 0 {
		return // a comment: nobody has to be kept awake here
	}
	if !bytes.HasPrefix(e.Data, []byte(`{"jsonrpc":"2.0","method":`)) {
		var m framing.Message
		w.answered = w.answered || framing.ScanMessage(e.Data, &m) && (m.HasResult || m.HasError)
	}
	from := len(w.lines)
	w.lines = append(w.lines, e.Data...)
	for i, c := range w.lines[from:] {
		if c == '\n' || c == '\r' { // between tokens: it is JSON
			w.lines[from+i] = ' '
		}
	}
	w.lines = append(w.lines, '\n')
}

// send lets the lines out, unless the request was cancelled. They go under the
// lock, so that nothing follows a cancellation.
func (w *pipeWriter) send() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.silent {
		return context.Canceled
	}
	if len(w.lines) == 0 {
		return nil
	}
	return w.p.out.write(w.lines)
}

// finish sends what is left when the handler is done: a JSON body, an error in
// place of a refusal that HTTP has no body for, or word that a stream broke off.
func (w *pipeWriter) finish() {
	request := validID(w.id)
	if request {
		w.p.mu.Lock()
		if w.p.open[string(w.id)] == w {
			delete(w.p.open, string(w.id))
		}
		w.p.mu.Unlock()
	}
	w.lines = w.lines[:0]
	isJSON := strings.HasPrefix(w.header.Get("Content-Type"), "application/json")
	switch {
	case !w.stream && isJSON && w.body.Len() > 0:
		w.event(framing.Event{Data: w.body.Bytes()})
	case !request || w.answered || w.p.life.Err() != nil:
	case w.stream:
		w.fail(codeInternal, "the stream broke off")
	default:
		text := strings.TrimSpace(w.body.String())
		if text == "" {
			text = fmt.Sprintf("refused with HTTP status %d", w.status)
		}
		w.fail(codeInvalidRequest, text)
	}
	_ = w.send() // the client may be gone, or not want it any more
}

func (w *pipeWriter) fail(code int, text string) {
	w.lines = append(w.lines, `{"jsonrpc":"2.0","id":`...)
	w.lines = append(w.lines, w.id...)
	w.lines = append(w.lines, fmt.Sprintf(`,"error":{"code":%d,"message":`, code)...)
	w.lines = append(quote(w.lines, text), "}}\n"...)
}
