package events

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/sinks"
)

const methodListChanged = "notifications/events/list_changed"

// listening is the lane's stream for what concerns no subscription: the GET
// stream of its session in the legacy era, subscriptions/listen in the modern
// one. The draft does not say by which name a modern client asks for changes of
// the event types; eventsListChanged follows its siblings.
type listening struct {
	d *lane
	// changed holds the time of a change that was not followed up yet; those
	// that come meanwhile are followed up with it.
	changed chan eventmeter.Instant
	take    func(wire.Event)
	parser  wire.EventParser
	msg     wire.Message
	at      eventmeter.Instant
	// alive: comments came on the stream at hand, so that a silence means
	// something. Neither kind of stream is promised any.
	alive bool
	asked time.Duration // see pause
}

// listen begins to listen, if the lane was asked to.
func (d *lane) listen() {
	if !d.set.Listen {
		return
	}
	l := &listening{d: d, changed: make(chan eventmeter.Instant, 1)}
	l.take = l.event
	d.Work.Go(crash.Guarded(l.run))
	d.Work.Go(crash.Guarded(l.follow))
}

// errNoChannel: the target has no stream to listen on.
var errNoChannel = errors.New("the target has no stream for notifications")

// run keeps the stream open until the lane closes, or the target has none.
func (l *listening) run() {
	d := l.d
	backoff := d.StreamBackoff(nil)
	for {
		opened, err := l.connect()
		if errors.Is(err, errNoChannel) {
			d.tally.Count("listensRefused", 1)
			return
		}
		if opened {
			backoff.Reset()
		}
		if !sinks.Sleep(d.Life, backoff.Next(l.asked)) {
			return
		}
	}
}

// connect opens the stream and reads it to its end.
func (l *listening) connect() (opened bool, err error) {
	d, p := l.d, l.d.Endpoint.Principal(0)
	session, err := p.Session(d.Life, d.Observe)
	if err != nil {
		return false, err
	}
	if d.Pipe != nil {
		return l.connectPipe(session)
	}
	ctx, cancel := context.WithCancel(d.Life)
	defer cancel()
	var req *http.Request
	var body []byte
	switch session.Era {
	case mcpclient.Modern:
		what := wire.BeginObject(nil)
		what.Raw("eventsListChanged", []byte("true"))
		o := wire.BeginObject(nil)
		o.Raw("notifications", what.End())
		_, body = d.build(mcpclient.MethodListen, o, session)
		req = d.NewPost(ctx, session.Header(mcpclient.MethodListen, ""), body)
	case mcpclient.Legacy:
		req = d.NewGet(ctx, session.StreamHeader())
	default:
		return false, errNoChannel
	}
	call := eventmeter.Call{
		Lane: d.Opts.Lane, Cause: eventmeter.Discovery, Requests: 1, Method: mcpclient.MethodListen,
		Up: mcpclient.RequestSize(req.Method, d.URL.RequestURI(), req.Header, int64(len(body))),
	}
	start := d.Clock.Now()
	resp, err := d.Transport.RoundTrip(req)
	call.At, call.Connections = d.Clock.Now(), d.Sockets.TakeOpened()
	call.Took = call.At.Sub(start)
	if err != nil {
		call.Failure = mcpclient.TransportError(ctx, err).Failure()
		d.Recorder.Called(call)
		return false, err
	}
	defer resp.Body.Close()
	call.Down = mcpclient.ResponseSize(resp)
	if resp.StatusCode != http.StatusOK || !mcpclient.IsEventStream(resp.Header) {
		call.Down += d.Patience.Rest(resp.Body)
		return false, l.refused(resp, session, call)
	}
	d.Recorder.Called(call)
	d.tally.Count("listens", 1)
	// What changed before the stream stood would never be told.
	l.wake(0)
	return true, l.read(resp.Body, cancel)
}

// read reads the stream to its end. One that showed signs of life, and shows no
// more, is given up: nothing more would come on it.
func (l *listening) read(body io.Reader, giveUp func()) error {
	d := l.d
	l.parser.Budget = d.Budget
	l.parser.Reset()
	defer func() {
		l.asked = mcpclient.Pause(&l.parser, l.asked)
		l.parser.Reset()
	}()
	l.alive = false
	limit := 2 * d.Opts.Push.Heartbeat
	silent := time.AfterFunc(limit, func() {
		defer crash.Guard()
		d.tally.Count("listensDead", 1)
		giveUp()
	})
	silent.Stop() // until there was a comment
	defer silent.Stop()
	return sinks.ReadStream(body, d.Clock, nil, func(piece []byte, at eventmeter.Instant) error {
		l.at = at
		err := l.parser.Feed(piece, l.take)
		d.TooLarge(at, err)
		if l.alive {
			silent.Reset(limit)
		}
		return err
	})
}

// refused reports an answer that is no stream, and tells whether to try again.
func (l *listening) refused(resp *http.Response, session *mcpclient.Session, call eventmeter.Call) error {
	e := &mcpclient.CallError{Method: mcpclient.MethodListen, Status: resp.StatusCode}
	if resp.StatusCode < 300 {
		e.Kind = mcpclient.KindProtocol
	}
	call.Failure = e.Failure()
	l.d.Recorder.Called(call)
	switch {
	case session.ID != "" && resp.StatusCode == http.StatusNotFound:
		l.d.Endpoint.Principal(0).Forget(session)
		return e
	case e.Throttled() || resp.StatusCode >= 500:
		return e
	}
	return errNoChannel
}

