package mcpclient

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/eventmeter/eventmeter/internal/budget"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/dialguard"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/wire"
)

// Revision is a spelling of the MCP Events draft.
type Revision string

// The revisions that can be sent. Messages of each of them are always read.
const (
	// SEP3415 is SEP-3415 as its draft of 2026-10-08 has it: the design sketch's
	// messages, and a client that declares the extension. Its Final text changed
	// what is not known here.
	SEP3415 Revision = "sep-3415"
	// Sketch is the design sketch of 2026-09.
	Sketch Revision = "sketch"
	// LongPoll is the sketch's branch with timeoutMs, which was not merged.
	LongPoll Revision = "longpoll"
	// Older is the sketch before 2026-05.
	Older Revision = "older"
)

// Revisions are all of them, the default first.
var Revisions = []Revision{SEP3415, Sketch, LongPoll, Older}

// EndpointOptions says where the target is and how it is met.
type EndpointOptions struct {
	// URL of the MCP endpoint, http or https.
	URL string
	// Command, instead of URL, is a program that speaks MCP over its standard
	// input and output, and its arguments; no shell is asked. Headers, Tokens
	// (a pipe has one principal), Roots and LocalAddrs mean nothing to it. Env
	// are variables (NAME=value) that it gets besides this process's own, Dir
	// is where it runs, "" = here. Stderr, if not nil, gets what it writes on
	// standard error.
	Command []string
	Env     []string
	Dir     string
	Stderr  io.Writer
	// Headers are added to every request. "Host" sets the host that is asked
	// for, which some servers check.
	Headers map[string]string
	// Tokens are bearer tokens, one per principal: subscription i uses token
	// i modulo their number. None means no Authorization header.
	Tokens []string
	// OAuth, instead of Tokens, has principals get tokens that expire.
	OAuth *OAuth
	// Era is Auto (also ""), Modern or Legacy.
	Era Era
	// Version is the protocol version that is asked for and must be spoken, and which
	// decides the era; "" = the newest of the era, or what the target has.
	Version string
	// Revision is one of [Revisions]; "" = SEP3415.
	Revision Revision
	// Roots are trusted for https; nil = those of TLS, or the system's.
	Roots *x509.CertPool
	// TLS are the settings of https connections, which are copied; nil = Go's.
	// NextProtos, ServerName and ClientSessionCache are set by the endpoint.
	TLS *tls.Config
	// Resolve, if not nil, decides where connections to a host and port lead,
	// in place of the system's resolver. It is called for each connection, by
	// many goroutines at once. Its error fails the connection.
	Resolve func(ctx context.Context, addr string) (netip.AddrPort, error)
	// Guard, if not nil, resolves names and checks the address of each
	// connection.
	Guard *dialguard.Guard
	// LocalAddrs are source addresses, used in turn for new connections, so
	// that a run is not bound by the ports of one address. Empty = the system's
	// choice.
	LocalAddrs []netip.Addr
	// Capabilities are names of client capabilities that are advertised, with
	// an empty object as their value.
	Capabilities []string
	// Extensions are names of protocol extensions that requests of the modern era
	// declare, with an empty object as their value. Only revision SEP3415 does.
	Extensions []string
	// Eras is what endpoints share that they learn about targets; nil = this one
	// has its own.
	Eras *Eras
	// Budget bounds what the target can make this process hold; nil = one of the
	// endpoint's own, of [budget.Default] bytes.
	Budget *budget.Budget
	// Client names this program to the server; zero = eventmeter.
	ClientName, ClientVersion string
}

// Traffic is bytes and connections, as the sockets saw them: TLS records and
// HTTP framing included, TCP and IP headers not.
type Traffic struct {
	// Up and Down are bytes written and read on connections that the lane
	// opened to the target.
	Up, Down int64
	// Opened is the number of connections that the lane opened.
	Opened int64
	// Accepted is the number of connections that the target opened to the
	// lane's webhook listener.
	Accepted int64
}

// ServerInfo is who a target is.
type ServerInfo struct {
	// Era is Modern, Legacy or Bare.
	Era Era
	// Version is the negotiated protocol version, "" in the Bare era.
	Version string
	// Versions are all that the server named, where it named any.
	Versions      []string
	Server        string // name of the server software, may be empty
	ServerVersion string
	// Fallback is what the handshakes of later eras were answered with before
	// this one was found, such as "server/discover: http 400"; "" = nothing was
	// refused.
	Fallback string
}

