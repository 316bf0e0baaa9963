package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/stderrtail"
	"github.com/eventmeter/eventmeter/internal/wire"
)

const (
	// pipeBuffer is how many bytes are read at once: what a pipe holds on most systems.
	pipeBuffer = 64 << 10
	// pipeQueue bounds the messages that wait to be written to a server.
	pipeQueue = 1024
	// pipeWrite is how many bytes are collected for one write.
	pipeWrite = 64 << 10
	// exitGrace is how long the end of a server's output and the end of its
	// process may be apart.
	exitGrace = time.Second
	// stdinGrace and termGrace are how long a server may take to end after its
	// standard input was closed, and after it was asked to terminate.
	stdinGrace = 2 * time.Second
	termGrace  = time.Second
)

// Pipe is a server that is a program: requests go to its standard input, one per line,
// and the answers and streams of all lanes share its standard output. It is safe for
// concurrent use.
type Pipe struct {
	opts EndpointOptions

	// graces are stdinGrace and termGrace. Only tests change them.
	graces [2]time.Duration

	router
	starts sync.Once
	failed error // of the start

	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *os.File
	log   stderrtail.Writer
	queue chan []byte
	up    atomic.Int64
	pid   atomic.Int64 // 0 = not started

	mu   sync.Mutex
	held map[string]int // by name: how many users it has in the shared session

	closing atomic.Bool   // close was called
	quit    chan struct{} // closed by close
	exited  chan struct{} // closed when the process has ended
	gone    chan struct{} // closed when no more lines will come and every exchange has ended
	over    chan struct{} // closed before the exchanges are ended
	cause   error         // set before over is closed
	work    sync.WaitGroup
}

func newPipe(o EndpointOptions, issued *atomic.Uint64) *Pipe {
	p := &Pipe{
		graces: [2]time.Duration{stdinGrace, termGrace},
		opts:   o,
		queue:  make(chan []byte, pipeQueue),
		quit:   make(chan struct{}),
		exited: make(chan struct{}),
		gone:   make(chan struct{}),
		over:   make(chan struct{}),
	}
	p.router.issued = issued
	p.router.respond = p.respond
	return p
}

// start starts the program, once.
func (p *Pipe) start() error {
	p.starts.Do(func() {
		if p.failed = p.run(); p.failed != nil {
			p.failed = fmt.Errorf("start %s: %w: %w: is the command right?", p.opts.Command[0], ErrUnreachable, p.failed)
		}
	})
	return p.failed
}

func (p *Pipe) run() error {
	if p.closing.Load() {
		return os.ErrClosed
	}
	cmd := exec.Command(p.opts.Command[0], p.opts.Command[1:]...)
	ownGroup(cmd)
	cmd.Env, cmd.Dir = append(os.Environ(), p.opts.Env...), p.opts.Dir
	cmd.Stderr = &p.log
	if p.opts.Stderr != nil {
		cmd.Stderr = io.MultiWriter(&p.log, p.opts.Stderr)
	}
	// A process that the server leaves behind may hold standard error open.
	cmd.WaitDelay = exitGrace
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	// A pipe of our own: waiting for the process must not close it before
	// everything in it was read.
	out, theirs, err := os.Pipe()
	if err != nil {
		return errors.Join(err, stdin.Close())
	}
	cmd.Stdout = theirs
	err = cmd.Start()
	_ = theirs.Close() // the process has its own
	if err != nil {
		return errors.Join(err, out.Close())
	}
	p.cmd, p.stdin, p.out = cmd, stdin, out
	p.pid.Store(int64(cmd.Process.Pid))
	p.work.Go(crash.Guarded(p.wait))
	p.work.Go(crash.Guarded(p.write))
	p.work.Go(crash.Guarded(p.read))
	return nil
}

// wait waits for the process to end, and then makes the reading end, too.
func (p *Pipe) wait() {
	_ = p.cmd.Wait() // how it ended is in ProcessState
	close(p.exited)
	select {
	case <-p.gone:
		return
	case <-time.After(exitGrace):
	}
	// A process that the server started holds its output open.
	signalGroup(p.cmd, true)
	if p.out.SetReadDeadline(time.Now()) != nil {
		_ = p.out.Close()
	}
}

