package results

import (
	"cmp"
	"maps"

	"github.com/eventmeter/eventmeter/internal/figure"
)

// Target is the server that was measured.
type Target struct {
	URL      string `json:"url"`      // the MCP endpoint
	Embedded bool   `json:"embedded"` // whether it was the reference server, started for this run
	// modern or legacy
	Era      string `json:"era"`
	Protocol string `json:"protocol"` // the negotiated protocol version
	// the answers to handshakes of later eras before this one succeeded, such as "server/discover:
	// http 400"; empty = none was refused. Each process asks once.
	Fallback string `json:"fallback,omitempty"`
	Name     string `json:"name,omitempty"`    // name that the server reports
	Version  string `json:"version,omitempty"` // version that the server reports
	// the target's use of its machine from the warm-up to the end of the drain, where it runs on
	// this machine, or as --target-metrics reports
	Process *Process `json:"process,omitempty"`
	// whether what the target holds, such as memory or files, rises under constant load and stays,
	// by gauge: memory, files, threads, and with --target-metrics heap, goroutines, handles,
	// resources or sessions. Absent where nothing was followed, where lanes take turns, and in runs
	// in shards.
	Leak map[string]Growth `json:"leak,omitempty"`
	// traffic over the pipes, for a target over standard input and output
	Stdio *Stdio `json:"stdio,omitempty"`
	// requests for access tokens that expire, where the profile has target.oauth
	Tokens *Tokens `json:"tokens,omitempty"`
}

// LeakVerdict says whether a gauge of the target leaks. In a threshold, write it as it is spelled:
// run.target.leak.memory == none.
type LeakVerdict string

// The verdicts.
const (
	LeakNone    LeakVerdict = "none"    // it certainly does not rise, or came back
	LeakFound   LeakVerdict = "leak"    // it certainly rises under constant load, and stays in the cool-down
	LeakUnknown LeakVerdict = "unknown" // reason says why
)

// Growth is how a gauge of the target changed in the measured phase, in the gauge's unit: bytes for
// memory and heap, else a count.
type Growth struct {
	// none, leak or unknown; in a threshold, run.target.leak.NAME stands for it
	Verdict LeakVerdict `json:"verdict"`
	Reason  string      `json:"reason"` // why, in words
	// rise per minute from the first third of the measured phase to its last, where the lowest values
	// of eight windows make a level
	Slope float64 `json:"slope"`
	Low   float64 `json:"low"`  // lower end of the 99 % interval of slope
	High  float64 `json:"high"` // upper end of the 99 % interval of slope
	// only in results of earlier versions: how probable such a trend is where there is none
	Chance float64 `json:"chance,omitempty"`
	Rise   float64 `json:"rise"`   // slope × duration of the measured phase
	Before float64 `json:"before"` // lowest value before the first subscription
	Start  float64 `json:"start"`  // level in the first third of the measured phase
	// lowest value in the second half of the cool-down; 0 = there was none
	After  float64 `json:"after"`
	Points int64   `json:"points"` // samples in the measured phase
}

// Tokens are the requests of principals for access tokens, from the first handshake to the end of
// the run. Where the token endpoint was found, requests is the sum of issued, renewed, failed and
// cut.
type Tokens struct {
	Requests int64 `json:"requests"` // requests to the token endpoint
	Issued   int64 `json:"issued"`   // first tokens
	Renewed  int64 `json:"renewed"`  // tokens that replaced earlier ones
	Failed   int64 `json:"failed"`   // requests that brought no token
	Cut      int64 `json:"cut"`      // requests that were given up at the end of the run
	// requests that looked for the token endpoint
	Discovery int64 `json:"discovery"`
	Repeated  int64 `json:"repeated"` // requests that the target refused with 401 and that were sent again with a new token
	// principals to whom the issuer gives no more tokens
	Denied int64 `json:"denied"`
	Lost   int64 `json:"lost"` // subscriptions that ended because there was no token
	// failed requests by status and OAuth error, such as "http 400 invalid_grant"
	Failures   map[string]int64 `json:"failures,omitempty" merge:"-"`
	FirstError string           `json:"firstError,omitempty" merge:"-"` // the text of the first failure
}

// Add returns the sum of two processes' tokens; either may be nil.
func (t *Tokens) Add(o *Tokens) *Tokens {
	if t == nil || o == nil {
		return cmp.Or(t, o)
	}
	sum := *t
	figure.Add(&sum, o)
	sum.FirstError = cmp.Or(t.FirstError, o.FirstError)
	sum.Failures = maps.Clone(t.Failures)
	for what, n := range o.Failures {
		if sum.Failures == nil {
			sum.Failures = map[string]int64{}
		}
		sum.Failures[what] += n
	}
	return &sum
}

