package run

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/exectest"
	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/internal/runtest"
	"github.com/eventmeter/eventmeter/internal/witness"
	"github.com/eventmeter/eventmeter/results"
)

func init() {
	roles["fork"], roles["worker"], roles["pass"] = fork, worker, handOver
}

// listening prints the address of a new listener.
func listening() (*net.TCPListener, *os.File) {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		panic(err)
	}
	f, err := l.File()
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr())
	return l, f
}

// fork listens and leaves the work to two children that accept on its socket.
func fork() {
	_, f := listening()
	for range 2 {
		c := exectest.Command(os.Args[0], os.Args[1:]...)
		c.Env, c.ExtraFiles, c.Stderr = append(os.Environ(), asRole+"=worker"), []*os.File{f}, os.Stderr
		if err := c.Start(); err != nil {
			panic(err)
		}
	}
	select {}
}

// worker serves what its parent listens for: it passes it on to another server.
func worker() {
	l, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		panic(err)
	}
	panic(http.Serve(l, through(os.Args[1])))
}

func through(to string) http.Handler {
	u, err := url.Parse(to)
	if err != nil {
		panic(err)
	}
	u.Path = ""
	p := httputil.NewSingleHostReverseProxy(u)
	p.FlushInterval = -1
	return p
}

// handOver listens and hands each connection to a process that it did not start.
func handOver() {
	l, _ := listening()
	to, err := net.Dial("unix", os.Args[1])
	if err != nil {
		panic(err)
	}
	for {
		c, err := l.AcceptTCP()
		if err != nil {
			panic(err)
		}
		f, err := c.File()
		if err != nil {
			panic(err)
		}
		if _, _, err := to.(*net.UnixConn).WriteMsgUnix([]byte{0}, syscall.UnixRights(int(f.Fd())), nil); err != nil {
			return // the test is over
		}
		f.Close()
		c.Close()
	}
}

// passed is the listener of the connections that another process accepted.
type passed struct {
	*net.UnixListener
	from *net.UnixConn
}

func (p *passed) Accept() (_ net.Conn, err error) {
	if p.from == nil {
		if p.from, err = p.AcceptUnix(); err != nil {
			return nil, err
		}
	}
	rights := make([]byte, 64)
	_, n, _, _, err := p.from.ReadMsgUnix(make([]byte, 1), rights)
	if err != nil {
		return nil, err
	}
	all, err := syscall.ParseSocketControlMessage(rights[:n])
	if err != nil || len(all) == 0 {
		return nil, net.ErrClosed
	}
	fds, err := syscall.ParseUnixRights(&all[0])
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fds[0]), "connection")
	defer f.Close()
	return net.FileConn(f)
}

// front starts the test binary as a server in front of another, and returns its URL.
func front(t *testing.T, role, arg string) (string, *exec.Cmd) {
	t.Helper()
	c := exectest.CommandContext(t.Context(), os.Args[0], arg)
	c.Env, c.Stderr = append(os.Environ(), asRole+"="+role), os.Stderr
	out, err := c.StdoutPipe()
	must(t, err)
	must(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	return "http://" + strings.TrimSpace(address) + "/mcp", c
}

// behind is a run whose load takes a server much more CPU time than the witness cannot see.
func behind(t *testing.T, url string, target *refserver.Server) Options {
	return Options{Profile: parseProfile(t, `name: test
target: {url: "`+url+`"}
lanes: [{name: push, mode: push, subscriptions: 40, event: chat.message}]
upstream: {kind: inject, admin: "`+target.AdminURL()+`", payload: {text: "{{.Probe}}"}}
schedule: {rate: 150/s}
phases: {warmup: 100ms, measure: 2s, drain: 10s}
`)}
}

// TestTargetIsATree: the processes that do the work of the one that listens are part of the
// target.
func TestTargetIsATree(t *testing.T) {
	target := runtest.StartTarget(t, refserver.Options{})
	url, c := front(t, "fork", target.URL())
	o := behind(t, url, target)
	var cpu time.Duration
	var memory int64
	o.Beside = func(ctx context.Context, _ Beside) {
		before, _, err := witness.Tree(c.Process.Pid)
		if err != nil {
			t.Error(err)
		}
		<-ctx.Done()
		if cpu, memory, err = witness.Tree(c.Process.Pid); err != nil {
			t.Error(err)
		}
		cpu -= before
	}
	r := runs(t, o).Result
	p := r.Target.Process
	if p == nil {
		t.Fatalf("the target's process is not known: %+v", r.Warnings)
	}
	// The witness counts ticks of four processes and children, and not the drain.
	if used := p.CPU.Duration(); used < cpu*3/4-40*time.Millisecond || used > cpu*5/4+80*time.Millisecond {
		t.Errorf("the run says %v, the witness %v", used, cpu)
	}
	if p.Memory < memory/2 || p.Memory > 2*memory {
		t.Errorf("the run says %d bytes, the witness %d", p.Memory, memory)
	}
	if cpu < 100*time.Millisecond {
		t.Errorf("the workers used %v, which is too little to tell them from nothing", cpu)
	}
}

// TestIdleListener: where the process that listens idles while events are delivered, another
// does its work, and what the target uses is not known.
func TestIdleListener(t *testing.T) {
	target := runtest.StartTarget(t, refserver.Options{})
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: t.TempDir() + "/s"})
	must(t, err)
	in := &passed{UnixListener: l}
	server := &http.Server{Handler: through(target.URL())}
	go func() { _ = server.Serve(in) }()
	t.Cleanup(func() { _ = server.Close() })
	url, _ := front(t, "pass", l.Addr().String())
	r := runs(t, behind(t, url, target)).Result
	if p := r.Target.Process; p != nil {
		t.Errorf("the target used %+v", p)
	}
	if !warned(r, results.TargetIdle, "--target-metrics") {
		t.Errorf("%+v", r.Warnings)
	}
	for name, g := range r.Target.Leak {
		if g.Verdict != results.LeakUnknown {
			t.Errorf("%s: %+v", name, g)
		}
	}
}
