package streamclient

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// readAll reads frames until the connection ends.
func (c *h2Conn) readAll() error {
	for {
		fr, at, err := c.in.next()
		if err != nil {
			return err
		}
		if fr.kind == http2.FrameData {
			err = c.data(&fr, at)
		} else {
			err = c.other(&fr, at)
		}
		if err == nil && (fr.kind != http2.FrameData || len(fr.payload) == 0) {
			err = c.idle(at.At)
		}
		if err != nil {
			return err
		}
	}
}

// idle counts a frame that carries nothing of an answer.
func (c *h2Conn) idle(now int64) error {
	if now-c.idleSince > int64(time.Second) {
		c.idleFrames, c.idleSince = 0, now
	}
	if c.idleFrames++; c.idleFrames > maxIdleFrames {
		return &RuleError{http2.ErrCodeEnhanceYourCalm, "a flood of frames that carry nothing"}
	}
	return nil
}

// data is the hot path: it takes one lock that nobody else wants most of the
// time, and allocates nothing.
func (c *h2Conn) data(fr *h2Frame, at Arrival) error {
	if !c.greeted { // written by this goroutine only
		return fr.broken(http2.ErrCodeProtocol, "came before SETTINGS")
	}
	size := int64(len(fr.payload)) // padding counts against windows
	if err := c.charge(size); err != nil {
		return err
	}
	body, err := fr.unpad()
	if err != nil {
		return err
	}
	s, err := c.findNear(fr)
	if s == nil || err != nil {
		return err
	}
	ended := fr.flags.Has(http2.FlagDataEndStream)
	switch taken := int64(s.taken.Add(int32(size))); {
	case taken > c.client.limits.window:
		return fr.broken(http2.ErrCodeFlowControl, "exceeds the stream's window")
	case taken >= c.client.limits.window/2 && !ended && s.kept.Load() == nil:
		if err := c.say(appendNumberFrame(nil, http2.FrameWindowUpdate, s.id, uint32(s.taken.Swap(0)))); err != nil {
			return err
		}
	}
	if !s.headed {
		c.malformed(s, "DATA before the head of the answer")
		return nil
	}
	if s.left >= 0 {
		if s.left -= int64(len(body)); s.left < 0 || ended && s.left > 0 {
			c.malformed(s, "a body of another length than its Content-Length")
			return nil
		}
	}
	if len(body) > 0 && !s.piece(body, at) {
		c.drop(s, http2.ErrCodeCancel)
		return nil
	}
	if ended {
		c.ended(s)
	}
	return nil
}

// charge counts bytes against the connection's window and refills it by halves.
func (c *h2Conn) charge(size int64) error {
	c.taken += size
	if c.taken > c.client.limits.connWindow {
		return &RuleError{http2.ErrCodeFlowControl, "more DATA than the connection's window holds"}
	}
	if c.taken < c.client.limits.connWindow/2 {
		return nil
	}
	n := uint32(c.taken)
	c.taken = 0
	return c.say(appendNumberFrame(nil, http2.FrameWindowUpdate, 0, n))
}

// ended handles the end of an answer.
func (c *h2Conn) ended(s *h2Stream) {
	if !s.headed {
		c.malformed(s, "an end before the head of the answer")
		return
	}
	if s.left > 0 {
		c.malformed(s, "a body shorter than its Content-Length")
		return
	}
	s.tell(errInOrder, false)
	c.mu.Lock()
	sent := s.sent
	c.mu.Unlock()
	if !sent { // the server does not want the rest of the request
		c.drop(s, http2.ErrCodeCancel)
		return
	}
	c.forget(s)
}

// malformed ends a stream whose answer violates HTTP/2.
func (c *h2Conn) malformed(s *h2Stream, what string) {
	s.tell(&RuleError{http2.ErrCodeProtocol, what}, false)
	c.drop(s, http2.ErrCodeProtocol)
}

