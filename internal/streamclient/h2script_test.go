package streamclient

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// scripted is a server that does what a test says, on x/net's Framer.
type scripted struct {
	t    *testing.T
	ln   net.Listener
	work sync.WaitGroup
}

// peer is the server's side of one connection.
type peer struct {
	*http2.Framer
	nc    net.Conn
	block bytes.Buffer
	enc   *hpack.Encoder
}

// serve greets every connection and hands it over.
func (s *scripted) serve(f func(*peer)) {
	s.work.Go(func() {
		for {
			nc, err := s.ln.Accept()
			if err != nil {
				return
			}
			s.work.Go(func() {
				defer nc.Close()
				p := &peer{Framer: http2.NewFramer(nc, nc), nc: nc}
				p.enc = hpack.NewEncoder(&p.block)
				preface := make([]byte, len(http2.ClientPreface))
				if _, err := io.ReadFull(nc, preface); err != nil || string(preface) != http2.ClientPreface {
					return
				}
				f(p)
			})
		}
	})
}

func (s *scripted) wait() {
	s.ln.Close()
	s.work.Wait()
}

func newScripted(t *testing.T, f func(*peer)) Options {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s := &scripted{t: t, ln: ln}
	s.serve(f)
	t.Cleanup(s.wait)
	return Options{Addr: ln.Addr().String()}
}

// head writes an answer's head, or any other fields.
func (p *peer) head(id uint32, end bool, fields ...string) {
	p.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		p.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.block.Bytes(), EndHeaders: true, EndStream: end})
}

// until reads to a frame of a kind; nil when the connection ends before.
func (p *peer) until(kind http2.FrameType) http2.Frame {
	for {
		f, err := p.ReadFrame()
		if err != nil {
			return nil
		}
		if f.Header().Type == kind {
			return f
		}
	}
}

// answerAll greets and answers every request with an open stream.
func answerAll(p *peer) {
	p.WriteSettings()
	for {
		f := p.until(http2.FrameHeaders)
		if f == nil {
			return
		}
		p.head(f.Header().StreamID, false, ":status", "200")
	}
}

