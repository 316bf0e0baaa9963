package events

import (
	"context"
	"errors"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// stream is the stream of one run.
type stream struct {
	driver.Stream
	d     *lane
	r     *run
	mixed bool // a message of another subscription was noticed on the connection at hand
}

// streamOptions are those of a lane's push streams. Comments are no sign of life:
// the draft wants heartbeats as data, since comments never reach the client behind
// most libraries.
func (d *lane) streamOptions() driver.StreamOptions {
	return driver.StreamOptions{Silence: 2 * d.Opts.Push.Heartbeat, CutEvery: d.set.CutEvery, CutFor: d.set.CutFor, Tally: &d.tally}
}

// newStream makes the stream of a run, and has the run's cancel end it.
func (d *lane) newStream(r *run) *stream {
	s := &stream{d: d, r: r}
	s.Init(d.streams, s, r.rand)
	cancel := r.Cancel
	r.Cancel = func() {
		cancel()
		s.HangUp()
	}
	return s
}

// attachPush opens a stream and waits until it is confirmed.
func (d *lane) attachPush(ctx context.Context, r *run) error {
	s := r.stream
	s.Start(r.Ctx)
	select {
	case <-s.First():
		return nil
	case <-s.Done():
		err := s.Failure()
		switch {
		case s.WasConfirmed(): // and over at once
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
	s.mixed = false
	session, err := d.session(ctx, r)
	if err != nil {
		return driver.StreamRequest{}, err
	}
	o := d.params(r)
	d.position(&o, r)
	req := driver.StreamRequest{
		Who: r.who, Session: session, Method: methodStream, Header: session.Header(methodStream, ""),
		Cancels: session.Era == mcpclient.Legacy, // there, closing the stream says nothing
	}
	req.ID, req.Body = d.build(methodStream, o, session)
	return req, nil
}

// Answered implements [driver.StreamProtocol].
func (s *stream) Answered() {}

// Comment implements [driver.StreamProtocol]. It may be the first event of a
// resumable stream.
func (s *stream) Comment(e wire.Event) { s.Overhead(e.Size, "comment") }

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
	if s.d.Lost(s.r.who, session, a.Err) {
		return &mcpclient.CallError{Method: methodStream, Kind: mcpclient.KindSession, Status: a.Status}
	}
	return a.Err
}

// Over implements [driver.StreamProtocol]: the first connection has to succeed;
// from then on the stream is kept open until the run is over or the target ends
// it for good.
func (s *stream) Over(err error) bool {
	if !s.WasConfirmed() {
		return !driver.Passes(err)
	}
	var ce *mcpclient.CallError
	if errors.As(err, &ce) && ce.Final() {
		s.Notice(eventmeter.Terminated, s.d.Clock.Now(), err.Error())
		s.r.Fail(err)
		return true
	}
	if !s.Stands() && err != nil {
		s.Notice(eventmeter.TransientError, s.d.Clock.Now(), err.Error())
	}
	return false
}

// Called implements [driver.StreamProtocol].
func (s *stream) Called(c eventmeter.Call) { s.d.Recorder.Called(c) }

// Notice implements [driver.StreamProtocol].
func (s *stream) Notice(k eventmeter.NoticeKind, at eventmeter.Instant, detail string) {
	s.d.Notice(s.r.Sub, k, at, detail)
}

// TooLarge implements [driver.StreamProtocol].
func (s *stream) TooLarge(at eventmeter.Instant, err error) { s.d.TooLargeFor(s.r.Sub, at, err) }

// tellReplayed counts an event that had happened before the stream was back.
func (s *stream) tellReplayed(stamp eventmeter.Stamp) {
	if s.d.Opts.Published == nil {
		return
	}
	if at := s.d.Opts.Published.AckedAt(stamp); at != 0 && at < s.Back() {
		s.d.tally.Count("replayedOnReconnect", 1)
	}
}