// other handles a frame that is not DATA.
func (c *h2Conn) other(fr *h2Frame, at Arrival) error {
	if !c.greeted && (fr.kind != http2.FrameSettings || fr.flags.Has(http2.FlagSettingsAck)) {
		return fr.broken(http2.ErrCodeProtocol, "came before SETTINGS")
	}
	switch fr.kind {
	case http2.FrameHeaders, http2.FrameContinuation:
		return c.headers(fr, at)
	case http2.FrameSettings:
		return c.settings(fr)
	case http2.FramePing:
		return c.ping(fr)
	case http2.FrameRSTStream:
		return c.reset(fr)
	case http2.FrameWindowUpdate:
		return c.widen(fr)
	case http2.FrameGoAway:
		return c.goingAway(fr)
	case http2.FramePushPromise:
		return fr.broken(http2.ErrCodeProtocol, "although pushing is switched off")
	}
	return nil // PRIORITY and unknown types are ignored
}

// settings applies and answers the server's SETTINGS. The first one makes the
// connection ready.
func (c *h2Conn) settings(fr *h2Frame) error {
	c.mu.Lock()
	if fr.flags.Has(http2.FlagSettingsAck) {
		again := c.acked
		c.acked = true
		c.mu.Unlock()
		if again {
			return fr.broken(http2.ErrCodeProtocol, "acknowledges SETTINGS that were not sent")
		}
		return nil
	}
	for p := fr.payload; len(p) > 0; p = p[6:] {
		if err := c.apply(http2.SettingID(binary.BigEndian.Uint16(p)), binary.BigEndian.Uint32(p[2:])); err != nil {
			c.mu.Unlock()
			return err
		}
	}
	err := c.sayLocked(appendFrameHeader(nil, 0, http2.FrameSettings, http2.FlagSettingsAck, 0))
	first, room := !c.greeted, c.room()
	c.greeted = true
	c.mu.Unlock()
	switch {
	case err != nil:
		return err
	case !first:
		c.client.freed(c) // there may be more room now
	case room == 0:
		c.greeted = false // no stream was placed
		return errors.New("the server allows no streams")
	default:
		_ = c.nc.SetReadDeadline(time.Time{}) // fails only when closed, and then the read fails, too
		c.client.ready(c, room)
	}
	return nil
}

// apply applies one setting. The caller holds c.mu.
func (c *h2Conn) apply(id http2.SettingID, v uint32) error {
	wrong := func(code http2.ErrCode) error {
		return &RuleError{code, fmt.Sprintf("SETTINGS with %s = %d", id, v)}
	}
	switch id {
	case http2.SettingHeaderTableSize:
		c.peer.table = v
	case http2.SettingEnablePush:
		if v != 0 {
			return wrong(http2.ErrCodeProtocol)
		}
	case http2.SettingMaxConcurrentStreams:
		c.peer.streams = v
	case http2.SettingMaxHeaderListSize:
		c.peer.headerList = v
	case http2.SettingMaxFrameSize:
		if v < 1<<14 || v > 1<<24-1 {
			return wrong(http2.ErrCodeProtocol)
		}
		c.peer.frame = int(v)
	case http2.SettingInitialWindowSize:
		if v > maxWindow {
			return wrong(http2.ErrCodeFlowControl)
		}
		for _, s := range c.table {
			if int64(v)+int64(s.delta) > maxWindow {
				return wrong(http2.ErrCodeFlowControl)
			}
		}
		c.peer.window = int64(v)
	}
	return nil
}

func (c *h2Conn) ping(fr *h2Frame) error {
	if !fr.flags.Has(http2.FlagPingAck) {
		return c.say(appendPing(nil, http2.FlagPingAck, fr.payload))
	}
	if string(fr.payload) == string(pingResets) {
		c.mu.Lock()
		c.olderResets = nil
		c.mu.Unlock()
	}
	return nil
}

func (c *h2Conn) reset(fr *h2Frame) error {
	s, err := c.find(fr)
	if s == nil || err != nil {
		return err
	}
	code := http2.ErrCode(binary.BigEndian.Uint32(fr.payload))
	var why error = &ResetError{code}
	if code == http2.ErrCodeRefusedStream {
		why = fmt.Errorf("%w: it reset the stream: %s", ErrRefusedStream, code)
	}
	s.tell(why, false)
	c.forget(s)
	return nil
}

