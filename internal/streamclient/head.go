package streamclient

import (
	"bytes"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"sync/atomic"
)

// head reads the answer's head, and the heads of interim answers before it.
func (a *answer) head(b []byte, at Arrival, s Sink) ([]byte, error) {
	text, had := b, 0
	if a.carry != nil {
		had = len(*a.carry)
		var err error
		if text, err = a.keep(b); err != nil {
			return nil, err
		}
	}
	n := headEnd(text, had)
	switch {
	case n < 0 && len(text) > maxHead, n > maxHead:
		return nil, malformed("the head is too long")
	case n < 0:
		if a.carry == nil {
			_, err := a.keep(b)
			return nil, err
		}
		return nil, nil
	}
	rest := b[n-had:]
	if k := lastHead.Load(); k != nil && !a.bodiless && k.text == string(text[:n]) {
		a.drop()
		a.state, a.left = k.state, k.left
		return rest, s.Opened(k.head, at)
	}
	h, err := parseHead(text[:n])
	if err != nil {
		a.drop()
		return nil, err
	}
	if h.Status < 200 && h.Status != http.StatusSwitchingProtocols {
		a.drop()
		if a.interim++; a.interim > maxInterim {
			return nil, malformed("too many interim answers")
		}
		return rest, nil
	}
	if err := a.frame(h); err != nil {
		a.drop()
		return nil, err
	}
	if n <= maxKnown && !a.bodiless && h.Status < 300 {
		lastHead.Store(&knownHead{text: string(text[:n]), head: h, state: a.state, left: a.left})
	}
	a.drop()
	return rest, s.Opened(h, at)
}

// knownHead is a head that was parsed, with the framing that frame found. Servers
// answer thousands of streams with the same head, so all streams share the last
// one. It is never changed.
type knownHead struct {
	text  string
	head  Head
	state state
	left  int64
}

var lastHead atomic.Pointer[knownHead]

// maxKnown bounds the head that is kept, in bytes.
const maxKnown = 1 << 10

// headEnd returns the index after the empty line that ends a head, or -1. The
// bytes before from have been searched already.
func headEnd(b []byte, from int) int {
	for i := max(from-3, 0); i < len(b); i++ {
		n := bytes.IndexByte(b[i:], '\n')
		if n < 0 {
			return -1
		}
		i += n
		switch rest := b[i+1:]; {
		case len(rest) > 0 && rest[0] == '\n':
			return i + 2
		case len(rest) > 1 && rest[0] == '\r' && rest[1] == '\n':
			return i + 3
		}
	}
	return -1
}

// parseHead parses a status line and header fields, up to the empty line.
func parseHead(b []byte) (Head, error) {
	h := Head{Size: int64(len(b)), Header: http.Header{}}
	status, rest := cutLine(b)
	proto, code, ok := strings.Cut(string(status), " ")
	if !ok || len(proto) != len("HTTP/1.1") || !strings.HasPrefix(proto, "HTTP/1.") || proto[7] < '0' || proto[7] > '9' {
		return h, malformed("the status line is " + strconv.Quote(excerpt(status)))
	}
	h.Proto = proto
	code, _, _ = strings.Cut(strings.TrimLeft(code, " "), " ")
	n, err := strconv.ParseUint(code, 10, 16)
	if err != nil || len(code) != 3 || n < 100 {
		return h, malformed("the status line is " + strconv.Quote(excerpt(status)))
	}
	h.Status = int(n)
	last := ""
	for {
		line, after := cutLine(rest)
		rest = after
		if len(line) == 0 {
			return h, nil
		}
		if line[0] == ' ' || line[0] == '\t' { // the value continues
			v := h.Header[last]
			if last == "" || !fieldValue(line) {
				return h, malformed("a header field is " + strconv.Quote(excerpt(line)))
			}
			v[len(v)-1] = strings.TrimSpace(v[len(v)-1] + " " + string(bytes.Trim(line, " \t")))
			continue
		}
		k, v, ok := bytes.Cut(line, []byte{':'})
		if !ok || !token(k) || !fieldValue(v) {
			return h, malformed("a header field is " + strconv.Quote(excerpt(line)))
		}
		last = textproto.CanonicalMIMEHeaderKey(string(k))
		h.Header[last] = append(h.Header[last], string(bytes.Trim(v, " \t")))
	}
}

// cutLine takes a line off b, without its end.
func cutLine(b []byte) (line, rest []byte) {
	n := bytes.IndexByte(b, '\n')
	if n < 0 {
		return b, nil
	}
	line, rest = b[:n], b[n+1:]
	if n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line, rest
}

func excerpt(b []byte) string { return string(b[:min(len(b), 60)]) }

// token reports whether b is a field's name (RFC 9110, section 5.6.2).
func token(b []byte) bool {
	for _, c := range b {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return len(b) > 0
}

// fieldValue reports whether b may occur in a field's value: no control
// characters except tab.
func fieldValue(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// frame finds out how the body ends (RFC 9112, section 6.3). A transfer coding
// overrides a length. frame deletes the coding, and the length that it overrides,
// from the head, because the sink gets the body without its framing.
func (a *answer) frame(h Head) error {
	length, err := contentLength(h.Header["Content-Length"])
	if err != nil {
		return err
	}
	codings := h.Header["Transfer-Encoding"]
	chunked := len(codings) > 0 && h.Proto != "HTTP/1.0"
	if chunked && (len(codings) != 1 || !strings.EqualFold(codings[0], "chunked")) {
		return malformed("the transfer coding " + strconv.Quote(excerpt([]byte(strings.Join(codings, ", ")))) + " is not known")
	}
	delete(h.Header, "Transfer-Encoding")
	switch {
	case a.bodiless, h.Status == http.StatusNoContent, h.Status == http.StatusNotModified:
		a.state = isWhole
	case h.Status == http.StatusSwitchingProtocols:
		a.state = inRest
	case chunked:
		delete(h.Header, "Content-Length")
		a.state = inSize
	case length == 0:
		a.state = isWhole
	case length > 0:
		a.state, a.left = inLength, length
	default:
		a.state = inRest
	}
	return nil
}

// contentLength returns the length, which must be the same in all fields; -1 if
// there is none.
func contentLength(values []string) (int64, error) {
	if len(values) == 0 {
		return -1, nil
	}
	for _, v := range values[1:] {
		if v != values[0] {
			return 0, malformed("there are several lengths")
		}
	}
	n, err := strconv.ParseUint(values[0], 10, 63)
	if err != nil {
		return 0, malformed("the length is " + strconv.Quote(excerpt([]byte(values[0]))))
	}
	return int64(n), nil
}