// Stdio is the traffic over the pipes of a target that is a program. Each line that the program
// wrote belongs to the request or stream that it names, or is counted here.
type Stdio struct {
	// bytes written to the program, line ends and handshakes included
	Up   int64 `json:"up"`
	Down int64 `json:"down"` // bytes read from the program
	// all lines that the program wrote
	Lines int64 `json:"lines"`
	// lines that name a request that was already over
	Late    int64 `json:"late"`
	Unknown int64 `json:"unknown"` // lines that name a request that was never sent
	// notifications that name no request and that no lane expected
	Unaddressed int64 `json:"unaddressed"`
	Requests    int64 `json:"requests"` // requests of the target
	// lines that are no JSON objects
	Malformed int64 `json:"malformed"`
	TooLong   int64 `json:"tooLong"` // lines over 16 MiB
	// how the program ended, if it ended before the run
	Exit   string   `json:"exit,omitempty"`
	Stderr []string `json:"stderr,omitempty"` // the last lines that it had then written to standard error
}

// TargetIdle is the code of the warning that the target's processes were idle while events were
// delivered: others do its work, and what the target uses is not known.
const TargetIdle = "target-idle"

// Process is the use of the machine by a process, for a target with all of its descendants.
type Process struct {
	// user and system time
	CPU Nanos `json:"cpu"`
	// CPU time over wall time, in cores
	CPUShare float64 `json:"cpuShare"`
	// largest resident set seen, in bytes; of several processes the largest sum, where pages that
	// they share count once for each
	Memory int64 `json:"memory"`
	// resolution of cpu: 1 µs where the system has a CPU clock for each process (Linux), 10 ms
	// elsewhere and with --target-metrics; 0 = not known
	Resolution Nanos `json:"resolution,omitempty"`
}

// Arrivals describes how exactly receive times are known, over all copies of all events, warm-up
// included.
type Arrivals struct {
	Counted int64 `json:"counted"` // copies received
	Kernel  int64 `json:"kernel"`  // copies with a receive time of the kernel
	// copies read together with later data, so that they may have arrived slightly earlier than
	// recorded
	Shared int64 `json:"shared"`
	// time from the kernel's receive time until this process had read the event; it is not part of
	// the latencies of these copies
	Waited Quantiles `json:"waited"`
	// time from just before a write to the kernel's receive time, measured throughout the run on a
	// loopback connection of this process to itself; it is part of these latencies. Its count is 0
	// where no lane has receive times of the kernel.
	Error Quantiles `json:"error"`
}

// Host is the machine that measured.
type Host struct {
	OS     string `json:"os"`               // as Go names it
	Arch   string `json:"arch"`             // as Go names it
	Kernel string `json:"kernel,omitempty"` // its version
	CPU    string `json:"cpu,omitempty"`    // model of the first CPU
	CPUs   int    `json:"cpus"`             // how many CPUs the program may use
	Memory int64  `json:"memory"`           // bytes
	Go     string `json:"go"`               // version that built the program
	// limit of open files of the process; 0 = no limit
	Files int64 `json:"files"`
}

// Generator is the generator's own health from the warm-up to the end of the drain.
type Generator struct {
	// whether the figures describe the generator more than the target
	Bottleneck bool     `json:"bottleneck"`
	Reasons    []string `json:"reasons"` // why it was the bottleneck, one sentence each
	Process    Process  `json:"process"` // of the generator
	// CPU time over wall time of all other processes of the machine and of its hypervisor, without
	// the target where its use is known, in cores
	Others float64 `json:"others"`
	// time from writing a byte to a loopback connection until this process has read it, measured
	// throughout the run: the generator's own share of every latency. Its p99 is the resolution
	// limit.
	ReadDelay Quantiles `json:"readDelay"`
	// how late a 10 ms timer fired
	TimerLag Quantiles `json:"timerLag"`
	// stop-the-world pauses of the garbage collector
	GCPauses Quantiles `json:"gcPauses"`
	// upstream.dropped over upstream.scheduled, 0 to 1
	DroppedEvents float64 `json:"droppedEvents"`
	Goroutines    int64   `json:"goroutines"` // largest number seen
	// how exactly receive times are known
	Arrivals Arrivals `json:"arrivals"`
}
