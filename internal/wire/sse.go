package wire

import (
	"bytes"
	"errors"

	"github.com/eventmeter/eventmeter/internal/budget"
)

// ErrTooLarge is returned for a message that is larger than its bound.
var ErrTooLarge = errors.New("message is larger than the bound")

// ErrFieldTooLarge is returned for an id or event name of more than [FieldLimit]
// bytes.
var ErrFieldTooLarge = errors.New("an id or event name is larger than 8 KiB")

// FieldLimit bounds the id and the name of an event, which are kept while a stream
// is open.
const FieldLimit = 8 << 10

// DefaultEventLimit is the default limit of an SSE event: 16 MiB.
const DefaultEventLimit = 16 << 20

// Event is one block of an event stream. Its slices are only valid until the
// function it was given to returns.
type Event struct {
	// Data is the joined data lines, without the last newline. It is nil for
	// a block without data (comments, retry, a bare id), which a browser would
	// not dispatch; such blocks are emitted so that their bytes can be counted.
	Data []byte
	// Name is the event field; empty means "message".
	Name []byte
	// ID is the last id of the stream so far; it persists between events.
	ID []byte
	// Size is the number of bytes of the block, field names, line ends and
	// comments included.
	Size int
	// Rest is the number of bytes after the block in the same piece.
	Rest int
}

// EventParser parses an event stream that is fed in pieces of any size, as the HTML standard's "event stream interpretation" says. The zero
// value is ready. It must not be used by two goroutines at once.
//
// An event with one data line that lies in one piece is not copied, and
// nothing is allocated for it. A buffer is only held while an event is
// incomplete.
type EventParser struct {
	// Limit bounds what is buffered of one event, in bytes; 0 = DefaultEventLimit.
	Limit int
	// Budget is charged for buffered bytes; nil = only Limit applies.
	Budget *budget.Budget

	hold    budget.Hold
	started bool // the byte-order mark was checked
	afterCR bool // the last byte was a CR: a LF now belongs to it
	failed  error

	line lent   // a line that began in an earlier piece
	data []byte // data lines of the event so far; may alias the piece being fed
	have bool   // a data line was seen
	own  bool   // data is buf, not the piece
	buf  lent
	name []byte
	id   []byte
	size int
	rest int // bytes of the piece after the line at hand
	// retry is the last reconnection time in milliseconds that was sent, -1+1
	// shifted so that the zero value means none.
	retry int64
}

// Reset prepares p for another stream. It keeps Limit and Budget and releases all
// buffers. It must be called at the end of a stream, so that nothing remains
// charged.
func (p *EventParser) Reset() {
	p.drop()
	*p = EventParser{Limit: p.Limit, Budget: p.Budget}
}

// drop releases all buffers.
func (p *EventParser) drop() {
	p.line.release()
	p.buf.release()
	p.data, p.name, p.id = nil, nil, nil
	p.hold.Drop()
}

// Retry returns the reconnection time that the stream requested last, in
// milliseconds; false if there is none.
func (p *EventParser) Retry() (int64, bool) { return p.retry - 1, p.retry > 0 }

// Partial returns the number of bytes of the incomplete block, 0 between two
// blocks.
func (p *EventParser) Partial() int { return p.size }

// Feed takes the next bytes of the stream and calls emit for each block that
// they complete. It returns ErrTooLarge, now and on every later call, if an
// event exceeds the limit, ErrFieldTooLarge if an id or a name does, and
// budget.ErrExceeded if the budget is too small for an incomplete block. b is not
// kept.
func (p *EventParser) Feed(b []byte, emit func(Event)) error {
	if p.failed != nil {
		return p.failed
	}
	for len(b) > 0 {
		if p.afterCR {
			p.afterCR = false
			if b[0] == '\n' {
				p.grow(1)
				b = b[1:]
				continue
			}
		}
		n := lineEnd(b)
		if n < 0 {
			p.size += len(b)
			p.line.add(b)
			break
		}
		line := b[:n]
		taken := n + 1
		if b[n] == '\r' {
			if taken < len(b) && b[taken] == '\n' {
				taken++
			} else if taken == len(b) {
				p.afterCR = true
			}
		}
		p.size += taken
		carried := p.line.box != nil
		if carried {
			line = p.line.add(line)
		}
		p.rest = len(b) - taken
		p.take(line, carried, emit)
		p.line.release()
		b = b[taken:]
		if p.failed != nil || p.tooLarge() {
			break
		}
	}
	p.keep()
	if p.failed == nil && p.tooLarge() {
		p.failed = ErrTooLarge
	}
	if p.failed == nil {
		p.failed = p.charge()
	}
	if p.failed != nil {
		p.drop()
	}
	return p.failed
}

