package wire

import (
	"bytes"

	"github.com/eventmeter/eventmeter/internal/budget"
)

// Line is one line of a stream of newline-delimited messages. Data is valid until
// the function that the Line was passed to returns.
type Line struct {
	// Data is the line without its line end. It is nil if TooLong is true.
	Data []byte
	// Size is the number of bytes of the line, its line end included.
	Size int
	// TooLong is true if the line exceeded the limit or the budget. Its content
	// was discarded.
	TooLong bool
}

// LineParser splits a stream of newline-delimited messages that is fed in pieces
// of any size. A CR before the LF belongs to the line end. The zero value is ready.
// A LineParser must not be used by two goroutines at once.
//
// A line that lies in one piece is not copied, and nothing is allocated for it.
type LineParser struct {
	// Limit bounds a line without its LF, in bytes; 0 = DefaultEventLimit. A
	// longer line is discarded up to its LF, and the stream continues.
	Limit int
	// Budget is charged for buffered bytes; nil = only Limit applies.
	Budget *budget.Budget

	hold budget.Hold
	line []byte // of an incomplete line
	size int    // its bytes, discarded ones included
	over bool
}

// Feed takes the next bytes and calls emit for each line that they complete.
// b is not kept.
func (p *LineParser) Feed(b []byte, emit func(Line)) {
	for len(b) > 0 {
		n := bytes.IndexByte(b, '\n')
		if n < 0 {
			p.keep(b)
			return
		}
		if p.size == 0 && n <= p.limit() {
			emit(Line{Data: withoutCR(b[:n]), Size: n + 1})
		} else {
			p.keep(b[:n])
			p.finish(1, emit)
		}
		b = b[n+1:]
	}
}

// End emits the bytes after the last LF, if there are any: the last line of a
// stream may lack its LF.
func (p *LineParser) End(emit func(Line)) {
	if p.size > 0 {
		p.finish(0, emit)
	}
}

func (p *LineParser) limit() int {
	if p.Limit > 0 {
		return p.Limit
	}
	return DefaultEventLimit
}

func (p *LineParser) keep(b []byte) {
	p.size += len(b)
	if p.over {
		return
	}
	if p.Budget != nil && !p.hold.Held() {
		p.hold = budget.Of(p.Budget)
	}
	if p.size <= p.limit() {
		p.line = append(p.line, b...)
	}
	if p.size > p.limit() || p.hold.Resize(cap(p.line)) != nil {
		p.over = true
		p.drop()
	}
}

func (p *LineParser) drop() {
	p.line = nil
	p.hold.Drop()
}

func (p *LineParser) finish(end int, emit func(Line)) {
	l := Line{Size: p.size + end, TooLong: p.over}
	if !p.over {
		l.Data = withoutCR(p.line)
	}
	emit(l)
	p.size, p.over, p.line = 0, false, p.line[:0]
	if cap(p.line) > maxLent {
		p.line = nil
	}
	_ = p.hold.Resize(cap(p.line)) // it does not grow
}

func withoutCR(b []byte) []byte {
	if n := len(b); n > 0 && b[n-1] == '\r' {
		return b[:n-1]
	}
	return b
}