// Endpoint is a target as all lanes of a run share it. It is safe for
// concurrent use.
type Endpoint struct {
	// address is where requests go. opts.URL is it for error texts, without
	// secrets.
	address string

	opts   EndpointOptions
	header http.Header // sent with every request
	host   string      // "" = from the URL
	nextID atomic.Uint64
	nextIP atomic.Uint32
	url    *url.URL

	transport http.RoundTripper // of handshakes; lanes have their own
	hangUp    func()
	traffic   wire.Traffic
	pipe      *Pipe // nil unless the target is a program
	patience  Patience
	eras      *eraOf // what is known of this target

	principals []*Principal
	tokens     *tokens // nil unless tokens expire

	// patient is cancelled by giveUp when Close has no more time for the ends of
	// sessions.
	patient context.Context
	giveUp  context.CancelFunc

	mu    sync.Mutex
	found *Session // the first handshake's result: what later principals can rely on
}

// NewEndpoint checks opts. It opens no connection.
func NewEndpoint(opts EndpointOptions) (*Endpoint, error) {
	u, err := opts.address()
	if err != nil {
		return nil, err
	}
	switch opts.Era {
	case "":
		opts.Era = Auto
	case Auto, Modern, Legacy:
	default:
		return nil, fmt.Errorf("endpoint: era %q is not known: use auto, modern or legacy", opts.Era)
	}
	if err := opts.pin(); err != nil {
		return nil, err
	}
	opts.Revision = cmp.Or(opts.Revision, SEP3415)
	if !slices.Contains(Revisions, opts.Revision) {
		return nil, fmt.Errorf("endpoint: revision %q is not known: use sep-3415, sketch, longpoll or older", opts.Revision)
	}
	if opts.Budget == nil {
		opts.Budget = budget.New(0)
	}
	if opts.ClientName == "" {
		opts.ClientName, opts.ClientVersion = "eventmeter", "0.1"
	}
	e := &Endpoint{address: opts.URL, header: http.Header{}, url: u}
	if len(opts.Command) == 0 {
		opts.URL = errtext.URL(u) // what errors name
	}
	e.opts = opts
	e.patient, e.giveUp = context.WithCancel(context.Background())
	if len(opts.Command) > 0 {
		e.pipe = newPipe(opts, &e.nextID)
	}
	var err2 error
	if e.transport, e.hangUp, err2 = e.NewTransport("", &e.traffic, false); err2 != nil {
		return nil, err2
	}
	for k, v := range opts.Headers {
		if strings.EqualFold(k, "host") {
			e.host = v
			continue
		}
		e.header.Set(k, v)
	}
	if opts.Eras == nil {
		opts.Eras = &Eras{}
	}
	e.eras = opts.Eras.at(opts.URL, e.host)
	if opts.OAuth != nil {
		if e.tokens, err = newTokens(e, *opts.OAuth); err != nil {
			return nil, err
		}
		return e, nil
	}
	tokens := opts.Tokens
	if len(tokens) == 0 {
		tokens = []string{""}
	}
	for i, t := range tokens {
		e.principals = append(e.principals, &Principal{endpoint: e, Index: i, token: t})
	}
	return e, nil
}

// address checks URL, or Command, and gives the latter a form to be named by.
func (o *EndpointOptions) address() (*url.URL, error) {
	if len(o.Command) > 0 {
		switch {
		case o.URL != "":
			return nil, errors.New("endpoint: there is a URL and a command: give one of them")
		case o.Command[0] == "":
			return nil, errors.New("endpoint: the command is empty: name a program")
		case len(o.Tokens) > 0 || len(o.Headers) > 0 || o.OAuth != nil:
			return nil, errors.New("endpoint: a program has no headers or tokens: give it what it needs in its environment")
		}
		o.URL = "stdio:" + strings.Join(o.Command, " ")
		return &url.URL{Scheme: "stdio"}, nil
	}
	if len(o.Tokens) > 0 && o.OAuth != nil {
		return nil, errors.New("endpoint: there are tokens and OAuth: give one of them")
	}
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("endpoint: %q is not a URL: use http://host:port/path or https://…", errtext.Address(o.URL))
	}
	return u, nil
}

// URL returns the endpoint's address; of a program, stdio: and its command.
func (e *Endpoint) URL() string { return e.address }

// IsProgram tells whether the endpoint is a program, met over its standard input
// and output.
func (e *Endpoint) IsProgram() bool { return e.pipe != nil }

// Name returns the address for error texts: without its user and the values of
// its query.
func (e *Endpoint) Name() string { return e.opts.URL }

// Revision returns the spelling of the MCP Events draft that is sent.
func (e *Endpoint) Revision() Revision { return e.opts.Revision }

// Budget returns what bounds the memory that the target can make this process
// hold.
func (e *Endpoint) Budget() *budget.Budget { return e.opts.Budget }

// Advertises tells whether the client says that it has a capability.
func (e *Endpoint) Advertises(capability string) bool {
	return slices.Contains(e.opts.Capabilities, capability)
}

// clientInfo is the object that names this program in a handshake.
func (e *Endpoint) clientInfo() []byte {
	info := wire.BeginObject(nil)
	info.String("name", e.opts.ClientName)
	info.String("version", e.opts.ClientVersion)
	return info.End()
}

