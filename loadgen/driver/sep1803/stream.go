package sep1803

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// Over implements [driver.StreamProtocol]: the first connection has to succeed. After that
// the stream is opened again, unless the target refuses it for good.
func (t *resourceStream) Over(err error) bool {
	var ce *mcpclient.CallError
	known, passes := errors.As(err, &ce), driver.Passes(err)
	if !passes && (!t.WasConfirmed() || !known || ce.Final()) {
		t.s.giveUp(err)
		return true
	}
	if !t.Stands() && t.WasConfirmed() && err != nil {
		t.Notice(eventmeter.TransientError, t.s.d.Clock.Now(), err.Error())
	}
	return false
}

// giveUp records that there will be no stream, and ends the open subscriptions. Those that
// are being opened fail with the recorded error.
func (s *resourceSession) giveUp(err error) {
	s.mu.Lock()
	s.err = err
	s.mu.Unlock()
	for _, r := range s.runs() {
		if r.IsActive() {
			s.lostRun(r, err.Error(), err)
		}
	}
}

// Notice implements [driver.StreamProtocol]: it reports to every open subscription of the
// session.
func (t *resourceStream) Notice(k eventmeter.NoticeKind, at eventmeter.Instant, detail string) {
	for _, r := range t.s.runs() {
		if r.IsActive() {
			t.s.d.Notice(r.Sub, k, at, detail)
		}
	}
}

// malformed reports a message that violates the protocol.
func (t *resourceStream) malformed(detail string) {
	t.Notice(eventmeter.Malformed, t.s.d.Clock.Now(), detail)
}

// Request implements [driver.StreamProtocol]. It opens the session of the legacy
// era if there is none.
func (t *resourceStream) Request(ctx context.Context) (driver.StreamRequest, error) {
	s, d := t.s, t.s.d
	t.strange, t.fresh, t.resumed = false, false, false
	session, err := s.who.Session(ctx, d.Observe)
	if err != nil {
		return driver.StreamRequest{}, err
	}
	req := driver.StreamRequest{Who: s.who, Session: session}
	switch t.modern = session.Era == mcpclient.Modern; session.Era {
	case mcpclient.Modern:
		var uris []string
		if uris, err = s.wanted(); err == nil {
			d.Listen(&req, "", uris...)
		}
	case mcpclient.Legacy:
		err = t.get(&req)
	default:
		err = fmt.Errorf(
			"%w: updates need the stream of a session or subscriptions/listen, and the target has neither",
			mcpclient.ErrNotOffered,
		)
	}
	return req, err
}

// get fills in the request of the legacy era, the GET of a session.
func (t *resourceStream) get(req *driver.StreamRequest) error {
	s, d := t.s, t.s.d
	req.Method = driver.MethodGet
	if t.session = s.own.Current(s.who); t.session == nil {
		var err error
		if t.session, err = s.initialize(req.Session, t.Cause()); err != nil {
			return err
		}
		t.fresh, t.lastID = true, t.lastID[:0]
	}
	if d.Pipe != nil {
		return nil
	}
	req.Header = t.session.StreamHeader()
	if len(t.lastID) > 0 && d.set.Redelivery {
		t.resumed = true
		req.Header.Set("Last-Event-Id", string(t.lastID))
	}
	return nil
}

// wanted returns the URIs of all subscriptions of the session, including those that are
// opened later, because the request cannot be changed afterwards.
func (s *resourceSession) wanted() ([]string, error) {
	var uris []string
	seen := map[string]bool{}
	from := s.number * s.d.per
	for i := from; i < min(from+s.d.per, len(s.d.Turns)); i++ {
		uri, err := s.d.uriOf(s.ctx, i)
		if err != nil {
			return nil, err
		}
		if !seen[uri] {
			seen[uri] = true
			uris = append(uris, uri)
		}
	}
	s.mu.Lock()
	s.asked = seen
	s.mu.Unlock()
	return uris, nil
}

// Rand implements [driver.StreamProtocol].
func (t *resourceStream) Rand() *rand.Rand { return t.s.d.Rand(uint64(t.s.number)) }

// Confirmed implements [driver.StreamProtocol].
func (t *resourceStream) Confirmed(again bool) {
	s, d := t.s, t.s.d
	if t.resumed {
		d.tally.Count("resumes", 1)
	}
	if again {
		t.Notice(eventmeter.Reconnected, d.Clock.Now(), "")
		if t.fresh {
			d.Work.Go(crash.Guarded(s.resubscribe))
		}
		return
	}
	s.mu.Lock()
	s.confirmed, s.modern = t.At(), t.modern
	s.mu.Unlock()
	if t.modern {
		d.tally.Count("sessions", 1)
	}
}

// Refused implements [driver.StreamProtocol].
func (t *resourceStream) Refused(a *mcpclient.Answer, _ *mcpclient.Session) error {
	lost := mcpclient.SessionLost(a.Err.Method)
	switch {
	case !t.modern && a.Status == http.StatusNotFound && !t.fresh:
		t.s.lose(t.session)
		return lost
	case t.resumed && a.Status == http.StatusBadRequest:
		// The server cannot resume there: the stream begins now, and the updates
		// since then are lost.
		t.s.d.tally.Count("resumesRefused", 1)
		t.lastID = t.lastID[:0]
		return lost
	case !t.modern && a.Status == http.StatusMethodNotAllowed:
		return fmt.Errorf("%w: the server has no GET stream, so it cannot send updates", mcpclient.ErrNotOffered)
	}
	return a.Err
}
