package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/sinks"
)

// Turn is a driver's own kind of [Attachment], by pointer.
type Turn interface {
	comparable
	IsOver() bool
	Leave() bool
	Fail(error)
}

// Protocol is what a system does for a lane of attachments of type T.
type Protocol[T Turn] interface {
	// Make makes the attachment of subscription i, and has the lane ready it
	// (Lane.Ready). last was the one before; nil = there was none. The lane's lock
	// is held.
	Make(i int, last T) (T, error)
	// Open returns when the attachment was confirmed, or why it was not.
	Open(ctx context.Context, r T) error
	// Abandon cleans up after an Open that failed.
	Abandon(r T)
	// End ends an attachment that was left, and waits for what serves it. The
	// error says that the target did not confirm the end.
	End(ctx context.Context, r T) error
	// Stop closes what the system has opened for the lane, after everything else
	// is over.
	Stop(ctx context.Context) error
}

// Lane is what every driver is made around: its calls and connections, the
// attachments of its subscriptions, and its end. A driver embeds it and is its
// Protocol; Attach, Detach, Close and Traffic are those of [Driver] and [Meter].
type Lane[T Turn] struct {
	mcpclient.Caller
	*Inbox   // nil where nobody calls back
	Opts     Options
	Endpoint *mcpclient.Endpoint
	Observer eventmeter.Observer // nil when nobody looks at events
	Sockets  wire.Traffic        // what passed the lane's own connections

	Life context.Context // of everything that the lane has under way
	// Cancel ends everything that the lane has under way.
	Cancel context.CancelFunc
	Work   sync.WaitGroup // the lane's goroutines

	// What and Noun are for error texts: what is attached to, and what a
	// subscription is called.
	What, Noun string
	// EndFirst ends everything that is under way before a lane that closes
	// detaches its subscriptions: for systems that have no request for it.
	EndFirst bool

	protocol Protocol[T]
	hangUp   func() // closes the transport's connections

	Mu     sync.Mutex // guards what follows, and what drivers say
	Closed bool
	Turns  []T // the last attachment of each subscription; nil = there was none
}

// CheckOptions tells what no lane can do without. name is what the driver is
// called in errors.
func CheckOptions(name string, o *Options) error {
	switch {
	case o.Clock == nil, o.Recorder == nil, o.Endpoint == nil:
		return errors.New(name + ": Clock, Recorder and Endpoint must be set")
	case o.Subscriptions < 0:
		return fmt.Errorf("%s: %d subscriptions", name, o.Subscriptions)
	}
	return nil
}

// Init makes the lane ready for calls. connect makes its transport, and what
// closes the connections of that.
func (l *Lane[T]) Init(o Options, p Protocol[T], connect func(*wire.Traffic) (http.RoundTripper, func(), error)) error {
	transport, hangUp, err := connect(&l.Sockets)
	if err != nil {
		return err
	}
	l.Opts, l.Endpoint, l.Observer, l.protocol, l.hangUp = o, o.Endpoint, eventmeter.ObserverOf(o.Recorder), p, hangUp
	l.What, l.Noun = o.Event, "subscription"
	l.Caller = o.Endpoint.Caller(o.Clock, &l.Sockets)
	l.Transport, l.Recorder, l.Caller.Lane = o.Endpoint.Renewing(transport, l.Observe), o.Recorder, o.Lane
	l.Life, l.Cancel = context.WithCancel(context.Background())
	l.Turns = make([]T, o.Subscriptions)
	return nil
}

// Attach implements [Driver].
func (l *Lane[T]) Attach(ctx context.Context, i int) error {
	r, err := l.Begin(i)
	if err != nil {
		return fmt.Errorf("attach %s: %s %d: %w", l.What, l.Noun, i, err)
	}
	if err = l.protocol.Open(ctx, r); err == nil {
		return nil
	}
	r.Fail(err)
	l.protocol.Abandon(r)
	return fmt.Errorf("attach %s at %s: %w", l.What, l.Endpoint.Name(), err)
}

