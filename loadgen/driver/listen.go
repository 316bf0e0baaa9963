package driver

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/sinks"
)

const (
	methodListen      = "subscriptions/listen"
	methodListChanged = "notifications/events/list_changed"
)

// listening is the lane's stream for what concerns no subscription: the GET
// stream of its session in the legacy era, subscriptions/listen in the modern
// one. The draft does not say by which name a modern client asks for changes of
// the event types; eventsListChanged follows its siblings.
type listening struct {
	d *events
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
func (d *events) listen() {
	if !d.opts.Events.Listen {
		return
	}
	l := &listening{d: d, changed: make(chan eventmeter.Instant, 1)}
	l.take = l.event
	d.work.Go(crash.Guarded(l.run))
	d.work.Go(crash.Guarded(l.follow))
}

// errNoChannel: the target has no stream to listen on.
var errNoChannel = errors.New("the target has no stream for notifications")

// run keeps the stream open until the lane closes, or the target has none.
func (l *listening) run() {
	d := l.d
	backoff := sinks.Backoff{Min: d.opts.Push.BackoffMin, Max: d.opts.Push.BackoffMax}
	for {
		opened, err := l.connect()
		if errors.Is(err, errNoChannel) {
			d.tally.count("listensRefused", 1)
			return
		}
		if opened {
			backoff.Reset()
		}
		if !sinks.Sleep(d.life, backoff.Next(l.asked)) {
			return
		}
	}
}

// connect opens the stream and reads it to its end.
func (l *listening) connect() (opened bool, err error) {
	d, p := l.d, l.d.ep.principals[0]
	agreed, err := p.agree(d.life, d.observe)
	if err != nil {
		return false, err
	}
	if d.pipe != nil {
		return l.connectPipe(agreed)
	}
	ctx, cancel := context.WithCancel(d.life)
	defer cancel()
	var req *http.Request
	var body []byte
	switch agreed.era {
	case Modern:
		what := wire.BeginObject(nil)
		what.Raw("eventsListChanged", []byte("true"))
		o := wire.BeginObject(nil)
		o.Raw("notifications", what.End())
		_, body = d.build(methodListen, o, agreed)
		req = d.request(ctx, agreed.headers[methodListen], body)
	case Legacy:
		header := agreed.headers[methodListen].Clone()
		header.Del("Content-Type")
		header.Set("Accept", "text/event-stream")
		req = (&http.Request{Method: http.MethodGet, URL: d.url, Host: d.host, Header: header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).WithContext(ctx)
	default:
		return false, errNoChannel
	}
	call := eventmeter.Call{
		Lane: d.opts.Lane, Cause: eventmeter.Discovery, Requests: 1, Method: methodListen,
		Up: requestSize(req.Method, d.url.RequestURI(), req.Header, int64(len(body))),
	}
	start := d.clock.Now()
	resp, err := d.transport.RoundTrip(req)
	call.At, call.Connections = d.clock.Now(), d.traffic.TakeOpened()
	call.Took = call.At.Sub(start)
	if err != nil {
		call.Failure = transportError(ctx, err).failure()
		d.rec.Called(call)
		return false, err
	}
	defer resp.Body.Close()
	call.Down = responseSize(resp)
	if resp.StatusCode != http.StatusOK || !isEventStream(resp.Header) {
		call.Down += d.patience.rest(resp.Body)
		return false, l.refused(resp, agreed, call)
	}
	d.rec.Called(call)
	d.tally.count("listens", 1)
	// What changed before the stream stood would never be told.
	l.wake(0)
	return true, l.read(resp.Body, cancel)
}

// read reads the stream to its end. One that showed signs of life, and shows no
// more, is given up: nobody would be told of anything on it.
func (l *listening) read(body io.Reader, giveUp func()) error {
	d := l.d
	l.parser.Budget = d.budget
	l.parser.Reset()
	defer func() {
		l.asked = pause(&l.parser, l.asked)
		l.parser.Reset()
	}()
	l.alive = false
	limit := 2 * d.opts.Push.Heartbeat
	silent := time.AfterFunc(limit, func() {
		defer crash.Guard()
		d.tally.count("listensDead", 1)
		giveUp()
	})
	silent.Stop() // until there was a comment
	defer silent.Stop()
	return sinks.ReadStream(body, d.clock, nil, func(piece []byte, at eventmeter.Instant) error {
		l.at = at
		err := l.parser.Feed(piece, l.take)
		d.tooLarge(at, err)
		if l.alive {
			silent.Reset(limit)
		}
		return err
	})
}

// refused reports an answer that is no stream, and tells whether to try again.
func (l *listening) refused(resp *http.Response, agreed *agreement, call eventmeter.Call) error {
	e := &callError{method: methodListen, status: resp.StatusCode}
	if resp.StatusCode < 300 {
		e.kind = kindProtocol
	}
	call.Failure = e.failure()
	l.d.rec.Called(call)
	switch {
	case agreed.session != "" && resp.StatusCode == http.StatusNotFound:
		l.d.ep.principals[0].forget(agreed)
		return e
	case e.throttled() || resp.StatusCode >= 500:
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
	l.d.rec.Called(eventmeter.Call{Lane: l.d.opts.Lane, Cause: eventmeter.Discovery, At: l.at, Down: int64(e.Size), Method: methodListen})
	if len(e.Data) == 0 {
		l.alive = true
		return
	}
	if !wire.ScanMessage(e.Data, &l.msg) || string(l.msg.Method) != methodListChanged {
		return
	}
	l.d.tally.count("listChanged", 1)
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
		case <-d.life.Done():
			return
		}
		names, err := l.names()
		switch {
		case err != nil && d.life.Err() != nil:
			return
		case err != nil:
			d.tally.count("relistsFailed", 1)
			if sinks.Sleep(d.life, relistPause) {
				l.wake(told)
			}
			continue
		}
		if told != 0 {
			d.tally.count("relists", 1)
			d.tally.took("relist", d.clock.Now().Sub(told))
		}
		if known != nil {
			d.tally.count("typesAppeared", float64(missingFrom(known, names)))
			d.tally.count("typesVanished", float64(missingFrom(names, known)))
		}
		known = names
	}
}

// relistPause is the wait before a list that failed is tried again.
const relistPause = time.Second

func (l *listening) names() (map[string]bool, error) {
	agreed, err := l.d.ep.principals[0].agree(l.d.life, l.d.observe)
	if err != nil {
		return nil, err
	}
	types, err := l.d.listAll(l.d.life, agreed)
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
