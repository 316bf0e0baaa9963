package updates

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// pipeStream carries a client's notifications over standard output in the modern
// era, as those of its own request to listen.
type pipeStream struct {
	c       *client
	request uint64
	x       *mcpclient.Exchange
	ready   chan error // of capacity 1
	began   eventmeter.Instant
	up      int64

	// Of the goroutine that reads the pipe.
	stands, settled, over bool
}

func newPipeStream(c *client) *pipeStream {
	p := &pipeStream{c: c, request: c.d.Endpoint.NextID(), ready: make(chan error, 1)}
	p.x = &mcpclient.Exchange{Traffic: &c.d.Sockets, Take: p.take, End: p.end}
	return p
}

// open implements carrier.
func (p *pipeStream) open(ctx context.Context) error {
	d := p.c.d
	session, err := p.c.who.Session(ctx, d.Observe)
	if err != nil {
		return err
	}
	body := d.build(session, p.request, mcpclient.MethodListen, p.c.wanted())
	p.began, p.up = d.Clock.Now(), int64(len(body))+1
	if err := d.Pipe.Add(p.request, p.x); err != nil {
		return &mcpclient.CallError{Method: mcpclient.MethodListen, Kind: mcpclient.KindEnded, Cause: err}
	}
	if err := d.Pipe.Send(ctx, body, &d.Sockets); err != nil {
		d.Pipe.Remove(p.request, p.x)
		return err
	}
	select {
	case err := <-p.ready:
		return err
	case <-ctx.Done():
		return driver.NotConfirmed(nil, ctx.Err())
	}
}

// settle says what came of the request, once.
func (p *pipeStream) settle(at eventmeter.Instant, down int, err *mcpclient.CallError, why error) {
	if p.settled {
		return
	}
	p.settled = true
	p.c.d.Report(eventmeter.Call{
		Cause: eventmeter.Subscribe, At: at, Requests: 1, Up: p.up, Down: int64(down), Took: at.Sub(p.began), Method: mcpclient.MethodListen, Failure: err.Failure(),
	})
	p.ready <- why
}

// take handles one line of the server's.
func (p *pipeStream) take(read time.Time, l wire.Line, m *wire.Message) {
	d := p.c.d
	at := d.Clock.Instant(read)
	switch {
	case m.Method == nil || string(m.Method) == mcpclient.MethodCancelled:
		p.x.Closed, p.over = true, true
		err := &mcpclient.CallError{Method: mcpclient.MethodListen, Kind: mcpclient.KindProtocol, Message: "the server ended the subscription"}
		if m.HasError {
			err = mcpclient.RPCError(mcpclient.MethodListen, &m.Error)
		}
		if !p.stands {
			p.settle(at, l.Size, err, d.refused(err))
			return
		}
		d.overhead(at, l.Size, "response")
		p.c.ended(err)
	case string(m.Method) == methodAcknowledged:
		err := p.c.granted(l.Data)
		p.stands = p.stands || err == nil
		p.settle(at, l.Size, nil, err)
	default:
		p.c.message(m, l.Size, at)
	}
}

// end handles the end of the server.
func (p *pipeStream) end(cause error) {
	err := &mcpclient.CallError{Method: mcpclient.MethodListen, Kind: mcpclient.KindEnded, Cause: cause}
	if !p.stands {
		p.settle(p.c.d.Clock.Now(), 0, err, err)
		return
	}
	p.c.ended(err)
}

// ended ends a client whose subscription the server has ended: on a pipe there is
// no other stream to open.
func (c *client) ended(err error) {
	if c.WasActive() {
		c.d.Notice(c.Sub, eventmeter.Terminated, c.d.Clock.Now(), err.Error())
	}
	c.Fail(err)
}

// header implements carrier.
func (p *pipeStream) header(*mcpclient.Session, string, string) (http.Header, error) {
	return nil, nil
}

// forgotten implements carrier.
func (p *pipeStream) forgotten(http.Header, *mcpclient.CallError) bool { return false }

// close implements carrier.
func (p *pipeStream) close(ctx context.Context) error {
	d := p.c.d
	d.Pipe.Remove(p.request, p.x) // take does not run any more
	if p.up == 0 || p.over {
		return nil
	}
	if up := d.Pipe.Cancel(ctx, p.request, &d.Sockets); up > 0 { // else the server is gone
		d.Report(eventmeter.Call{Cause: eventmeter.Unsubscribe, Requests: 1, Up: up, Method: mcpclient.MethodCancelled})
	}
	return nil
}

