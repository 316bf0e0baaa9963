package driver

import (
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/streamclient"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/sinks"
)

// StreamOptions shapes the streams of a lane.
type StreamOptions struct {
	// Silence is how long a stream may be silent before it is given up; 0 = for
	// ever. Unpromised says that a stream is watched only once its protocol calls
	// Watch, because nobody has promised signs of life.
	Silence    time.Duration
	Unpromised bool
	// Comments says that comments are signs of life, as messages are.
	Comments bool
	// CutEvery is the mean life of a stream (±50 %) after which the lane cuts it;
	// 0 = never. CutFor is how long it stays away then, beside the backoff, or in
	// its place.
	CutEvery, CutFor time.Duration
	CutAlone         bool // CutFor is in place of the backoff
	// Tally counts cuts, outages and coalesced reads; nil = nobody does.
	Tally *Tally
}

// Streams is what the streams of a lane share.
type Streams struct {
	StreamOptions
	caller  *mcpclient.Caller
	client  streamclient.Client // nil over a pipe
	sockets *wire.Traffic
	work    *sync.WaitGroup
	watch   *sinks.Watch
	backoff sinks.Backoff
	observe func(eventmeter.Call)
}

// OpenStreams makes ready for streams. They are closed by Close, after all of
// them are done.
func (l *Lane[T]) OpenStreams(o StreamOptions) (*Streams, error) {
	s := &Streams{StreamOptions: o, caller: &l.Caller, sockets: &l.Sockets, work: &l.Work, backoff: l.StreamBackoff(nil), observe: l.Observe}
	if l.Pipe == nil {
		var err error
		if s.client, err = l.Endpoint.StreamClient(l.Opts.HTTP, l.Clock, l.Opts.Push.KernelTimestamps, &l.Sockets); err != nil {
			return nil, err
		}
	}
	if o.Silence > 0 {
		s.watch = l.NewWatch()
	}
	return s, nil
}

// Carry has streams that are opened from now on carried by another client, for
// tests. It returns the one before.
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
