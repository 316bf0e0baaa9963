package streamclient

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/eventmeter/eventmeter/internal/budget"
)

// Limits of what a server sends before the body and between its chunks, in bytes.
const (
	maxHead    = 64 << 10
	maxLine    = 4 << 10 // of a chunk's size, with its extensions
	maxTrailer = 64 << 10
	maxInterim = 8 // 1xx responses before the final one
)

// errWhole ends the reading of a complete response.
var errWhole = errors.New("the answer is complete")

// ErrMalformed is wrapped by the error of a response that is not HTTP/1.1.
var ErrMalformed = errors.New("malformed HTTP answer")

func malformed(what string) error { return fmt.Errorf("%w: %s", ErrMalformed, what) }

// state says what the next bytes of an answer are.
type state uint8

const (
	inHead state = iota
	inLength
	inRest // until the connection ends
	inSize
	inChunk
	inChunkEnd
	inTrailer
	isWhole
)

// answer parses one HTTP/1.1 response that is fed in pieces of any size. The zero
// value is ready. It holds a buffer only while a head or a line is incomplete.
type answer struct {
	left    int64   // bytes of the chunk or body that have not come yet
	carry   *[]byte // an incomplete head or line
	state   state
	interim uint8
	seen    int32 // bytes of the trailer
	// bodiless is true if the answer has no body, whatever its head says: the
	// request was HEAD.
	bodiless bool
	hold     budget.Hold // of carry
}

// carries are buffers for incomplete heads and lines. Few streams need one at a
// time.
var carries = sync.Pool{New: func() any { b := make([]byte, 0, 512); return &b }}

// maxCarry is the largest buffer that is reused, so that one large head does not
// occupy its size for ever.
const maxCarry = 16 << 10

// keep appends b to the carried bytes. The error is that of the budget.
func (a *answer) keep(b []byte) ([]byte, error) {
	if a.carry == nil {
		a.carry = carries.Get().(*[]byte)
		*a.carry = (*a.carry)[:0]
	}
	*a.carry = append(*a.carry, b...)
	return *a.carry, a.hold.Resize(cap(*a.carry))
}

// drop discards the carried bytes.
func (a *answer) drop() {
	if a.carry != nil && cap(*a.carry) <= maxCarry {
		carries.Put(a.carry)
	}
	a.carry = nil
	a.hold.Drop()
}

// opened reports whether the head has been read.
func (a *answer) opened() bool { return a.state != inHead }

// feed takes the next bytes. It returns errWhole at the end of the answer, an
// error of the sink or of the budget unchanged, or an error that wraps
// ErrMalformed. It must not be called again after an error.
func (a *answer) feed(b []byte, at Arrival, s Sink) error {
	for len(b) > 0 {
		var err error
		switch a.state {
		case inHead:
			b, err = a.head(b, at, s)
		case inRest:
			return s.Piece(b, at)
		case inLength:
			if b, err = a.data(b, at, s); err == nil && a.left == 0 {
				a.state = isWhole
			}
		case inChunk:
			if b, err = a.data(b, at, s); err == nil && a.left == 0 {
				a.state, a.left = inChunkEnd, 2
			}
		case inChunkEnd:
			if b[0] != "\n\r"[a.left-1] {
				return malformed("a chunk is longer than its size")
			}
			b = b[1:]
			if a.left--; a.left == 0 {
				a.state = inSize
			}
		case inSize:
			b, err = a.size(b)
		case inTrailer:
			b, err = a.trailer(b)
		}
		if err != nil {
			return err
		}
		if a.state == isWhole {
			return errWhole
		}
	}
	return nil
}

// end returns the error of a stream whose connection ended: io.EOF if the body
// reaches up to the end of the connection.
func (a *answer) end() error {
	if a.state == inRest {
		return io.EOF
	}
	return io.ErrUnexpectedEOF
}

// data passes body bytes to the sink, up to the end of the chunk or body.
func (a *answer) data(b []byte, at Arrival, s Sink) ([]byte, error) {
	n := min(int64(len(b)), a.left)
	a.left -= n
	piece, rest := b[:n], b[n:]
	// If more follows than the CRLF that ends the chunk, the server wrote it later,
	// and the time of the read is that of its last write.
	at.Shared = at.Shared || len(rest) > len("\r\n")
	return rest, s.Piece(piece, at)
}

// line takes a line off b. A line around chunks must end with CRLF; in a trailer,
// as in a head, LF is enough. ok is false while the line is incomplete. The line
// is valid until drop.
func (a *answer) line(b []byte, limit int) (line, rest []byte, ok bool, err error) {
	n := bytes.IndexByte(b, '\n')
	if n < 0 {
		kept, err := a.keep(b)
		if len(kept) > limit {
			return nil, nil, false, malformed("a line is too long")
		}
		return nil, nil, false, err
	}
	line, rest = b[:n+1], b[n+1:]
	if a.carry != nil {
		if line, err = a.keep(line); err != nil {
			return nil, nil, false, err
		}
	}
	if len(line) > limit {
		return nil, nil, false, malformed("a line is too long")
	}
	line = line[:len(line)-1]
	switch cr := len(line) > 0 && line[len(line)-1] == '\r'; {
	case cr:
		line = line[:len(line)-1]
	case a.state != inTrailer:
		return nil, nil, false, malformed("a line of the chunked coding ends without CR")
	}
	return line, rest, true, nil
}

// size reads the line before a chunk.
func (a *answer) size(b []byte) ([]byte, error) {
	line, rest, ok, err := a.line(b, maxLine)
	if !ok || err != nil {
		return nil, err
	}
	n, err := chunkSize(line)
	a.drop()
	switch {
	case err != nil:
		return nil, err
	case n == 0:
		a.state = inTrailer
	default:
		a.state, a.left = inChunk, n
	}
	return rest, nil
}

// chunkSize parses a chunk's size, which is hexadecimal. It ignores extensions.
func chunkSize(line []byte) (int64, error) {
	if bytes.IndexByte(line, '\r') >= 0 {
		return 0, malformed("a chunk's size holds a CR")
	}
	if i := bytes.IndexByte(line, ';'); i >= 0 {
		line = line[:i]
	}
	line = bytes.TrimRight(line, " \t")
	if len(line) == 0 || len(line) > 15 {
		return 0, malformed("a chunk's size has no digits, or too many")
	}
	var n int64
	for _, c := range line {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, malformed("a chunk's size is not hexadecimal")
		}
		n = n<<4 | int64(c)
	}
	return n, nil
}

// trailer skips the fields after the last chunk.
func (a *answer) trailer(b []byte) ([]byte, error) {
	line, rest, ok, err := a.line(b, maxTrailer)
	if !ok || err != nil {
		return nil, err
	}
	if len(line) == 0 {
		a.state = isWhole
	}
	if a.seen += int32(len(line)); a.seen > maxTrailer {
		err = malformed("the trailer is too long")
	}
	a.drop()
	return rest, err
}
