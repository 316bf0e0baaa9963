package mcpclient

// PipeStats count the traffic between this process and a server that is a program. Each
// line of the server is passed to the request or stream that it names, or is counted in
// one of the fields after Lines.
type PipeStats struct {
	// Up and Down are bytes written and read, line ends included. Routed are
	// the bytes of Down that reached a request or a stream.
	Up, Down, Routed int64
	// Lines is the number of lines of the server.
	Lines int64
	// Late lines named a request that was over, Unknown lines an id that was never
	// used, or none. Unaddressed lines are notifications that name no subscription or
	// request and have no listener. Requests are requests of the server.
	Late, Unknown, Unaddressed, Requests int64
	// Malformed lines are not JSON objects, TooLong lines are longer than 16 MiB.
	Malformed, TooLong int64
	// HandshakeUp and HandshakeDown are the bytes of Up and Down that belong to no
	// lane: those of handshakes, lists and tool calls.
	HandshakeUp, HandshakeDown int64
	// Exit is how the server ended by itself, "" if it has not.
	Exit string
	// Stderr is the last ten lines of its standard error.
	Stderr []string
}

// Pipe returns the counts so far of a target that is a program; false if the target is
// not a program.
func (e *Endpoint) Pipe() (PipeStats, bool) {
	if e.pipe == nil {
		return PipeStats{}, false
	}
	c := &e.pipe.router.counts
	s := PipeStats{
		Up: e.pipe.up.Load(), Down: c.bytes.Load(), Routed: c.routed.Load(), Lines: c.lines.Load(),
		Late: c.late.Load(), Unknown: c.unknown.Load(), Unaddressed: c.unaddressed.Load(), Requests: c.requests.Load(),
		Malformed: c.malformed.Load(), TooLong: c.tooLong.Load(),
		HandshakeUp: e.traffic.Up(), HandshakeDown: e.traffic.Down(), Stderr: e.pipe.log.Lines(10),
	}
	if err := e.Err(); err != nil {
		s.Exit = err.Error()
	}
	return s, true
}

// Ended returns a channel that is closed when a target that is a program has ended and
// every stream was ended; nil if the target is not a program.
func (e *Endpoint) Ended() <-chan struct{} {
	if e.pipe == nil {
		return nil
	}
	return e.pipe.gone
}

// Err returns how a program ended by itself, with the last line of its standard error;
// nil as long as it runs, and after Close.
func (e *Endpoint) Err() error {
	if e.pipe == nil || e.pipe.closing.Load() {
		return nil
	}
	select {
	case <-e.pipe.over:
		return e.pipe.cause
	default:
		return nil
	}
}

// PID returns the process id of a target that is a program, 0 before it was started and
// for any other target.
func (e *Endpoint) PID() int {
	if e.pipe == nil {
		return 0
	}
	return int(e.pipe.pid.Load())
}
