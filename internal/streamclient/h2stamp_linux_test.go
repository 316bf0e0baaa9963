package streamclient

import (
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
)

// stampSink is a sink that looks at arrivals.
type stampSink struct {
	*heard
	kernel, shared, alone atomic.Int64
	first                 atomic.Int64
}

func (s *stampSink) Piece(b []byte, at Arrival) error {
	s.first.CompareAndSwap(0, at.At)
	switch {
	case !at.Kernel:
	case at.Shared:
		s.shared.Add(1)
	default:
		s.alone.Add(1)
	}
	if at.Kernel {
		s.kernel.Add(1)
	}
	return s.heard.Piece(b, at)
}

// TestH2KernelTimes: frames that came with one write are shared but for the
// last, and the kernel's time lies between the sending and the end. The kernel
// begins to stamp packets a moment after the first socket asked for it, so the
// exchange is repeated until it does.
func TestH2KernelTimes(t *testing.T) {
	var s *stampSink
	var began, ended int64
	for range 200 {
		s, began, ended = stampedExchange(t)
		if s.kernel.Load() == 3 {
			break
		}
	}
	if s.kernel.Load() != 3 || s.shared.Load() != 2 || s.alone.Load() != 1 {
		t.Errorf("%d with the kernel's time, %d shared, %d alone", s.kernel.Load(), s.shared.Load(), s.alone.Load())
	}
	if at := s.first.Load(); at < began || at > ended {
		t.Errorf("arrived at %d, not between %d and %d", at, began, ended)
	}
}

// stampedExchange has three frames sent with one write, and says when.
func stampedExchange(t *testing.T) (s *stampSink, began, ended int64) {
	o := newScripted(t, func(p *peer) {
		p.WriteSettings()
		p.until(http2.FrameHeaders)
		p.head(1, false, ":status", "200")
		one := appendFrameHeader(nil, 1, http2.FrameData, 0, 1)
		one = append(one, 'x')
		p.nc.Write(append(append(append([]byte(nil), one...), one...), one...))
		p.until(http2.FrameGoAway)
	})
	p := startH2(t, o, nil)
	real := p.opts.Now
	o.Now = real
	o.KernelTimestamps = true
	p = startH2(t, o, nil)
	s = &stampSink{heard: newHeard()}
	began = real()
	p.Open(t.Context(), post(""), s)
	s.until(t, "three bytes", func() bool { return len(s.body) == 3 })
	ended = real()
	p.Close()
	return s, began, ended
}
