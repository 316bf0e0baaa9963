package streamclient

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"golang.org/x/net/http2"
)

// FuzzH2Frames holds the frame reader to x/net's Framer: the same frames from
// the same bytes, however they are cut, and an end at the same place.
func FuzzH2Frames(f *testing.F) {
	var b bytes.Buffer
	w := http2.NewFramer(&b, nil)
	w.AllowIllegalWrites = true
	w.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1 << 14})
	w.WriteHeaders(
		http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x88}, PadLength: 3, Priority: http2.PriorityParam{Weight: 3}},
	)
	w.WriteContinuation(1, true, []byte{0x88})
	w.WriteData(1, false, []byte("data: x\n\n"))
	w.WriteDataPadded(1, true, []byte("y"), make([]byte, 9))
	w.WritePing(true, [8]byte{1})
	w.WriteWindowUpdate(0, 7)
	w.WriteRSTStream(3, 8)
	w.WriteGoAway(3, 1, []byte("why"))
	f.Add(b.Bytes(), false)
	f.Add(b.Bytes(), true)
	f.Add(append(b.Bytes(), 0, 0x40, 1, 0, 0, 0, 0, 0, 1), false) // too large
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"), true)
	f.Add([]byte{0, 0, 1, 0, 8, 0, 0, 0, 1, 9}, false) // all padding
	f.Add([]byte{0, 0, 0, 9, 4, 0, 0, 0, 1}, false)    // CONTINUATION alone
	f.Fuzz(func(t *testing.T, in []byte, bytewise bool) {
		var src io.Reader = bytes.NewReader(in)
		if bytewise {
			src = iotest.OneByteReader(src)
		}
		ours := h2Frames{read: func(b []byte) (int, Arrival, error) {
			n, err := src.Read(b)
			return n, Arrival{}, err
		}}
		theirs := http2.NewFramer(nil, bytes.NewReader(in))
		theirs.SetMaxReadFrameSize(h2MaxFrame)
		for {
			want, wantErr := theirs.ReadFrame()
			fr, _, err := ours.next()
			var content []byte
			if err == nil && (fr.kind == http2.FrameData || fr.kind == http2.FrameHeaders) {
				content, err = fr.unpad()
			}
			if wantErr != nil {
				if !sameEnd(fr, err, wantErr) {
					t.Fatalf("theirs ends with %v, ours gives %v and %v", wantErr, fr, err)
				}
				return
			}
			if err != nil {
				t.Fatalf("ours ends with %v, theirs gives %v", err, want)
			}
			h := want.Header()
			if h.Type != fr.kind || h.Flags != fr.flags || h.StreamID != fr.id || int(h.Length) != len(fr.payload) {
				t.Fatalf("theirs %v, ours %v", h, fr)
			}
			switch want := want.(type) {
			case *http2.DataFrame:
				if !bytes.Equal(want.Data(), content) {
					t.Fatalf("data %q, ours %q", want.Data(), content)
				}
			case *http2.HeadersFrame:
				if !bytes.Equal(want.HeaderBlockFragment(), content) {
					t.Fatalf("block %q, ours %q", want.HeaderBlockFragment(), content)
				}
			}
		}
	})
}

// sameEnd says whether both readers stop for the same reason, or ours leaves
// the judgement to what handles the frame: increments and settings are looked
// at there, and a PUSH_PROMISE is refused whatever is in it.
func sameEnd(fr h2Frame, err, want error) bool {
	var rule *RuleError
	code, ruled := http2.ErrCode(0), errors.As(err, &rule)
	var conn http2.ConnectionError
	var stream http2.StreamError
	switch {
	case errors.Is(err, io.EOF): // ours judges whole frames only, theirs by the first nine bytes
		return true
	case fr.kind == http2.FrameWindowUpdate && err == nil, fr.kind == http2.FramePushPromise,
		fr.kind == http2.FrameSettings && err == nil:
		return true
	case fr.kind == http2.FramePriorityUpdate: // unknown to us, and left alone
		return true
	case errors.Is(want, http2.ErrFrameTooLarge):
		code = http2.ErrCodeFrameSize
	case errors.As(want, &conn):
		code = http2.ErrCode(conn)
	case errors.As(want, &stream):
		code = stream.Code
	default: // too short: theirs says EOF there, too
		return err != nil
	}
	if ruled && (code == http2.ErrCodeFrameSize || code == http2.ErrCodeProtocol) {
		// A frame with two faults has one of two codes.
		return rule.Code == http2.ErrCodeFrameSize || rule.Code == http2.ErrCodeProtocol
	}
	return ruled && rule.Code == code
}
