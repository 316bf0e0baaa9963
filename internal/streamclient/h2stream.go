package streamclient

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/eventmeter/eventmeter/internal/crash"
)

// h2Stream is one exchange. There are a hundred thousand of them: what it
// holds is counted in bytes.
type h2Stream struct {
	pump *h2Pump
	conn *h2Conn  // pump.mu; set once, when a connection has room
	req  *Request // the writer's, nil when it has been sent

	mu     sync.Mutex // whoever calls the sink
	sink   Sink       // mu; nil when it is over
	stop   func() bool
	opened bool // mu: the sink knows the head
	over   atomic.Bool

	// The reader's.
	interim uint8 // 1xx heads so far
	headed  bool  // the final head was read
	left    int64 // body bytes that Content-Length still promises; -1 = unknown
	taken   int64 // bytes since the window was refilled

	// Under conn.mu.
	id    uint32 // 0 = not sent yet
	sent  bool   // the request, to its end
	delta int64  // send window, less what it is initially
}

// watch closes the stream when ctx ends before it is opened.
func (s *h2Stream) watch(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() {
		defer crash.Guard()
		s.ask(context.Cause(ctx), true)
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened || s.over.Load() {
		stop()
		return
	}
	s.stop = stop
}

// Close ends the stream.
func (s *h2Stream) Close() { s.ask(ErrClosed, false) }

func (s *h2Stream) ask(err error, unopened bool) {
	if s.over.Load() {
		return
	}
	p := s.pump
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed { // closing tells every stream the same
		p.finish(ending{s: s, err: err, unopened: unopened})
	}
}

// tell ends the stream for its sink, which hears of it once. It reports whether
// this call did it. The caller takes the stream off its connection.
func (s *h2Stream) tell(err error, unopened bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if unopened && s.opened {
		return false
	}
	return s.tellLocked(err)
}

func (s *h2Stream) tellLocked(err error) bool {
	if s.over.Load() {
		return false
	}
	s.over.Store(true)
	s.unwatch()
	sink := s.sink
	s.sink = nil
	sink.Closed(err)
	return true
}

func (s *h2Stream) unwatch() {
	if s.stop != nil {
		s.stop()
		s.stop = nil
	}
}

// head tells the sink of the answer's head; false when that ended the stream.
func (s *h2Stream) head(h Head, at Arrival) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over.Load() {
		return true // whoever ended it takes care of the rest
	}
	s.opened = true
	s.unwatch()
	if err := s.sink.Opened(h, at); err != nil {
		s.tellLocked(err)
		return false
	}
	return true
}

// piece tells the sink of body bytes; false when that ended the stream.
func (s *h2Stream) piece(b []byte, at Arrival) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over.Load() {
		return true
	}
	if err := s.sink.Piece(b, at); err != nil {
		s.tellLocked(err)
		return false
	}
	return true
}
