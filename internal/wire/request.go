package wire

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// Object appends a JSON object, field by field, to a buffer. [BeginObject] begins
// one, and End returns the buffer.
type Object struct {
	dst   []byte
	comma bool
}

// BeginObject starts an object at the end of dst.
func BeginObject(dst []byte) Object { return Object{dst: append(dst, '{')} }

func (o *Object) key(name string) {
	if o.comma {
		o.dst = append(o.dst, ',')
	}
	o.comma = true
	o.dst = AppendString(o.dst, name)
	o.dst = append(o.dst, ':')
}

// String writes a field with a string.
func (o *Object) String(name, value string) {
	o.key(name)
	o.dst = AppendString(o.dst, value)
}

// Raw writes a field whose value is already JSON. An empty value becomes null.
func (o *Object) Raw(name string, value []byte) {
	o.key(name)
	if len(value) == 0 {
		o.dst = append(o.dst, "null"...)
		return
	}
	o.dst = append(o.dst, value...)
}

// Int writes a field with a number.
func (o *Object) Int(name string, value int64) {
	o.key(name)
	o.dst = strconv.AppendInt(o.dst, value, 10)
}

// End closes the object and returns the buffer.
func (o *Object) End() []byte { return append(o.dst, '}') }

// Request returns a JSON-RPC request. params must be a JSON value.
func Request(id uint64, method string, params []byte) []byte {
	dst := make([]byte, 0, len(`{"jsonrpc":"2.0","id":,"method":"","params":}`)+20+len(method)+len(params))
	dst = append(dst, requestHead...)
	dst = strconv.AppendUint(dst, id, 10)
	dst = append(dst, `,"method":`...)
	dst = AppendString(dst, method)
	dst = append(dst, `,"params":`...)
	dst = append(dst, params...)
	return append(dst, '}')
}

// Notification returns a JSON-RPC notification. params must be a JSON value.
func Notification(method string, params []byte) []byte {
	dst := AppendString([]byte(`{"jsonrpc":"2.0","method":`), method)
	dst = append(dst, `,"params":`...)
	dst = append(dst, params...)
	return append(dst, '}')
}

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string. Bytes that are not UTF-8 become
// U+FFFD, as in encoding/json.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(append(dst, s[start:i]...), "\ufffd"...)
				start = i + 1
			}
			i += n
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
		}
		i++
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

const requestHead = `{"jsonrpc":"2.0","id":`

// RequestID returns the id, as JSON, of a request that [Request] made; nil for
// any other text.
func RequestID(b []byte) []byte {
	rest, ok := bytes.CutPrefix(b, []byte(requestHead))
	if !ok {
		return nil
	}
	n := bytes.IndexByte(rest, ',')
	if n <= 0 {
		return nil
	}
	return rest[:n]
}
