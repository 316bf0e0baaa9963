package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/budget"
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
	answers  answers
	FailedAt atomic.Int64 // when the last connection failed, an eventmeter.Instant
}

// OpenInbox opens the lane's listener. r is what the receiver is asked to do
// besides what the options say.
func (l *Lane[T]) OpenInbox(r sinks.ReceiverOptions) error {
	o, w := &l.Opts, &l.Opts.Webhook
	if err := checkAnswers(w.Answer); err != nil {
		return err
	}
	r.Clock, r.BodyLimit, r.Budget, r.Turned = o.Clock, w.BodyLimit, o.Endpoint.Budget(), l.turned
	r.Followed = func(hook sinks.Hook, at eventmeter.Instant) {
		if h, ok := hook.(interface{ Subscription() eventmeter.Sub }); ok {
			l.Notice(h.Subscription(), eventmeter.Malformed, at, "a redirect was followed")
		}
	}
	r.MaxRequests = 2 * cmp.Or(w.MaxConnections, sinks.DefaultMaxConnections)
	c := &Inbox{Receiver: sinks.NewReceiver(r)}
	c.answers.all, c.answers.seed = w.Answer, o.Seed
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
		return err
	}
	l.Inbox = c
	return nil
}

// Hook is the receiving end of one attachment. Drivers embed it in their own.
type Hook struct {
	Sub  eventmeter.Sub
	Path string
	URL  string // of Path, as the target is given it
	// Serving is held for reading while a delivery is looked at.
	Serving sync.RWMutex
}

// Subscription returns whose hook it is.
func (h *Hook) Subscription() eventmeter.Sub { return h.Sub }

// ReadyHook makes h the receiving end of a subscription, at a path below root
// that nobody can guess. The driver adds it to the receiver.
func (l *Lane[T]) ReadyHook(h *Hook, root string, sub eventmeter.Sub) {
	h.Sub = sub
	h.Path = l.Receiver.Issue(l.Opts.Webhook.Prefix + fmt.Sprintf("%s%d-%d-", root, sub.Lane, sub.Index))
	h.URL = l.Listener.URL(h.Path)
}

// Retire takes a hook off the listener and waits for deliveries that are being
// looked at.
func (l *Lane[T]) Retire(h *Hook) {
	l.Receiver.Retire(h.Path)
	h.Serving.Lock()
	h.Serving.Unlock() //nolint:staticcheck // only waits
}

// Check tells whether a delivery is accepted, and scans it into f; else it has
// been refused with the reply. deviation is what is wrong with its signature.
func (l *Lane[T]) Check(h *Hook, in *sinks.Inbound, deviation string, f *wire.Fields) (sinks.Reply, bool) {
	if deviation != "" {
		if l.Opts.Webhook.Verify != VerifyReport {
			return l.Reject(h, in, eventmeter.Rejected, deviation, http.StatusUnauthorized), false
		}
		l.Notice(h.Sub, eventmeter.Malformed, in.At, takenAnyway+deviation)
	}
	if !wire.ScanFields(in.Body, f) {
		return l.Reject(h, in, eventmeter.Malformed, "a delivery is not a JSON object", http.StatusBadRequest), false
	}
	return sinks.Reply{}, true
}

// Reject answers a delivery with an error because of what it is. Its probe id, if
// there is one, tells that the event is not lost without a trace.
func (l *Lane[T]) Reject(h *Hook, in *sinks.Inbound, kind eventmeter.NoticeKind, why string, status int) sinks.Reply {
	stamp, probed := eventmeter.FindStamp(in.Body)
	l.Recorder.Noticed(eventmeter.Notice{Sub: h.Sub, Kind: kind, At: in.At, Detail: errtext.Line(why), Stamp: stamp, Refused: probed})
	l.Inbound(eventmeter.Events, "", in.At, in.Size, status)
	return sinks.Reply{Status: status}
}

// Receipt is what becomes of a copy of an event.
type Receipt struct {
	Refused bool // on purpose
	repeat  bool // a later copy of one that was refused
	reply   sinks.Reply
	status  int // that is reported
}

