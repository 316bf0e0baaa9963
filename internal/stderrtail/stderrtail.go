// Package stderrtail keeps the end of what a program wrote, to say why it ended.
package stderrtail

import (
	"bytes"
	"strings"
	"sync"

	"github.com/eventmeter/eventmeter/internal/errtext"
)

// DefaultMax is the Max of a zero Writer: 4 KiB.
const DefaultMax = 4 << 10

// Writer keeps the last Max bytes that were written to it, and never fails. The
// zero value is ready. It is safe for concurrent use, and must not be copied.
type Writer struct {
	// Max bounds what is kept, in bytes; 0 = DefaultMax. It must not change
	// after the first Write.
	Max int

	mu  sync.Mutex
	buf []byte
}

// Write implements [io.Writer].
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	most := w.Max
	if most <= 0 {
		most = DefaultMax
	}
	w.buf = append(w.buf, p...)
	if over := len(w.buf) - most; over > 0 {
		w.buf = append(w.buf[:0], w.buf[over:]...)
	}
	return len(p), nil
}

// Lines returns the last n lines, cleaned as [errtext.Plain] does, without space around them all, as far as they
// were kept; nil if there is nothing.
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

// LastLine returns the last line that is not blank, cleaned, without space around it, as
// far as it was kept; "" if there is none.
func (w *Writer) LastLine() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := bytes.TrimSpace(w.buf)
	return strings.TrimSpace(errtext.Plain(string(text[bytes.LastIndexByte(text, '\n')+1:])))
}
