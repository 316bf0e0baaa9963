package upstream

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/stderrtail"
)

// ExecOptions describe an [Exec].
type ExecOptions struct {
	// Command is the program and its arguments. It is not run by a shell. Required.
	Command []string
	// Line is an emission's line. Exec adds the line break. Required.
	Line Payload
	// Ack makes an emission wait until the program has written a line with the
	// emission's probe to its standard output. The emission is Refused if the line is
	// a JSON object with "ok": false or with an "error", and Accepted otherwise.
	// Without Ack, an emission is Accepted when its line was written, and the
	// program's output is discarded.
	Ack bool
	// Env are variables (NAME=value) that the program gets in addition to those of
	// this process.
	Env []string
	// Timeout of one emission; 0 means [DefaultTimeout].
	Timeout time.Duration
}

// Exec publishes by writing a line of JSON to the standard input of a user's program,
// which causes the event.
//
// An emission is Refused if no byte of its line was written, as after the end of the
// program. It is Uncertain if its line was written, or part of it, and the program did
// not acknowledge it in time or before its end.
type Exec struct {
	failures
	o     ExecOptions
	cmd   *exec.Cmd
	stdin io.WriteCloser
	log   stderrtail.Writer
	jobs  chan *execJob
	quit  chan struct{} // closed by Close
	ended chan struct{} // closed when the program is over and its output read
	over  error         // how it ended; set before ended is closed
	wg    sync.WaitGroup

	mu   sync.Mutex
	acks map[eventmeter.Stamp]chan fired
}

// fired is what became of an emission.
type fired struct {
	outcome eventmeter.Outcome
	why     string // it was not accepted
}

// execJob is a line to be written.
type execJob struct {
	line  []byte
	wrote chan fired // holds one
}

// NewExec checks the options. The program is started by Prepare.
func NewExec(o ExecOptions) (*Exec, error) {
	if len(o.Command) == 0 || o.Command[0] == "" || o.Line == nil {
		return nil, errors.New("upstream exec: Command and Line must be given")
	}
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	return &Exec{
		o: o, jobs: make(chan *execJob), quit: make(chan struct{}), ended: make(chan struct{}),
		acks: map[eventmeter.Stamp]chan fired{},
	}, nil
}

// Prepare implements [Preparer]: it starts the program.
func (e *Exec) Prepare(context.Context) error {
	cmd := exec.Command(e.o.Command[0], e.o.Command[1:]...)
	ownGroup(cmd)
	cmd.Env = append(os.Environ(), e.o.Env...)
	cmd.Stderr = &e.log
	cmd.WaitDelay = closeTimeout
	var err error
	if e.stdin, err = cmd.StdinPipe(); err != nil {
		return fmt.Errorf("upstream exec: %w", err)
	}
	var out io.ReadCloser
	if e.o.Ack {
		if out, err = cmd.StdoutPipe(); err != nil {
			return fmt.Errorf("upstream exec: %w", err)
		}
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("upstream exec: start %s: %w; is upstream.exec.command right?", e.o.Command[0], err)
	}
	e.cmd = cmd
	e.wg.Go(func() {
		defer crash.Guard()
		defer close(e.ended)
		if out != nil {
			e.read(out)
		}
		e.over = cmd.Wait()
	})
	e.wg.Go(crash.Guarded(e.write))
	return nil
}

// write writes the lines, one at a time.
func (e *Exec) write() {
	for {
		select {
		case job := <-e.jobs:
			n, err := e.stdin.Write(job.line)
			switch {
			case err == nil:
				job.wrote <- fired{outcome: eventmeter.Accepted}
			case n == 0:
				job.wrote <- e.because(eventmeter.Refused, "%s: %v", err)
			default:
				job.wrote <- e.because(eventmeter.Uncertain, "%s: %v", err)
			}
		case <-e.ended:
			return
		case <-e.quit:
			return
		}
	}
}

