package events

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/sinks"
)

// stream is the stream of one run.
type stream struct {
	d   *lane
	r   *run
	sub eventmeter.Sub // that of r, which events need nothing else of
	// lastMessage is when the last message of the current connection came, in
	// milliseconds; 0 = there was none.
	lastMessage uint32
	own         bool // the message names this subscription, or none; see mine
	mixed       bool // the current connection had a message of another subscription, which was reported
	// troubled is true if the last message was a recoverable error. comments is true
	// if the connection had SSE comments.
	troubled, comments bool
	driver.Stream
}

// streamOptions returns the options of the lane's push streams. Comments do not count as
// heartbeats: the draft requires heartbeats as data, because most libraries hide comments
// from the client.
func (d *lane) streamOptions() driver.StreamOptions {
	return driver.StreamOptions{Silence: 2 * d.Opts.Push.Heartbeat, CutEvery: d.set.CutEvery, CutFor: d.set.CutFor, Tally: &d.tally}
}

// newStream returns the stream of a run.
func (d *lane) newStream(r *run) *stream {
	s := &stream{d: d, r: r, sub: r.Sub}
	s.Init(d.streams, s)
	return s
}

// attachPush opens a stream and waits until it is confirmed.
func (d *lane) attachPush(ctx context.Context, r *run) error {
	s := r.stream
	s.Start(r.Ctx())
	select {
	case <-s.First():
		err := s.Failure()
		switch {
		case !s.Ended(), s.WasConfirmed(): // and perhaps over at once
			return nil
		case err == nil:
			return driver.NotConfirmed(nil, context.Canceled)
		}
		return err
	case <-ctx.Done():
		r.Cancel()
		<-s.Done()
		var ce *mcpclient.CallError
		if errors.As(s.Failure(), &ce) && ce.Throttled() {
			return driver.NotConfirmed(ce, ctx.Err())
		}
		return driver.NotConfirmed(nil, ctx.Err())
	}
}

// Request implements [driver.StreamProtocol].
func (s *stream) Request(ctx context.Context) (driver.StreamRequest, error) {
	d, r := s.d, s.r
	if s.Cause() == eventmeter.Reconnect {
		d.returned()
	}
	s.mixed, s.troubled, s.comments, s.lastMessage = false, false, false, 0
	session, err := d.session(ctx, r)
	if err != nil {
		return driver.StreamRequest{}, err
	}
	o := d.params(r)
	d.position(&o, r)
	req := driver.StreamRequest{
		Who: r.who, Session: session, Method: methodStream, Header: session.Header(methodStream, ""),
		Cancels: session.Era == mcpclient.Legacy, // there, closing the stream does not end the request
	}
	req.ID, req.Body = d.build(methodStream, o, session)
	return req, nil
}

// Answered implements [driver.StreamProtocol].
func (s *stream) Answered() { s.d.saw(s.r, conform.StreamOpened) }

// Comment implements [driver.StreamProtocol]. The block may be the first event of a
// resumable stream, which has only an id.
func (s *stream) Comment(e wire.Event) {
	s.comments = s.comments || s.Stands()
	s.Overhead(e.Size, "comment")
}

// Rand implements [driver.StreamProtocol].
func (s *stream) Rand() *rand.Rand { return s.d.RandOf(int(s.r.Sub.Index)) }

// Confirmed implements [driver.StreamProtocol]: the subscription stands.
func (s *stream) Confirmed(again bool) {
	if again {
		s.Notice(eventmeter.Reconnected, s.At(), "")
		return
	}
	s.r.Activate(s.At())
}

// Refused implements [driver.StreamProtocol].
func (s *stream) Refused(a *mcpclient.Answer, session *mcpclient.Session) error {
	s.judgeRefused(a)
	if s.d.heed(s.r, a.Err) {
		return a.Err
	}
	return s.r.who.Refusal(session, a.Err)
}

// Over implements [driver.StreamProtocol]: the first connection has to succeed. After that
// the stream is opened again, unless the target has ended it for good.
func (s *stream) Over(err error) bool {
	var ce *mcpclient.CallError
	if errors.As(err, &ce) && ce.Expired() {
		return false // it begins now, without a cursor
	}
	if !s.WasConfirmed() {
		return !driver.Passes(err)
	}
	if errors.As(err, &ce) && ce.Final() {
		s.Notice(eventmeter.Terminated, s.d.Clock.Now(), err.Error())
		s.r.Fail(err)
		return true
	}
	s.judgeOver(errors.Is(err, driver.ErrDead))
	if !s.Stands() && err != nil {
		s.Notice(eventmeter.TransientError, s.d.Clock.Now(), err.Error())
	}
	return false
}

// Notice implements [driver.StreamProtocol].
func (s *stream) Notice(k eventmeter.NoticeKind, at eventmeter.Instant, detail string) {
	if k == eventmeter.Malformed && (detail == driver.NotAnObject || detail == driver.WithoutVersion) {
		s.d.broke(s.r, at, conform.StreamEventNotification, []byte(detail))
	}
	s.d.Notice(s.r.Sub, k, at, detail)
}

// TooLarge implements [driver.StreamProtocol].
func (s *stream) TooLarge(at eventmeter.Instant, err error) { s.d.TooLargeFor(s.r.Sub, at, err) }

// Begin implements [driver.Beginner]: streams stop reading when the measured part
// begins, or are cut some time later.
func (d *lane) Begin(measure, _ eventmeter.Instant) {
	if d.streams == nil {
		return
	}
	if d.set.StallFor > 0 {
		d.at(measure, d.stall)
	}
	if d.set.CutAt > 0 {
		d.at(measure.Add(d.set.CutAt), d.cutAll)
	}
}

// at calls do at an instant, unless the lane is over before.
func (d *lane) at(when eventmeter.Instant, do func()) {
	d.Work.Go(crash.Guarded(func() {
		if sinks.Sleep(d.Life, when.Sub(d.Clock.Now())) {
			do()
		}
	}))
}

// stall makes a share of the streams stop reading.
func (d *lane) stall() {
	for _, r := range d.Attached() {
		number := uint64(d.Opts.NumberOf(int(r.Sub.Index)))
		if d.set.StallShare > 0 && rand.New(rand.NewPCG(d.Opts.Seed, number)).Float64() >= d.set.StallShare {
			continue
		}
		if r.stream.Hold(d.set.StallFor) {
			d.tally.Count("stalled", 1)
		}
	}
}

// tellReplayed counts an event that was acknowledged before the stream was open again.
func (s *stream) tellReplayed(stamp eventmeter.Stamp) {
	if s.d.Opts.Published == nil {
		return
	}
	if at := s.d.Opts.Published.AckedAt(stamp); at != 0 && at < s.Back() {
		s.d.tally.Count("replayedOnReconnect", 1)
		s.d.caughtUp(s.At())
	}
}