// wake asks for the event types to be listed again.
func (l *listening) wake(at eventmeter.Instant) {
	select {
	case l.changed <- at:
	default:
	}
}

// event takes one message off the stream.
func (l *listening) event(e wire.Event) {
	l.d.Recorder.Called(eventmeter.Call{Lane: l.d.Opts.Lane, Cause: eventmeter.Discovery, At: l.at, Down: int64(e.Size), Method: mcpclient.MethodListen})
	if len(e.Data) == 0 {
		l.alive = true
		return
	}
	if !wire.ScanMessage(e.Data, &l.msg) || string(l.msg.Method) != methodListChanged {
		return
	}
	l.d.tally.Count("listChanged", 1)
	l.wake(l.at)
}

// follow lists the event types when the stream was opened and after every
// change.
func (l *listening) follow() {
	d := l.d
	var known map[string]bool
	for {
		var told eventmeter.Instant
		select {
		case told = <-l.changed:
		case <-d.Life.Done():
			return
		}
		names, err := l.names()
		switch {
		case err != nil && d.Life.Err() != nil:
			return
		case err != nil:
			d.tally.Count("relistsFailed", 1)
			if sinks.Sleep(d.Life, relistPause) {
				l.wake(told)
			}
			continue
		}
		if told != 0 {
			d.tally.Count("relists", 1)
			d.tally.Took("relist", d.Clock.Now().Sub(told))
		}
		if known != nil {
			d.tally.Count("typesAppeared", float64(missingFrom(known, names)))
			d.tally.Count("typesVanished", float64(missingFrom(names, known)))
		}
		known = names
	}
}

// relistPause is the wait before a list that failed is tried again.
const relistPause = time.Second

func (l *listening) names() (map[string]bool, error) {
	session, err := l.d.Endpoint.Principal(0).Session(l.d.Life, l.d.Observe)
	if err != nil {
		return nil, err
	}
	types, err := l.d.listAll(l.d.Life, session, nil)
	names := make(map[string]bool, len(types))
	for _, t := range types {
		names[t.Name] = true
	}
	return names, err
}

// missingFrom counts the members of b that a does not have.
func missingFrom(a, b map[string]bool) (n int) {
	for name := range b {
		if !a[name] {
			n++
		}
	}
	return n
}

// connectPipe listens over the endpoint's pipe: with a request in the modern
// era; in the legacy one, what concerns no subscription comes by itself.
func (l *listening) connectPipe(session *mcpclient.Session) (opened bool, err error) {
	d := l.d
	over := make(chan struct{})
	var refused *mcpclient.CallError
	x := &mcpclient.Exchange{Traffic: &d.Sockets, End: func(error) { close(over) }}
	x.Take = func(at time.Time, line wire.Line, m *wire.Message) {
		l.at = d.Clock.Instant(at)
		l.event(wire.Event{Data: line.Data, Size: line.Size})
		if m.Method != nil && string(m.Method) != mcpclient.MethodCancelled {
			return
		}
		if m.HasError {
			refused = mcpclient.RPCError(mcpclient.MethodListen, &m.Error)
		}
		x.Closed = true
		close(over)
	}
	call := eventmeter.Call{Lane: d.Opts.Lane, Cause: eventmeter.Discovery, Method: mcpclient.MethodListen}
	var id uint64
	switch session.Era {
	case mcpclient.Modern:
		what := wire.BeginObject(nil)
		what.Raw("eventsListChanged", []byte("true"))
		o := wire.BeginObject(nil)
		o.Raw("notifications", what.End())
		var body []byte
		id, body = d.build(mcpclient.MethodListen, o, session)
		call.Requests, call.Up = 1, int64(len(body))+1
		if err := d.Pipe.Add(id, x); err != nil {
			return false, errNoChannel
		}
		defer d.Pipe.Remove(id, x)
		if err := d.Pipe.Send(d.Life, body, &d.Sockets); err != nil {
			return false, err
		}
	case mcpclient.Legacy:
		if d.Pipe.Listen(x, nil) != nil {
			return false, errNoChannel
		}
		defer d.Pipe.Unlisten(x)
	default:
		return false, errNoChannel
	}
	call.At = d.Clock.Now()
	d.Recorder.Called(call)
	d.tally.Count("listens", 1)
	l.wake(0)
	select {
	case <-over:
		if refused != nil && refused.Final() {
			return false, errNoChannel
		}
	case <-d.Life.Done():
		if id != 0 {
			up := d.Pipe.Cancel(context.WithoutCancel(d.Life), id, &d.Sockets)
			d.Recorder.Called(eventmeter.Call{Lane: d.Opts.Lane, Cause: eventmeter.Discovery, At: d.Clock.Now(), Requests: 1, Up: up, Method: mcpclient.MethodCancelled})
		}
	}
	return true, nil
}