// read reads acknowledgements until the program closes its output.
func (e *Exec) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		stamp, ok := eventmeter.FindStamp(lines.Bytes())
		if !ok {
			continue // a program may write other lines, too
		}
		e.mu.Lock()
		ack := e.acks[stamp]
		delete(e.acks, stamp)
		e.mu.Unlock()
		if ack != nil {
			ack <- e.readAck(lines.Bytes())
		}
	}
	// A line that is too long ends the scan; the program must not block on it.
	_, _ = io.Copy(io.Discard, out)
}

// readAck reads an acknowledgement.
func (e *Exec) readAck(line []byte) fired {
	var answer struct {
		OK    *bool           `json:"ok"`
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(line, &answer) == nil {
		no := answer.OK != nil && !*answer.OK
		if no || len(answer.Error) > 0 && !bytes.Equal(answer.Error, []byte("null")) {
			return e.because(eventmeter.Refused, "%s said %s", errtext.FirstLine(line))
		}
	}
	return fired{outcome: eventmeter.Accepted}
}

// Fire implements [Upstream].
func (e *Exec) Fire(ctx context.Context, emission Emission) eventmeter.Outcome {
	if e.cmd == nil {
		return eventmeter.Refused
	}
	ctx, cancel := context.WithTimeout(ctx, e.o.Timeout)
	defer cancel()
	f := e.fire(ctx, emission)
	if f.why != "" {
		e.failed("%s", f.why)
	}
	return f.outcome
}

// because says why an emission was not accepted. The first argument of the format is the program.
func (e *Exec) because(outcome eventmeter.Outcome, format string, what any) fired {
	return fired{outcome, fmt.Sprintf(format, e.o.Command[0], what)}
}

func (e *Exec) fire(ctx context.Context, emission Emission) fired {
	line := e.o.Line.append(make([]byte, 0, 256), emission)
	job := &execJob{line: append(line, '\n'), wrote: make(chan fired, 1)}
	var ack chan fired
	if e.o.Ack {
		ack = make(chan fired, 1)
		e.expect(emission.Stamp, ack)
		defer e.expect(emission.Stamp, nil)
	}
	select {
	case e.jobs <- job:
	case <-e.ended:
		return fired{eventmeter.Refused, e.Ended().Error()}
	case <-ctx.Done(): // nothing was written
		return e.because(eventmeter.Refused, "%s did not read its line within %v", e.o.Timeout)
	}
	select {
	case w := <-job.wrote:
		if ack == nil || w.outcome != eventmeter.Accepted {
			return w
		}
	case <-ctx.Done():
		return e.because(eventmeter.Uncertain, "%s did not read its line within %v", e.o.Timeout)
	}
	select {
	case a := <-ack:
		return a
	case <-ctx.Done():
		return e.because(eventmeter.Uncertain, "%s did not acknowledge its line within %v", e.o.Timeout)
	case <-e.ended:
		select { // it may have acknowledged just before its end
		case a := <-ack:
			return a
		default:
			return fired{eventmeter.Uncertain, e.Ended().Error()}
		}
	}
}

// expect sets the channel for the acknowledgement of an emission; nil removes it.
func (e *Exec) expect(stamp eventmeter.Stamp, ack chan fired) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if ack == nil {
		delete(e.acks, stamp)
		return
	}
	e.acks[stamp] = ack
}

// Content implements [Recorded].
func (e *Exec) Content(emission Emission) (string, []byte) {
	return "", e.o.Line.append(nil, emission)
}

// Ended implements [Ender].
func (e *Exec) Ended() error {
	select {
	case <-e.ended:
	default:
		return nil
	}
	return fmt.Errorf("%s ended: %s", e.o.Command[0], e.log.How(e.over))
}

// closeTimeout is how long a program may take to end after its input was closed.
const closeTimeout = 5 * time.Second

// Close implements [Upstream]: it closes the program's standard input, waits for the
// program to end, and kills it after five seconds.
func (e *Exec) Close() error {
	if e.cmd == nil {
		return nil
	}
	close(e.quit)
	_ = e.stdin.Close() // it may have been closed by the program's end
	select {
	case <-e.ended:
	case <-time.After(closeTimeout):
		_ = e.cmd.Process.Kill() // it may have ended by now
	}
	e.wg.Wait()
	return nil
}
