package results

// Target is the server that was measured.
type Target struct {
	URL      string `json:"url"`      // the MCP endpoint
	Embedded bool   `json:"embedded"` // whether it was the reference target, started for this run
	// Era is modern or legacy, Protocol the version that was agreed.
	Era      string `json:"era"`
	Protocol string `json:"protocol"` // the version that was agreed
	// Fallback is what the handshakes of later eras were answered with before
	// this one was found, such as "server/discover: http 400"; empty = nothing
	// was refused. Each process asks once.
	Fallback string `json:"fallback,omitempty"`
	Name     string `json:"name,omitempty"`    // of the server software, as it says
	Version  string `json:"version,omitempty"` // its version
	// Process is the target's own use of its machine while the run published and
	// drained: where it is a process of this machine, or, in the steps of a
	// capacity search, as the address of --target-metrics says.
	Process *Process `json:"process,omitempty"`
	// Stdio is what passed the pipes of a target that is met over standard input
	// and output.
	Stdio *Stdio `json:"stdio,omitempty"`
}

// Stdio is what passed the pipes of a target that is a program. Each line that
// it wrote belongs to the request or stream that it names, or is counted here.
type Stdio struct {
	// Up and Down are bytes written to it and read from it, line ends and
	// handshakes included.
	Up   int64 `json:"up"`
	Down int64 `json:"down"`
	// Lines is all lines that it wrote.
	Lines int64 `json:"lines"`
	// Late lines named a request that was over by then, Unknown ones a request
	// that was never sent.
	Late    int64 `json:"late"`
	Unknown int64 `json:"unknown"`
	// Unaddressed are notifications that name no request and that no lane
	// listened for, Requests are the target's own.
	Unaddressed int64 `json:"unaddressed"`
	Requests    int64 `json:"requests"`
	// Malformed lines are no JSON objects, TooLong ones are over 16 MiB.
	Malformed int64 `json:"malformed"`
	TooLong   int64 `json:"tooLong"`
	// Exit is how the program ended before the run did, and Stderr the last lines
	// that it then had written on standard error.
	Exit   string   `json:"exit,omitempty"`
	Stderr []string `json:"stderr,omitempty"`
}

// Process is what one process used.
type Process struct {
	// CPU is user and system time.
	CPU Nanos `json:"cpu"`
	// CPUShare is CPU over wall time, in cores.
	CPUShare float64 `json:"cpuShare"`
	// Memory is the largest resident set seen, in bytes.
	Memory int64 `json:"memory"`
}

// Arrivals tell how well the times at which events came are known: of all copies
// of all events, warm-up included.
type Arrivals struct {
	Counted int64 `json:"counted"` // copies that came
	Kernel  int64 `json:"kernel"`  // of them, those with the kernel's receive time
	// Shared were read together with what came after them, so that they may
	// have come a little earlier than it says.
	Shared int64 `json:"shared"`
	// Waited is from the kernel's receive time until this process had read the
	// event: what is not in the latencies of those copies.
	Waited Quantiles `json:"waited"`
	// Error is from just before the write of a chunk to the kernel's receive
	// time of it, tried all through the run on a connection of this process
	// to itself: what is still in those latencies. Its count is 0 where no lane
	// has such times.
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
	// Files is the limit of open files of the process, 0 where there is none.
	Files int64 `json:"files"`
}

// Generator is the health of the generator while it published and drained.
type Generator struct {
	// Bottleneck is true when the figures say more about the generator than
	// about the target; Reasons say why.
	Bottleneck bool     `json:"bottleneck"`
	Reasons    []string `json:"reasons"` // why, one sentence each
	Process    Process  `json:"process"` // of the generator
	// Others is the CPU time of all other processes of the machine (without
	// the target's, where it is known), and of its hypervisor, over wall time.
	Others float64 `json:"others"`
	// ReadDelay is how long a byte that was written to a loopback connection
	// took until this process had read it, tried all through the run: the
	// generator's own share in every latency. Its p99 is the resolution limit.
	ReadDelay Quantiles `json:"readDelay"`
	// TimerLag is how late a 10 ms timer woke.
	TimerLag Quantiles `json:"timerLag"`
	// GCPauses are stop-the-world pauses.
	GCPauses Quantiles `json:"gcPauses"`
	// DroppedEvents is Upstream.Dropped over Upstream.Scheduled, 0 to 1.
	DroppedEvents float64 `json:"droppedEvents"`
	Goroutines    int64   `json:"goroutines"` // most seen
	// Arrivals is how well the times of deliveries are known.
	Arrivals Arrivals `json:"arrivals"`
}
