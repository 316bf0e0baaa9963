package driver

import (
	"cmp"
	"fmt"
	"sync/atomic"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/sinks"
)

// callbacks is where a lane is called back: its listener, who receives there,
// and what is refused on purpose. Lanes embed it by pointer, which is nil where
// nobody calls back.
type callbacks struct {
	listener *sinks.Listener
	receiver *sinks.Receiver
	refuse   refusals
	prefix   string
	failedAt atomic.Int64 // when the last connection failed, a eventmeter.Instant
}

// listenForCallbacks opens the lane's listener. r is what the receiver is asked
// to do besides what o says.
func listenForCallbacks(o *Options, r sinks.ReceiverOptions) (*callbacks, error) {
	w := o.Webhook
	if w.Refuse < 0 || w.Refuse > 1 {
		return nil, fmt.Errorf("webhook: refuse %g: use a share from 0 to 1", w.Refuse)
	}
	r.Clock, r.BodyLimit, r.Budget = o.Clock, w.BodyLimit, o.Endpoint.opts.Budget
	r.MaxRequests = 2 * cmp.Or(w.MaxConnections, sinks.DefaultMaxConnections)
	c := &callbacks{receiver: sinks.NewReceiver(r), prefix: w.Prefix}
	c.refuse.share, c.refuse.seed = w.Refuse, o.Seed
	var err error
	c.listener, err = sinks.Listen(sinks.ListenerOptions{
		Listen: w.Listen, Callback: w.Callback, Authority: w.Authority, Certificate: w.Certificate, Shared: w.Shared, Prefix: w.Prefix,
		Handler: c.receiver, Wrap: w.Wrap, MaxConnections: w.MaxConnections,
		Failed: func(reason string) {
			now := o.Clock.Now()
			c.failedAt.Store(int64(now))
			o.Recorder.Noticed(eventmeter.Notice{Sub: eventmeter.Sub{Lane: o.Lane}, Kind: eventmeter.Undeliverable, At: now, Detail: line(reason)})
		},
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// CertPEM returns what the target has to trust; nil if the lane has no listener.
func (c *callbacks) CertPEM() []byte {
	if c == nil {
		return nil
	}
	return c.listener.CertPEM()
}

// CallbackURL returns the listener's address; "" if the lane has none.
func (c *callbacks) CallbackURL() string {
	if c == nil {
		return ""
	}
	return c.listener.URL("")
}

// accepted is the number of connections that the target opened.
func (c *callbacks) accepted() int64 {
	if c == nil {
		return 0
	}
	return c.listener.Accepted()
}

// path makes the path of a new callback, which nobody can guess, below root.
func (c *callbacks) path(root string, sub eventmeter.Sub) string {
	return c.receiver.Issue(c.prefix + fmt.Sprintf("%s%d-%d-", root, sub.Lane, sub.Index))
}

// inbound is the report of a request that the target made.
func (c *callbacks) inbound(cause eventmeter.Cause, method string, at eventmeter.Instant, size, status int) eventmeter.Call {
	call := eventmeter.Call{
		Cause: cause, At: at, Requests: 1, Up: int64(answerSize), Down: int64(size),
		Connections: c.listener.TakeAccepted(), Method: method,
	}
	if status > 299 {
		call.Answered = status
	}
	return call
}

// refused is the notice of a delivery that this side refuses. Its probe id, if
// there is one, tells that the event is not lost without a trace.
func refused(sub eventmeter.Sub, kind eventmeter.NoticeKind, in *sinks.Inbound, detail string) eventmeter.Notice {
	stamp, probed := eventmeter.FindStamp(in.Body)
	return eventmeter.Notice{Sub: sub, Kind: kind, At: in.At, Detail: line(detail), Stamp: stamp, Refused: probed}
}

// answerSize is what an answer of the listener takes at least in HTTP/1.1: the
// status line, Date, and Content-Length.
const answerSize = len("HTTP/1.1 200 OK\r\nDate: Mon, 02 Jan 2006 15:04:05 GMT\r\nContent-Length: 0\r\n\r\n")
