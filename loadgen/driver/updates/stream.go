package updates

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// stream carries notifications: in the modern era on the answer to subscriptions/listen, in
// the legacy era on the GET stream of a session. Each client has its own stream, except in
// the legacy era over a pipe, which is one session: there all clients of a lane share one.
// If the server forgets a session, a new one is opened. A server need not send heartbeats,
// so silence does not end a stream.
type stream struct {
	driver.Stream
	d      *lane
	who    *mcpclient.Principal
	shared bool
	ctx    context.Context
	cancel context.CancelFunc
	first  *client // the client that opened it
	refs   int     // number of clients; guarded by the lane's lock

	mu      sync.Mutex
	clients map[string][]*client // by URI; "" = of a list
	own     driver.OwnSession    // of the legacy era

	// Of the current connection.
	method  string
	in      *mcpclient.Session // of its GET
	strange bool               // a notification that names another request was reported
}

// Request implements [driver.StreamProtocol]. It opens the session of the legacy
// era if there is none.
func (s *stream) Request(ctx context.Context) (driver.StreamRequest, error) {
	d := s.d
	s.strange = false
	now, err := s.who.Session(ctx, d.Observe)
	if err != nil {
		return driver.StreamRequest{}, err
	}
	req := driver.StreamRequest{Who: s.who, Session: now, Method: driver.MethodGet}
	switch {
	case now.Era == mcpclient.Modern:
		d.Listen(&req, d.list.Want, s.first.uri)
	case d.Pipe == nil:
		if s.in, err = s.session(ctx, now.Version); err != nil {
			return driver.StreamRequest{}, d.refused(err)
		}
		req.Header = s.in.StreamHeader()
	}
	s.method = req.Method
	return req, nil
}

// Message implements [driver.StreamProtocol].
func (s *stream) Message(e wire.Event, m *wire.Message) {
	switch method := string(m.Method); {
	case method == "" && (m.HasResult || m.HasError):
		s.responded(e, m)
	case s.ID() != 0 && method == driver.MethodAcknowledged:
		s.acknowledged(e)
	default:
		if !s.strange && s.d.Pipe == nil && s.ID() != 0 && !mcpclient.IsRequest(m) &&
			!bytes.Equal(mcpclient.BareID(m.SubscriptionID), strconv.AppendUint(nil, s.ID(), 10)) {
			s.strange = true // once on each stream
			s.Notice(eventmeter.Malformed, s.At(), "a notification does not name its stream's request")
		}
		s.notification(e, m)
	}
}

// notification passes a notification to the clients that subscribed to it. Its bytes are
// counted once.
func (s *stream) notification(e wire.Event, m *wire.Message) {
	method, size := string(m.Method), e.Size
	for _, c := range s.of(m) {
		c.notified(s.At(), size, method)
		size = 0
	}
	if size == 0 {
		return
	}
	s.Overhead(size, method)
	if method == driver.MethodUpdated && s.d.set.Resource != "" && !s.shared {
		s.d.tally.Count("unrouted", 1)
		return
	}
	// Other lists, progress, logs, requests of the server, or what another lane
	// with the same session subscribed to.
	s.d.tally.Count("otherNotifications", 1)
}

// of returns the clients that subscribed to a notification. An update may name a resource
// below the one that a client subscribed to.
func (s *stream) of(m *wire.Message) []*client {
	s.mu.Lock()
	defer s.mu.Unlock()
	if string(m.Method) == s.d.list.Changed {
		return slices.Clone(s.clients[""])
	}
	if string(m.Method) != driver.MethodUpdated || s.d.set.Resource == "" {
		return nil
	}
	var all []*client
	for i := 1; i <= len(m.URI); i++ {
		if i == len(m.URI) || m.URI[i] == '/' || m.URI[i-1] == '/' {
			all = append(all, s.clients[string(m.URI[:i])]...)
		}
	}
	return all
}

// responded handles the response that ends subscriptions/listen.
func (s *stream) responded(e wire.Event, m *wire.Message) {
	s.Overhead(e.Size, "response")
	if !m.HasError {
		s.End(nil)
		return
	}
	err := mcpclient.RPCError(s.method, &m.Error)
	if s.d.Pipe == nil {
		err.Status = http.StatusOK // as of every stream
	}
	if s.Stands() {
		s.End(err)
		return
	}
	s.End(s.d.refused(err))
}

// acknowledged handles the acknowledgement of subscriptions/listen. It ends the stream if
// the acknowledgement leaves out what was requested.
func (s *stream) acknowledged(e wire.Event) {
	list, uri := s.d.list, s.first.uri
	if driver.Granted(e.Data, list.Want, uri) {
		s.Confirm(e.Size)
		return
	}
	s.Overhead(e.Size, driver.MethodAcknowledged)
	s.End(fmt.Errorf("updates: %w: the acknowledgement leaves %s out", mcpclient.ErrNotOffered, errtext.Line(list.Read+uri)))
}

// Rand implements [driver.StreamProtocol].
func (s *stream) Rand() *rand.Rand { return s.d.RandOf(int(s.first.Sub.Index)) }

// Confirmed implements [driver.StreamProtocol].
func (s *stream) Confirmed(again bool) {
	switch {
	case !again:
	case s.ID() == 0 && s.d.set.Resource != "": // the session may be new
		s.d.Work.Go(crash.Guarded(s.resubscribe))
	default:
		s.reopened()
	}
}

// reopened makes the clients read again, because their stream was lost for a while.
func (s *stream) reopened() {
	at := s.d.Clock.Now()
	s.Notice(eventmeter.Reconnected, at, "")
	for _, c := range s.members() {
		c.reopened(at)
	}
}

// Refused implements [driver.StreamProtocol].
func (s *stream) Refused(a *mcpclient.Answer, _ *mcpclient.Session) error {
	switch {
	case s.method == driver.MethodGet && a.Err.Forgotten():
		s.lose(s.in)
		return mcpclient.SessionLost(s.method)
	case s.method == driver.MethodGet && a.Status == http.StatusMethodNotAllowed:
		return fmt.Errorf("%w: it has no GET stream, and so no way to notify a client", mcpclient.ErrNotOffered)
	}
	return s.d.refused(a.Err)
}

// Over implements [driver.StreamProtocol]: the first connection has to succeed. After that
// the stream is opened again, unless the target is a program that has ended.
func (s *stream) Over(err error) bool {
	var ce *mcpclient.CallError
	ended := errors.As(err, &ce) && ce.Kind == mcpclient.KindEnded
	switch {
	case ended:
		for _, c := range s.members() {
			if c.WasActive() {
				s.d.Notice(c.Sub, eventmeter.Terminated, s.d.Clock.Now(), err.Error())
			}
			c.Fail(err)
		}
	case s.WasConfirmed():
		if err != nil {
			s.Notice(eventmeter.TransientError, s.d.Clock.Now(), err.Error())
		}
		return false
	case driver.Passes(err):
		return false
	}
	s.cancel()
	return true
}

// Notice implements [driver.StreamProtocol].
func (s *stream) Notice(k eventmeter.NoticeKind, at eventmeter.Instant, detail string) {
	for _, c := range s.members() {
		s.d.Notice(c.Sub, k, at, detail)
	}
}

// TooLarge implements [driver.StreamProtocol].
func (s *stream) TooLarge(at eventmeter.Instant, err error) {
	s.d.TooLargeFor(s.first.Sub, at, err)
}

// members returns the clients that the stream serves.
func (s *stream) members() []*client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Concat(slices.Collect(maps.Values(s.clients))...)
}
