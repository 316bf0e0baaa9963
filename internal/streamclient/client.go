// Package streamclient holds tens of thousands of HTTP responses open, such as
// event streams, at a small fraction of the cost of net/http: an idle stream has
// no goroutine and no buffer.
//
// [Client.Open] sends a request and calls a [Sink] with the head of the response,
// with the pieces of its body as they arrive, and with its end. Every piece has the
// time of its arrival, from the kernel if possible.
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

// Arrival is the time at which bytes arrived, and how exact that time is.
type Arrival struct {
	// At is the time of arrival, in nanoseconds on the clock of Options.Now: the
	// kernel's receive time if there is one, otherwise the time at which the read
	// returned.
	At int64
	// Read is the time at which the read returned, so Read-At is how long the
	// bytes waited for this process. It is 0 if At is the time of the read.
	Read int64
	// Kernel is true if At is the kernel's receive time.
	Kernel bool
	// Shared is true if the piece may contain bytes that arrived before At, because
	// one read returned several segments.
	Shared bool
	// Held is true if the bytes waited because of [Stream.Hold]. At is then the
	// time of the read.
	Held bool
}

// Head is the head of a response.
type Head struct {
	Status int
	Proto  string      // as "HTTP/1.1"
	Header http.Header // shared with other streams, not to be written
	Size   int64       // in bytes, as text of HTTP/1.1
}

// Request is the request that opens a stream.
type Request struct {
	Method, Path string
	Header       http.Header // shared, not written
	Body         []byte      // kept until sent
}

// Sink receives one stream. It is called by one goroutine at a time, never after
// Closed, and must not block.
type Sink interface {
	// Opened is called with the head of the response, once and before any Piece.
	// An error closes the stream.
	Opened(Head, Arrival) error
	// Piece is called with body bytes, without the framing of the transfer
	// coding. They are valid until it returns. An error closes the stream.
	Piece(b []byte, at Arrival) error
	// Closed is called exactly once and last. The error is io.EOF at the end of
	// the response, ErrClosed after Close, an error of Opened or Piece, or the
	// failure of the connection.
	Closed(err error)
}

// Stream is an open stream. It is safe for concurrent use.
type Stream interface {
	// Close ends the stream and does not wait: Closed(ErrClosed) follows,
	// unless the stream has already ended.
	Close()
	// Hold stops reading for d, and does not wait. Meanwhile the bytes that the
	// server sends stay in the kernel's buffer, or on HTTP/2 within the window of
	// the stream, which is not refilled. After d the sink gets them, with
	// Arrival.Held. The end of the stream may become known only after d. Hold has
	// no effect on a stream that is held already or has ended.
	Hold(d time.Duration)
}

// Client opens streams to one address. It is safe for concurrent use.
type Client interface {
	// Open begins a stream and does not wait for the network: all results go to
	// the sink. If ctx ends before the stream is open, the stream closes with
	// the error of ctx.
	Open(ctx context.Context, r Request, s Sink) Stream
	// Close ends all streams and waits for its goroutines.
	Close() error
}

// ErrClosed is the error of Closed when the stream or the client was closed.
var ErrClosed = errors.New("the stream was closed")

// Counter counts the traffic of all streams. Many goroutines call it at once.
type Counter interface {
	Opened()     // a connection was made
	Sent(n int)  // bytes that were written
	Taken(n int) // bytes that were read
}

// Options of a client. Addr is required.
type Options struct {
	// Addr is the host and port of the server; a name is resolved by Open.
	Addr string
	// Host is the Host header or :authority; "" = Addr.
	Host string
	// TLS is nil for plain text.
	TLS *tls.Config
	// Now reads the clock, in nanoseconds; nil counts from the client's start.
	// It must be monotonic.
	Now func() int64
	// Shards is the number of loops; 0 = one for each CPU that may be used. Only
	// clients with loops use it.
	Shards int
	// LocalIPs are addresses to connect from, in turn: there are about 28,000
	// ports for each pair of addresses. Empty = the system chooses.
	LocalIPs []net.IP
	// StreamsPerConnection is the most streams of an HTTP/2 connection; 0 = 2000, which
	// is the most.
	StreamsPerConnection int
	// Dial, if not nil, opens connections. [New] then returns the portable client.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Resolve, if not nil, replaces the system's resolver for Addr. It is called for each connection, by many
	// goroutines at once. Its error ends the stream.
	Resolve func(ctx context.Context, addr string) (netip.AddrPort, error)
	// Guard, if not nil, resolves Addr and checks the address of each
	// connection, except where Dial opens it.
	Guard *dialguard.Guard
	// ConnectTimeout bounds the connection and its handshakes; 0 = 30 s. The
	// answer's head is awaited for as long as the stream is open.
	ConnectTimeout time.Duration
	// Budget is charged for incomplete heads and lines; nil = only the size of
	// each one is bounded.
	Budget *budget.Budget
	// Count counts the traffic; may be nil.
	Count Counter
	// KernelTimestamps requests the kernel's receive times. They need Linux and
	// plain text. Arrival.Kernel says whether a time is the kernel's.
	KernelTimestamps bool
}
