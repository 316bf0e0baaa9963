package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/budget"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/settings"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/sinks"
)

// Inbox receives the callbacks of a lane: it has the listener, the receiver of each
// path, and the answers of webhook.answer. Lanes embed a pointer to it, which is nil
// unless they have callbacks.
type Inbox struct {
	Listener *sinks.Listener
	Receiver *sinks.Receiver
	answers  answers
	FailedAt atomic.Int64 // when the last connection failed, an eventmeter.Instant
	mu       sync.Mutex
	left     []string // the paths of subscriptions that have ended, a ring
	next     int      // the oldest of left, once it is full
}

// OpenInbox opens the lane's listener. r has the receiver's options that the lane's
// options do not determine. After an error nothing of the lane is in progress.
func (l *Lane[T]) OpenInbox(r sinks.ReceiverOptions) error {
	o, w, of := &l.Opts, &l.Opts.Webhook, &l.Opts.Listener
	if err := settings.Problem(w); err != nil {
		l.Cancel()
		return err
	}
	r.Clock, r.BodyLimit, r.Budget, r.Turned = o.Clock, int64(w.BodyLimit), o.Endpoint.Budget(), l.turned
	r.Followed = func(hook sinks.Hook, at eventmeter.Instant) {
		if h, ok := hook.(Judge); ok {
			h.Followed(at)
		}
		if h, ok := hook.(interface{ Subscription() eventmeter.Sub }); ok {
			l.Notice(h.Subscription(), eventmeter.Malformed, at, "a redirect was followed")
		}
	}
	r.MaxRequests = 2 * cmp.Or(of.MaxConnections, sinks.DefaultMaxConnections)
	c := &Inbox{Receiver: sinks.NewReceiver(r)}
	c.answers.all, c.answers.seed = w.Answer, o.Seed
	var err error
	c.Listener, err = sinks.Listen(sinks.ListenerOptions{
		Listen: w.Listen, Callback: w.Callback, Authority: of.Authority, Certificate: of.Certificate, Shared: of.Shared, Prefix: of.Prefix,
		Handler: c.Receiver, Wrap: of.Wrap, MaxConnections: of.MaxConnections,
		Failed: func(reason string) {
			now := o.Clock.Now()
			c.FailedAt.Store(int64(now))
			o.Recorder.Noticed(eventmeter.Notice{
				Sub: eventmeter.Sub{Lane: o.Lane}, Kind: eventmeter.Undeliverable, At: now, Detail: errtext.Line(reason),
				Own: strings.HasPrefix(reason, sinks.TooManyConnections),
			})
		},
	})
	if err != nil {
		l.Cancel()
		return err
	}
	l.Inbox = c
	return nil
}

// Judge is a hook that sees the requests which do not reach it as deliveries.
type Judge interface {
	// Followed says that a redirect was followed.
	Followed(at eventmeter.Instant)
	// Turned says that a request was answered with an error before it was read.
	Turned(status int, at eventmeter.Instant)
}

// Hook is the receiving end of one attachment. Drivers embed it in their own.
type Hook struct {
	Sub  eventmeter.Sub
	Path string
	URL  string // of Path, for the target
	// Serving is held for reading while a delivery is handled.
	Serving sync.RWMutex
}

// Subscription returns the subscription that the hook belongs to.
func (h *Hook) Subscription() eventmeter.Sub { return h.Sub }

// ReadyHook initializes h as the receiving end of a subscription, at a path below root
// that cannot be guessed. The driver adds it to the receiver.
func (l *Lane[T]) ReadyHook(h *Hook, root string, sub eventmeter.Sub) {
	h.Sub = sub
	h.Path = l.Receiver.Issue(l.Opts.Listener.Prefix + fmt.Sprintf("%s%d-%d-", root, sub.Lane, sub.Index))
	h.URL = l.Listener.URL(h.Path)
}

// Retire removes a hook from the listener and waits for deliveries that are being
// handled.
func (l *Lane[T]) Retire(h *Hook) {
	l.Receiver.Retire(h.Path)
	h.Serving.Lock()
	//lint:ignore SA2001 only waits
	h.Serving.Unlock()
	l.Ended(h, l.Clock.Now())
}

// Ended says that the subscription of a hook has ended: no event need come again. Retire calls it.
func (c *Inbox) Ended(h *Hook, at eventmeter.Instant) { c.answers.leave(h.Sub.Index, at) }