// pipeSession is the one session of the legacy era that all clients of a lane share
// over a pipe. Its notifications name a resource and no client.
type pipeSession struct {
	d *lane
	x *mcpclient.Exchange

	mu        sync.Mutex
	listening bool
	clients   map[string][]*client // by URI; "" = of a list
}

func (p *pipeSession) init(d *lane) {
	p.d, p.clients = d, map[string][]*client{}
	p.x = &mcpclient.Exchange{Traffic: &d.Sockets, Take: p.take, End: p.end}
}

// join has a client notified.
func (p *pipeSession) join(c *client) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.listening {
		if err := p.d.Pipe.Listen(p.x, nil); err != nil {
			return &mcpclient.CallError{Method: methodSubscribe, Kind: mcpclient.KindEnded, Cause: err}
		}
		p.listening = true
	}
	p.clients[c.uri] = append(p.clients[c.uri], c)
	return nil
}

// leave undoes join, and tells whether the client was the last of its resource.
func (p *pipeSession) leave(c *client) (last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	rest := slices.DeleteFunc(p.clients[c.uri], func(o *client) bool { return o == c })
	p.clients[c.uri] = rest
	if len(rest) == 0 {
		delete(p.clients, c.uri)
	}
	return len(rest) == 0
}

// take hands a notification to the clients of its resource, or of the list. Its
// bytes came once.
func (p *pipeSession) take(read time.Time, l wire.Line, m *wire.Message) {
	d := p.d
	at := d.Clock.Instant(read)
	size := l.Size
	for _, c := range p.of(m) {
		c.message(m, size, at)
		size = 0
	}
	if size == 0 {
		return
	}
	d.overhead(at, size, string(m.Method)) // of another lane, which has the same session
	d.tally.Count("otherNotifications", 1)
}

// of returns the clients that a notification is for.
func (p *pipeSession) of(m *wire.Message) []*client {
	p.mu.Lock()
	defer p.mu.Unlock()
	if string(m.Method) == p.d.list.changed && p.d.list.changed != "" {
		return slices.Clone(p.clients[""])
	}
	if string(m.Method) != methodUpdated || len(m.URI) == 0 {
		return nil
	}
	var all []*client
	for i := 1; i <= len(m.URI); i++ {
		if i == len(m.URI) || m.URI[i] == '/' {
			all = append(all, p.clients[string(m.URI[:i])]...)
		}
	}
	return all
}

func (p *pipeSession) end(cause error) {
	p.mu.Lock()
	var all []*client
	for _, list := range p.clients {
		all = append(all, list...)
	}
	p.mu.Unlock()
	for _, c := range all {
		c.ended(&mcpclient.CallError{Method: methodSubscribe, Kind: mcpclient.KindEnded, Cause: cause})
	}
}

func (p *pipeSession) close() {
	p.mu.Lock()
	listening := p.listening
	p.listening = false
	p.mu.Unlock()
	if listening {
		p.d.Pipe.Unlisten(p.x)
	}
}

// pipeMember is a client's part in the session.
type pipeMember struct{ c *client }

// open implements carrier.
func (p *pipeMember) open(ctx context.Context) error {
	d := p.c.d
	if err := d.pipe.join(p.c); err != nil {
		return err
	}
	if p.c.uri == "" {
		return nil
	}
	backoff := d.StreamBackoff(nil)
	_, err := driver.RetryThrottled(ctx, &backoff, func(again bool) (struct{}, error) {
		cause := eventmeter.Subscribe
		if again {
			cause = eventmeter.Retry
		}
		return struct{}{}, p.c.subscribe(ctx, cause)
	})
	return err
}

// header implements carrier.
func (p *pipeMember) header(*mcpclient.Session, string, string) (http.Header, error) {
	return nil, nil
}

// forgotten implements carrier.
func (p *pipeMember) forgotten(http.Header, *mcpclient.CallError) bool { return false }

// close implements carrier: other clients of the session may have the same resource,
// and then the server keeps it.
func (p *pipeMember) close(ctx context.Context) error {
	d, c := p.c.d, p.c
	if last := d.pipe.leave(c); !last || c.uri == "" || !c.WasActive() {
		return nil
	}
	o := wire.BeginObject(nil)
	o.String("uri", c.uri)
	a, _, err := d.send(ctx, c, methodUnsubscribe, "", o)
	if err != nil {
		return err
	}
	defer a.Release()
	d.Called(eventmeter.Unsubscribe, methodUnsubscribe, a)
	if a.Err != nil && a.Err.Kind != mcpclient.KindEnded {
		return a.Err
	}
	return nil
}
