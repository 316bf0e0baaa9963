package events

import (
	"strconv"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// Message implements [driver.StreamProtocol].
func (s *stream) Message(e wire.Event, m *wire.Message) {
	data, size := e.Data, e.Size
	if !m.Versioned {
		s.Notice(eventmeter.Malformed, s.At(), driver.WithoutVersion)
	}
	if m.Method == nil {
		s.answered(data, size, m)
		return
	}
	if s.own = s.mine(m); !s.own && !s.mixed {
		s.mixed = true
		s.Notice(eventmeter.Malformed, s.At(), "a message names another subscription than its stream")
	}
	if len(m.Cursor) > mcpclient.MaxCursor {
		s.tooLarge(mcpclient.ErrCursor)
		return
	}
	s.judgeSign(data)
	switch string(m.Method) {
	case "notifications/events/event":
		s.unsaid(data)
		s.judgeSubscription(conform.StreamEvent, m, data)
		s.d.judgeEvent(s.r, s.At(), &m.Fields, data)
		stamp, probed, id := driver.Probe(m, data)
		v := eventmeter.Delivery{Sub: s.sub, Stamp: stamp, Probed: probed, EventID: id, Bytes: size}
		s.Timed(&v)
		if s.Held() {
			s.d.tally.Count("heldBack", 1)
		}
		s.d.Delivered(v, &m.Fields, data)
		if len(m.EventID) == 0 {
			s.Notice(eventmeter.Malformed, s.At(), driver.WithoutID)
		}
		if s.Back() != 0 && probed {
			s.tellReplayed(stamp)
		}
		if probed {
			s.d.comesWith(s.r, m.Cursor, stamp)
			return
		}
	case "notifications/events/active":
		s.judgeActive(m, data)
		s.isActive(size, m)
	case "notifications/events/heartbeat":
		s.unsaid(data)
		s.judgeHeartbeat(m, data)
		s.Overhead(size, "notifications/events/heartbeat")
		s.d.claim(s.r, m.Cursor, s.At())
	case "notifications/events/error":
		s.Overhead(size, "notifications/events/error")
		s.judgeSubscription(conform.StreamTrouble, m, data)
		s.troubled = true
		if e := mcpclient.RPCError(methodStream, &m.Fault); s.d.heed(s.r, e) {
			s.End(e)
			return
		}
		s.Notice(eventmeter.TransientError, s.At(), driver.FaultText(m))
	case "notifications/events/terminated":
		s.Overhead(size, "notifications/events/terminated")
		s.judgeSubscription(conform.StreamEnded, m, data)
		s.d.judgeRefusal(s.r, s.At(), &m.Fault, true, data)
		s.terminated(m)
		return
	default: // progress, logs, requests of the server
		s.Overhead(size, "other")
		s.d.broke(s.r, s.At(), conform.StreamCarriesOnlyEventNotifications, data)
		return
	}
	s.r.setCursor(m.Cursor)
}

// tooLarge ends the connection because of a member that is too large to be kept.
func (s *stream) tooLarge(err error) {
	s.End(&mcpclient.CallError{Kind: mcpclient.KindOversized, Cause: err})
	s.TooLarge(s.At(), err)
}

// unsaid confirms a stream whose server sends messages without having sent active, and
// reports it. data is the first message.
func (s *stream) unsaid(data []byte) {
	if !s.Stands() {
		s.d.broke(s.r, s.At(), conform.StreamActiveConfirmation, data)
		s.Confirm(0)
		s.Notice(eventmeter.Malformed, s.At(), "a stream that does not begin with active")
	}
}

// isActive handles notifications/events/active. If the subscription was active before, its
// member truncated announces a gap.
func (s *stream) isActive(size int, m *wire.Message) {
	was := s.r.WasActive()
	if s.Stands() {
		s.Overhead(size, "notifications/events/active")
	} else {
		s.Confirm(size)
	}
	truncated := s.r.begunAnew() || m.Truncated
	if !was {
		s.d.begun(s.r, s.At(), truncated)
	}
	switch {
	case was && truncated:
		s.Notice(eventmeter.Truncated, s.At(), "")
	case !truncated:
		s.d.claim(s.r, m.Cursor, s.At())
	}
}

// terminated ends the subscription, unless the reason passes with time.
func (s *stream) terminated(m *wire.Message) {
	e := mcpclient.RPCError(methodStream, &m.Fault)
	s.End(e)
	if mcpclient.Passing(m.Fault.Code) {
		s.Notice(eventmeter.TransientError, s.At(), "terminated: "+driver.FaultText(m))
		return
	}
	s.Notice(eventmeter.Terminated, s.At(), driver.FaultText(m))
	if s.r.WasActive() {
		s.r.Fail(e)
		s.r.Cancel()
	}
}

// answered handles the response that ends the stream.
func (s *stream) answered(data []byte, size int, m *wire.Message) {
	s.Overhead(size, "response")
	if !m.HasResult && !m.HasError {
		s.Notice(eventmeter.Malformed, s.At(), "a message is neither notification nor answer")
		return
	}
	if !mcpclient.Answers(m, strconv.AppendUint(nil, s.ID(), 10)) {
		s.Notice(eventmeter.Malformed, s.At(), "an answer to a request that is not the stream's")
		s.d.broke(s.r, s.At(), conform.StreamCarriesOnlyEventNotifications, data)
		return
	}
	if m.HasError {
		s.d.judgeRefusal(s.r, s.At(), &m.Error, s.Stands(), data)
		s.End(mcpclient.RPCError(methodStream, &m.Error))
		return
	}
	s.judgeResult(m, data)
	s.End(nil)
}

// mine reports whether a message names this stream's subscription, or none.
func (s *stream) mine(m *wire.Message) bool {
	tok := m.SubscriptionID
	if tok == nil {
		tok = m.RequestID
	}
	if tok == nil {
		return true
	}
	var buf [22]byte
	want := strconv.AppendUint(buf[:0], s.ID(), 10)
	return string(mcpclient.BareID(tok)) == string(want)
}
