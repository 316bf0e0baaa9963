package events

import (
	"strconv"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// event takes one message off the stream.
func (s *stream) event(e wire.Event) {
	if s.ended {
		return
	}
	if len(e.Data) == 0 { // a comment, or the first event of a resumable stream
		// It is no sign of life: the draft wants heartbeats as data, since
		// comments never reach the client behind most libraries.
		s.overhead(e.Size, "comment")
		return
	}
	s.pulse.Beat(s.at)
	var scanned wire.Message // not kept: it is larger than all the rest of a stream
	m := &scanned
	if !wire.ScanMessage(e.Data, m) {
		s.d.Notice(s.r.Sub, eventmeter.Malformed, s.at, "a message is not a JSON object")
		return
	}
	s.shared = s.arrival.Shared || e.Rest > 0
	s.message(e.Data, e.Size, m)
}

// message takes one message that was read.
func (s *stream) message(data []byte, size int, m *wire.Message) {
	if !m.Versioned {
		s.d.Notice(s.r.Sub, eventmeter.Malformed, s.at, driver.WithoutVersion)
	}
	if m.Method == nil {
		s.answered(size, m)
		return
	}
	if !s.mine(m) && !s.mixed {
		s.mixed = true
		s.d.Notice(s.r.Sub, eventmeter.Malformed, s.at, "a message names another subscription than its stream")
	}
	if len(m.Cursor) > mcpclient.MaxCursor {
		s.tooLarge(mcpclient.ErrCursor)
		return
	}
	switch string(m.Method) {
	case "notifications/events/event":
		s.unsaid()
		stamp, probed := eventmeter.FindStamp(data)
		v := eventmeter.Delivery{
			Sub: s.r.Sub, Stamp: stamp, Probed: probed, EventID: eventmeter.HashID(m.EventID), At: s.at, Bytes: size,
			Kernel: s.arrival.Kernel, Shared: s.shared,
		}
		if v.Kernel {
			v.Waited = time.Duration(s.arrival.Read - s.arrival.At)
		}
		s.d.Delivered(v, &m.Fields, data)
		if len(m.EventID) == 0 {
			s.d.Notice(s.r.Sub, eventmeter.Malformed, s.at, driver.WithoutID)
		}
		if s.back != 0 && probed {
			s.tellReplayed(stamp)
		}
		if probed {
			s.d.comesWith(s.r, m.Cursor, stamp)
			return
		}
	case "notifications/events/active":
		s.isActive(size, m)
	case "notifications/events/heartbeat":
		s.unsaid()
		s.overhead(size, "notifications/events/heartbeat")
		s.d.claim(s.r, m.Cursor, s.at)
	case "notifications/events/error":
		s.overhead(size, "notifications/events/error")
		s.d.Notice(s.r.Sub, eventmeter.TransientError, s.at, driver.FaultText(m))
	case "notifications/events/terminated":
		s.overhead(size, "notifications/events/terminated")
		s.terminated(m)
		return
	default: // progress, logs, requests of the server
		s.overhead(size, "other")
		return
	}
	s.r.setCursor(m.Cursor)
}

// tooLarge ends the connection for something that is too large to be kept.
func (s *stream) tooLarge(err error) {
	s.ended = true
	s.over = &mcpclient.CallError{Kind: mcpclient.KindOversized, Cause: err}
	s.d.TooLargeFor(s.r.Sub, s.at, err)
}

// unsaid takes a server at its appliedFaults that has not said active.
func (s *stream) unsaid() {
	if !s.heard {
		s.confirmed(0)
		s.d.Notice(s.r.Sub, eventmeter.Malformed, s.at, "a stream that does not begin with active")
	}
}

// isActive handles a confirmation, which announces a gap if the stream was
// active before.
func (s *stream) isActive(size int, m *wire.Message) {
	was := s.r.WasActive()
	if s.heard {
		s.overhead(size, "notifications/events/active")
	} else {
		s.confirmed(size)
	}
	if !was {
		s.d.begun(s.r, m.Truncated)
	}
	switch {
	case was && m.Truncated:
		s.d.Notice(s.r.Sub, eventmeter.Truncated, s.at, "")
	case !m.Truncated:
		s.d.claim(s.r, m.Cursor, s.at)
	}
}

// overhead counts bytes of an open stream that carried no event. Before the
// stream is confirmed they belong to the call that opened it.
func (s *stream) overhead(size int, method string) {
	if !s.heard {
		s.down += int64(size)
		return
	}
	s.d.Recorder.Called(eventmeter.Call{Lane: s.d.Opts.Lane, Cause: eventmeter.Heartbeat, At: s.at, Down: int64(size), Method: method})
}

// terminated ends the subscription, unless what ended it passes.
func (s *stream) terminated(m *wire.Message) {
	s.ended = true
	e := mcpclient.RPCError(methodStream, &m.Fault)
	s.over = e
	if mcpclient.Passing(m.Fault.Code) {
		s.d.Notice(s.r.Sub, eventmeter.TransientError, s.at, "terminated: "+driver.FaultText(m))
		return
	}
	s.d.Notice(s.r.Sub, eventmeter.Terminated, s.at, driver.FaultText(m))
	if s.r.WasActive() {
		s.r.Fail(e)
		s.r.Cancel()
	}
}

// answered handles the response that ends the stream.
func (s *stream) answered(size int, m *wire.Message) {
	s.overhead(size, "response")
	if !m.HasResult && !m.HasError {
		s.d.Notice(s.r.Sub, eventmeter.Malformed, s.at, "a message is neither notification nor answer")
		return
	}
	if !mcpclient.Answers(m, strconv.AppendUint(nil, s.id, 10)) {
		s.d.Notice(s.r.Sub, eventmeter.Malformed, s.at, "an answer to a request that is not the stream's")
		return
	}
	s.ended = true
	if m.HasError {
		s.over = mcpclient.RPCError(methodStream, &m.Error)
	}
}

// mine tells whether a message that names a subscription names this one.
func (s *stream) mine(m *wire.Message) bool {
	tok := m.SubscriptionID
	if tok == nil {
		tok = m.RequestID
	}
	if tok == nil {
		return true
	}
	var buf [22]byte
	want := strconv.AppendUint(buf[:0], s.id, 10)
	return string(mcpclient.BareID(tok)) == string(want)
}