// read routes what the server writes until there is no more.
func (p *Pipe) read() {
	parser := wire.LineParser{Budget: p.opts.Budget}
	buf := make([]byte, pipeBuffer)
	var at time.Time
	take := func(l wire.Line) { p.router.route(l, at) }
	for {
		n, err := p.out.Read(buf)
		at = time.Now()
		parser.Feed(buf[:n], take)
		if err != nil {
			break
		}
	}
	parser.End(take)
	_ = p.out.Close() // everything was read
	p.cause = p.ending()
	close(p.over) // first, because End of an exchange may ask for the cause
	p.router.finish(p.cause)
	close(p.gone)
}

// ending returns why the output has ended.
func (p *Pipe) ending() error {
	how := "it closed its standard output"
	select {
	case <-p.exited:
		how = p.cmd.ProcessState.String()
	case <-time.After(exitGrace):
	}
	if p.closing.Load() {
		return fmt.Errorf("%s: closed", p.opts.Command[0])
	}
	text := "the server " + p.opts.Command[0] + " ended: " + how
	if last := errtext.Line(p.log.LastLine()); last != "" {
		text += ": " + last
	}
	return errors.New(text)
}

// write writes the queued lines, several at once if there are.
func (p *Pipe) write() {
	var buf []byte
	broken := false
	for {
		var line []byte
		select {
		case line = <-p.queue:
		case <-p.gone:
			_ = p.stdin.Close()
			return
		case <-p.quit:
			select {
			case line = <-p.queue: // it was queued before
			default:
				_ = p.stdin.Close() // makes the server end
				return
			}
		}
		buf = append(append(buf[:0], line...), '\n')
		for more := true; more && len(buf) < pipeWrite; {
			select {
			case line = <-p.queue:
				buf = append(append(buf, line...), '\n')
			default:
				more = false
			}
		}
		if broken {
			continue // the server reads no more, but may still write
		}
		n, err := p.stdin.Write(buf)
		p.up.Add(int64(n))
		broken = err != nil
	}
}

// Send queues a line, without its line end, for the server. It takes ownership of line,
// and counts it in traffic, if that is not nil.
func (p *Pipe) Send(ctx context.Context, line []byte, traffic *wire.Traffic) *CallError {
	select {
	case p.queue <- line:
		if traffic != nil {
			traffic.CountUp(len(line) + 1)
		}
		return nil
	case <-p.gone:
		return &CallError{Kind: KindEnded, Cause: p.cause}
	case <-ctx.Done():
		return TransportError(ctx, ctx.Err())
	}
}

// Listen opens an exchange without an id, for notifications that name no subscription
// and no request. began, if not nil, is called before x takes the first one.
func (p *Pipe) Listen(x *Exchange, began func()) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	err := p.router.listen(x)
	if err == nil && began != nil {
		began()
	}
	return err
}

// Hold adds a user to the named object, such as a subscription to a resource, of the
// session that all lanes share.
func (p *Pipe) Hold(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held == nil {
		p.held = map[string]int{}
	}
	p.held[name]++
}

// Release undoes one Hold. It reports whether that was the last: the object then has no
// users.
func (p *Pipe) Release(name string) (last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held[name]--; p.held[name] > 0 {
		return false
	}
	delete(p.held, name)
	return true
}

// respond answers a request of the server: a ping with a result, and anything else with
// the error that there is no such method.
func (p *Pipe) respond(m *wire.Message) {
	if len(m.ID) > MaxReplyID {
		return
	}
	select {
	case p.queue <- ReplyTo(m):
	default: // the server does not read the answers to its requests
	}
}

// close ends the server: it closes its standard input, then asks it to terminate, then
// kills it. It waits for every goroutine.
func (p *Pipe) close() {
	if p.closing.Swap(true) {
		return
	}
	p.starts.Do(func() { p.failed = os.ErrClosed })
	if p.cmd == nil {
		return
	}
	close(p.quit)
	for i, grace := range p.graces {
		t := time.NewTimer(grace)
		select {
		case <-p.exited:
		case <-t.C:
			signalGroup(p.cmd, i == 1)
		}
		t.Stop()
	}
	<-p.exited
	p.work.Wait()
}