// TestH2RuleBreakers opens a stream, lets the server break a rule, and expects
// one clear error, and the code that the server is told.
func TestH2RuleBreakers(t *testing.T) {
	const id = 1
	ok := func(p *peer) { p.head(id, false, ":status", "200") }
	cases := []struct {
		name string
		do   func(p *peer)
		code http2.ErrCode
		want string
		one  bool // only the stream ends
	}{
		{"data on an idle stream", func(p *peer) { p.WriteData(7, false, []byte("x")) }, http2.ErrCodeProtocol, "never opened", false},
		{"data on the server's stream", func(p *peer) { p.WriteData(2, false, []byte("x")) }, http2.ErrCodeProtocol, "never opened", false},
		{
			"data on stream 0",
			func(p *peer) { p.WriteRawFrame(http2.FrameData, 0, 0, []byte("x")) },
			http2.ErrCodeProtocol,
			"is not allowed there",
			false,
		},
		{"data before the head", func(p *peer) { p.WriteData(id, false, []byte("x")) }, http2.ErrCodeProtocol, "before the head", true},
		{"reset of an idle stream", func(p *peer) { p.WriteRSTStream(9, 0) }, http2.ErrCodeProtocol, "never opened", false},
		{"window of an idle stream", func(p *peer) { p.WriteWindowUpdate(9, 1) }, http2.ErrCodeProtocol, "never opened", false},
		{
			"too large",
			func(p *peer) { p.WriteRawFrame(http2.FrameData, 0, id, make([]byte, 16385)) },
			http2.ErrCodeFrameSize,
			"16385 bytes",
			false,
		},
		{"beyond the stream's window", func(p *peer) {
			ok(p)
			p.WriteData(id, false, make([]byte, 16000))
		}, http2.ErrCodeFlowControl, "exceeds the stream's window", false},
		{"window overflow", func(p *peer) { p.WriteWindowUpdate(0, 1<<31-1) }, http2.ErrCodeFlowControl, "overflows", false},
		{"stream window overflow", func(p *peer) { p.WriteWindowUpdate(id, 1<<31-1) }, http2.ErrCodeFlowControl, "overflows", true},
		{"window update of nothing", func(p *peer) {
			p.WriteRawFrame(http2.FrameWindowUpdate, 0, 0, make([]byte, 4))
		}, http2.ErrCodeProtocol, "WINDOW_UPDATE of 0", false},
		{"push", func(p *peer) {
			p.WritePushPromise(http2.PushPromiseParam{StreamID: id, PromiseID: 2, EndHeaders: true})
		}, http2.ErrCodeProtocol, "switched off", false},
		{"continuation alone", func(p *peer) { p.WriteContinuation(id, true, nil) }, http2.ErrCodeProtocol, "out of place", false},
		{"between head and continuation", func(p *peer) {
			p.WriteHeaders(http2.HeadersFrameParam{StreamID: id})
			p.WritePing(false, [8]byte{})
		}, http2.ErrCodeProtocol, "out of place", false},
		{"continuation without end", func(p *peer) {
			p.WriteHeaders(http2.HeadersFrameParam{StreamID: id})
			for p.WriteContinuation(id, false, make([]byte, 16000)) == nil {
			}
		}, http2.ErrCodeEnhanceYourCalm, "larger than 256 KiB", false},
		{"hpack", func(p *peer) {
			p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte{0xff, 0xff, 0xff}, EndHeaders: true})
		}, http2.ErrCodeCompression, "decompressed", false},
		{"hpack table too large", func(p *peer) {
			p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte{0x3f, 0xff, 0xff, 0x03}, EndHeaders: true})
		}, http2.ErrCodeCompression, "decompressed", false},
		{"list too large", func(p *peer) {
			fields := []string{":status", "200"}
			for range 40 {
				fields = append(fields, "x", strings.Repeat("y", 4000))
			}
			p.block.Reset()
			for i := 0; i < len(fields); i += 2 {
				p.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1], Sensitive: true})
			}
			b := p.block.Bytes()
			p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: b[:10]})
			for b = b[10:]; len(b) > 16000; b = b[16000:] {
				p.WriteContinuation(id, false, b[:16000])
			}
			p.WriteContinuation(id, true, b)
		}, http2.ErrCodeProtocol, "a head of more than", true},
		{"no status", func(p *peer) { p.head(id, false, "x", "y") }, http2.ErrCodeProtocol, "without a status", true},
		{"odd status", func(p *peer) { p.head(id, false, ":status", "2000") }, http2.ErrCodeProtocol, `status "2000"`, true},
		{
			"pseudo field late",
			func(p *peer) { p.head(id, false, "x", "y", ":status", "200") },
			http2.ErrCodeProtocol,
			"where it is not allowed",
			true,
		},
		{"upper case", func(p *peer) { p.head(id, false, ":status", "200", "X-Y", "z") }, http2.ErrCodeProtocol, "malformed field", true},
		{
			"connection field",
			func(p *peer) { p.head(id, false, ":status", "200", "connection", "close") },
			http2.ErrCodeProtocol,
			"does not have",
			true,
		},
		{"second head", func(p *peer) { ok(p); ok(p) }, http2.ErrCodeProtocol, "second head", true},
		{"switching", func(p *peer) { p.head(id, false, ":status", "101") }, http2.ErrCodeProtocol, "interim", true},
		{"interim without end", func(p *peer) {
			for range 20 {
				p.head(id, false, ":status", "103")
			}
		}, http2.ErrCodeProtocol, "interim", true},
		{"body too short", func(p *peer) {
			p.head(id, false, ":status", "200", "content-length", "9")
			p.WriteData(id, true, []byte("x"))
		}, http2.ErrCodeProtocol, "another length", true},
		{"body too long", func(p *peer) {
			p.head(id, false, ":status", "200", "content-length", "1")
			p.WriteData(id, false, []byte("xyz"))
		}, http2.ErrCodeProtocol, "another length", true},
		{
			"odd length",
			func(p *peer) { p.head(id, false, ":status", "200", "content-length", "-1") },
			http2.ErrCodeProtocol,
			"Content-Length",
			true,
		},
		{"setting out of range", func(p *peer) {
			p.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1})
		}, http2.ErrCodeProtocol, "MAX_FRAME_SIZE = 1", false},
		{"window setting out of range", func(p *peer) {
			p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 31})
		}, http2.ErrCodeFlowControl, "INITIAL_WINDOW_SIZE", false},
		{
			"ping of a wrong size",
			func(p *peer) { p.WriteRawFrame(http2.FramePing, 0, 0, []byte("x")) },
			http2.ErrCodeFrameSize,
			"wrong size",
			false,
		},
		{
			"padding",
			func(p *peer) { ok(p); p.WriteRawFrame(http2.FrameData, http2.FlagDataPadded, id, []byte{9, 1}) },
			http2.ErrCodeProtocol,
			"padding",
			false,
		},
		{"second ack", func(p *peer) { p.WriteSettingsAck(); p.WriteSettingsAck() }, http2.ErrCodeProtocol, "not sent", false},
		{
			"goaway goes up",
			func(p *peer) { p.WriteGoAway(1, 0, nil); p.WriteGoAway(3, 0, nil) },
			http2.ErrCodeProtocol,
			"higher last stream",
			false,
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			told := make(chan http2.ErrCode, 1)
			o := newScripted(t, func(p *peer) {
				p.AllowIllegalWrites = true
				p.WriteSettings()
				if p.until(http2.FrameHeaders) == nil {
					return
				}
				c.do(p)
				if c.one {
					if f, ok := p.until(http2.FrameRSTStream).(*http2.RSTStreamFrame); ok {
						told <- f.ErrCode
					}
				} else if f, ok := p.until(http2.FrameGoAway).(*http2.GoAwayFrame); ok {
					told <- f.ErrCode
				}
				close(told)
			})
			p := startH2(t, o, func(l *h2Limits) { l.window = 15_000 })
			s := newHeard()
			p.Open(t.Context(), post(""), s)
			err := s.over()
			var rule *RuleError
			if !errors.As(err, &rule) || rule.Code != c.code || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, want %v and %q", err, c.code, c.want)
			}
			// A server that writes without end may lose the farewell.
			if code, ok := <-told; c.name != "continuation without end" && (!ok || code != c.code) {
				t.Errorf("the server was told %v (%v), want %v", code, ok, c.code)
			}
			p.Close()
		})
	}
}

