package driver

import (
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/sinks"
)

// opening is a connection that was not confirmed yet.
type opening struct {
	refusal *unopened // an answer that is no stream; nil = there is none
	who     *mcpclient.Principal
	bearer  string // the token of the request
	began   eventmeter.Instant
	up      int64
	down    int64 // until it was confirmed
}

// rareStream is what a stream needs once it was in trouble, or its server had requests. Only the goroutine that works
// for the stream uses it.
type rareStream struct {
	backoff sinks.Backoff
	pause   time.Duration      // as the server asked for
	lost    eventmeter.Instant // when the stream was lost, 0 = it is not
	back    eventmeter.Instant // when it was last confirmed again
	cutter  *time.Timer
	over    error        // the argument of End
	replies atomic.Int32 // under way
}

// lapse is what a stream needs when a connection ends. It is guarded by mu.
type lapse struct {
	why     error         // why this side gave up the current connection
	timer   *time.Timer   // for the next connection
	failure error         // what ended the last connection
	done    chan struct{} // of Done; nil = nobody has asked for it
	over    bool          // there will be no more connections
}

// closed is the channel that First and Done return for all streams for which they are
// closed, so that thousands of them need no channel each.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// settle closes a channel of First or Done. The caller holds mu.
func settle(c *chan struct{}) {
	if *c != nil && *c != closed {
		close(*c)
	}
	*c = closed
}
