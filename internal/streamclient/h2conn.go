package streamclient

import (
	"context"
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
	// maxControl bounds the answers that wait to be written: a server that asks
	// and asks and reads nothing.
	maxControl = 64 << 10
	// maxIdleFrames bounds the frames that carry nothing of an answer, in a
	// second: a flood of PING, SETTINGS, CONTINUATION or empty DATA.
	maxIdleFrames = 20_000
	// farewellTime bounds the last write of a connection.
	farewellTime = 500 * time.Millisecond
	// fewResets is how many ids of streams that we reset are kept before the
	// server is asked whether it has seen them.
	fewResets = 256
)

// errDone ends a connection that the server wanted to end, after its last
// stream.
var errDone = errors.New("the connection has served its time")

// peerSettings are what the server's SETTINGS allow us.
type peerSettings struct {
	streams    uint32
	window     int64 // initial, of a stream
	frame      int
	table      uint32
	headerList uint32
}

// h2Conn is one connection: a goroutine that reads and calls the sinks, and
// one that writes.
type h2Conn struct {
	client *h2Client
	raw    net.Conn // what is closed
	nc     net.Conn // what is talked on
	listed bool     // client.mu: in client.roomy

	// The reader's.
	in    h2Frames
	head  h2Head
	taken int64 // bytes since the connection's window was refilled
	// idleFrames came since idleSince, on the clock of Options.Now.
	idleFrames int
	idleSince  int64
	// near are streams that had DATA, by their ids modulo its length: a look
	// without the lock and the table.
	near []*h2Stream

	heard atomic.Int64 // when something was last read
	wake  chan struct{}
	done  chan struct{} // closed when it has to end

	mu       sync.Mutex
	table    map[uint32]*h2Stream // sent and not over
	open     int                  // places taken: those of table and opens
	opens    []*h2Stream          // to be sent
	stalled  []*h2Stream          // whose body waits for a window
	control  []byte               // frames to be written before all else
	nextID   uint32
	window   int64 // what may be sent
	peer     peerSettings
	greeted  bool // its SETTINGS came
	acked    bool // it has seen ours
	draining bool // GOAWAY came: no more streams
	last     uint32
	goAway   string // what it said
	why      error  // why done is closed
	// Streams that we reset: the server may not know yet, and what it sends on
	// them is no fault. The older ones are forgotten when it answers the PING
	// that was sent behind their RST_STREAM.
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
	c.heard.Store(p.opts.Now())
	return c
}