// TestH2AfterTheEnd: DATA after END_STREAM is the server's fault, DATA that
// crosses with our reset is not.
func TestH2AfterTheEnd(t *testing.T) {
	o := newScripted(t, func(p *peer) {
		p.WriteSettings()
		p.until(http2.FrameHeaders)
		p.head(1, false, ":status", "200")
		p.until(http2.FrameHeaders)
		p.head(3, false, ":status", "200")
		if f := p.until(http2.FrameRSTStream); f == nil || f.Header().StreamID != 1 {
			return
		}
		p.WriteData(1, false, []byte("crossed"))
		p.WriteData(3, true, []byte("end"))
		p.until(http2.FrameHeaders)
		p.WriteData(3, true, []byte("too late"))
		p.until(http2.FrameGoAway)
	})
	p := startH2(t, o, nil)
	one, two, three := newHeard(), newHeard(), newHeard()
	first := p.Open(t.Context(), post(""), one)
	one.opened(t)
	p.Open(t.Context(), post(""), two)
	two.opened(t)
	first.Close()
	if err := one.over(); err != ErrClosed {
		t.Error(err)
	}
	if err := two.over(); err != io.EOF || string(two.body) != "end" {
		t.Errorf("%v %q", err, two.body)
	}
	p.Open(t.Context(), post(""), three)
	var rule *RuleError
	if err := three.over(); !errors.As(err, &rule) || rule.Code != http2.ErrCodeStreamClosed {
		t.Error(err)
	}
}

// TestH2Refused: what the server says it has not processed may be repeated.
func TestH2Refused(t *testing.T) {
	o := newScripted(t, func(p *peer) {
		p.WriteSettings()
		p.until(http2.FrameHeaders)
		p.WriteRSTStream(1, http2.ErrCodeRefusedStream)
		p.until(http2.FrameHeaders)
		p.head(3, false, ":status", "200")
		p.until(http2.FrameHeaders)
		p.WriteGoAway(3, http2.ErrCodeEnhanceYourCalm, []byte("too many"))
		if p.until(http2.FramePing) != nil {
			return
		}
	})
	p := startH2(t, o, nil)
	s := newHeard()
	p.Open(t.Context(), post(""), s)
	if err := s.over(); !errors.Is(err, ErrRefusedStream) {
		t.Error(err)
	}
	stays := newHeard()
	p.Open(t.Context(), post(""), stays)
	stays.opened(t)
	s = newHeard()
	p.Open(t.Context(), post(""), s)
	if err := s.over(); !errors.Is(err, ErrRefusedStream) || !strings.Contains(err.Error(), `ENHANCE_YOUR_CALM "too many"`) {
		t.Error(err)
	}
	p.Close()
	if err := stays.over(); err != ErrClosed {
		t.Error(err)
	}
}

// TestH2Breaks: an end without a frame is not an end in order, and what was
// said before is told.
func TestH2Breaks(t *testing.T) {
	o := newScripted(t, func(p *peer) {
		p.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 0})
		p.WriteSettings()
		p.until(http2.FrameGoAway)
	})
	p := startH2(t, o, nil)
	s := newHeard()
	p.Open(t.Context(), post(""), s)
	if err := s.over(); !strings.Contains(err.Error(), "allows no streams") {
		t.Error(err)
	}
	p.Close()
	o = newScripted(t, func(p *peer) {
		p.WriteSettings()
		p.until(http2.FrameHeaders)
		p.head(1, false, ":status", "200")
		p.WriteGoAway(1, http2.ErrCodeInternal, []byte("on publish"))
	})
	p = startH2(t, o, nil)
	s = newHeard()
	p.Open(t.Context(), post(""), s)
	if err := s.over(); !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), `INTERNAL_ERROR "on publish"`) {
		t.Error(err)
	}
}

// TestH2Alive: a silent server is asked; one that does not answer is dead.
func TestH2Alive(t *testing.T) {
	answered := make(chan struct{})
	o := newScripted(t, func(p *peer) {
		p.WriteSettings()
		p.until(http2.FrameHeaders)
		p.WritePing(false, [8]byte{1, 2, 3})
		for {
			f, _ := p.until(http2.FramePing).(*http2.PingFrame)
			if f == nil {
				return
			}
			if f.IsAck() && f.Data == [8]byte{1, 2, 3} {
				close(answered)
				p.until(http2.FramePing) // ours, which is not answered
				p.until(http2.FrameGoAway)
				return
			}
		}
	})
	p := startH2(t, o, func(l *h2Limits) { l.pingAfter, l.pingTimeout = 20*time.Millisecond, 10*time.Millisecond })
	s := newHeard()
	p.Open(t.Context(), post(""), s)
	if err := s.over(); !strings.Contains(err.Error(), "no answer to a PING") {
		t.Error(err)
	}
}