// Connect makes the handshake of the first principal, so that a target that cannot
// be reached or will not talk is known before anything else is started. What
// it sends is reported to no recorder. The errors wrap [ErrUnreachable],
// [ErrAuth], [ErrThrottled] or [ErrProtocol].
func (e *Endpoint) Connect(ctx context.Context) error {
	_, err := e.principals[0].Session(ctx, nil)
	return err
}

// Negotiated returns the era and protocol version of the first handshake, and
// false if there was none yet.
func (e *Endpoint) Negotiated() (Era, string, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.found == nil {
		return "", "", false
	}
	return e.found.Era, e.found.Version, true
}

// Server returns who the target is, by the first handshake, and the zero value if
// there was no handshake yet. It asks nothing.
func (e *Endpoint) Server() ServerInfo {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.found == nil {
		return ServerInfo{}
	}
	return e.found.Info()
}

// Presume gives every principal a session of an era, as if a handshake had
// made it: for a target that is known, and for tests. In the legacy era it has no
// id.
func (e *Endpoint) Presume(era Era) {
	version := map[Era]string{Modern: modernVersion, Legacy: legacyVersion}[era]
	for _, p := range e.principals {
		a := &Session{Era: era, Version: version}
		a.build(p)
		p.mu.Lock()
		p.now = a
		p.mu.Unlock()
	}
}

// Close ends every session, closes the endpoint's own connections, and ends a
// program: its standard input is closed, after two seconds it is asked to
// terminate, after another it is killed. Lanes
// must be closed first. Sessions that ctx leaves no time for are given up.
func (e *Endpoint) Close(ctx context.Context) error {
	const atOnce = 16
	defer context.AfterFunc(ctx, e.giveUp)()
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, p := range e.principals {
		if ctx.Err() != nil {
			break
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer crash.Guard()
			p.End()
			<-slots
		})
	}
	wg.Wait()
	e.EndTokens()
	e.hangUp()
	if e.pipe != nil {
		e.pipe.close()
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("endpoint: ending sessions at %s: %w", e.opts.URL, err)
	}
	return nil
}

// Principal returns who subscription i is.
func (e *Endpoint) Principal(i int) *Principal { return e.principals[i%len(e.principals)] }

// Anonymous returns somebody without a token, who is none of the endpoint's
// principals. Their session must be ended by [Principal.End].
func (e *Endpoint) Anonymous() *Principal { return &Principal{endpoint: e, nobody: true} }

// Traffic returns what passed the endpoint's own connections so far: those of
// handshakes, lists and tools. Each lane counts its own.
func (e *Endpoint) Traffic() Traffic {
	return Traffic{Up: e.traffic.Up(), Down: e.traffic.Down(), Opened: e.traffic.Opened()}
}

// tlsConfig returns the settings for new connections over TLS.
func (e *Endpoint) tlsConfig() *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if e.opts.TLS != nil {
		c = e.opts.TLS.Clone()
		c.NextProtos = nil
		if c.MinVersion == 0 {
			c.MinVersion = tls.VersionTLS12
		}
	}
	if e.opts.Roots != nil {
		c.RootCAs = e.opts.Roots
	}
	c.ServerName = e.url.Hostname()
	c.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	return c
}

// NextID returns a JSON-RPC id that no other request of the run has. Sessions are
// shared by lanes, and an id must be unique in its session.
func (e *Endpoint) NextID() uint64 { return e.nextID.Add(1) }

// dialer returns a dial function that goes round the local addresses.
func (e *Endpoint) dialer() func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if e.opts.Resolve != nil {
			to, err := e.opts.Resolve(ctx, addr)
			if err != nil {
				return nil, fmt.Errorf("look up %s: %w", addr, err)
			}
			addr = to.String()
		}
		d := net.Dialer{}
		if n := uint32(len(e.opts.LocalAddrs)); n > 0 {
			ip := e.opts.LocalAddrs[(e.nextIP.Add(1)-1)%n]
			d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, 0))
		}
		return e.opts.Guard.Dial(&d)(ctx, network, addr)
	}
}

// Present asks whether the target is there: any answer of HTTP will do, whatever
// its status. It is a HEAD request to the endpoint's address, on connections that
// are no lane's. Of a program it says whether that has ended. The error is that
// of the connection, or of ctx.
func (e *Endpoint) Present(ctx context.Context) error {
	if e.pipe != nil {
		return e.Err()
	}
	req := &http.Request{Method: http.MethodHead, URL: e.url, Host: e.host, Header: http.Header{}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	resp, err := e.transport.RoundTrip(req.WithContext(ctx))
	if err != nil {
		return fmt.Errorf("endpoint: ask %s whether it is there: %w", e.opts.URL, err)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<10)) // to use the connection again
	return resp.Body.Close()
}
