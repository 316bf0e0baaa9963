package streamclient

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/eventmeter/eventmeter/internal/budget"
	"github.com/eventmeter/eventmeter/internal/crash"
)

const (
	maxWindow = math.MaxInt32 // of RFC 9113, section 6.9.1
	maxID     = math.MaxInt32
	// maxControl bounds the control frames that wait to be written, in bytes: a
	// server could send PINGs and never read the answers.
	maxControl = 64 << 10
	// maxIdleFrames bounds the frames per second that carry nothing of an answer:
	// a server could send a flood of PING, SETTINGS, CONTINUATION or empty DATA.
	maxIdleFrames = 20_000
	// farewellTime bounds the last write of a connection.
	farewellTime = 500 * time.Millisecond
	// fewResets is how many ids of streams that we reset are kept before a PING
	// asks the server whether it has seen the resets.
	fewResets = 256
)

// errDone ends a connection after its last stream, once the server has sent
// GOAWAY.
var errDone = errors.New("the connection ended after GOAWAY")

// peerSettings are what the server's SETTINGS allow us.
type peerSettings struct {
	streams    uint32
	window     int64 // initial, of a stream
	frame      int
	table      uint32
	headerList uint32
}

// h2Conn is one connection. It has a goroutine that reads and calls the sinks, and
// one that writes.
type h2Conn struct {
	client *h2Client
	raw    net.Conn // the TCP connection; closed at the end
	nc     net.Conn // read and written: TLS over raw, or raw
	listed bool     // client.mu: in client.roomy

	// The reader's.
	in    h2Frames
	head  h2Head
	taken int64 // bytes since the connection's window was refilled
	// idleFrames came since idleSince, on the clock of Options.Now.
	idleFrames int
	idleSince  int64
	// near caches streams that had DATA, by their ids modulo its length. A hit
	// needs neither the lock nor the table.
	near []*h2Stream

	lastRead atomic.Int64 // when something was last read
	wake     chan struct{}
	done     chan struct{} // closed when the connection is to end

	mu       sync.Mutex
	table    map[uint32]*h2Stream // sent and not over
	open     int                  // places taken: those of table and opens
	opens    []*h2Stream          // to be sent
	stalled  []*h2Stream          // whose body waits for a window
	control  []byte               // frames to be written before all others
	nextID   uint32
	window   int64 // bytes that may be sent
	peer     peerSettings
	greeted  bool   // the server's SETTINGS came
	acked    bool   // the server acknowledged ours
	draining bool   // GOAWAY came: no more streams
	last     uint32 // the last stream that the server processes
	goAway   string // code and text of GOAWAY
	why      error  // why done is closed
	// resets are the ids of streams that we reset. The server may not know yet, so
	// frames on them are no violation. olderResets are forgotten when the server
	// answers the PING that was sent after their RST_STREAM.
	resets, olderResets map[uint32]struct{}
}

func newH2Conn(p *h2Client, raw, nc net.Conn) *h2Conn {
	c := &h2Conn{
		client: p, raw: raw, nc: nc, wake: make(chan struct{}, 1), done: make(chan struct{}),
		table: map[uint32]*h2Stream{}, resets: map[uint32]struct{}{}, nextID: 1, window: 65535, last: maxID,
		peer: peerSettings{streams: math.MaxUint32, window: 65535, frame: h2MaxFrame, table: 4096, headerList: math.MaxUint32},
	}
	c.in.read = c.reader()
	c.head.decoder = hpack.NewDecoder(4096, c.head.field)
	c.head.decoder.SetMaxStringLength(int(p.limits.headerList))
	c.head.limit = p.limits.headerList
	c.head.hold = budget.Of(p.opts.Budget)
	c.lastRead.Store(p.opts.Now())
	return c
}

// reader returns the function that reads the connection.
func (c *h2Conn) reader() func([]byte) (int, Arrival, error) {
	now, count := c.client.opts.Now, c.client.opts.Count
	if c.client.opts.TLS != nil {
		count = nil // counted below TLS
	}
	taken := func(n int, at Arrival) {
		c.lastRead.Store(at.At)
		if n > 0 && count != nil {
			count.Taken(n)
		}
	}
	if c.client.opts.KernelTimestamps && c.client.opts.TLS == nil {
		if stamped := h2Stamped(c.nc, now); stamped != nil {
			return func(b []byte) (int, Arrival, error) {
				n, at, err := stamped(b)
				taken(n, at)
				return n, at, err
			}
		}
	}
	return func(b []byte) (int, Arrival, error) {
		n, err := c.nc.Read(b)
		at := Arrival{At: now()}
		taken(n, at)
		return n, at, err
	}
}

// serve runs the connection to its end.
func (c *h2Conn) serve() {
	_ = c.nc.SetReadDeadline(time.Now().Add(c.client.opts.ConnectTimeout)) // fails only when closed, and then the read fails, too
	w := h2Writer{conn: c}
	var writing sync.WaitGroup
	writing.Go(crash.Guarded(w.run))
	err := c.readAll()
	c.fail(err)
	c.head.hold.Drop()
	writing.Wait()
	c.endStreams()
}

// fail ends the connection with an error. Only the first call has an effect.
func (c *h2Conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.why != nil {
		return
	}
	c.why = err
	close(c.done)
	_ = c.raw.SetWriteDeadline(time.Now().Add(farewellTime)) // the writer may be blocked in a write
}

