package driver

import (
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
	"strings"
	"sync"
	"sync/atomic"

	"github.com/eventmeter/eventmeter/internal/budget"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/dialguard"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/wire"
)

// Era is a generation of the base protocol.
type Era string

// The eras. Auto is only asked for, Bare is only found.
const (
	// Auto tries Modern first and falls back to Legacy.
	Auto Era = "auto"
	// Modern is 2026-07-28: stateless, discovered with server/discover.
	Modern Era = "modern"
	// Legacy is 2025-03-26 to 2025-11-25: sessions, opened with initialize.
	Legacy Era = "legacy"
	// Bare is a server that refused both handshakes and still takes calls.
	Bare Era = "bare"
)

// Revision is a spelling of the MCP Events draft.
type Revision string

// The revisions that can be sent.
const (
	Newest Revision = "newest"
	Older  Revision = "older"
)

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
	// Era is Auto (also ""), Modern or Legacy.
	Era Era
	// Revision is Newest (also "") or Older.
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
	// Eras is what endpoints share that they learn about targets; nil = this one
	// has its own.
	Eras *Eras
	// Budget bounds what the target can make this process hold; nil = one of the
	// endpoint's own, of [budget.Default] bytes.
	Budget *budget.Budget
	// Client names this program to the server; zero = eventmeter.
	ClientName, ClientVersion string
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
	pipe      *pipe // nil unless the target is a program
	patience  patience
	eras      *eraOf // what is known of this target

	principals []*principal

	// patient is cancelled by giveUp when Close has no more time for the ends of
	// sessions.
	patient context.Context
	giveUp  context.CancelFunc

	mu    sync.Mutex
	found *agreement // the first handshake's result: what later principals can rely on
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
	switch opts.Revision {
	case "":
		opts.Revision = Newest
	case Newest, Older:
	default:
		return nil, fmt.Errorf("endpoint: revision %q is not known: use newest or older", opts.Revision)
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
	if e.transport, e.hangUp, err2 = e.newTransport("", &e.traffic, false); err2 != nil {
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
	tokens := opts.Tokens
	if len(tokens) == 0 {
		tokens = []string{""}
	}
	for i, t := range tokens {
		e.principals = append(e.principals, &principal{endpoint: e, index: i, token: t})
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
		case len(o.Tokens) > 0 || len(o.Headers) > 0:
			return nil, errors.New("endpoint: a program has no headers or tokens: give it what it needs in its environment")
		}
		o.URL = "stdio:" + strings.Join(o.Command, " ")
		return &url.URL{Scheme: "stdio"}, nil
	}
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("endpoint: %q is not a URL: use http://host:port/path or https://…", errtext.Address(o.URL))
	}
	return u, nil
}

// URL returns the endpoint's address; of a program, stdio: and its command.
func (e *Endpoint) URL() string { return e.address }

// Name returns the address for error texts: without its user and the values of
// its query.
func (e *Endpoint) Name() string { return e.opts.URL }

// Connect shakes hands for the first principal, so that a target that cannot
// be reached or will not talk is known before anything else is started. What
// it sends is reported to no recorder. The errors wrap [ErrUnreachable],
// [ErrAuth], [ErrThrottled] or [ErrProtocol].
func (e *Endpoint) Connect(ctx context.Context) error {
	_, err := e.principals[0].agree(ctx, nil)
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
	return e.found.era, e.found.version, true
}

// Server returns who the target is, by the first handshake: an [Offer] without
// event types, and the zero value if there was no handshake yet. It asks nothing.
func (e *Endpoint) Server() Offer {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.found == nil {
		return Offer{}
	}
	return e.found.offer()
}

// Close ends every session, closes the endpoint's own connections, and ends a
// program: its standard input is closed, after two seconds it is asked to
// terminate, after another it is killed. Lanes
// must be closed first. Sessions that ctx leaves no time for are given up.
func (e *Endpoint) Close(ctx context.Context) error {
	const atOnce = 16
	defer context.AfterFunc(ctx, e.giveUp)()
	var wg sync.WaitGroup
	room := make(chan struct{}, atOnce)
	for _, p := range e.principals {
		if ctx.Err() != nil {
			break
		}
		room <- struct{}{}
		wg.Go(func() {
			defer crash.Guard()
			p.end()
			<-room
		})
	}
	wg.Wait()
	e.hangUp()
	if e.pipe != nil {
		e.pipe.close()
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("endpoint: ending sessions at %s: %w", e.opts.URL, err)
	}
	return nil
}

// principal returns who subscription i is.
func (e *Endpoint) principal(i int) *principal { return e.principals[i%len(e.principals)] }

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

// id returns a JSON-RPC id that no other request of the run has. Sessions are
// shared by lanes, and an id must be unique in its session.
func (e *Endpoint) id() uint64 { return e.nextID.Add(1) }

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