// reader returns how the connection is read.
func (c *h2Conn) reader() func([]byte) (int, Arrival, error) {
	now, count := c.client.opts.Now, c.client.opts.Count
	if c.client.opts.TLS != nil {
		count = nil // counted below TLS
	}
	taken := func(n int, at Arrival) {
		c.heard.Store(at.At)
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
	_ = c.nc.SetReadDeadline(time.Now().Add(c.client.opts.ConnectTimeout)) // of a closed one: the read tells
	w := h2Writer{conn: c}
	var writing sync.WaitGroup
	writing.Go(crash.Guarded(w.run))
	err := c.readAll()
	c.fail(err)
	c.head.hold.Drop()
	writing.Wait()
	c.bury()
}

// fail ends the connection for a reason, the first one of several.
func (c *h2Conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.why != nil {
		return
	}
	c.why = err
	close(c.done)
	_ = c.raw.SetWriteDeadline(time.Now().Add(farewellTime)) // the writer may sit in a write
}

// bury tells every stream of a connection that has ended.
func (c *h2Conn) bury() {
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

// room is how many streams may be open. The caller holds c.mu.
func (c *h2Conn) room() int {
	n := min(int64(c.client.limits.streams), int64(c.peer.streams))
	return int(min(n, int64(maxID-c.nextID)/2)) // ids come to an end, too
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
		return &RuleError{http2.ErrCodeEnhanceYourCalm, "it asks faster than it takes answers"}
	}
	c.control = append(c.control, frame...)
	c.nudge()
	return nil
}

// findNear is find for DATA. What it finds without the lock is in the table: a
// stream is taken off that by this goroutine, or after it is over.
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

// find returns the stream of a frame: nil when it is over and the frame is to
// be passed over. A stream that cannot have frames is an error.
func (c *h2Conn) find(fr *h2Frame) (*h2Stream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.table[fr.id]
	if s != nil {
		return s, nil
	}
	return nil, c.stray(fr)
}

// stray judges a frame without a stream. The caller holds c.mu.
func (c *h2Conn) stray(fr *h2Frame) error {
	if fr.id%2 == 0 || fr.id >= c.nextID {
		return fr.broken(http2.ErrCodeProtocol, "that was never opened")
	}
	if fr.kind != http2.FrameData && fr.kind != http2.FrameHeaders {
		return nil // may cross with the end of the stream
	}
	if _, ours := c.resets[fr.id]; ours {
		return nil
	}
	if _, ours := c.olderResets[fr.id]; ours || fr.id > c.last {
		return nil
	}
	return fr.broken(http2.ErrCodeStreamClosed, "that has ended")
}

// forget takes a stream that is over in both directions off the connection.
func (c *h2Conn) forget(s *h2Stream) {
	c.mu.Lock()
	done := c.forgetLocked(s)
	c.mu.Unlock()
	c.freed(done)
}

// forgetLocked reports whether the connection has no more to do.
func (c *h2Conn) forgetLocked(s *h2Stream) (done bool) {
	if s.id != 0 && c.table[s.id] == s {
		delete(c.table, s.id)
		c.open--
	}
	return c.draining && c.open == 0
}

// freed lets others have the place of a stream.
func (c *h2Conn) freed(done bool) {
	if done {
		c.fail(errDone)
		return
	}
	c.client.freed(c)
}

// drop resets a stream that is over for its sink. One that was not sent yet is
// left to the writer, which passes it over.
func (c *h2Conn) drop(s *h2Stream, code http2.ErrCode) {
	c.mu.Lock()
	if s.id == 0 || c.table[s.id] != s {
		c.mu.Unlock()
		return
	}
	done := c.forgetLocked(s)
	c.resets[s.id] = struct{}{}
	// A server that does not read cannot make this grow: a place is taken again
	// only by a stream that the writer has sent.
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

// h2Stream is one exchange. There are a hundred thousand of them: what it
// holds is counted in bytes.
type h2Stream struct {
	client *h2Client
	conn   *h2Conn  // client.mu; set once, when a connection has room
	req    *Request // the writer's, nil when it has been sent

	mu     sync.Mutex // whoever calls the sink
	sink   Sink       // mu; nil when it is over
	stop   func() bool
	opened bool // mu: the sink knows the head
	over   atomic.Bool

	// The reader's.
	interim uint8 // 1xx heads so far
	headed  bool  // the final head was read
	left    int64 // body bytes that Content-Length still promises; -1 = unknown
	taken   int64 // bytes since the window was refilled

	// Under conn.mu.
	id    uint32 // 0 = not sent yet
	sent  bool   // the request, to its end
	delta int64  // send window, less what it is initially
}

// watch closes the stream when ctx ends before it is opened.
func (s *h2Stream) watch(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() {
		defer crash.Guard()
		s.ask(context.Cause(ctx), true)
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened || s.over.Load() {
		stop()
		return
	}
	s.stop = stop
}

// Close ends the stream.
func (s *h2Stream) Close() { s.ask(ErrClosed, false) }

func (s *h2Stream) ask(err error, unopened bool) {
	if s.over.Load() {
		return
	}
	p := s.client
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed { // closing tells every stream the same
		p.finish(ending{s: s, err: err, unopened: unopened})
	}
}

// tell ends the stream for its sink, which hears of it once. It reports whether
// this call did it. The caller takes the stream off its connection.
func (s *h2Stream) tell(err error, unopened bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if unopened && s.opened {
		return false
	}
	return s.tellLocked(err)
}

func (s *h2Stream) tellLocked(err error) bool {
	if s.over.Load() {
		return false
	}
	s.over.Store(true)
	s.unwatch()
	sink := s.sink
	s.sink = nil
	sink.Closed(err)
	return true
}

func (s *h2Stream) unwatch() {
	if s.stop != nil {
		s.stop()
		s.stop = nil
	}
}

// head tells the sink of the answer's head; false when that ended the stream.
func (s *h2Stream) head(h Head, at Arrival) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over.Load() {
		return true // whoever ended it takes care of the rest
	}
	s.opened = true
	s.unwatch()
	if err := s.sink.Opened(h, at); err != nil {
		s.tellLocked(err)
		return false
	}
	return true
}

// piece tells the sink of body bytes; false when that ended the stream.
func (s *h2Stream) piece(b []byte, at Arrival) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over.Load() {
		return true
	}
	if err := s.sink.Piece(b, at); err != nil {
		s.tellLocked(err)
		return false
	}
	return true
}

// h2Head reads one header block at a time.
type h2Head struct {
	decoder *hpack.Decoder
	limit   uint32
	block   []byte      // what came so far, where there is CONTINUATION
	hold    budget.Hold // of block
	frame   h2Frame

	status  int
	header  http.Header
	list    uint32 // its size as RFC 9113 counts it
	regular bool   // a regular field came
	wrong   string
}