// maxLeft bounds the paths of ended subscriptions that a lane remembers.
const maxLeft = 1 << 14

// Leave is Retire for a subscription that the target has ended at our request, at an instant.
// What it publishes afterwards and still delivers is a stray copy; broke, if not nil, is called
// for the first one. The last 16,384 subscriptions of the lane are watched.
func (l *Lane[T]) Leave(h *Hook, at eventmeter.Instant, broke func(*sinks.Inbound)) {
	published := eventmeter.PublisherOf(l.Recorder)
	if published == nil {
		l.Retire(h)
		return
	}
	sub := h.Sub
	var once sync.Once
	l.Retire(h)
	l.Receiver.Add(h.Path, strayHook(func(in *sinks.Inbound) {
		stamp, probed := eventmeter.FindStamp(in.Body)
		if fired, ok := published.PublishedAt(stamp); !probed || !ok || fired <= at {
			l.Inbound(eventmeter.Events, "", in.At, in.Size, http.StatusServiceUnavailable)
			return
		}
		l.Recorder.Delivered(eventmeter.Delivery{Sub: sub, Stamp: stamp, Probed: true, At: in.At, Bytes: in.Size, Stray: true})
		if broke != nil {
			once.Do(func() { broke(in) })
		}
	}))
	c := l.Inbox
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.left) < maxLeft {
		c.left = append(c.left, h.Path)
		return
	}
	l.Receiver.Retire(c.left[c.next])
	c.left[c.next] = h.Path
	c.next = (c.next + 1) % maxLeft
}

// strayHook receives what comes to a subscription that has ended.
type strayHook func(*sinks.Inbound)

// Receive implements [sinks.Hook].
func (s strayHook) Receive(in *sinks.Inbound) sinks.Reply {
	s(in)
	return sinks.Reply{Status: http.StatusServiceUnavailable}
}

// Check parses a delivery into f and returns true, or refuses it and returns the reply.
// deviation is what is wrong with its signature, "" if nothing is.
func (l *Lane[T]) Check(h *Hook, in *sinks.Inbound, deviation string, f *wire.Fields) (sinks.Reply, bool) {
	if deviation != "" {
		if l.Opts.Webhook.Verify != settings.VerifyReport {
			return l.Reject(h, in, eventmeter.Rejected, deviation, http.StatusUnauthorized), false
		}
		l.Notice(h.Sub, eventmeter.Malformed, in.At, takenAnyway+deviation)
	}
	if !wire.ScanFields(in.Body, f) {
		return l.Reject(h, in, eventmeter.Malformed, "a delivery is not a JSON object", http.StatusBadRequest), false
	}
	return sinks.Reply{}, true
}

// Reject refuses a delivery with a status, and reports why. The notice has the probe id,
// if there is one, so that the event does not count as a silent loss.
func (l *Lane[T]) Reject(h *Hook, in *sinks.Inbound, kind eventmeter.NoticeKind, why string, status int) sinks.Reply {
	stamp, probed := eventmeter.FindStamp(in.Body)
	l.Recorder.Noticed(eventmeter.Notice{Sub: h.Sub, Kind: kind, At: in.At, Detail: errtext.Line(why), Stamp: stamp, Refused: probed})
	l.Inbound(eventmeter.Events, "", in.At, in.Size, status)
	return sinks.Reply{Status: status}
}

// Receipt is how a copy of an event is answered.
type Receipt struct {
	Refused bool // by webhook.answer
	// Status is the status of the answer to this copy. Former is the status by which an
	// earlier copy was refused. Each is 0 if there was no answer.
	Status, Former int
	repeat         bool // an earlier copy was refused
	reply          sinks.Reply
}

// Take reports a copy of an event, and decides how it is answered. The driver then calls
// Answer.
func (l *Lane[T]) Take(h *Hook, in *sinks.Inbound, id uint64, f *wire.Fields) (r Receipt) {
	a, drawn, former := l.answers.decide(uint32(l.Opts.NumberOf(int(h.Sub.Index))), id, false)
	l.answers.await(answered{h.Sub.Index, id}, a, former, in.At)
	r.Status = http.StatusOK
	if former != nil {
		r.repeat, r.Former = true, statusOf(former)
	}
	if a != nil {
		r.Refused, r.reply, r.Status = !a.Accepts(), replyOf(a, drawn, h.URL+"?"+sinks.FollowedQuery), statusOf(a)
	}
	stamp, probed := eventmeter.FindStamp(in.Body)
	l.Delivered(eventmeter.Delivery{
		Sub: h.Sub, Stamp: stamp, Probed: probed, EventID: id, At: in.At, Bytes: in.Size, Refused: r.Refused,
	}, f, in.Body)
	return r
}

