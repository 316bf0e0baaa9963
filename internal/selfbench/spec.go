package selfbench

import (
	"fmt"
	"time"
)

// spec is what a child process is told to be. It travels as one line of JSON.
type spec struct {
	// Role is a key of roles.
	Role string `json:"role"`
	// Streams is how many streams, pollers or subscriptions a client opens.
	Streams int `json:"streams,omitempty"`
	// URL is where they lead, Inject where events are posted.
	URL    string `json:"url,omitempty"`
	Inject string `json:"inject,omitempty"`
	// HTTP is "1.1" or "h2c".
	HTTP string `json:"http,omitempty"`
	// Batch is how many streams of an HTTP/2 connection the neutral target writes
	// an event to at once; 0 = as many as fit into 64 KiB.
	Batch int `json:"batch,omitempty"`
	// Mode is push, poll or webhook.
	Mode string `json:"mode,omitempty"`
	// Rate is events per second of the paced phase, which lasts Paced. Idle is
	// how long the client is watched before with nothing to do.
	Rate  float64       `json:"rate,omitempty"`
	Idle  time.Duration `json:"idle,omitempty"`
	Paced time.Duration `json:"paced,omitempty"`
	// Flood fires as fast as the target takes events, whatever Rate says.
	Flood bool `json:"flood,omitempty"`
	// Groups is how many groups the streams are in, each event going to one of
	// them in turn; 0 = all events go to all streams.
	Groups int `json:"groups,omitempty"`
	// Count replaces the ledger with a recorder that only counts.
	Count bool `json:"count,omitempty"`
	// Kernel takes times of arrival from the kernel. Error compares them with
	// the times of sending that events carry.
	Kernel bool `json:"kernel,omitempty"`
	Error  bool `json:"error,omitempty"`
	// PollEvery is between two polls; TTL is what webhook subscriptions ask for.
	PollEvery time.Duration `json:"pollEvery,omitempty"`
	TTL       time.Duration `json:"ttl,omitempty"`
	// Local is how many addresses of 127.0.0.0/8 connections come from; 0
	// leaves it to the system.
	Local int `json:"local,omitempty"`
	// Profile is a file for a CPU profile of the paced phase; "" = none.
	Profile string `json:"profile,omitempty"`
	// Patience bounds opening, and twice as long as any wait for deliveries.
	Patience time.Duration `json:"patience"`
}

// sample is what a process has used so far.
type sample struct {
	At      time.Duration `json:"at"`  // since the process began
	CPU     time.Duration `json:"cpu"` // user and system
	RSS     int64         `json:"rss"` // bytes
	Heap    int64         `json:"heap"`
	Stack   int64         `json:"stack"`
	Mallocs int64         `json:"mallocs"`
}

// quantiles are of the measuring error.
type quantiles struct {
	Count int64         `json:"count"`
	Below int64         `json:"below"` // under 1 µs, which they count as
	P50   time.Duration `json:"p50"`
	P99   time.Duration `json:"p99"`
	Max   time.Duration `json:"max"`
}

// outcome is what a client says when it is done. The samples are in the order
// of its phases.
type outcome struct {
	Before  sample `json:"before"`  // nothing exists yet
	Opened  sample `json:"opened"`  // every stream is confirmed
	Full    sample `json:"full"`    // and one event was delivered to each
	Settled sample `json:"settled"` // and garbage was collected and given back
	Idle    sample `json:"idle"`    // after the idle phase
	Paced   sample `json:"paced"`   // after the paced phase and its last delivery

	// What the idle and the paced phase took.
	IdleCPU      time.Duration `json:"idleCPU"`
	IdleTook     time.Duration `json:"idleTook"`
	IdleMallocs  int64         `json:"idleMallocs"`
	IdleCalls    int64         `json:"idleCalls,omitempty"`
	PacedCPU     time.Duration `json:"pacedCPU"`
	PacedTook    time.Duration `json:"pacedTook"`
	PacedMallocs int64         `json:"pacedMallocs"`

	Streams int `json:"streams"`
	// Expected and Delivered are of the paced phase. With a ledger they are its
	// own figures, and Balanced is its own check; otherwise they are counted.
	Expected  int64 `json:"expected"`
	Delivered int64 `json:"delivered"`
	Other     int64 `json:"other,omitempty"` // duplicates and unexpected ones
	Balanced  bool  `json:"balanced"`
	Dropped   int64 `json:"dropped,omitempty"` // emissions

	Error  quantiles `json:"error"`
	Kernel int64     `json:"kernel,omitempty"` // deliveries with the kernel's time
	Shared int64     `json:"shared,omitempty"` // deliveries that shared a read
	Copies int64     `json:"copies,omitempty"` // deliveries that those two are of

	Calls     int64 `json:"calls,omitempty"`     // polls, of the paced phase
	Refreshes int64 `json:"refreshes,omitempty"` // of webhook subscriptions
	Failures  int64 `json:"failures,omitempty"`  // calls that failed
	Reconnect int64 `json:"reconnects,omitempty"`
}

// addresses are where a target serves.
type addresses struct {
	HTTP1  string `json:"http1,omitempty"` // URL
	HTTP2  string `json:"http2,omitempty"`
	Inject string `json:"inject,omitempty"`
}

// served is what a target says at its end.
type served struct {
	Streams int64         `json:"streams"`
	Frames  int64         `json:"frames"`
	Skipped int64         `json:"skipped"`
	Posts   int64         `json:"posts,omitempty"` // deliveries that a sender had answered 200
	Failed  int64         `json:"failed,omitempty"`
	Took    time.Duration `json:"took,omitempty"`
	CPU     time.Duration `json:"cpu"`
}

// message is a line from a child.
type message struct {
	// Step names where it stands; it waits there for a line from the parent.
	Step    string     `json:"step"`
	Fault   string     `json:"fault,omitempty"`
	Sample  *sample    `json:"sample,omitempty"`
	Serves  *addresses `json:"serves,omitempty"`
	Served  *served    `json:"served,omitempty"`
	Outcome *outcome   `json:"outcome,omitempty"`
	Micro   *micro     `json:"micro,omitempty"`
}

// groups is how many groups there are, at least one.
func (s spec) groups() int { return max(1, s.Groups) }

// groupSize is how many streams are in a group; stream i is in group i modulo
// their number.
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