// Begin makes an attachment of subscription i and reports Attaching.
func (l *Lane[T]) Begin(i int) (r T, err error) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	var none T
	switch {
	case l.Closed:
		return none, fmt.Errorf("%w: the lane is closed", mcpclient.ErrState)
	case i < 0 || i >= len(l.Turns):
		return none, fmt.Errorf("%w: there are %d", mcpclient.ErrState, len(l.Turns))
	case l.Turns[i] != none && !l.Turns[i].IsOver():
		return none, fmt.Errorf("%w: it is open", mcpclient.ErrState)
	}
	if r, err = l.protocol.Make(i, l.Turns[i]); err != nil {
		return none, err
	}
	l.Turns[i] = r
	l.Recorder.Changed(eventmeter.Transition{Sub: l.sub(i), To: eventmeter.Attaching, At: l.Clock.Now()})
	return r, nil
}

func (l *Lane[T]) sub(i int) eventmeter.Sub {
	return eventmeter.Sub{Lane: l.Opts.Lane, Index: uint32(i)}
}

// Ready makes a the attachment of subscription i.
func (l *Lane[T]) Ready(a *Attachment, i int) {
	a.Sub, a.Caller, a.Began = l.sub(i), &l.Caller, l.Clock.Now()
	a.Ctx, a.Cancel = context.WithCancel(l.Life)
}

// Last returns the last attachment of subscription i; nil if there was none.
func (l *Lane[T]) Last(i int) (last T) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if i >= 0 && i < len(l.Turns) {
		last = l.Turns[i]
	}
	return last
}

// Detach implements [Driver].
func (l *Lane[T]) Detach(ctx context.Context, i int) error {
	var none T
	r := l.Last(i)
	if r == none {
		return nil
	}
	if p, ok := l.protocol.(interface{ Part(context.Context, T) }); ok {
		p.Part(ctx, r) // what has to be asked while it is still there
	}
	if !r.Leave() {
		return nil
	}
	err := l.protocol.End(ctx, r)
	l.Recorder.Changed(eventmeter.Transition{Sub: l.sub(i), To: eventmeter.Detached, At: l.Clock.Now()})
	if err != nil {
		return fmt.Errorf("detach %s at %s: %w", l.What, l.Endpoint.Name(), err)
	}
	return nil
}

// Close implements [Driver]. It detaches what is open, many at a time.
func (l *Lane[T]) Close(ctx context.Context) error {
	l.Mu.Lock()
	closed := l.Closed
	l.Closed = true
	l.Mu.Unlock()
	if closed {
		return nil
	}
	if l.EndFirst {
		l.Cancel()
	}
	failed, first := l.detachAll(ctx)
	l.Cancel()
	l.Work.Wait()
	if err := l.protocol.Stop(ctx); err != nil && first == nil {
		first, failed = err, failed+1
	}
	l.hangUp()
	if first != nil {
		return fmt.Errorf("close lane %d: %d errors, the first: %w", l.Opts.Lane, failed, first)
	}
	return nil
}

// detachAtOnce is how many subscriptions a lane that closes detaches at a time.
const detachAtOnce = 32

// detachAll ends every attachment that is open. It returns how many of the calls
// failed, and the first of their errors. No attachment may begin meanwhile.
func (l *Lane[T]) detachAll(ctx context.Context) (failed int, first error) {
	slots := make(chan struct{}, detachAtOnce)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var none T
	for i, r := range l.Turns {
		if r == none || r.IsOver() {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer crash.Guard()
			defer func() { <-slots }()
			if err := l.Detach(ctx, i); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed++
				if first == nil {
					first = err
				}
			}
		})
	}
	wg.Wait()
	return failed, first
}

// Traffic implements [Meter].
func (l *Lane[T]) Traffic() mcpclient.Traffic {
	return mcpclient.Traffic{Up: l.Sockets.Up(), Down: l.Sockets.Down(), Opened: l.Sockets.Opened(), Accepted: l.Accepted()}
}

