package driver

import (
	"context"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/streamclient"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/sinks"
)

// StreamOptions are the options of the streams of a lane.
type StreamOptions struct {
	// Silence is how long a stream may be silent before it is given up; 0 = for
	// ever. With Unpromised, a stream is watched only after its protocol has called
	// Watch, because the server need not send heartbeats.
	Silence    time.Duration
	Unpromised bool
	// Comments makes comments count as heartbeats, as messages do.
	Comments bool
	// CutEvery is the mean life of a stream (±50 %) after which the lane cuts it;
	// 0 = never. CutFor is how long the stream then stays closed, in addition to the
	// backoff, or instead of it with CutAlone.
	CutEvery, CutFor time.Duration
	CutAlone         bool
	// Tally counts cuts, outages and coalesced reads; nil = they are not counted.
	Tally *Tally
}

// At most maxReplies answers to requests of the server are under way for a stream, and
// maxSending are being sent at once for a lane.
const maxReplies, maxSending = 8, 64

// Streams has the parts that the streams of a lane share.
type Streams struct {
	StreamOptions
	caller  *mcpclient.Caller
	client  streamclient.Client // nil over a pipe
	sockets *wire.Traffic
	work    *sync.WaitGroup
	watch   *sinks.Watch
	backoff sinks.Backoff
	observe func(eventmeter.Call)
	life    context.Context // of the lane
	replies chan struct{}   // has the answers to requests of the server that are being sent
	timeout time.Duration   // of a call

	mu   sync.Mutex
	away map[*Stream]absence // the streams that were lost and are not confirmed again
}

// absence is the time in which a stream waits to be opened again, or tries to.
type absence struct {
	lost  eventmeter.Instant // when the stream was lost
	asked eventmeter.Instant // when the last attempt to open it began, or the lost one was opened again; 0 = there was none
	told  bool               // the last attempt was refused, with the time to wait
	tries bool               // the attempt that began at asked is under way
}

// seen returns until when published events could have reached the stream: until it was
// lost, or until it last asked for them in vain. An attempt after which the server asks
// for a wait is not in vain: it will be made again.
func (a absence) seen() eventmeter.Instant {
	if a.told {
		return a.lost
	}
	return max(a.lost, a.asked)
}

// left notes that a stream was lost.
func (s *Streams) left(of *Stream, a absence) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away == nil {
		s.away = map[*Stream]absence{}
	}
	s.away[of] = a
}

// change changes the absence of a stream that has one.
func (s *Streams) change(of *Stream, to func(*absence)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a, ok := s.away[of]; ok {
		to(&a)
		s.away[of] = a
	}
}

// returned notes that the stream was confirmed again, or is over.
func (s *Streams) returned(of *Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.away, of)
}

// behind returns how many streams are lost and have not asked for events since. An attempt
// that is not answered for as long as a call may take is one in vain.
func (s *Streams) behind(since eventmeter.Instant) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	late := s.caller.Clock.Now().Add(-s.timeout)
	for _, a := range s.away {
		if a.told || a.asked < since && !(a.tries && a.asked < late) {
			n++
		}
	}
	return n
}

// seen returns until when published events could have reached a stream that is lost; 0 =
// it is not.
func (s *Stream) seen() eventmeter.Instant {
	s.streams.mu.Lock()
	defer s.streams.mu.Unlock()
	return s.streams.away[s].seen()
}

// OpenStreams returns the Streams of a lane. The caller closes it after all of its
// streams are done. After an error nothing of the lane is in progress.
func (l *Lane[T]) OpenStreams(o StreamOptions) (*Streams, error) {
	s := &Streams{StreamOptions: o, caller: &l.Caller, sockets: &l.Sockets, work: &l.Work, backoff: l.Backoff(nil), observe: l.Observe}
	s.life, s.replies, s.timeout = l.Life, make(chan struct{}, maxSending), l.Opts.Timeout
	l.streams = append(l.streams, s)
	if l.Pipe == nil {
		var err error
		if s.client, err = l.Endpoint.StreamClient(
			l.Opts.HTTP,
			l.Clock,
			l.Opts.KernelTimestamps,
			l.Opts.Push.StreamsPerConnection,
			&l.Sockets,
		); err != nil {
			l.Cancel()
			return nil, err
		}
	}
	if o.Silence > 0 {
		s.watch = l.NewWatch()
	}
	return s, nil
}

// Carry makes streams that are opened from now on use another stream client, for tests.
// It returns the one before.
func (s *Streams) Carry(by streamclient.Client) (before streamclient.Client) {
	before, s.client = s.client, by
	return before
}

// Close ends the watch and the stream client. It does nothing if s is nil.
func (s *Streams) Close() error {
	if s == nil {
		return nil
	}
	if s.watch != nil {
		s.watch.Close()
	}
	if s.client == nil {
		return nil
	}
	return s.client.Close()
}

// count counts one of the streams' figures.
func (s *Streams) count(name string) {
	if s.Tally != nil {
		s.Tally.Count(name, 1)
	}
}
