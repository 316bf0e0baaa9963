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
}

// OpenStreams returns the Streams of a lane. The caller closes it after all of its
// streams are done. After an error nothing of the lane is in progress.
func (l *Lane[T]) OpenStreams(o StreamOptions) (*Streams, error) {
	s := &Streams{StreamOptions: o, caller: &l.Caller, sockets: &l.Sockets, work: &l.Work, backoff: l.Backoff(nil), observe: l.Observe}
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
