package wire

import (
	"bytes"
	"errors"

	"github.com/eventmeter/eventmeter/internal/budget"
)

// ErrTooLarge is returned for a message that is larger than its limit.
var ErrTooLarge = errors.New("message is larger than the bound")

// ErrFieldTooLarge is returned for an id or event name of more than [FieldLimit]
// bytes.
var ErrFieldTooLarge = errors.New("an id or event name is larger than 8 KiB")

// FieldLimit bounds the id and the name of an event, which are kept while a stream
// is open.
const FieldLimit = 8 << 10

// DefaultEventLimit is the default limit of an SSE event: 16 MiB.
const DefaultEventLimit = 16 << 20

// Event is one block of an event stream. Its slices are valid until the function
// that the Event was passed to returns.
type Event struct {
	// Data is the joined data lines, without the last newline. It is nil for
	// a block without data (comments, retry, a bare id), which a browser would
	// not dispatch; such blocks are emitted so that their bytes can be counted.
	Data []byte
	// ID is the last id of the stream so far; it persists between events.
	ID []byte
	// Size is the number of bytes of the block, field names, line ends and
	// comments included.
	Size int
	// Rest is the number of bytes after the block in the same piece.
	Rest int
}

// EventParser parses an event stream that is fed in pieces of any size, according to
// "event stream interpretation" of the HTML standard. The zero value is ready. An
// EventParser must not be used by two goroutines at once.
//
// An event with one data line that lies in one piece is not copied, and
// nothing is allocated for it. A buffer is only held while an event is
// incomplete.
type EventParser struct {
	// Limit bounds what is buffered of one event, in bytes; 0 = DefaultEventLimit.
	Limit int
	// Budget is charged for buffered bytes; nil = only Limit applies.
	Budget *budget.Budget

	started bool // the byte-order mark was checked
	afterCR bool // the last byte was a CR: a LF that follows belongs to it
	have    bool // a data line was seen
	own     bool // data is buf, not the piece
	size    int
	line    lent   // a line that began in an earlier piece
	data    []byte // data lines of the event so far; may alias the piece being fed
	buf     lent
	rare    *rareFields // nil on most streams
}

// rareFields are the fields that few streams need. They are apart because thousands
// of streams are read in turn, and each cache line of a parser is a miss.
type rareFields struct {
	hold   budget.Hold
	failed error
	id     []byte
	// retry is the last reconnection time that was sent, in milliseconds, plus 1;
	// 0 = none.
	retry int64
}

func (p *EventParser) more() *rareFields {
	if p.rare == nil {
		p.rare = &rareFields{}
	}
	return p.rare
}

// failed returns the error that Feed returns from now on, nil if there is none.
func (p *EventParser) failed() error {
	if p.rare == nil {
		return nil
	}
	return p.rare.failed
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
	p.data = nil
	if p.rare != nil {
		p.rare.id = nil
		p.rare.hold.Drop()
	}
}

// Idle reports whether p lies between two blocks and has nothing to keep for the next one.
// Such a parser is as good as any other: see Resume.
func (p *EventParser) Idle() bool {
	return p.size == 0 && p.rare == nil && !p.have && !p.afterCR && p.line.box == nil && p.buf.box == nil
}

// Resume makes p, which is new or idle, the parser of a stream between two blocks. begun
// is true if the stream's first line was parsed already, and b replaces Budget.
func (p *EventParser) Resume(begun bool, b *budget.Budget) { p.started, p.Budget = begun, b }

// Retry returns the reconnection time that the stream requested last, in
// milliseconds; false if there is none.
func (p *EventParser) Retry() (int64, bool) {
	if p.rare == nil {
		return 0, false
	}
	return p.rare.retry - 1, p.rare.retry > 0
}

// Partial returns the number of bytes of the incomplete block, 0 between two
// blocks.
func (p *EventParser) Partial() int { return p.size }

// Feed takes the next bytes of the stream and calls emit for each block that
// they complete. It returns ErrTooLarge, now and on every later call, if an
// event exceeds the limit, ErrFieldTooLarge if an id or a name does, and
// budget.ErrExceeded if the budget is too small for an incomplete block. b is not
// kept.
func (p *EventParser) Feed(b []byte, emit func(Event)) error {
	if err := p.failed(); err != nil {
		return err
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
		p.take(line, carried, len(b)-taken, emit)
		p.line.release()
		b = b[taken:]
		if p.failed() != nil || p.tooLarge() {
			break
		}
	}
	p.keep()
	err := p.failed()
	if err == nil && p.tooLarge() {
		err = ErrTooLarge
	}
	if err == nil {
		err = p.charge()
	}
	if err != nil {
		p.more().failed = err
		p.drop()
	}
	return err
}

// charge charges the budget for buffered bytes.
func (p *EventParser) charge() error {
	n, held := cap(p.line.bytes())+cap(p.buf.bytes()), false
	if p.rare != nil {
		n += cap(p.rare.id)
		held = p.rare.hold.Held()
	}
	if n <= budget.Allowance && !held { // nearly always
		return nil
	}
	if !held {
		p.more().hold = budget.Of(p.Budget)
	}
	return p.rare.hold.Resize(n)
}

// grow counts a LF that came in another piece than its CR. If the CR ended a block,
// the LF is counted with the next one.
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

// take handles one complete line. own is true if the line is in p.line, which the
// next line overwrites; rest is the number of bytes after the line in its piece.
func (p *EventParser) take(line []byte, own bool, rest int, emit func(Event)) {
	if !p.started {
		p.started = true
		line = bytes.TrimPrefix(line, byteOrderMark)
	}
	if len(line) == 0 {
		p.dispatch(rest, emit)
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
		p.fits(value) // the name is of no use
	case "id":
		if p.fits(value) && (len(value) > 0 || p.rare != nil) && bytes.IndexByte(value, 0) < 0 {
			p.more().id = append(p.more().id[:0], value...)
		}
	case "retry":
		if ms, ok := digits(value); ok {
			p.more().retry = ms + 1
		}
	}
}

// fits reports whether a field's value may be kept, and fails the stream if not.
func (p *EventParser) fits(value []byte) bool {
	if len(value) > FieldLimit {
		p.more().failed = ErrFieldTooLarge
	}
	return p.failed() == nil
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

func (p *EventParser) dispatch(rest int, emit func(Event)) {
	e := Event{Size: p.size, Rest: rest}
	if p.rare != nil {
		e.ID = p.rare.id
	}
	if p.have {
		e.Data = p.data
		if e.Data == nil {
			e.Data = []byte{}
		}
	}
	emit(e)
	p.have, p.own, p.data, p.size = false, false, nil, 0
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
