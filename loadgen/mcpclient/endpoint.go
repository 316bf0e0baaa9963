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

// The revisions that can be sent. Messages of all of them are accepted.
const (
	// SEP3415 is SEP-3415 in its draft of 2026-10-08: the design sketch's messages,
	// and a client that declares the extension. What the Final text changed is not
	// implemented.
	SEP3415 Revision = "sep-3415"
	// Sketch is the design sketch of 2026-09.
	Sketch Revision = "sketch"
	// LongPoll is the sketch's branch with timeoutMs, which was not merged.
	LongPoll Revision = "longpoll"
	// Older is the sketch before 2026-05.
	Older Revision = "older"
)

// Revisions are all revisions, the default first.
var Revisions = []Revision{SEP3415, Sketch, LongPoll, Older}

// EndpointOptions describe a target and how to connect to it. URL or Command must be
// set; everything else has a working zero value.
type EndpointOptions struct {
	// URL of the MCP endpoint, http or https.
	URL string
	// Command, instead of URL, is a program that speaks MCP over its standard
	// input and output, and its arguments. It is not run by a shell. It has one
	// principal; Headers, Tokens and OAuth must be empty, and Roots and LocalAddrs
	// have no effect. Env are variables (NAME=value) that the program gets in addition
	// to those of this process. Dir is its working directory, "" = that of this
	// process. Stderr, if not nil, gets a copy of its standard error.
	Command []string
	Env     []string
	Dir     string
	Stderr  io.Writer
	// Headers are added to every request. "Host" sets the Host header or :authority,
	// which some servers check.
	Headers map[string]string
	// Tokens are bearer tokens, one per principal: subscription i uses token
	// i modulo their number. Without tokens no Authorization header is added.
	Tokens []string
	// OAuth, if not nil, makes principals get tokens that expire. It excludes Tokens.
	OAuth *OAuth
	// Era is Auto (also ""), Modern or Legacy.
	Era Era
	// Version is the protocol version that is requested and that the target must
	// speak, such as 2025-11-25. It determines the era. "" = the newest version of the
	// era, or an older one that the target prefers.
	Version string
	// Revision is one of [Revisions]; "" = SEP3415.
	Revision Revision
	// Roots are the certificate authorities trusted for https; nil = those of TLS, or
	// the system's.
	Roots *x509.CertPool
	// TLS has the settings of https connections, which are copied; nil = Go's
	// defaults. NextProtos, ServerName and ClientSessionCache are set by the endpoint.
	TLS *tls.Config
	// Resolve, if not nil, replaces the system's resolver: it returns the address for
	// a host and port. It is called for each connection, by many goroutines at once.
	// If it fails, so does the connection.
	Resolve func(ctx context.Context, addr string) (netip.AddrPort, error)
	// Guard, if not nil, resolves names and checks the address of each
	// connection.
	Guard *dialguard.Guard
	// LocalAddrs are source addresses, used in turn for new connections, so that a run
	// is not limited to the ports of one address. Empty = the system chooses.
	LocalAddrs []netip.Addr
	// Capabilities are names of client capabilities that are advertised, with
	// an empty object as their value.
	Capabilities []string
	// Extensions are names of protocol extensions that requests of the modern era
	// declare, with an empty object as their value. Only revision SEP3415 declares
	// them.
	Extensions []string
	// Eras has the known eras of targets, shared with other endpoints; nil = the
	// endpoint has its own.
	Eras *Eras
	// Budget bounds the memory that the target can make this process hold; nil = a
	// budget of the endpoint's own, of [budget.Default] bytes.
	Budget *budget.Budget
	// ClientName and ClientVersion name this program to the server; "" = eventmeter.
	ClientName, ClientVersion string
}

// Traffic counts bytes and connections at the sockets: with TLS records and HTTP
// framing, without TCP and IP headers.
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

// ServerInfo is what a handshake says about a target.
type ServerInfo struct {
	// Era is Modern, Legacy or Bare.
	Era Era
	// Version is the negotiated protocol version, "" in the Bare era.
	Version string
	// Versions are the versions that the server says it speaks, if it says so.
	Versions      []string
	Server        string // name of the server software, may be empty
	ServerVersion string
	// Fallback has the answers to the handshakes of later eras that failed before
	// this one, such as "server/discover: http 400"; "" = none failed.
	Fallback string
}

// Endpoint is a target, shared by all lanes of a run. It is safe for concurrent use.
type Endpoint struct {
	// address is where requests go. opts.URL is the same without secrets, for error
	// texts.
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
	eras      *eraOf // the known era of this target

	principals []*Principal
	tokens     *tokens // nil unless tokens expire

	// patient is cancelled by giveUp when the time of Close to end sessions is over.
	patient context.Context
	giveUp  context.CancelFunc

	mu    sync.Mutex
	found *Session // of the first handshake
}

