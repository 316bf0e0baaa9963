package refserver

import (
	"bytes"
	"mime"
	"net/http"
)

// sseAnswer sends an answer in JSON as an event stream of one message. It keeps
// the answer until end; everything else is passed on as it comes.
type sseAnswer struct {
	http.ResponseWriter
	server *Server
	began  bool
	keeps  bool // the answer is JSON
	body   bytes.Buffer
}

// WriteHeader implements [http.ResponseWriter]. Refusals stay as they are.
func (w *sseAnswer) WriteHeader(status int) {
	if w.began {
		return
	}
	w.began = status >= http.StatusOK
	h := w.Header()
	media, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	if w.keeps = status == http.StatusOK && media == "application/json"; w.keeps {
		w.server.streamHeader(h)
		h.Del("Content-Length")
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w *sseAnswer) Write(b []byte) (int, error) {
	if !w.began {
		w.WriteHeader(http.StatusOK)
	}
	if w.keeps {
		return w.body.Write(b)
	}
	return w.ResponseWriter.Write(b)
}

// Flush implements [http.Flusher].
func (w *sseAnswer) Flush() {
	if !w.began {
		w.WriteHeader(http.StatusOK)
	}
	if !w.keeps {
		_ = http.NewResponseController(w.ResponseWriter).Flush()
	}
}

// Unwrap lets [http.ResponseController] reach what is beneath.
func (w *sseAnswer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// end sends the message. The stream ends a moment later, as it does where a
// message is flushed by itself.
func (w *sseAnswer) end() {
	if !w.keeps {
		return
	}
	var b bytes.Buffer
	b.WriteString("event: message\n")
	for line := range bytes.Lines(w.body.Bytes()) {
		b.WriteString("data: ")
		b.Write(bytes.TrimRight(line, "\r\n"))
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	_, _ = w.ResponseWriter.Write(b.Bytes()) // the client may be gone; there is nobody to tell
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}
