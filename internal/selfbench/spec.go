package selfbench

import (
	"fmt"
	"time"
)

// spec is what a child process is started with. It travels as one line of JSON.
type spec struct {
	// Role is a key of roles.
	Role string
	// Streams is how many streams, pollers or subscriptions a client opens.
	Streams int
	// URL is the target's MCP endpoint; events are posted to Inject.
	URL, Inject string
	// HTTP is "1.1" or "h2c".
	HTTP string
	// Batch is how many streams of an HTTP/2 connection the baseline server
	// writes an event to at once; 0 = as many as fit into 64 KiB.
	Batch int
	// Mode is push, poll or webhook.
	Mode string
	// Rate is events per second of the paced phase, which lasts Paced. The idle
	// phase before it lasts Idle.
	Rate        float64
	Idle, Paced time.Duration
	// Flood publishes as fast as the target accepts events and ignores Rate.
	Flood bool
	// Groups divides the streams into groups; each event goes to one of them in
	// turn. 0 = all events go to all streams.
	Groups int
	// Count replaces the ledger with a recorder that only counts.
	Count bool
	// Unjudged leaves out the rows of conformance.
	Unjudged bool
	// Kernel uses the kernel's receive times. Error compares the recorded times
	// with the send times that events carry.
	Kernel, Error bool
	// PollEvery is the time between two polls, TTL the requested lifetime of
	// webhook subscriptions.
	PollEvery, TTL time.Duration
	// Local is how many addresses of 127.0.0.0/8 connections come from; 0 = the
	// system chooses.
	Local int
	// Profile is a file for a CPU profile of the paced phase, and with .heap added for
	// a heap profile before it; "" = none.
	Profile string
	// Timeout bounds the opening of all streams. Half of it bounds each wait for
	// deliveries.
	Timeout time.Duration
}

// sample is what a process has used so far.
type sample struct {
	At      time.Duration // since the process began
	CPU     time.Duration // user and system
	RSS     int64         // bytes
	Heap    int64         // bytes in use
	Stack   int64         // bytes in use
	Mallocs int64         // objects
}

// phase is what a process used during a phase.
type phase struct {
	CPU, Took time.Duration
	Mallocs   int64
	Calls     int64 // of pollers and webhook subscriptions
}

// since is what was used between two samples.
func (s sample) since(began sample) phase {
	return phase{CPU: s.CPU - began.CPU, Took: s.At - began.At, Mallocs: s.Mallocs - began.Mallocs}
}

// outcome is what a client reports at its end. The samples are in the order of
// its phases.
type outcome struct {
	Before  sample // nothing exists yet
	Opened  sample // every stream is confirmed
	Full    sample // one event was delivered to each stream
	Settled sample // garbage was collected and its memory returned

	Idle, Paced phase

	Streams int
	// Expected and Delivered are of the paced phase. With a ledger they are its
	// figures, and Balanced is its check; otherwise deliveries are counted.
	Expected, Delivered int64
	Other               int64 // duplicates and unexpected deliveries
	Balanced            bool
	Dropped             int64 // events that were not published or not accepted

	ErrorP50, ErrorP99 time.Duration // measuring error

	Kernel int64 // deliveries with the kernel's receive time
	Shared int64 // deliveries that shared a read
	Copies int64 // deliveries that Kernel and Shared are a part of

	Judged, Broken int64 // occasions on which rows of conformance were judged, and broken

	Refreshes int64 // of webhook subscriptions
	Failures  int64 // failed calls
}

// addresses are the URLs of a target.
type addresses struct{ HTTP1, HTTP2, Inject string }

// served is what a target reports at its end.
type served struct {
	Skipped int64 // frames that were not written because a client did not keep up
	Failed  int64 // webhook deliveries that were not answered 200
}

// message is a line from a child.
type message struct {
	// Step names what the child has completed. It then waits for its parent.
	Step    string
	Fault   string
	Serves  *addresses `json:",omitempty"`
	Served  *served    `json:",omitempty"`
	Outcome *outcome   `json:",omitempty"`
	Micro   *micro     `json:",omitempty"`
}

// groups is the number of groups, at least one.
func (s spec) groups() int { return max(1, s.Groups) }

// groupSize is the number of streams in a group. Stream i is in group i modulo
// the number of groups.
func (s spec) groupSize(group int) int {
	return (s.Streams - group + s.groups() - 1) / s.groups()
}

// arguments are those of stream i's subscription.
func (s spec) arguments(i int) string {
	if s.Groups == 0 {
		return "{}"
	}
	return fmt.Sprintf(`{"group":%d}`, i%s.Groups)
}