// Principal returns who subscription i is.
func (l *Lane[T]) Principal(i int) *mcpclient.Principal {
	return l.Endpoint.Principal(l.Opts.NumberOf(i))
}

// Arguments returns those of subscription i, which must be a JSON object.
func (l *Lane[T]) Arguments(i int) (json.RawMessage, error) {
	args := json.RawMessage("{}")
	if l.Opts.Arguments != nil {
		if a := l.Opts.Arguments(i); len(a) > 0 {
			args = a
		}
	}
	var f wire.Fields
	if !wire.ScanFields(args, &f) {
		return nil, fmt.Errorf("%w: arguments %s are not a JSON object", mcpclient.ErrInvalid, errtext.Line(string(args)))
	}
	return args, nil
}

// Rand returns a source of randomness of the lane's own, the same for the same
// seed and part.
func (l *Lane[T]) Rand(part uint64) *rand.Rand {
	return rand.New(rand.NewPCG(l.Opts.Seed, uint64(l.Opts.Lane)<<32|part))
}

// RandOf is Rand for subscription i.
func (l *Lane[T]) RandOf(i int) *rand.Rand { return l.Rand(uint64(l.Opts.NumberOf(i))) }

// NewWatch returns what watches the lane's streams for silence.
func (l *Lane[T]) NewWatch() *sinks.Watch {
	return sinks.NewWatch(l.Clock, min(max(l.Opts.Push.Heartbeat/8, 10*time.Millisecond), time.Second))
}

// StreamBackoff returns the waits between attempts at a stream or a registration.
func (l *Lane[T]) StreamBackoff(r *rand.Rand) sinks.Backoff {
	return sinks.Backoff{Min: l.Opts.Push.BackoffMin, Max: l.Opts.Push.BackoffMax, Rand: r}
}

// Notice reports something that happened to a subscription.
func (l *Lane[T]) Notice(sub eventmeter.Sub, k eventmeter.NoticeKind, at eventmeter.Instant, detail string) {
	l.Recorder.Noticed(eventmeter.Notice{Sub: sub, Kind: k, At: at, Detail: errtext.Line(detail)})
}

// Delivered reports one copy of an event, and shows it to whoever looks. message
// is the event's object, or the notification around it.
func (l *Lane[T]) Delivered(v eventmeter.Delivery, f *wire.Fields, message []byte) {
	l.Recorder.Delivered(v)
	if l.Observer != nil {
		l.Observer.Observed(eventmeter.Observation{Sub: v.Sub, At: v.At, EventID: v.EventID, Timestamp: f.Timestamp, Message: message})
	}
}

// Called reports an exchange with the target.
func (l *Lane[T]) Called(cause eventmeter.Cause, method string, a *mcpclient.Answer) {
	l.Report(eventmeter.Call{
		Cause: cause, At: a.At, Requests: 1, Up: a.Up, Down: a.Down, Took: a.Took, Method: method, Failure: a.Err.Failure(),
	})
}

// Report reports a call as the lane's. A request is charged with the connections
// that were opened since the last one; At is now unless it is set.
func (l *Lane[T]) Report(c eventmeter.Call) {
	c.Lane = l.Opts.Lane
	if c.Requests > 0 {
		c.Connections = l.Sockets.TakeOpened()
	}
	if c.At == 0 {
		c.At = l.Clock.Now()
	}
	l.Recorder.Called(c)
}

// Observe reports a handshake as the lane's traffic.
func (l *Lane[T]) Observe(c eventmeter.Call) {
	c.Lane, c.At = l.Opts.Lane, l.Clock.Now()
	l.Recorder.Called(c)
}

// Lost tells whether an answer means that the server no longer knows the
// session, and then forgets it.
func (l *Lane[T]) Lost(who *mcpclient.Principal, s *mcpclient.Session, e *mcpclient.CallError) bool {
	if s.ID == "" || !e.Forgotten() {
		return false
	}
	who.Forget(s)
	return true
}
