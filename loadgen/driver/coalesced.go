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
	// coalescedPause is how long a message must have been incomplete. Lost packets and
	// slow starts interrupt messages, too, but only for round trips, and not at equal
	// distances.
	coalescedPause = time.Second
	// coalescedCuts is how many such interruptions there must be on one connection.
	coalescedCuts = 4
	// coalescedBlock is the smallest size, in bytes, of which the distances between
	// interruptions must all be multiples. By chance, three distances have such a large
	// common divisor less than twice in a million times.
	coalescedBlock = 512
)

// CoalescedReads detects, on one connection of a stream, something on the path that
// collects bytes until a buffer is full. A server writes whole messages. A buffer ignores
// where they end: it interrupts messages at multiples of its size, and the rest of a
// message waits until others have filled the next buffer. A slow server, a lost packet
// and a network outage look different, so they raise no false alarm. A buffer that is
// full more often than once a second is not detected.
//
// The zero value is ready. It must not be used by two goroutines at once.
type CoalescedReads struct {
	at     int64              // bytes read so far
	last   eventmeter.Instant // when the last of them were
	within bool               // they ended within a message
	cuts   uint32
	cut    int64 // where the last cut was
	step   int64 // greatest common divisor of the distances between cuts
}

// Piece adds n bytes that were read at at; within is true if they end within a message.
// It returns true once, when it detects a buffer.
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
