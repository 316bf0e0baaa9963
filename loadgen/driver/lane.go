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
	IsActive() bool
	Leave() bool
	Fail(error)
}

// Protocol is the part of a lane that its system implements, for attachments of type T.
type Protocol[T Turn] interface {
	// Make returns a new attachment of subscription i, initialized by Lane.Ready. last
	// is the one before, nil if there was none. The lane's lock is held.
	Make(i int, last T) (T, error)
	// Open opens an attachment. It returns when the target has confirmed it, or why it
	// has not.
	Open(ctx context.Context, r T) error
	// Abandon cleans up after an Open that failed.
	Abandon(r T)
	// End ends an attachment, after its Leave, and waits for its goroutines. The error
	// says that the target did not confirm the end.
	End(ctx context.Context, r T) error
	// Stop closes what the system has opened for the lane. It is called last, when the
	// lane closes.
	Stop(ctx context.Context) error
}

// Lane is the common part of all drivers: calls and connections, the attachments of
// subscriptions, and closing. A driver embeds a Lane and implements its Protocol; the
// Lane implements [Driver] and [Meter].
type Lane[T Turn] struct {
	mcpclient.Caller
	*Inbox   // nil unless the lane has callbacks
	Opts     Options
	Endpoint *mcpclient.Endpoint
	Observer eventmeter.Observer // nil unless events are observed
	Sockets  wire.Traffic        // of the lane's own connections

	Life context.Context // ends with the lane
	// Cancel ends Life.
	Cancel context.CancelFunc
	Work   sync.WaitGroup // the lane's goroutines

	// What and Noun are for error texts: the object of a subscription, and the word
	// for a subscription.
	What, Noun string
	// EndFirst makes Close end Life before it detaches the subscriptions, for systems
	// that need no request to detach.
	EndFirst bool

	protocol Protocol[T]
	streams  []*Streams // that OpenStreams has returned
	hangUp   func()     // closes the transport's connections

	Mu     sync.Mutex // guards the following fields, and those that drivers add
	Closed bool
	Turns  []T // the last attachment of each subscription; nil = there was none
}

// New checks o and returns the driver that newLane makes of it, with defaults filled in.
// name names the system in errors.
func New[D Driver](name string, o Options, newLane func(Options) (D, error)) (Driver, error) {
	switch {
	case o.Clock == nil, o.Recorder == nil, o.Endpoint == nil:
		return nil, errors.New("driver " + name + ": Clock, Recorder and Endpoint must be set")
	case o.Subscriptions < 0:
		return nil, fmt.Errorf("driver %s: %d subscriptions", name, o.Subscriptions)
	}
	d, err := newLane(o.WithDefaults())
	if err != nil {
		return nil, fmt.Errorf("driver %s: %w", name, err)
	}
	return d, nil
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

// First returns the open attachment of the first subscription that has one; nil if none has.
func (l *Lane[T]) First() (none T) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	for _, r := range l.Turns {
		if r != none && r.IsActive() {
			return r
		}
	}
	return none
}

// Shows returns how many events of this run stamps show, of those that subscription i is to
// receive and does not know.
func (l *Lane[T]) Shows(i int, stamps []eventmeter.Stamp, known func(eventmeter.Stamp) bool) (n float64) {
	for _, s := range stamps {
		if p := l.Opts.Published; p != nil && s.Run == p.Run() && l.Receives(i, s.Source) && !known(s) {
			n++
		}
	}
	return n
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

// Behind implements [Asker] for streams.
func (l *Lane[T]) Behind(since eventmeter.Instant) (behind, open int) {
	for _, s := range l.streams {
		behind += s.behind(since)
	}
	return behind, len(l.Turns)
}

func (l *Lane[T]) sub(i int) eventmeter.Sub {
	return eventmeter.Sub{Lane: l.Opts.Lane, Index: uint32(i)}
}

// Ready initializes a as an attachment of subscription i.
func (l *Lane[T]) Ready(a *Attachment, i int) {
	a.Sub, a.Caller, a.Began = l.sub(i), &l.Caller, l.Clock.Now()
	a.scope.parent = l.Life
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
		p.Part(ctx, r) // requests that need the subscription
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

// Principal returns the principal of subscription i.
func (l *Lane[T]) Principal(i int) *mcpclient.Principal {
	return l.Endpoint.Principal(l.Opts.NumberOf(i))
}

// Arguments returns the arguments of subscription i, a JSON object.
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

// Rand returns a random source that depends only on the seed, the lane's number and part.
func (l *Lane[T]) Rand(part uint64) *rand.Rand {
	return rand.New(rand.NewPCG(l.Opts.Seed, uint64(l.Opts.Lane)<<32|part))
}

// RandOf is Rand for subscription i.
func (l *Lane[T]) RandOf(i int) *rand.Rand { return l.Rand(uint64(l.Opts.NumberOf(i))) }

// Attached returns the last attachment of each subscription that had one.
func (l *Lane[T]) Attached() (all []T) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	var none T
	for _, r := range l.Turns {
		if r != none {
			all = append(all, r)
		}
	}
	return all
}

// Retry calls try as [RetryThrottled] does, with the lane's backoff and the random source r.
func (l *Lane[T]) Retry(ctx context.Context, r *rand.Rand, try func(eventmeter.Cause) error) error {
	backoff := l.Backoff(r)
	_, err := RetryThrottled(ctx, &backoff, func(cause eventmeter.Cause) (struct{}, error) { return struct{}{}, try(cause) })
	return err
}

// NewWatch returns a watch for the silence of the lane's streams.
func (l *Lane[T]) NewWatch() *sinks.Watch {
	return sinks.NewWatch(l.Clock, min(max(l.Opts.Push.Heartbeat/8, 10*time.Millisecond), time.Second))
}

// Backoff returns the waits between attempts at a stream or a registration.
func (l *Lane[T]) Backoff(r *rand.Rand) sinks.Backoff {
	return sinks.Backoff{Min: l.Opts.Push.Backoff.Min, Max: l.Opts.Push.Backoff.Max, Rand: r}
}

// Notice reports something that happened to a subscription.
func (l *Lane[T]) Notice(sub eventmeter.Sub, k eventmeter.NoticeKind, at eventmeter.Instant, detail string) {
	l.Recorder.Noticed(eventmeter.Notice{Sub: sub, Kind: k, At: at, Detail: errtext.Line(detail)})
}

// Delivered reports one copy of an event to the recorder and to the observer, if there is
// one. message is the event's object, or the notification around it.
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

// Report reports a call of the lane. A call with requests is charged with the connections
// that were opened since the last one. At is set to now if it is 0.
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
