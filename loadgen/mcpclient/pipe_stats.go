package mcpclient

// PipeStats are what passed between this process and a server that is a
// program. Lines come from the server; each is routed to the request or stream
// that it names, or is one of those counted here.
type PipeStats struct {
	// Up and Down are bytes written and read, line ends included. Routed are
	// the bytes of Down that reached a request or a stream.
	Up, Down, Routed int64
	// Lines is all that came.
	Lines int64
	// Late named a request that was over here, Unknown one that never was, or
	// an answer to nothing. Unaddressed are notifications that name nobody and
	// that nobody listened for. Requests are the server's own.
	Late, Unknown, Unaddressed, Requests int64
	// Malformed are no JSON objects, TooLong are over 16 MiB.
	Malformed, TooLong int64
	// Handshake is how many bytes of Up and Down belong to no lane because
	// handshakes and tool calls of the endpoint's own took them.
	HandshakeUp, HandshakeDown int64
	// Exit is how the server ended by itself, "" if it has not.
	Exit string
	// Stderr is the last that it wrote on standard error, ten lines at most.
	Stderr []string
}

// Pipe returns the totals of a target that is a program so far; false if it is
// not one.
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

// Ended is closed when a target that is a program has ended and every stream
// knows it; nil, and so never, for any other.
func (e *Endpoint) Ended() <-chan struct{} {
	if e.pipe == nil {
		return nil
	}
	return e.pipe.gone
}

// Err says how a program ended by itself, with the last line that it wrote on
// standard error; nil as long as it has not.
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

// PID is the process of a target that is a program, once it was started;
// else 0.
func (e *Endpoint) PID() int {
	if e.pipe == nil {
		return 0
	}
	return int(e.pipe.pid.Load())
}
