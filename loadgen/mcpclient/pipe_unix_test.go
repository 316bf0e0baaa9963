//go:build unix

package mcpclient

import (
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/wire"
)

// shell is a pipe to a script that has said that it is ready.
func shell(t *testing.T, script string) *Pipe {
	t.Helper()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("needs sh")
	}
	p := newPipe(EndpointOptions{Command: []string{sh, "-c", script}}, new(atomic.Uint64))
	p.graces = [2]time.Duration{10 * time.Millisecond, 10 * time.Millisecond}
	ready := make(chan struct{})
	x := &Exchange{End: func(error) {}}
	x.Take = func(time.Time, wire.Line, *wire.Message) {
		x.Closed = true
		close(ready)
	}
	must(t, p.router.listen(x))
	must(t, p.start())
	<-ready
	return p
}

const ready = `echo '{"method":"ready"}'; `

// A server that does not end when its input does, nor when it is asked to, is
// killed, and what it started with it.
func TestPipeEndsAStubbornServer(t *testing.T) {
	p := shell(t, `trap "" TERM; `+ready+`while :; do sleep 60; done`)
	p.close()
	if state := p.cmd.ProcessState.String(); state != "signal: killed" {
		t.Errorf("it ended with %s", state)
	}
	if err := p.Add(1, &Exchange{}); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("%v", err)
	}
}

// A server that is asked may end.
func TestPipeAsksAServerToEnd(t *testing.T) {
	p := shell(t, ready+`while :; do sleep 60; done`)
	p.close()
	if state := p.cmd.ProcessState.String(); state != "signal: terminated" {
		t.Errorf("it ended with %s", state)
	}
}

// A server that is gone is gone, even where a process that it left behind holds
// its output open.
func TestPipeServerLeavesAProcessBehind(t *testing.T) {
	t.Parallel()
	p := shell(t, `sleep 60 & `+ready+`echo oh dear >&2; exit 4`)
	ended := make(chan error, 1)
	if err := p.Add(1, &Exchange{End: func(cause error) { ended <- cause }}); err != nil {
		ended <- err // it was found out already
	}
	if err := <-ended; !strings.Contains(err.Error(), "ended: exit status 4: oh dear") {
		t.Errorf("%v", err)
	}
	p.close()
}