// widen lets more of a request's body be sent.
func (c *h2Conn) widen(fr *h2Frame) error {
	n := int64(binary.BigEndian.Uint32(fr.payload) & (1<<31 - 1))
	c.mu.Lock()
	if fr.id == 0 {
		defer c.mu.Unlock()
		if n == 0 || c.window+n > maxWindow {
			return badUpdate(fr, n)
		}
		c.window += n
		c.resume()
		return nil
	}
	s := c.table[fr.id]
	if s == nil {
		defer c.mu.Unlock()
		return c.stray(fr)
	}
	if n == 0 || c.peer.window+int64(s.delta)+n > maxWindow {
		c.mu.Unlock()
		err := badUpdate(fr, n)
		s.tell(err, false)
		c.drop(s, err.Code)
		return nil
	}
	s.delta += int32(n)
	c.resume()
	c.mu.Unlock()
	return nil
}

func badUpdate(fr *h2Frame, n int64) *RuleError {
	if n == 0 {
		return &RuleError{http2.ErrCodeProtocol, "a WINDOW_UPDATE of 0"}
	}
	return &RuleError{http2.ErrCodeFlowControl, fmt.Sprintf("a WINDOW_UPDATE of %d on stream %d overflows the window", n, fr.id)}
}

// resume wakes the writer if bodies wait. The caller holds c.mu.
func (c *h2Conn) resume() {
	if len(c.stalled) > 0 {
		c.nudge()
	}
}

// goingAway handles GOAWAY: streams above its number were not processed, the
// others go on.
func (c *h2Conn) goingAway(fr *h2Frame) error {
	last := binary.BigEndian.Uint32(fr.payload) & (1<<31 - 1)
	code := http2.ErrCode(binary.BigEndian.Uint32(fr.payload[4:]))
	c.mu.Lock()
	if last > c.last {
		c.mu.Unlock()
		return fr.broken(http2.ErrCodeProtocol, "has a higher last stream than an earlier one")
	}
	c.draining, c.last = true, last
	c.goAway = code.String()
	if said := fr.payload[8:]; len(said) > 0 {
		c.goAway += " " + strconv.Quote(string(said[:min(len(said), 200)]))
	}
	why := fmt.Errorf("%w: GOAWAY %s", ErrRefusedStream, c.goAway)
	refused := c.opens
	c.opens = nil
	c.open -= len(refused)
	for id, s := range c.table {
		if id > last {
			refused = append(refused, s)
			c.forgetLocked(s)
		}
	}
	done := c.open == 0
	c.mu.Unlock()
	for _, s := range refused {
		s.tell(why, false)
	}
	if done {
		return errDone
	}
	return nil
}

// errInOrder is the error of Closed for a complete answer.
var errInOrder = io.EOF

const (
	// maxBlock bounds the compressed head, in bytes: a server could send
	// CONTINUATION without end.
	maxBlock = 256 << 10
)

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
			return fr.broken(http2.ErrCodeEnhanceYourCalm, "makes the compressed head larger than 256 KiB")
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
	// Blocks of streams that are over are decoded, too: each one changes the
	// compression table.
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
			h.wrong = "a head with " + strconv.Quote(f.Name) + " where it is not allowed"
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

// headed handles a complete head: that of an interim answer or of the answer, or
// trailers.
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
			c.malformed(s, "an interim head that is not allowed")
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

// h2Length returns the length of the body, in bytes; -1 if the head does not have it.
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

// h2HeadSize returns the size of a head in bytes, as text of HTTP/1.1.
func h2HeadSize(status int, h http.Header) int64 {
	n := len("HTTP/1.1 200 \r\n\r\n") + len(http.StatusText(status))
	for k, vs := range h {
		for _, v := range vs {
			n += len(k) + len(v) + len(": \r\n")
		}
	}
	return int64(n)
}
