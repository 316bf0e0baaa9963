package streamclient

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/net/http2"
)

const (
	h2HeaderLen = 9
	// h2MaxFrame is the largest payload of a frame that is accepted, in bytes, the
	// default of RFC 9113.
	h2MaxFrame = 16 << 10
	// A connection's read buffer begins with room for one frame and grows when
	// a read fills it: more frames in one read need fewer system calls.
	h2SmallBuffer, h2LargeBuffer = h2MaxFrame + 2<<10, 64 << 10
)

// h2Frame is one frame. Its payload is valid until the next one is read.
type h2Frame struct {
	kind    http2.FrameType
	flags   http2.Flags
	id      uint32
	payload []byte
}

// h2Frames splits the bytes of a connection into frames, in its own buffer.
type h2Frames struct {
	read func([]byte) (int, Arrival, error)
	buf  []byte
	r, w int
	at   Arrival // of the last read
	cont uint32  // the stream whose CONTINUATION has to come next, 0 = none
}

// next returns the next frame, as far as check can check it, and the arrival of
// its last byte. The error is a *RuleError or that of the read.
func (f *h2Frames) next() (h2Frame, Arrival, error) {
	for {
		if f.w-f.r >= h2HeaderLen {
			h := f.buf[f.r : f.r+h2HeaderLen : f.r+h2HeaderLen]
			n := int(h[0])<<16 | int(h[1])<<8 | int(h[2])
			if n > h2MaxFrame {
				return h2Frame{}, f.at, f.tooLarge(h, n)
			}
			if f.w-f.r >= h2HeaderLen+n {
				begin := f.r + h2HeaderLen
				f.r = begin + n
				fr := h2Frame{
					kind: http2.FrameType(h[3]), flags: http2.Flags(h[4]),
					id: binary.BigEndian.Uint32(h[5:]) & (1<<31 - 1), payload: f.buf[begin:f.r:f.r],
				}
				at := f.at
				at.Shared = f.r < f.w
				return fr, at, f.check(&fr)
			}
		}
		if err := f.fill(); err != nil {
			return h2Frame{}, f.at, err
		}
	}
}

// fill reads once, and appends to the bytes that are left over.
func (f *h2Frames) fill() error {
	left := f.w - f.r
	switch {
	case f.buf == nil:
		f.buf = make([]byte, h2SmallBuffer)
	case f.w == len(f.buf) && len(f.buf) < h2LargeBuffer:
		b := make([]byte, h2LargeBuffer)
		copy(b, f.buf[f.r:f.w])
		f.buf = b
	case f.r > 0:
		copy(f.buf, f.buf[f.r:f.w])
	}
	f.r, f.w = 0, left
	n, at, err := f.read(f.buf[left:])
	f.w += n
	if n > 0 {
		f.at = at
		return nil // the next read returns the error again
	}
	return err
}

func (f *h2Frames) tooLarge(h []byte, n int) error {
	if string(h[:5]) == "HTTP/" {
		return &RuleError{http2.ErrCodeFrameSize, "it answered in HTTP/1"}
	}
	return &RuleError{
		http2.ErrCodeFrameSize,
		fmt.Sprintf("a %s frame of %d bytes, where %d are allowed", http2.FrameType(h[3]), n, h2MaxFrame),
	}
}

// check applies the rules that need no knowledge of the frame's stream.
func (f *h2Frames) check(fr *h2Frame) error {
	if fr.kind == http2.FrameData && f.cont == 0 && fr.id != 0 { // nearly every frame
		return nil
	}
	if (f.cont != 0) != (fr.kind == http2.FrameContinuation) || f.cont != 0 && fr.id != f.cont {
		return fr.broken(http2.ErrCodeProtocol, "is out of place among CONTINUATION frames")
	}
	switch fr.kind {
	case http2.FrameHeaders, http2.FrameContinuation:
		f.cont = fr.id
		if fr.flags.Has(http2.FlagHeadersEndHeaders) {
			f.cont = 0
		}
	}
	size := len(fr.payload)
	onStream, fits := true, true
	switch fr.kind {
	case http2.FrameData, http2.FrameHeaders, http2.FrameContinuation, http2.FramePushPromise:
	case http2.FramePriority:
		fits = size == 5
	case http2.FrameRSTStream:
		fits = size == 4
	case http2.FrameSettings:
		onStream, fits = false, size%6 == 0 && (size == 0 || !fr.flags.Has(http2.FlagSettingsAck))
	case http2.FramePing:
		onStream, fits = false, size == 8
	case http2.FrameGoAway:
		onStream, fits = false, size >= 8
	case http2.FrameWindowUpdate:
		if size != 4 {
			return fr.broken(http2.ErrCodeFrameSize, "has a wrong size")
		}
		return nil
	default: // unknown types are ignored
		return nil
	}
	if onStream != (fr.id != 0) {
		return fr.broken(http2.ErrCodeProtocol, "is not allowed there")
	}
	if !fits {
		return fr.broken(http2.ErrCodeFrameSize, "has a wrong size")
	}
	return nil
}

// unpad returns the payload of DATA or HEADERS without its padding, and without the
// priority of HEADERS.
func (fr *h2Frame) unpad() ([]byte, error) {
	p, pad := fr.payload, 0
	if fr.flags.Has(http2.FlagDataPadded) {
		if len(p) == 0 {
			return nil, fr.broken(http2.ErrCodeFrameSize, "is too short for its padding")
		}
		p, pad = p[1:], int(p[0])
	}
	if fr.kind == http2.FrameHeaders && fr.flags.Has(http2.FlagHeadersPriority) {
		if len(p) < 5 {
			return nil, fr.broken(http2.ErrCodeFrameSize, "is too short for its priority")
		}
		p = p[5:]
	}
	if pad > len(p) {
		return nil, fr.broken(http2.ErrCodeProtocol, "has more padding than payload")
	}
	return p[:len(p)-pad], nil
}

func (fr *h2Frame) broken(code http2.ErrCode, what string) error {
	return &RuleError{code, fmt.Sprintf("a %s frame on stream %d %s", fr.kind, fr.id, what)}
}

// appendFrameHeader begins a frame of n bytes.
func appendFrameHeader(dst []byte, n int, kind http2.FrameType, flags http2.Flags, id uint32) []byte {
	dst = append(dst, byte(n>>16), byte(n>>8), byte(n), byte(kind), byte(flags))
	return binary.BigEndian.AppendUint32(dst, id)
}

func appendNumberFrame(dst []byte, kind http2.FrameType, id, v uint32) []byte {
	return binary.BigEndian.AppendUint32(appendFrameHeader(dst, 4, kind, 0, id), v)
}

func appendPing(dst []byte, flags http2.Flags, payload []byte) []byte {
	return append(appendFrameHeader(dst, 8, http2.FramePing, flags, 0), payload...)
}

func appendGoAway(dst []byte, code http2.ErrCode, why string) []byte {
	dst = appendFrameHeader(dst, 8+len(why), http2.FrameGoAway, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, 0) // we accepted no stream of the server
	dst = binary.BigEndian.AppendUint32(dst, uint32(code))
	return append(dst, why...)
}

func appendSetting(dst []byte, id http2.SettingID, v uint32) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(id))
	return binary.BigEndian.AppendUint32(dst, v)
}