// NewEndpoint checks opts. It opens no connection.
func NewEndpoint(opts EndpointOptions) (*Endpoint, error) {
	u, err := opts.address()
	if err != nil {
		return nil, err
	}
	if err := opts.complete(); err != nil {
		return nil, err
	}
	e := &Endpoint{address: opts.URL, header: http.Header{}, url: u}
	if len(opts.Command) == 0 {
		opts.URL = errtext.URL(u) // for error texts
	}
	e.opts = opts
	e.patient, e.giveUp = context.WithCancel(context.Background())
	if len(opts.Command) > 0 {
		e.pipe = newPipe(opts, &e.nextID)
	}
	if e.transport, e.hangUp, err = e.NewTransport("", &e.traffic, false); err != nil {
		return nil, err
	}
	for k, v := range opts.Headers {
		if strings.EqualFold(k, "host") {
			e.host = v
			continue
		}
		e.header.Set(k, v)
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

// complete checks the era, the version and the revision, and fills in defaults.
func (o *EndpointOptions) complete() error {
	switch o.Era {
	case "":
		o.Era = Auto
	case Auto, Modern, Legacy:
	default:
		return fmt.Errorf("endpoint: era %q is not known: use auto, modern or legacy", o.Era)
	}
	if err := o.pin(); err != nil {
		return err
	}
	o.Revision = cmp.Or(o.Revision, SEP3415)
	if !slices.Contains(Revisions, o.Revision) {
		return fmt.Errorf("endpoint: revision %q is not known: use sep-3415, sketch, longpoll or older", o.Revision)
	}
	if o.Budget == nil {
		o.Budget = budget.New(0)
	}
	if o.ClientName == "" {
		o.ClientName, o.ClientVersion = "eventmeter", "0.1"
	}
	if o.Eras == nil {
		o.Eras = &Eras{}
	}
	return nil
}

// address checks URL or Command. For Command it sets URL to a name for error texts.
func (o *EndpointOptions) address() (*url.URL, error) {
	if len(o.Command) > 0 {
		switch {
		case o.URL != "":
			return nil, errors.New("endpoint: there are a URL and a command: give only one of them")
		case o.Command[0] == "":
			return nil, errors.New("endpoint: the command is empty: name a program")
		case len(o.Tokens) > 0 || len(o.Headers) > 0 || o.OAuth != nil:
			return nil, errors.New("endpoint: a program has no headers or tokens: pass secrets in its environment")
		}
		o.URL = "stdio:" + strings.Join(o.Command, " ")
		return &url.URL{Scheme: "stdio"}, nil
	}
	if len(o.Tokens) > 0 && o.OAuth != nil {
		return nil, errors.New("endpoint: there are tokens and OAuth: give only one of them")
	}
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("endpoint: %q is not a URL: use http://host:port/path or https://…", errtext.Address(o.URL))
	}
	return u, nil
}

// URL returns the endpoint's address, which may have secrets; of a program, stdio: and
// its command.
func (e *Endpoint) URL() string { return e.address }

// IsProgram reports whether the endpoint is a program that speaks MCP over its standard
// input and output.
func (e *Endpoint) IsProgram() bool { return e.pipe != nil }

// Name returns the address for error texts: without its user and the values of
// its query.
func (e *Endpoint) Name() string { return e.opts.URL }

// Revision returns the spelling of the MCP Events draft that is sent.
func (e *Endpoint) Revision() Revision { return e.opts.Revision }

// Budget returns the budget that bounds the memory that the target can make this process
// hold.
func (e *Endpoint) Budget() *budget.Budget { return e.opts.Budget }

// Advertises reports whether the client advertises a capability.
func (e *Endpoint) Advertises(capability string) bool {
	return slices.Contains(e.opts.Capabilities, capability)
}

// clientInfo returns the object that names this program in a handshake.
func (e *Endpoint) clientInfo() []byte {
	info := wire.BeginObject(nil)
	info.String("name", e.opts.ClientName)
	info.String("version", e.opts.ClientVersion)
	return info.End()
}

// Connect makes the handshake of the first principal, in order to find out whether the
// target can be reached before anything else is started. Its calls are reported to no
// recorder. The errors wrap [ErrUnreachable], [ErrAuth], [ErrThrottled] or
// [ErrProtocol].
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

// SessionVersion returns the protocol version for new sessions of the legacy era: the one
// that was negotiated, or the newest of that era.
func (e *Endpoint) SessionVersion() string {
	if era, version, ok := e.Negotiated(); ok && era == Legacy {
		return version
	}
	return legacyVersion
}

// Server returns what the first handshake says about the target, the zero value if there
// was none yet. It sends nothing.
func (e *Endpoint) Server() ServerInfo {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.found == nil {
		return ServerInfo{}
	}
	return e.found.Info()
}

// Presume gives every principal a session of an era without a handshake, for known
// targets and for tests. In the legacy era the session has no id.
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

// Close ends every session, closes the endpoint's own connections, and ends a program:
// its standard input is closed, after two seconds it is asked to terminate, and after
// another second it is killed. Lanes must be closed before. Sessions that have not ended
// when ctx ends are given up.
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

// Principal returns the principal of subscription i.
func (e *Endpoint) Principal(i int) *Principal { return e.principals[i%len(e.principals)] }

// Anonymous returns a principal without a token, which is not one of the endpoint's own.
// The caller must end its session by [Principal.End].
func (e *Endpoint) Anonymous() *Principal { return &Principal{endpoint: e, nobody: true} }

// Traffic returns the traffic so far of the endpoint's own connections, which carry
// handshakes, lists and tool calls. Each lane counts its own connections.
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

// dialer returns a dial function that uses the local addresses in turn.
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

// Present returns nil if the target can be reached. It sends a HEAD request to the
// endpoint's address, not on connections of lanes, and accepts any HTTP status. For a
// program it returns [Endpoint.Err]. The error is that of the connection, or of ctx.
func (e *Endpoint) Present(ctx context.Context) error {
	if e.pipe != nil {
		return e.Err()
	}
	req := &http.Request{
		Method:     http.MethodHead,
		URL:        e.url,
		Host:       e.host,
		Header:     http.Header{},
		Proto:      "HTTP/1.1",
		ProtoMajor: 1,
		ProtoMinor: 1,
	}
	resp, err := e.transport.RoundTrip(req.WithContext(ctx))
	if err != nil {
		return fmt.Errorf("endpoint: reach %s: %w", e.opts.URL, err)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<10)) // to use the connection again
	return resp.Body.Close()
}
