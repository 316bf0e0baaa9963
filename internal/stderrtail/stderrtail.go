// Package stderrtail keeps the end of a program's output, to report why it ended.
package stderrtail

import (
	"bytes"
	"strings"
	"sync"

	"github.com/eventmeter/eventmeter/internal/errtext"
)

// Kept is how many bytes a [Writer] keeps.
const Kept = 4 << 10

// Writer keeps the last [Kept] bytes that were written to it, and never fails. The
// zero value is ready. It is safe for concurrent use, and must not be copied.
type Writer struct {
	mu  sync.Mutex
	buf []byte
}

// Write implements [io.Writer].
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf = append(w.buf, p...)
	if over := len(w.buf) - Kept; over > 0 {
		w.buf = append(w.buf[:0], w.buf[over:]...)
	}
	return len(p), nil
}

// Lines returns up to n last lines of the kept output, trimmed and cleaned as by [errtext.Plain];
// nil if there are none.
func (w *Writer) Lines(n int) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := bytes.TrimSpace(w.buf)
	if len(text) == 0 {
		return nil
	}
	all := strings.Split(string(text), "\n")
	all = all[max(0, len(all)-n):]
	for i := range all {
		all[i] = errtext.Plain(all[i])
	}
	return all
}

// LastLine returns the last kept line that is not blank, trimmed and cleaned; "" if there is none.
func (w *Writer) LastLine() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := bytes.TrimSpace(w.buf)
	return strings.TrimSpace(errtext.Plain(string(text[bytes.LastIndexByte(text, '\n')+1:])))
}

// How says how a program ended that err is the end of, with the last line that it wrote.
func (w *Writer) How(err error) string {
	how := "exit status 0"
	if err != nil {
		how = err.Error()
	}
	if last := w.LastLine(); last != "" {
		how += ": " + last
	}
	return how
}
