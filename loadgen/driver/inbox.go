package driver

import (
	"cmp"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/sinks"
)

// Inbox is where a lane is called back: its listener, who receives there,
// and what is refused on purpose. Lanes embed it by pointer, which is nil where
// nobody calls back.
type Inbox struct {
	Listener *sinks.Listener
	Receiver *sinks.Receiver
	Refuse   Refusals
	prefix   string
	FailedAt atomic.Int64 // when the last connection failed, a eventmeter.Instant
}

// OpenInbox opens the lane's listener. r is what the receiver is asked
// to do besides what o says.
func OpenInbox(o *Options, r sinks.ReceiverOptions) (*Inbox, error) {
	w := o.Webhook
	if w.Refuse < 0 || w.Refuse > 1 {
		return nil, fmt.Errorf("webhook: refuse %g: use a share from 0 to 1", w.Refuse)
	}
	r.Clock, r.BodyLimit, r.Budget = o.Clock, w.BodyLimit, o.Endpoint.Budget()
	r.MaxRequests = 2 * cmp.Or(w.MaxConnections, sinks.DefaultMaxConnections)
	c := &Inbox{Receiver: sinks.NewReceiver(r), prefix: w.Prefix}
	c.Refuse.share, c.Refuse.seed = w.Refuse, o.Seed
	var err error
	c.Listener, err = sinks.Listen(sinks.ListenerOptions{
		Listen: w.Listen, Callback: w.Callback, Authority: w.Authority, Certificate: w.Certificate, Shared: w.Shared, Prefix: w.Prefix,
		Handler: c.Receiver, Wrap: w.Wrap, MaxConnections: w.MaxConnections,
		Failed: func(reason string) {
			now := o.Clock.Now()
			c.FailedAt.Store(int64(now))
			o.Recorder.Noticed(eventmeter.Notice{Sub: eventmeter.Sub{Lane: o.Lane}, Kind: eventmeter.Undeliverable, At: now, Detail: errtext.Line(reason)})
		},
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// CertPEM returns what the target has to trust; nil if the lane has no listener.
func (c *Inbox) CertPEM() []byte {
	if c == nil {
		return nil
	}
	return c.Listener.CertPEM()
}

// CallbackURL returns the listener's address; "" if the lane has none.
func (c *Inbox) CallbackURL() string {
	if c == nil {
		return ""
	}
	return c.Listener.URL("")
}

// Accepted is the number of connections that the target opened.
func (c *Inbox) Accepted() int64 {
	if c == nil {
		return 0
	}
	return c.Listener.Accepted()
}

// Path makes the path of a new callback, which nobody can guess, below root.
func (c *Inbox) Path(root string, sub eventmeter.Sub) string {
	return c.Receiver.Issue(c.prefix + fmt.Sprintf("%s%d-%d-", root, sub.Lane, sub.Index))
}

// Inbound is the report of a request that the target made.
func (c *Inbox) Inbound(cause eventmeter.Cause, method string, at eventmeter.Instant, size, status int) eventmeter.Call {
	call := eventmeter.Call{
		Cause: cause, At: at, Requests: 1, Up: int64(AnswerSize), Down: int64(size),
		Connections: c.Listener.TakeAccepted(), Method: method,
	}
	if status > 299 {
		call.Answered = status
	}
	return call
}

// RefusedNotice is the notice of a delivery that this side refuses. Its probe id, if
// there is one, tells that the event is not lost without a trace.
func RefusedNotice(sub eventmeter.Sub, kind eventmeter.NoticeKind, in *sinks.Inbound, detail string) eventmeter.Notice {
	stamp, probed := eventmeter.FindStamp(in.Body)
	return eventmeter.Notice{Sub: sub, Kind: kind, At: in.At, Detail: errtext.Line(detail), Stamp: stamp, Refused: probed}
}

// AnswerSize is what an answer of the listener takes at least in HTTP/1.1: the
// status line, Date, and Content-Length.
const AnswerSize = len("HTTP/1.1 200 OK\r\nDate: Mon, 02 Jan 2006 15:04:05 GMT\r\nContent-Length: 0\r\n\r\n")

// TakenAnyway is what is noted of a delivery that was taken although it does not
// verify.
const TakenAnyway = "taken by verify: report: "

// Rejection says why a delivery does not verify. Each of the suspects is made of
// a secret that the sender may have used.
func Rejection(err error, in *sinks.Inbound, suspects []*wire.Suspects) string {
	why := "wrong signature"
	switch {
	case errors.Is(err, wire.ErrStale):
		return "stale timestamp"
	case errors.Is(err, wire.ErrUnsigned):
		why = "unsigned"
	}
	for _, s := range suspects {
		if mistake := s.Diagnose(in.Header, in.Body); mistake != "" {
			return why + ": " + mistake
		}
	}
	return why
}
