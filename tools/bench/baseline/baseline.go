//go:build unix

// Package baseline is a target that costs very little: it implements just enough
// of the MCP Events push protocol for a client to open streams, and sends the
// same event on all of them. Measurements of clients need it: a server that does
// real work would be the bottleneck, and its cost could not be separated from the
// client's.
//
// It sends no heartbeats, keeps no cursors, filters nothing and has one event type. Events carry the
// time just before the write that sends them.
package baseline

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// EventName is the one event type.
const EventName = "tick"

// Options of a server. The zero value works.
type Options struct {
	// Size is the length of an event's frame in bytes, from "data: " to the blank
	// line; 0 = 371. Shorter frames are padded to it.
	Size int
	// Batch is the number of streams of an HTTP/2 connection that get an event
	// with one write, and so share its send time; 0 = as many as fit into 64 KiB.
	Batch int
}

// Stats are the figures of a [Server] so far.
type Stats struct {
	Streams int64 // open now
	Opened  int64 // ever
	Frames  int64 // events written to streams
	Skipped int64 // events that were not written because a client did not keep up
}

// Server is the baseline server. Its methods are safe for concurrent use.
type Server struct {
	opts                                  Options
	streams, opened, frames, skipped, ids atomic.Int64

	mu     sync.Mutex
	groups map[*group]struct{}
}

// group is a set of streams that one goroutine writes to.
type group struct{ work chan *frame }

// frame is a message for all streams. It is shared and immutable.
type frame struct {
	text  []byte // from "data: " to the blank line
	id    int    // offset of the id of the stream
	sent  int    // offset of the digits of the send time; -1 = none
	event bool
	group int // of the streams that get it
}

// newFrame is a frame for everybody that is no event.
func newFrame(text []byte) *frame {
	return &frame{text: text, id: bytes.Index(text, []byte(meta)) + len(meta) - 1 - len(noID), sent: -1, group: everybody}
}

const sentDigits = 19 // of a time in nanoseconds since 1970, until the year 2286

// queued is the length of a group's queue: two seconds of 500 messages a second.
const queued = 1024

// New makes a server without a listener.
func New(o Options) *Server {
	if o.Size == 0 {
		o.Size = 371
	}
	return &Server{opts: o, groups: map[*group]struct{}{}}
}

// Stats returns the figures so far.
func (f *Server) Stats() Stats {
	return Stats{
		Streams: f.streams.Load(), Opened: f.opened.Load(),
		Frames: f.frames.Load(), Skipped: f.skipped.Load(),
	}
}

// Fire sends an event with the given data, a JSON object, and returns its id. It goes to all
// streams, or to those that were opened with the "group" that the data names, a number in quotes.
func (f *Server) Fire(data []byte) (id string, err error) {
	var to grouped
	open := strings.TrimSpace(string(data))
	if json.Unmarshal(data, &to) != nil || !strings.HasPrefix(open, "{") {
		return "", errors.New("baseline: an event's data is a JSON object, and its group a number in quotes")
	}
	fr, n := f.event(strings.TrimSpace(strings.TrimSuffix(open, "}")))
	fr.group = to.number()
	f.broadcast(fr)
	return "e-" + strconv.FormatInt(n, 10), nil
}

// event makes the frame of an event and returns its number. open is the data, a
// JSON object without its closing brace.
func (f *Server) event(open string) (*frame, int64) {
	n := f.ids.Add(1)
	b := append(
		make([]byte, 0, f.opts.Size+64),
		`data: {"jsonrpc":"2.0","method":"notifications/events/event","params":{"eventId":"e-`...)
	b = strconv.AppendInt(b, n, 10)
	b = append(b, `","name":"`+EventName+`","timestamp":"`...)
	b = time.Now().UTC().AppendFormat(b, "2006-01-02T15:04:05.000Z")
	b = append(b, `","cursor":null,`+meta+`,"data":`...)
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
	fr := newFrame(append(b, end...))
	fr.sent, fr.event = sent, true
	return fr, n
}

// broadcast queues a message for all groups. A group whose queue is full does not
// get it.
func (f *Server) broadcast(fr *frame) {
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

// join adds a group; leave removes it. Nothing is sent to it afterwards.
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

// stampNow writes the time as nineteen digits.
func stampNow(dst []byte) {
	n := time.Now().UnixNano()
	for i := sentDigits - 1; i >= 0; i-- {
		dst[i] = byte('0' + n%10)
		n /= 10
	}
}
