package events

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/sinks"
)

const methodListChanged = "notifications/events/list_changed"

// listening is the lane's stream for notifications that belong to no subscription: the GET
// stream of its session in the legacy era, subscriptions/listen in the modern one. The
// draft does not name the member with which a modern client asks for changes of the event
// types; eventsListChanged follows the names for other lists.
type listening struct {
	driver.Stream
	d   *lane
	who *mcpclient.Principal
	// changed holds the time of a change after which the list was not read yet. Changes
	// that come meanwhile need no read of their own.
	changed chan eventmeter.Instant
}

// listen opens the stream, if events.listen is set.
func (d *lane) listen() {
	if !d.set.Listen {
		return
	}
	l := &listening{d: d, who: d.Endpoint.Principal(0), changed: make(chan eventmeter.Instant, 1)}
	l.Init(d.notices, l)
	l.Start(d.Life)
	context.AfterFunc(d.Life, crash.Guarded(l.HangUp))
	d.Work.Go(crash.Guarded(l.follow))
}

// listenOptions returns the options of the stream. A server need not send heartbeats on
// it, so silence counts only after a comment.
func (d *lane) listenOptions() driver.StreamOptions {
	return driver.StreamOptions{Silence: 2 * d.Opts.Push.Heartbeat, Unpromised: true, Comments: true}
}

// errNoChannel is the error of a target that has no stream to listen on.
var errNoChannel = errors.New("the target has no stream for notifications")

// Request implements [driver.StreamProtocol].
func (l *listening) Request(ctx context.Context) (driver.StreamRequest, error) {
	session, err := l.who.Session(ctx, l.d.Observe)
	if err != nil {
		return driver.StreamRequest{}, err
	}
	l.d.judge.greet.Do(func() { l.d.judgeHandshake(session) })
	req := driver.StreamRequest{Who: l.who, Session: session, Method: mcpclient.MethodListen}
	switch session.Era {
	case mcpclient.Modern:
		l.d.Listen(&req, "eventsListChanged")
	case mcpclient.Legacy:
		req.Header = session.StreamHeader()
	default:
		return driver.StreamRequest{}, errNoChannel
	}
	return req, nil
}

// Answered implements [driver.StreamProtocol].
func (l *listening) Answered() { l.Confirm(0) }

// Confirmed implements [driver.StreamProtocol]. It has the list read, because changes
// before the stream was open are not notified.
func (l *listening) Confirmed(bool) {
	l.d.tally.Count("listens", 1)
	l.wake(0)
}

// Comment implements [driver.StreamProtocol].
func (l *listening) Comment(e wire.Event) {
	l.Overhead(e.Size, mcpclient.MethodListen)
	l.Watch()
}

// Message implements [driver.StreamProtocol]. Over a pipe, the first message is the
// confirmation.
func (l *listening) Message(e wire.Event, m *wire.Message) {
	switch {
	case m.Method == nil && m.HasError:
		l.Overhead(e.Size, mcpclient.MethodListen)
		if err := mcpclient.RPCError(mcpclient.MethodListen, &m.Error); err.Final() {
			l.End(fmt.Errorf("%w: %w", errNoChannel, err))
		} else {
			l.End(err)
		}
		return
	case l.Stands():
		l.Overhead(e.Size, mcpclient.MethodListen)
	default:
		l.Confirm(e.Size)
	}
	switch string(m.Method) {
	case "":
		l.End(nil)
	case methodListChanged:
		l.d.tally.Count("listChanged", 1)
		l.d.judge.tally.See(0, conform.ListChanged)
		if !l.d.judge.listChanged.Load() {
			l.d.judge.tally.Break(0, l.At(), conform.CapabilityListChangedGated, e.Data)
		}
		l.wake(l.At())
	}
}

// Refused implements [driver.StreamProtocol].
func (l *listening) Refused(a *mcpclient.Answer, session *mcpclient.Session) error {
	if l.who.Lost(session, a.Err) || a.Err.Throttled() || a.Status >= http.StatusInternalServerError {
		return a.Err
	}
	return errNoChannel
}

// Over implements [driver.StreamProtocol]: the stream is opened again unless the target
// does not have it, or has ended.
func (l *listening) Over(err error) bool {
	if errors.Is(err, errNoChannel) {
		l.d.tally.Count("listensRefused", 1)
		return true
	}
	var ce *mcpclient.CallError
	return errors.As(err, &ce) && ce.Kind == mcpclient.KindEnded
}

// Called implements [driver.StreamProtocol]: all calls have the cause Discovery.
func (l *listening) Called(c eventmeter.Call) {
	c.Cause = eventmeter.Discovery
	l.d.Recorder.Called(c)
}

// Notice implements [driver.StreamProtocol]. The stream serves no subscription, so dead
// streams are only counted.
func (l *listening) Notice(k eventmeter.NoticeKind, _ eventmeter.Instant, _ string) {
	if k == eventmeter.DeadStream {
		l.d.tally.Count("listensDead", 1)
	}
}

// wake makes follow read the list again. at is the time of the notification, 0 if there
// was none.
func (l *listening) wake(at eventmeter.Instant) {
	select {
	case l.changed <- at:
	default:
	}
}

// follow reads the list of event types when the stream was opened and after every change.
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
	session, err := l.who.Session(l.d.Life, l.d.Observe)
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

// missingFrom returns how many members of b are not in a.
func missingFrom(a, b map[string]bool) (n int) {
	for name := range b {
		if !a[name] {
			n++
		}
	}
	return n
}