// Take reports a copy of an event, and decides how it is answered. The driver
// answers with Answer.
func (l *Lane[T]) Take(h *Hook, in *sinks.Inbound, id uint64, f *wire.Fields) (r Receipt) {
	a, drawn, repeat := l.answers.decide(uint32(l.Opts.NumberOf(int(h.Sub.Index))), id, false)
	r.repeat, r.status = repeat, http.StatusOK
	if a != nil {
		r.Refused, r.reply, r.status = !a.takes(), a.reply(drawn, h.URL+"?"+sinks.FollowedQuery), a.status()
	}
	stamp, probed := eventmeter.FindStamp(in.Body)
	l.Delivered(eventmeter.Delivery{
		Sub: h.Sub, Stamp: stamp, Probed: probed, EventID: id, At: in.At, Bytes: in.Size, Refused: r.Refused,
	}, f, in.Body)
	return r
}

// Answer reports the request that brought a copy, and answers it.
func (l *Lane[T]) Answer(in *sinks.Inbound, r Receipt) sinks.Reply {
	cause := eventmeter.Events
	if r.repeat {
		cause = eventmeter.Retry
	}
	l.Inbound(cause, "", in.At, in.Size, r.status)
	return r.reply
}

// AnswerChallenge decides how a challenge is answered: as it should be, unless it
// returns true. The answer is then the reply, with the body that was given for a
// wrong echo where nothing else is set.
func (l *Lane[T]) AnswerChallenge(h *Hook, wrong []byte) (sinks.Reply, bool) {
	a, drawn, _ := l.answers.decide(uint32(l.Opts.NumberOf(int(h.Sub.Index))), 0, true)
	if a == nil {
		return sinks.Reply{}, false
	}
	reply := a.reply(drawn, h.URL+"?"+sinks.FollowedQuery)
	if !a.Hang && !a.Reset && cmp.Or(a.Status, http.StatusOK) == http.StatusOK {
		reply.Body = wrong
	}
	return reply, true
}

// CloseInbox ends the answers that are held back, and closes the listener.
func (l *Lane[T]) CloseInbox(ctx context.Context) error {
	l.Receiver.Close()
	return l.Listener.Close(ctx)
}

// turned reports a request that reached no subscription.
func (l *Lane[T]) turned(to sinks.Hook, status int, at eventmeter.Instant, size int) {
	if h, ok := to.(interface{ Subscription() eventmeter.Sub }); ok && status != http.StatusMethodNotAllowed {
		if status == http.StatusServiceUnavailable { // the budget was used up
			l.TooLargeFor(h.Subscription(), at, budget.ErrExceeded)
		} else {
			l.Notice(h.Subscription(), eventmeter.Malformed, at, fmt.Sprintf("a delivery was answered %d", status))
		}
	}
	l.Inbound(eventmeter.Events, "", at, size, status)
}

// Inbound reports a request that the target made.
func (l *Lane[T]) Inbound(cause eventmeter.Cause, method string, at eventmeter.Instant, size, status int) {
	call := eventmeter.Call{
		Lane: l.Opts.Lane, Cause: cause, At: at, Requests: 1, Up: int64(answerSize), Down: int64(size),
		Connections: l.Listener.TakeAccepted(), Method: method,
	}
	if status > 299 {
		call.Answered = status
	}
	l.Recorder.Called(call)
}

// Fetched reports a document that the target has fetched.
func (l *Lane[T]) Fetched(at eventmeter.Instant, size, answered int) {
	l.Recorder.Called(eventmeter.Call{
		Lane: l.Opts.Lane, Cause: eventmeter.Verification, At: at, Requests: 1, Up: int64(answerSize + answered), Down: int64(size),
		Connections: l.Listener.TakeAccepted(), Method: http.MethodGet,
	})
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

// answerSize is what an answer of the listener takes at least in HTTP/1.1: the
// status line, Date, and Content-Length.
const answerSize = len("HTTP/1.1 200 OK\r\nDate: Mon, 02 Jan 2006 15:04:05 GMT\r\nContent-Length: 0\r\n\r\n")

// takenAnyway is what is noted of a delivery that was taken although it does not
// verify.
const takenAnyway = "taken by verify: report: "

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
