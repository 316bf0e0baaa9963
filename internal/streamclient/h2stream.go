package streamclient

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"

	"github.com/eventmeter/eventmeter/internal/budget"
	"github.com/eventmeter/eventmeter/internal/crash"
)

// h2Stream is one exchange. There may be a million of them, so its size matters.
type h2Stream struct {
	// What DATA needs comes first, in one cache line: among very many streams, each line
	// is a miss.
	mu   sync.Mutex // held while the sink is called
	sink Sink       // mu; nil when the stream is over
	over atomic.Bool

	// The reader's.
	id     uint32       // conn.mu; 0 = not sent yet
	taken  atomic.Int32 // bytes received since the window was refilled
	headed bool         // the final head was read
	opened bool         // mu: the sink knows the head

	interim uint8 // the reader's: 1xx heads so far
	sent    bool  // conn.mu: the whole request was sent
	left    int64 // the reader's: body bytes that Content-Length still promises; -1 = unknown
	// kept holds what came while the stream is held; nil = it is not held. Guarded
	// by mu.
	kept atomic.Pointer[h2Kept]

	client *h2Client
	conn   *h2Conn     // client.mu; set once, when a connection has room
	req    *Request    // used by the writer; nil when it has been sent
	stop   func() bool // mu
	delta  int32       // conn.mu: send window minus its initial size
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

// Close implements Stream.
func (s *h2Stream) Close() { s.ask(ErrClosed, false) }

// Hold implements Stream.
func (s *h2Stream) Hold(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over.Load() || !s.opened || s.kept.Load() != nil {
		return
	}
	s.kept.Store(&h2Kept{hold: budget.Of(s.client.opts.Budget)})
	time.AfterFunc(d, func() {
		defer crash.Guard()
		s.release()
	})
}

// release ends a hold: it passes the kept bytes to the sink and refills the window.
func (s *h2Stream) release() {
	s.mu.Lock()
	err := s.tellKept()
	if err != nil {
		s.tellLocked(err)
	}
	over := s.over.Load()
	s.mu.Unlock()
	switch {
	case err != nil:
		s.conn.drop(s, http2.ErrCodeCancel)
	case !over:
		if n := s.taken.Swap(0); n > 0 {
			_ = s.conn.say(appendNumberFrame(nil, http2.FrameWindowUpdate, s.id, uint32(n))) // the reader finds a server that floods us
		}
	}
}

// tellKept passes the bytes that came while the stream was held to the sink. The
// caller holds mu.
func (s *h2Stream) tellKept() error {
	kept := s.kept.Swap(nil)
	if kept == nil || len(kept.bytes) == 0 || s.over.Load() {
		return nil
	}
	defer kept.hold.Drop()
	return s.sink.Piece(kept.bytes, Arrival{At: s.client.opts.Now(), Held: true})
}

// h2Kept holds the bytes that came while a stream is held, at most its window.
type h2Kept struct {
	bytes []byte
	hold  budget.Hold
}

func (k *h2Kept) add(b []byte) error {
	k.bytes = append(k.bytes, b...)
	return k.hold.Resize(cap(k.bytes))
}

func (s *h2Stream) ask(err error, unopened bool) {
	if s.over.Load() {
		return
	}
	p := s.client
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed { // Close ends every stream
		p.finish(ending{s: s, err: err, unopened: unopened})
	}
}

// tell calls Closed of the stream's sink, unless the stream is over or, with
// unopened, was opened. It reports whether it did. The caller removes the stream
// from its connection.
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
	_ = s.tellKept() // it ends either way
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

// head passes the answer's head to the sink; false if the sink's error ended the
// stream.
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

// piece passes body bytes to the sink; false if an error ended the stream.
func (s *h2Stream) piece(b []byte, at Arrival) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over.Load() {
		return true
	}
	if kept := s.kept.Load(); kept != nil {
		err := kept.add(b)
		if err != nil {
			s.tellLocked(err)
		}
		return err == nil
	}
	if err := s.sink.Piece(b, at); err != nil {
		s.tellLocked(err)
		return false
	}
	return true
}
