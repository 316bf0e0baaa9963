package driver

import (
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/sinks"
)

// opening is a connection that was not confirmed yet.
type opening struct {
	refusal *unopened // an answer that is no stream; nil = there is none
	who     *mcpclient.Principal
	bearer  string // the token of the request
	began   eventmeter.Instant
	up      int64
	down    int64 // until it was confirmed
}

// rareStream is what a stream needs once it was in trouble. Only the goroutine that works
// for the stream uses it.
type rareStream struct {
	backoff sinks.Backoff
	pause   time.Duration      // as the server asked for
	lost    eventmeter.Instant // when the stream was lost, 0 = it is not
	back    eventmeter.Instant // when it was last confirmed again
	cutter  *time.Timer
	over    error // the argument of End
}

// more returns the stream's rareStream.
func (s *Stream) more() *rareStream {
	if s.rare == nil {
		s.rare = &rareStream{backoff: s.streams.backoff}
		s.rare.backoff.Rand = s.p.Rand()
	}
	return s.rare
}

// lapse is what a stream needs when a connection ends. It is guarded by mu.
type lapse struct {
	why     error         // why this side gave up the current connection
	timer   *time.Timer   // for the next connection
	failure error         // what ended the last connection
	done    chan struct{} // of Done; nil = nobody has asked for it
	over    bool          // there will be no more connections
}

// lapsed returns the stream's lapse. The caller holds mu.
func (s *Stream) lapsed() *lapse {
	if s.lapse == nil {
		s.lapse = &lapse{}
	}
	return s.lapse
}

// why returns why this side gave up the current connection. The caller holds mu.
func (s *Stream) why() error {
	if s.lapse == nil {
		return nil
	}
	return s.lapse.why
}

// First returns a channel that is closed when the stream was confirmed for the first
// time, and every message that was read with the confirmation was handled; or when there
// will be no more connections, which Ended reports.
func (s *Stream) First() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first == nil {
		s.first = make(chan struct{})
	}
	return s.first
}

// closed is the channel that First and Done return for all streams for which they are
// closed, so that thousands of them need no channel each.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// settle closes a channel of First or Done. The caller holds mu.
func settle(c *chan struct{}) {
	if *c != nil && *c != closed {
		close(*c)
	}
	*c = closed
}

// Done returns a channel that is closed when there will be no more connections.
func (s *Stream) Done() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lapsed()
	if l.done == nil {
		l.done = make(chan struct{})
	}
	return l.done
}

// Ended reports whether there will be no more connections.
func (s *Stream) Ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lapse != nil && s.lapse.over
}

// Failure returns what ended the last connection.
func (s *Stream) Failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lapse == nil {
		return nil
	}
	return s.lapse.failure
}
