package refserver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	framing "github.com/eventmeter/eventmeter/internal/wire"
)

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