// endStreams ends every stream of a connection that has ended.
func (c *h2Conn) endStreams() {
	c.mu.Lock()
	why, said, greeted := c.why, c.goAway, c.greeted
	unsent, sent := c.opens, c.table
	c.opens, c.table, c.stalled = nil, nil, nil
	c.mu.Unlock()
	if !greeted {
		if errors.Is(why, os.ErrDeadlineExceeded) {
			why = fmt.Errorf("no SETTINGS came within %v: %w", c.client.opts.ConnectTimeout, why)
		}
		c.client.unready(why)
	}
	if why == io.EOF {
		why = fmt.Errorf("the server closed the connection: %w", io.ErrUnexpectedEOF)
	}
	if said != "" && why != ErrClosed {
		why = fmt.Errorf("%w, after GOAWAY %s", why, said)
	}
	for _, s := range unsent {
		err := why
		if why != ErrClosed {
			err = fmt.Errorf("%w: %w", ErrRefusedStream, why)
		}
		s.tell(err, false)
	}
	for _, s := range sent {
		s.tell(why, false)
	}
}

// take gives a stream a place on the connection, if there is one. The caller
// holds the client's lock.
func (c *h2Conn) take(s *h2Stream) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.greeted || c.draining || c.why != nil || c.open >= c.room() {
		return false
	}
	c.open++
	s.conn = c
	c.opens = append(c.opens, s)
	c.nudge()
	return true
}

// room returns how many streams may be open. The caller holds c.mu.
func (c *h2Conn) room() int {
	n := min(int64(c.client.limits.streams), int64(c.peer.streams))
	return int(min(n, int64(maxID-c.nextID)/2)) // the number of ids is limited, too
}

// nudge wakes the writer.
func (c *h2Conn) nudge() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// say queues control frames.
func (c *h2Conn) say(frame []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sayLocked(frame)
}

func (c *h2Conn) sayLocked(frame []byte) error {
	if len(c.control) > maxControl {
		return &RuleError{http2.ErrCodeEnhanceYourCalm, "it sends frames that need an answer faster than it reads the answers"}
	}
	c.control = append(c.control, frame...)
	c.nudge()
	return nil
}

// findNear is find for DATA, without the lock where the stream is in near. Such a
// stream is in the table, too: until it is over, only this goroutine removes it.
func (c *h2Conn) findNear(fr *h2Frame) (*h2Stream, error) {
	if c.near == nil {
		c.near = make([]*h2Stream, 1<<bits.Len(uint(c.client.limits.streams)))
	}
	place := &c.near[int(fr.id/2)&(len(c.near)-1)]
	if s := *place; s != nil && s.id == fr.id && !s.over.Load() {
		return s, nil
	}
	s, err := c.find(fr)
	*place = s
	return s, err
}

// find returns the stream of a frame, nil if the stream is over and the frame is
// to be ignored. A frame on a stream that cannot have one is an error.
func (c *h2Conn) find(fr *h2Frame) (*h2Stream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.table[fr.id]
	if s != nil {
		return s, nil
	}
	return nil, c.stray(fr)
}

// stray returns the error for a frame whose stream is not in the table, nil if the
// frame is to be ignored. The caller holds c.mu.
func (c *h2Conn) stray(fr *h2Frame) error {
	if fr.id%2 == 0 || fr.id >= c.nextID {
		return fr.broken(http2.ErrCodeProtocol, "that was never opened")
	}
	if fr.kind != http2.FrameData && fr.kind != http2.FrameHeaders {
		return nil // it may have crossed with the end of the stream
	}
	if _, ours := c.resets[fr.id]; ours {
		return nil
	}
	if _, ours := c.olderResets[fr.id]; ours || fr.id > c.last {
		return nil
	}
	return fr.broken(http2.ErrCodeStreamClosed, "that has ended")
}

// forget removes a stream that has ended in both directions from the connection.
func (c *h2Conn) forget(s *h2Stream) {
	c.mu.Lock()
	done := c.forgetLocked(s)
	c.mu.Unlock()
	c.freed(done)
}

// forgetLocked removes a stream. It reports whether the connection is to end: it
// is draining and has no more streams. The caller holds c.mu.
func (c *h2Conn) forgetLocked(s *h2Stream) (done bool) {
	if s.id != 0 && c.table[s.id] == s {
		delete(c.table, s.id)
		c.open--
	}
	return c.draining && c.open == 0
}

// freed gives the place of a removed stream to another one, or ends the connection
// if it is done.
func (c *h2Conn) freed(done bool) {
	if done {
		c.fail(errDone)
		return
	}
	c.client.freed(c)
}

// drop resets a stream whose sink was closed. A stream that was not sent yet is
// left to the writer, which skips it.
func (c *h2Conn) drop(s *h2Stream, code http2.ErrCode) {
	c.mu.Lock()
	if s.id == 0 || c.table[s.id] != s {
		c.mu.Unlock()
		return
	}
	done := c.forgetLocked(s)
	c.resets[s.id] = struct{}{}
	// Control frames cannot pile up while the server does not read: only a stream
	// that the writer has sent can be reset.
	c.control = appendNumberFrame(c.control, http2.FrameRSTStream, s.id, uint32(code))
	if len(c.resets) >= fewResets && c.olderResets == nil {
		c.olderResets, c.resets = c.resets, map[uint32]struct{}{}
		c.control = appendPing(c.control, 0, pingResets)
	}
	c.nudge()
	c.mu.Unlock()
	c.freed(done)
}

// The payloads of our own PINGs.
var (
	pingAlive  = []byte("mcpalive")
	pingResets = []byte("mcpreset")
)

// h2Head reads one header block at a time.
type h2Head struct {
	decoder *hpack.Decoder
	limit   uint32
	block   []byte      // what came so far, if CONTINUATION follows
	hold    budget.Hold // of block
	frame   h2Frame

	status  int
	header  http.Header
	list    uint32 // its size as RFC 9113 counts it
	regular bool   // a regular field came
	wrong   string // how the head violates HTTP/2; "" = it does not
}
