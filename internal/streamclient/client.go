// Package streamclient carries tens of thousands of HTTP exchanges whose answers stay
// open, such as event streams, at a small fraction of what net/http takes for
// each: no goroutine and no buffer belongs to an exchange that has nothing to
// say.
//
// An exchange is handed to [Client.Open] together with a [Sink], which is called
// with the answer's head, with the pieces of its body as they arrive and with
// its end. Every piece carries the time of its arrival, the kernel's where
// there is one.
package streamclient

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/eventmeter/eventmeter/internal/budget"
	"github.com/eventmeter/eventmeter/internal/dialguard"
)

// Arrival is when bytes arrived, and how well that is known.
type Arrival struct {
	// At is in nanoseconds on the clock of Options.Now: the kernel's receive
	// time where there is one, else when the read returned.
	At int64
	// Read is when the read returned, so Read-At is what the bytes waited for
	// this process; 0 where At is that already.
	Read int64
	// Kernel says that At is the kernel's.
	Kernel bool
	// Shared says that the piece may hold bytes that came before At: several
	// segments in one read.
	Shared bool
}

// Head is the head of an answer.
type Head struct {
	Status int
	Proto  string      // as "HTTP/1.1"
	Header http.Header // shared with other streams, not to be written
	Size   int64       // as bytes of HTTP/1.1 text
}

// Request is what is sent to open a stream.
type Request struct {
	Method, Path string
	Header       http.Header // shared, not written
	Body         []byte      // kept until sent
}

// Sink takes what one stream brings. It is called by one goroutine at a time,
// never after Closed, and must not block.
type Sink interface {
	// Opened tells of the answer's head, once, before any Piece. An error
	// closes the stream.
	Opened(Head, Arrival) error
	// Piece brings body bytes, with the framing of chunked or of a known
	// length taken off. They are valid until it returns. An error closes the
	// stream.
	Piece(b []byte, at Arrival) error
	// Closed is called exactly once and last: io.EOF = ended in order;
	// ErrClosed = by Close; else what broke, or what Opened or Piece returned.
	Closed(err error)
}

// Stream is an exchange under way. It is safe for concurrent use.
type Stream interface {
	// Close ends the stream and does not wait: Closed(ErrClosed) follows,
	// unless the stream was over already.
	Close()
}

// Client opens streams to one address. It is safe for concurrent use.
type Client interface {
	// Open begins a stream and does not block for the network: whatever
	// becomes of it, the sink is told. The end of ctx closes the stream with
	// the context's error if it has not been opened by then.
	Open(ctx context.Context, r Request, s Sink) Stream
	// Close ends all streams and waits for its goroutines.
	Close() error
}

// ErrClosed is what a sink is told when its stream, or the client, was closed.
var ErrClosed = errors.New("the stream was closed")

// Counter is told of the traffic of all streams, by many goroutines at once.
type Counter interface {
	Opened()     // a connection was made
	Sent(n int)  // bytes that were written
	Taken(n int) // bytes that were read
}

// Options say where a client leads and how. Addr is needed.
type Options struct {
	// Addr is the host and port of the server; a name is resolved by Open.
	Addr string
	// Host is what the server is asked for (the Host header or :authority);
	// "" = Addr.
	Host string
	// TLS is nil for plain text.
	TLS *tls.Config
	// Now reads the clock, in nanoseconds; nil counts from the client's start.
	// It must be monotonic.
	Now func() int64
	// Shards is how many loops share the streams; 0 = one for each CPU that
	// may be used. An implementation without loops has no use for it.
	Shards int
	// LocalIPs are addresses to connect from, in turn: there are about 28,000
	// ports for each pair of addresses. Empty leaves it to the system.
	LocalIPs []net.IP
	// Dial replaces the system's way to open a connection. A client that works
	// with bare sockets cannot use it and makes way for one that can.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Resolve, if not nil, decides where connections to Addr lead, in place of
	// the system's resolver. It is called for each connection, by many
	// goroutines at once. Its error ends the stream.
	Resolve func(ctx context.Context, addr string) (netip.AddrPort, error)
	// Guard, if not nil, resolves Addr and checks the address of each
	// connection, except where Dial opens it.
	Guard *dialguard.Guard
	// ConnectTimeout bounds the connection and its handshakes; 0 = 30 s. The
	// answer's head is awaited for as long as the stream is open.
	ConnectTimeout time.Duration
	// Budget is charged for heads and lines that are incomplete; nil = no bound
	// but those of single ones.
	Budget *budget.Budget
	// Count is told of the traffic; may be nil.
	Count Counter
	// KernelTimestamps asks for the kernel's receive times. They need Linux
	// and plain text; without them every Arrival says so.
	KernelTimestamps bool
	// Coalesce is how long a loop lets arrivals gather while there are many,
	// which saves CPU; it is heeded only while the kernel keeps their times.
	Coalesce time.Duration
}
