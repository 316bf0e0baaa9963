package mcpclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// probeTime is how long a server may take to answer server/discover. Some older
// servers answer nothing before initialize, so no answer counts as an unknown method.
const probeTime = 5 * time.Second

// sdkPipe lets the official client make the handshake over a pipe that others use, too.
// It gives the client's requests ids of the run, and passes only their answers to the
// client. It implements both mcp.Transport and mcp.Connection.
type sdkPipe struct {
	e      *Endpoint
	tried  tried
	in     chan jsonrpc.Message
	closed chan struct{}
	once   sync.Once

	mu   sync.Mutex
	open map[uint64]*Exchange
	seen map[string][]byte // the answers to server/discover and initialize
	died error
}

// Connect implements [mcp.Transport].
func (s *sdkPipe) Connect(context.Context) (mcp.Connection, error) { return s, nil }

// SessionID implements [mcp.Connection]: a pipe is its own session.
func (s *sdkPipe) SessionID() string { return "" }

// Read implements [mcp.Connection].
func (s *sdkPipe) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-s.in:
		return m, nil
	case <-s.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close implements [mcp.Connection]. The pipe stays open.
func (s *sdkPipe) Close() error {
	s.once.Do(func() { close(s.closed) })
	s.mu.Lock()
	open := s.open
	s.open = nil
	s.mu.Unlock() // exchanges take the two locks the other way round
	for id, x := range open {
		s.e.pipe.Remove(id, x)
	}
	return nil
}

// Write implements [mcp.Connection].
func (s *sdkPipe) Write(ctx context.Context, m jsonrpc.Message) error {
	req, ok := m.(*jsonrpc.Request)
	if !ok { // no requests are passed to the client, so there is nothing to answer
		return nil
	}
	if req.Method == methodInitialize && s.e.opts.Era == Modern {
		return errors.New("the target refused server/discover")
	}
	own := *req
	id := uint64(0)
	if req.ID.IsValid() {
		id = s.e.NextID()
		var err error
		if own.ID, err = jsonrpc.MakeID(float64(id)); err != nil {
			return err
		}
	}
	text, err := jsonrpc.EncodeMessage(&own)
	if err == nil && req.Method == methodInitialize {
		text, err = s.e.advertised(text)
	}
	if err != nil {
		return err
	}
	call := eventmeter.Call{Cause: eventmeter.Discovery, Requests: 1, Method: req.Method, Up: int64(len(text)) + 1}
	if id == 0 {
		s.tried.report(call)
	} else if err := s.expect(id, req, call); err != nil {
		return err
	}
	if err := s.e.pipe.Send(ctx, text, &s.e.traffic); err != nil {
		return err
	}
	return nil
}

// expect opens the exchange for a request of the official client.
func (s *sdkPipe) expect(id uint64, req *jsonrpc.Request, call eventmeter.Call) error {
	start := time.Now()
	x := &Exchange{Traffic: &s.e.traffic}
	answered := false
	give := func(m *jsonrpc.Response) {
		m.ID = req.ID
		select {
		case s.in <- m:
		default: // the client sends one request at a time, so there is room
		}
	}
	x.Take = func(at time.Time, l wire.Line, m *wire.Message) {
		call.Down += int64(l.Size)
		if m.Method != nil {
			return
		}
		answered, x.Closed = true, true
		call.Took = at.Sub(start)
		if m.HasError {
			call.Failure = (&CallError{HasCode: true, code: m.Error.Code}).Failure()
		}
		s.tried.report(call)
		if len(l.Data) > maxHandshake {
			give(&jsonrpc.Response{Error: errHandshake})
			return
		}
		text := bytes.Clone(l.Data)
		s.keep(req.Method, text)
		decoded, err := jsonrpc.DecodeMessage(text)
		if r, ok := decoded.(*jsonrpc.Response); ok && err == nil {
			give(r)
			return
		}
		give(&jsonrpc.Response{Error: errors.New("the answer cannot be understood")})
	}
	x.End = func(cause error) {
		s.mu.Lock()
		s.died = cause
		s.mu.Unlock()
		s.once.Do(func() { close(s.closed) })
	}
	if err := s.add(id, x); err != nil {
		return err
	}
	if req.Method == methodDiscover {
		time.AfterFunc(probeTime, func() {
			defer crash.Guard()
			x.mu.Lock()
			defer x.mu.Unlock()
			if !answered && !x.Closed {
				answered = true
				call.Took, call.Failure = probeTime, "timeout"
				s.tried.report(call)
				give(&jsonrpc.Response{Error: &jsonrpc.Error{Code: codeMethodNotFound, Message: "no answer in time"}})
			}
		})
	}
	return nil
}

