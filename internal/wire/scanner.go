package wire

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"math/bits"
	"strconv"
	"time"
)

// maxDepth bounds nesting. Messages of the protocol are a handful of levels deep,
// payloads and schemas a few tens.
const maxDepth = 512

// scanner reads JSON text once, from left to right, and checks its syntax. After an
// error bad is true, i is at the end, and every method does nothing.
type scanner struct {
	b     []byte
	i     int
	depth int
	first bool // next has not been called since the last enter
	bad   bool
}

func (s *scanner) fail() {
	s.bad = true
	s.i = len(s.b)
}

func (s *scanner) space() {
	if s.i < len(s.b) && s.b[s.i] > ' ' { // nearly always
		return
	}
	s.spaces()
}

func (s *scanner) spaces() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\n', '\t', '\r':
			s.i++
		default:
			return
		}
	}
}

// peek returns the current byte, 0 at the end.
func (s *scanner) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

// open enters the outermost container, whose first byte must be kind.
func (s *scanner) open(kind byte) bool {
	s.space()
	s.enter(kind)
	return !s.bad
}

// enter enters the container that begins at the current byte, which must be kind.
func (s *scanner) enter(kind byte) {
	if s.peek() != kind || s.depth >= maxDepth {
		s.fail()
		return
	}
	s.i++
	s.depth++
	s.first = true
}

// next moves to the next member of the container that ends with end. If there is
// none, it leaves the container and returns false.
func (s *scanner) next(end byte) bool {
	s.space()
	if s.bad || s.i >= len(s.b) {
		s.fail()
		return false
	}
	if s.b[s.i] == end {
		s.i++
		s.depth--
		s.first = false
		return false
	}
	if !s.first {
		if s.b[s.i] != ',' {
			s.fail()
			return false
		}
		s.i++
		s.space()
	}
	s.first = false
	return true
}

// key reads a member's name and its colon, and moves to the value.
func (s *scanner) key() []byte {
	k := s.text0()
	s.space()
	if s.peek() != ':' {
		s.fail()
		return nil
	}
	s.i++
	s.space()
	return k
}

// text reads a string and unescapes it; any other value is skipped and gives
// nil.
func (s *scanner) text() []byte {
	if s.peek() != '"' {
		s.skip()
		return nil
	}
	return s.text0()
}

func (s *scanner) text0() []byte {
	start := s.i
	escaped := s.str()
	if s.bad {
		return nil
	}
	if !escaped {
		return s.b[start+1 : s.i-1]
	}
	var v string
	if json.Unmarshal(s.b[start:s.i], &v) != nil {
		s.fail()
		return nil
	}
	return []byte(v)
}

// str skips a string and reports whether it has escapes.
func (s *scanner) str() (escaped bool) {
	if s.peek() != '"' {
		s.fail()
		return false
	}
	b, i := s.b, s.i+1
	for {
		if i = plainUntil(b, i); i >= len(b) {
			break
		}
		if b[i] == '"' {
			s.i = i + 1
			return escaped
		}
		if b[i] != '\\' { // a control character
			break
		}
		escaped = true
		n := escapeLen(b[i:])
		if n == 0 {
			break
		}
		i += n
	}
	s.fail()
	return false
}

// escapeLen returns the length of the escape that b begins with, 0 if it is not valid.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) >= 6 && isHex(b[2]) && isHex(b[3]) && isHex(b[4]) && isHex(b[5]) {
			return 6
		}
	}
	return 0
}

// plainUntil returns the index, from i on, of the first byte that has a meaning
// inside a string, len(b) if there is none. It tests eight bytes at a time.
func plainUntil(b []byte, i int) int {
	for ; i+8 <= len(b); i += 8 {
		if m := special(binary.LittleEndian.Uint64(b[i:])); m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
	}
	for i < len(b) && plain[b[i]] {
		i++
	}
	return i
}

// special sets the highest bit of the first of eight bytes, counted from the lowest,
// that has a meaning inside a string. The bits of later bytes may be wrong. A byte
// below n has its highest bit set in (w-n)&^w, and a borrow comes only from such a
// byte.
func special(w uint64) uint64 {
	const each = 0x0101010101010101
	quote, back := w^'"'*each, w^'\\'*each
	return (((w - ' '*each) &^ w) | ((quote - each) &^ quote) | ((back - each) &^ back)) & (0x80 * each)
}

// plain is true for bytes that have no meaning inside a string.
var plain = func() (t [256]bool) {
	for c := range t {
		t[c] = c >= ' ' && c != '"' && c != '\\'
	}
	return t
}()

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// raw returns the token of the current value.
func (s *scanner) raw() []byte {
	start := s.i
	s.skip()
	if s.bad {
		return nil
	}
	return s.b[start:s.i]
}

// skip skips the current value.
func (s *scanner) skip() {
	switch c := s.peek(); {
	case c == '"':
		s.str()
	case c == '{':
		s.enter('{')
		for s.next('}') {
			s.str()
			s.space()
			if s.peek() != ':' {
				s.fail()
				return
			}
			s.i++
			s.space()
			s.skip()
		}
	case c == '[':
		s.enter('[')
		for s.next(']') {
			s.skip()
		}
	case c == 't':
		s.word("true")
	case c == 'f':
		s.word("false")
	case c == 'n':
		s.word("null")
	default:
		s.number()
	}
}

func (s *scanner) word(w string) {
	if len(s.b)-s.i < len(w) || string(s.b[s.i:s.i+len(w)]) != w {
		s.fail()
		return
	}
	s.i += len(w)
}

func (s *scanner) number() {
	if s.peek() == '-' {
		s.i++
	}
	if s.peek() == '0' {
		s.i++
	} else if !s.digits() {
		return
	}
	if s.peek() == '.' {
		s.i++
		if !s.digits() {
			return
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.i++
		if c := s.peek(); c == '+' || c == '-' {
			s.i++
		}
		s.digits()
	}
}

func (s *scanner) digits() bool {
	start := s.i
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
		s.i++
	}
	if s.i == start {
		s.fail()
		return false
	}
	return true
}

// finish reports whether the text was valid and only space follows.
func (s *scanner) finish() bool {
	s.space()
	return !s.bad && s.i == len(s.b)
}

// duration reads a number of units; false if the value is not a number. Negative
// numbers are 0, and numbers too large for a Duration become the largest one.
func (s *scanner) duration(unit time.Duration) (time.Duration, bool) {
	tok := s.raw()
	if len(tok) == 0 || tok[0] != '-' && (tok[0] < '0' || tok[0] > '9') {
		return 0, false
	}
	if n, ok := integer(tok); ok {
		switch {
		case n < 0:
			return 0, true
		case n > int64(math.MaxInt64/unit):
			return math.MaxInt64, true
		}
		return time.Duration(n) * unit, true
	}
	f, err := strconv.ParseFloat(string(tok), 64)
	switch f *= float64(unit); {
	case err != nil || f >= math.MaxInt64:
		if tok[0] == '-' {
			return 0, true
		}
		return math.MaxInt64, true
	case f < 0:
		return 0, true
	}
	return time.Duration(f), true
}

// integer parses a JSON number of at most 15 digits; false if it is longer or has a
// fraction or an exponent.
func integer(tok []byte) (int64, bool) {
	neg := len(tok) > 0 && tok[0] == '-'
	if neg {
		tok = tok[1:]
	}
	n, ok := digits(tok)
	if neg {
		n = -n
	}
	return n, ok
}
