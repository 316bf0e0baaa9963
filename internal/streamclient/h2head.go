package streamclient

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/eventmeter/eventmeter/internal/budget"
	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// errInOrder is the end of an answer that ended as it should.
var errInOrder = io.EOF

const (
	// maxBlock bounds the compressed head, in bytes: a CONTINUATION without end.
	maxBlock = 256 << 10
)

// h2Head reads one header block at a time.
type h2Head struct {
	decoder *hpack.Decoder
	limit   uint32
	block   []byte      // what came so far, where there is CONTINUATION
	hold    budget.Hold // of block
	frame   h2Frame

	status  int
	header  http.Header
	list    uint32 // its size as RFC 9113 counts it
	regular bool   // a regular field came
	wrong   string
}

// headers gathers a header block and acts on it when it is complete.
func (c *h2Conn) headers(fr *h2Frame, at Arrival) error {
	h := &c.head
	block := fr.payload
	if fr.kind == http2.FrameHeaders {
		var err error
		if block, err = fr.unpad(); err != nil {
			return err
		}
		h.frame = *fr
		h.frame.payload = nil
	}
	if !fr.flags.Has(http2.FlagHeadersEndHeaders) || fr.kind == http2.FrameContinuation {
		if h.block = append(h.block, block...); len(h.block) > maxBlock {
			return fr.broken(http2.ErrCodeEnhanceYourCalm, "makes a head without end")
		}
		if err := h.hold.Resize(cap(h.block)); err != nil {
			return err
		}
		if !fr.flags.Has(http2.FlagHeadersEndHeaders) {
			return nil
		}
		block, h.block = h.block, nil
		h.hold.Drop()
	}
	h.status, h.header, h.list, h.regular, h.wrong = 0, http.Header{}, 0, false, ""
	// Blocks of streams that are gone are decoded, too: the table goes on.
	_, err := h.decoder.Write(block)
	if err == nil {
		err = h.decoder.Close()
	}
	if err != nil {
		return &RuleError{http2.ErrCodeCompression, "a head that cannot be decompressed: " + err.Error()}
	}
	s, err := c.find(&h.frame)
	if s == nil || err != nil {
		return err
	}
	c.headed(s, at)
	return nil
}

// field takes one header field from the decoder.
func (h *h2Head) field(f hpack.HeaderField) {
	if h.list += f.Size(); h.list > h.limit {
		h.wrong, h.header = "a head of more than "+strconv.Itoa(int(h.limit))+" bytes", nil
	}
	if h.wrong != "" {
		return
	}
	if f.IsPseudo() {
		switch {
		case f.Name != ":status" || h.status != 0 || h.regular:
			h.wrong = "a head with " + strconv.Quote(f.Name) + " where it cannot be"
		case len(f.Value) != 3 || strings.Trim(f.Value, "0123456789") != "" || f.Value[0] == '0':
			h.wrong = "a head with status " + strconv.Quote(f.Value)
		default:
			h.status, _ = strconv.Atoi(f.Value) // three digits
		}
		return
	}
	h.regular = true
	switch {
	case !httpguts.ValidHeaderFieldName(f.Name) || strings.ToLower(f.Name) != f.Name || !httpguts.ValidHeaderFieldValue(f.Value):
		h.wrong = "a head with the malformed field " + strconv.Quote(f.Name)
	case f.Name == "connection" || f.Name == "transfer-encoding" || f.Name == "upgrade":
		h.wrong = "a head with the field " + f.Name + ", which HTTP/2 does not have"
	default:
		key := http.CanonicalHeaderKey(f.Name)
		h.header[key] = append(h.header[key], f.Value)
	}
}

// headed acts on a complete head: an interim one, the answer's, or trailers.
func (c *h2Conn) headed(s *h2Stream, at Arrival) {
	h := &c.head
	ended := h.frame.flags.Has(http2.FlagHeadersEndStream)
	switch {
	case h.wrong != "":
		c.malformed(s, h.wrong)
	case s.headed && (h.status != 0 || !ended):
		c.malformed(s, "a second head")
	case s.headed: // trailers
		c.ended(s)
	case h.status == 0:
		c.malformed(s, "a head without a status")
	case h.status < 200:
		if s.interim++; ended || h.status == http.StatusSwitchingProtocols || s.interim > maxInterim {
			c.malformed(s, "an interim head that cannot be")
		}
	default:
		c.answered(s, at, ended)
	}
}

// answered handles the head of an answer.
func (c *h2Conn) answered(s *h2Stream, at Arrival, ended bool) {
	h := &c.head
	s.headed = true
	length, err := h2Length(h.header, h.status)
	if err != nil {
		c.malformed(s, err.Error())
		return
	}
	s.left = length
	head := Head{Status: h.status, Proto: "HTTP/2.0", Header: h.header, Size: h2HeadSize(h.status, h.header)}
	h.header = nil // the sink's now
	if !s.head(head, at) {
		c.drop(s, http2.ErrCodeCancel)
		return
	}
	if ended {
		c.ended(s)
	}
}

// h2Length is how long the body will be; -1 when nothing says so.
func h2Length(h http.Header, status int) (int64, error) {
	vs := h["Content-Length"]
	if len(vs) == 0 || status == http.StatusNoContent || status == http.StatusNotModified {
		return -1, nil
	}
	n, err := strconv.ParseUint(vs[0], 10, 63)
	if err != nil || len(vs) > 1 {
		return 0, errors.New("a Content-Length of " + strconv.Quote(strings.Join(vs, ", ")))
	}
	return int64(n), nil
}

// h2HeadSize is what a head takes as text of HTTP/1.1.
func h2HeadSize(status int, h http.Header) int64 {
	n := len("HTTP/1.1 200 \r\n\r\n") + len(http.StatusText(status))
	for k, vs := range h {
		for _, v := range vs {
			n += len(k) + len(v) + len(": \r\n")
		}
	}
	return int64(n)
}