// charge charges the budget for buffered bytes.
func (p *EventParser) charge() error {
	n := cap(p.line.bytes()) + cap(p.buf.bytes()) + cap(p.id) + cap(p.name)
	if n <= budget.Allowance && !p.hold.Held() { // nearly always
		return nil
	}
	if !p.hold.Held() {
		p.hold = budget.Of(p.Budget)
	}
	return p.hold.Resize(n)
}

// grow counts bytes that belong to the block that was just finished, or to the
// next one if it was. A LF split from its CR is the only such byte.
func (p *EventParser) grow(n int) { p.size += n }

func (p *EventParser) tooLarge() bool {
	limit := p.Limit
	if limit <= 0 {
		limit = DefaultEventLimit
	}
	return len(p.line.bytes())+len(p.data) > limit
}

// lineEnd returns the index of the first CR or LF of b, or -1.
func lineEnd(b []byte) int {
	n := bytes.IndexByte(b, '\n')
	if n < 0 {
		return bytes.IndexByte(b, '\r')
	}
	if r := bytes.IndexByte(b[:n], '\r'); r >= 0 {
		return r
	}
	return n
}

var byteOrderMark = []byte("\ufeff")

// take handles one complete line. own says that the line lies in p.line, which
// the next line overwrites.
func (p *EventParser) take(line []byte, own bool, emit func(Event)) {
	if !p.started {
		p.started = true
		line = bytes.TrimPrefix(line, byteOrderMark)
	}
	if len(line) == 0 {
		p.dispatch(emit)
		return
	}
	colon := bytes.IndexByte(line, ':')
	if colon == 0 {
		return // a comment
	}
	field, value := line, []byte(nil)
	if colon > 0 {
		field, value = line[:colon], line[colon+1:]
		if len(value) > 0 && value[0] == ' ' {
			value = value[1:]
		}
	}
	switch string(field) {
	case "data":
		p.addData(value, own)
	case "event":
		if p.fits(value) {
			p.name = append(p.name[:0], value...)
		}
	case "id":
		if p.fits(value) && bytes.IndexByte(value, 0) < 0 {
			p.id = append(p.id[:0], value...)
		}
	case "retry":
		if ms, ok := digits(value); ok {
			p.retry = ms + 1
		}
	}
}

// fits reports whether a field's value may be kept, and fails the stream if not.
func (p *EventParser) fits(value []byte) bool {
	if len(value) > FieldLimit {
		p.failed = ErrFieldTooLarge
	}
	return p.failed == nil
}

func (p *EventParser) addData(value []byte, own bool) {
	switch {
	case p.have:
		p.keep()
		p.buf.add(newline)
		p.data = p.buf.add(value)
	case own:
		p.buf.release()
		p.data, p.own = p.buf.add(value), true
	default:
		p.data, p.own = value, false
	}
	p.have = true
}

// keep copies data out of a piece that becomes invalid.
func (p *EventParser) keep() {
	if p.have && !p.own {
		data := p.data
		p.buf.release()
		p.data, p.own = p.buf.add(data), true
	}
}

func (p *EventParser) dispatch(emit func(Event)) {
	e := Event{Name: p.name, ID: p.id, Size: p.size, Rest: p.rest}
	if p.have {
		e.Data = p.data
		if e.Data == nil {
			e.Data = []byte{}
		}
	}
	emit(e)
	p.have, p.own, p.data, p.size = false, false, nil, 0
	p.name = p.name[:0]
	p.buf.release()
}

var newline = []byte{'\n'}

func digits(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) > 15 {
		return 0, false
	}
	var v int64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		v = v*10 + int64(c-'0')
	}
	return v, true
}
