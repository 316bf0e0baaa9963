package driver

import (
	"time"

	"github.com/eventmeter/eventmeter"
)

// FigureCoalesced counts the connections of streams on which [CoalescedReads] found a
// buffer.
const FigureCoalesced = "coalescedStreams"

// The signature of a buffer on the path.
const (
	// coalescedPause is how long a message must have been left half delivered. Lost
	// packets and slow starts leave messages cut, too, for round trips; not for
	// that long, and not at equal distances.
	coalescedPause = time.Second
	// coalescedCuts is how many such places there must be on one connection.
	coalescedCuts = 4
	// coalescedBlock is the least size, in bytes, of which their distances must all
	// be multiples. By chance, three distances have a common divisor that large
	// less than twice in a million times.
	coalescedBlock = 512
)

// CoalescedReads finds out, on one connection of a stream, that something on the path
// collects bytes until a buffer is full. A server writes messages whole. A
// buffer does not know where they end: it stops in the middle of one, again and
// again at multiples of its size, and the rest of that message waits until
// others have filled the next buffer. A slow server, a lost packet and a
// network that stands still look otherwise, so this raises no false alarm; but
// buffers that are full more often than once a second stay unnoticed.
//
// The zero value is ready. It belongs to the goroutine that reads the stream.
type CoalescedReads struct {
	at     int64              // bytes read so far
	last   eventmeter.Instant // when the last of them were
	within bool               // they ended within a message
	cuts   int
	cut    int64 // where the last cut was
	step   int64 // greatest common divisor of the distances between cuts
}

// Piece takes note of n bytes, read at that instant and ending within a message
// or not. It returns true once, when a buffer is found.
func (c *CoalescedReads) Piece(n int, at eventmeter.Instant, within bool) bool {
	found := false
	if c.within && at.Sub(c.last) >= coalescedPause {
		if c.cuts++; c.cuts > 1 {
			c.step = divisor(c.step, c.at-c.cut)
		}
		c.cut = c.at
		found = c.cuts == coalescedCuts && c.step >= coalescedBlock
	}
	c.at, c.last, c.within = c.at+int64(n), at, within
	return found
}

func divisor(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