// Answer reports the request that had a copy, and returns its reply.
func (l *Lane[T]) Answer(in *sinks.Inbound, r Receipt) sinks.Reply {
	cause := eventmeter.Events
	if r.repeat {
		cause = eventmeter.Retry
	}
	l.Inbound(cause, "", in.At, in.Size, r.Status)
	return r.reply
}

// AnswerChallenge returns true if webhook.answer wants a challenge to fail, and the
// reply. If neither a status nor a missing answer makes it fail, the reply has the body
// wrong.
func (l *Lane[T]) AnswerChallenge(h *Hook, wrong []byte) (sinks.Reply, bool) {
	a, drawn, _ := l.answers.decide(uint32(l.Opts.NumberOf(int(h.Sub.Index))), 0, true)
	if a == nil {
		return sinks.Reply{}, false
	}
	reply := replyOf(a, drawn, h.URL+"?"+sinks.FollowedQuery)
	if !a.Hang && !a.Reset && cmp.Or(a.Status, http.StatusOK) == http.StatusOK {
		reply.Body = wrong
	}
	return reply, true
}

// Callbacks returns c; nil if the lane has no listener.
func (c *Inbox) Callbacks() *Inbox { return c }

// CloseInbox ends delayed answers, and closes the listener.
func (l *Lane[T]) CloseInbox(ctx context.Context) error {
	l.Receiver.Close()
	return l.Listener.Close(ctx)
}

// turned reports a request that reached no subscription.
func (l *Lane[T]) turned(to sinks.Hook, status int, at eventmeter.Instant, size int) {
	if h, ok := to.(Judge); ok {
		h.Turned(status, at)
	}
	if h, ok := to.(interface{ Subscription() eventmeter.Sub }); ok && status != http.StatusMethodNotAllowed {
		if status == http.StatusRequestEntityTooLarge {
			l.TooLargeFor(h.Subscription(), at, wire.ErrTooLarge)
		}
		switch status {
		case http.StatusServiceUnavailable: // the budget was used up, or there were too many at once
			l.TooLargeFor(h.Subscription(), at, budget.ErrExceeded)
			l.Recorder.Noticed(eventmeter.Notice{
				Sub: eventmeter.Sub{Lane: l.Opts.Lane}, Kind: eventmeter.Undeliverable, At: at, Detail: "no room for a delivery", Own: true,
			})
		default:
			l.Notice(h.Subscription(), eventmeter.Malformed, at, fmt.Sprintf("a delivery was answered %d", status))
		}
	}
	l.Inbound(eventmeter.Events, "", at, size, status)
}

// Inbound reports a request of the target.
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

// CertPEM implements [Receiver]; nil if the lane has no listener.
func (c *Inbox) CertPEM() []byte {
	if c == nil {
		return nil
	}
	return c.Listener.CertPEM()
}

// CallbackURL implements [Receiver]; "" if the lane has no listener.
func (c *Inbox) CallbackURL() string {
	if c == nil {
		return ""
	}
	return c.Listener.URL("")
}

// Accepted returns the number of connections that the target opened.
func (c *Inbox) Accepted() int64 {
	if c == nil {
		return 0
	}
	return c.Listener.Accepted()
}

// answerSize is the size of the listener's shortest answer in HTTP/1.1, in bytes: the
// status line, Date, and Content-Length.
const answerSize = len("HTTP/1.1 200 OK\r\nDate: Mon, 02 Jan 2006 15:04:05 GMT\r\nContent-Length: 0\r\n\r\n")

// takenAnyway begins the notice about a delivery that was accepted although its signature
// does not verify.
const takenAnyway = "taken by verify: report: "

// Rejection returns why a delivery does not verify, given the error of [wire.Verify].
// Each of suspects is for a secret that the sender may have used.
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
