// Package baseline is a target that costs next to nothing: it answers just enough
// of the MCP Events push protocol for a client of it to open streams, and sends
// one and the same event down all of them. Measurements of clients need it: a
// server that does real work would be the bottleneck, and its own share could
// not be told from the client's.
//
// It keeps no cursors, filters nothing and knows one event type. Events carry
// the time of their sending, taken just before the write that sends them.
package baseline

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter"
)

// EventName is the one event type.
const EventName = "tick"

// Options say what is sent. The zero value sends only what [Baseline.Fire] and
// posted events ask for.
type Options struct {
	// Rate is how many events a second go down every stream; 0 = none of its own.
	Rate float64
	// Size is about the length of an event's frame in bytes, from "data: " to
	// the blank line; 0 = 371. Events of its own are padded to it.
	Size int
	// Run is the run that the probe ids of its own events name. Their source is
	// 0, their sequence begins at 1.
	Run uint32
	// Heartbeat is the time between heartbeats; 0 = 15 s.
	Heartbeat time.Duration
	// MaxStreams is what HTTP/2 connections allow; 0 = 250,000.
	MaxStreams uint32
	// Batch is how many streams of an HTTP/2 connection get an event with one
	// write, which share its time of sending; 0 = as many as fit into 64 KiB. A
	// server that writes each stream on its own is 1.
	Batch int
	// Sent is told of each of its own events just before the first stream gets
	// it; may be nil. It must not block.
	Sent func(seq uint32)
}

// Stats are the figures of a [Baseline] so far.
type Stats struct {
	Streams int64 // open now
	Opened  int64 // ever
	Events  int64 // sent to whoever was there
	Frames  int64 // events written to streams
	Skipped int64 // events that a stream did not get: its client does not keep up
}

// Baseline is the server. Its methods are safe for concurrent use.
type Server struct {
	opts                                          Options
	streams, opened, events, frames, skipped, ids atomic.Int64

	mu     sync.Mutex
	groups map[*group]struct{}
	seq    uint32
}

// group is what sends to a number of streams on one goroutine.
type group struct{ work chan *frame }

// frame is a message on its way to all streams. It is shared and not written.
type frame struct {
	text  []byte // from "data: " to the blank line
	sent  int    // where the nineteen digits of the time of sending are; -1 = nowhere
	event bool
	group int // of streams that it is for
}

const sentDigits = 19 // of a time in nanoseconds since 1970, until the year 2286

// queued is how many messages a group may be behind, a pointer each: two seconds
// of five hundred a second.
const queued = 1024

// New makes a server without a listener.
func New(o Options) *Server {
	if o.Size == 0 {
		o.Size = 371
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = 15 * time.Second
	}
	if o.MaxStreams == 0 {
		o.MaxStreams = 250_000
	}
	return &Server{opts: o, groups: map[*group]struct{}{}}
}

// Stats returns the figures so far.
func (f *Server) Stats() Stats {
	return Stats{
		Streams: f.streams.Load(), Opened: f.opened.Load(), Events: f.events.Load(),
		Frames: f.frames.Load(), Skipped: f.skipped.Load(),
	}
}

// Run sends events at the rate of the options, and heartbeats, until ctx ends.
func (f *Server) Run(ctx context.Context) {
	beat := time.NewTicker(f.opts.Heartbeat)
	defer beat.Stop()
	var due <-chan time.Time
	if f.opts.Rate > 0 {
		tick := time.NewTicker(max(time.Duration(float64(time.Second)/f.opts.Rate), time.Microsecond))
		defer tick.Stop()
		due = tick.C
	}
	heartbeat := &frame{text: []byte(`data: {"jsonrpc":"2.0","method":"notifications/events/heartbeat","params":{"cursor":null}}` + "\n\n"), sent: -1, group: everybody}
	for {
		select {
		case <-due:
			f.tick()
		case <-beat.C:
			f.broadcast(heartbeat)
		case <-ctx.Done():
			return
		}
	}
}

// tick sends one event of its own.
func (f *Server) tick() {
	f.mu.Lock()
	f.seq++
	seq := f.seq
	f.mu.Unlock()
	stamp := eventmeter.Stamp{Run: f.opts.Run, Seq: seq}
	fr, _ := f.event(`{"note":"` + stamp.String() + `"`)
	if f.opts.Sent != nil {
		f.opts.Sent(seq)
	}
	f.broadcast(fr)
}

// Fire sends an event with the given data, a JSON object, and returns its id.
func (f *Server) Fire(data []byte) (id string, err error) { return f.fire(data, everybody) }

func (f *Server) fire(data []byte, group int) (id string, err error) {
	open := strings.TrimSpace(string(data))
	if !json.Valid(data) || !strings.HasPrefix(open, "{") {
		return "", errors.New("baseline: an event's data is a JSON object")
	}
	fr, n := f.event(strings.TrimSpace(strings.TrimSuffix(open, "}")))
	fr.group = group
	f.broadcast(fr)
	return "e-" + strconv.FormatInt(n, 10), nil
}

// event makes the frame of an event whose data begins with open, an object
// without its end, and gives it a number.
func (f *Server) event(open string) (*frame, int64) {
	n := f.ids.Add(1)
	b := append(make([]byte, 0, f.opts.Size+64), `data: {"jsonrpc":"2.0","method":"notifications/events/event","params":{"eventId":"e-`...)
	b = strconv.AppendInt(b, n, 10)
	b = append(b, `","name":"`+EventName+`","timestamp":"`...)
	b = time.Now().UTC().AppendFormat(b, "2006-01-02T15:04:05.000Z")
	b = append(b, `","cursor":null,"data":`...)
	b = append(b, open...)
	if open != "{" {
		b = append(b, ',')
	}
	b = append(b, `"sent":"`...)
	sent := len(b)
	b = append(b, strings.Repeat("0", sentDigits)+`"`...)
	const pad, end = `,"pad":""`, "}}}\n\n"
	if more := f.opts.Size - len(b) - len(pad) - len(end); more >= 0 {
		b = append(b, `,"pad":"`...)
		b = append(b, strings.Repeat("x", more)+`"`...)
	}
	return &frame{text: append(b, end...), sent: sent, event: true, group: everybody}, n
}

// broadcast hands a message to all groups. One that is too far behind does not
// get it.
func (f *Server) broadcast(fr *frame) {
	if fr.event {
		f.events.Add(1)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for g := range f.groups {
		select {
		case g.work <- fr:
		default:
			f.skipped.Add(1)
		}
	}
}

// join adds a group; leave takes it away. Nothing is sent to it afterwards.
func (f *Server) join() *group {
	g := &group{work: make(chan *frame, queued)}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.groups[g] = struct{}{}
	return g
}

func (f *Server) leave(g *group) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.groups, g)
}

// stampNow writes the time into nineteen bytes.
func stampNow(dst []byte) {
	n := time.Now().UnixNano()
	for i := sentDigits - 1; i >= 0; i-- {
		dst[i] = byte('0' + n%10)
		n /= 10
	}
}