// add opens an exchange on the pipe, and remembers that it is open.
func (s *sdkPipe) add(id uint64, x *Exchange) error {
	err := s.e.pipe.Add(id, x)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.died = err
		return err
	}
	if s.open == nil {
		s.open = map[uint64]*Exchange{}
	}
	s.open[id] = x
	return nil
}

func (s *sdkPipe) keep(method string, text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = map[string][]byte{}
	}
	s.seen[method] = text
}

// counted returns the answer that made the session. initialize is sent only after
// discovery has failed.
func (s *sdkPipe) counted() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text := s.seen[methodInitialize]; text != nil {
		return text
	}
	return s.seen[methodDiscover]
}

// handshakePipe makes the handshake over the endpoint's pipe.
func (p *Principal) handshakePipe(ctx context.Context, era Era, observe func(eventmeter.Call)) (a *Session, err error) {
	e := p.endpoint
	if err := e.pipe.start(); err != nil {
		return nil, err
	}
	s := &sdkPipe{e: e, tried: tried{observe: observe}, in: make(chan jsonrpc.Message, 16), closed: make(chan struct{})}
	defer func() { s.tried.settle(a) }()
	client, opts := e.sdkClient(era)
	session, err := client.Connect(ctx, s, opts)
	if err != nil {
		_ = s.Close() // removes its exchanges
		return p.barePipe(ctx, s, err)
	}
	a = sessionOf(session)
	a.Capabilities, a.versions = readOffer(s.counted())
	if err := e.spoken(a); err != nil {
		a.end()
		return nil, err
	}
	a.build(p)
	return a, nil
}

// barePipe decides what a failed handshake means: the server ended, does not answer, or
// does not speak MCP, or it takes calls without a handshake.
func (p *Principal) barePipe(ctx context.Context, s *sdkPipe, cause error) (*Session, error) {
	e := p.endpoint
	s.mu.Lock()
	died := s.died
	s.mu.Unlock()
	if died == nil {
		select {
		case <-e.pipe.over:
			died = e.pipe.cause
		default:
		}
	}
	switch {
	case died != nil:
		return nil, fmt.Errorf("handshake with %s: %w: %w: run the command by hand to see more", e.opts.URL, ErrUnreachable, died)
	case ctx.Err() != nil:
		return nil, fmt.Errorf(
			"handshake with %s: %w: no answer came: does it speak MCP over standard input and output?",
			e.opts.URL,
			ErrUnreachable,
		)
	case e.opts.Version != "":
		if _, supported := readOffer(s.counted()); len(supported) > 0 {
			return nil, e.unspoken(supported)
		}
		return nil, fmt.Errorf(
			"handshake with %s: %w: %s: the target does not speak %s: ask for no version",
			e.opts.URL,
			ErrProtocol,
			errtext.Line(cause.Error()),
			e.opts.Version,
		)
	case e.opts.Era == Modern:
		return nil, fmt.Errorf(
			"handshake with %s: %w: %s: the target does not speak %s: use era auto",
			e.opts.URL,
			ErrProtocol,
			errtext.Line(cause.Error()),
			modernVersion,
		)
	}
	c := e.Caller(eventmeter.NewClock(), &e.traffic)
	if a := p.callBare(ctx, &c); a != nil {
		return a, nil
	}
	return nil, fmt.Errorf("handshake with %s: %w: %s", e.opts.URL, ErrProtocol, errtext.Line(cause.Error()))
}
