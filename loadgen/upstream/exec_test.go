package upstream_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/upstream"
	"go.uber.org/goleak"
)

var (
	_ upstream.Upstream = (*upstream.Exec)(nil)
	_ upstream.Preparer = (*upstream.Exec)(nil)
	_ upstream.Ender    = (*upstream.Exec)(nil)
)

// asProgram makes the test binary a program that reads lines.
const asProgram = "EVENTMETER_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if how := os.Getenv(asProgram); how != "" {
		program(how)
		return
	}
	goleak.VerifyTestMain(m)
}

// program does with each line what how says.
func program(how string) {
	file := os.Getenv("EVENTMETER_TEST_FILE")
	lines := bufio.NewScanner(os.Stdin)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		stamp, _ := eventmeter.FindStamp([]byte(line))
		switch how {
		case "keep":
			f, _ := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			fmt.Fprintln(f, line)
			f.Close()
		case "ack":
			fmt.Println("about to work on it")
			switch n % 3 {
			case 1:
				fmt.Println("done:", stamp)
			case 2:
				fmt.Printf("{\"probe\":%q,\"ok\":false}\n", stamp)
			case 0:
				fmt.Printf("{\"probe\":%q,\"ok\":true,\"error\":null}\n", stamp)
			}
		case "silent":
		case "die":
			fmt.Fprintln(os.Stderr, "something came up")
			os.Exit(3)
		case "last words":
			fmt.Println(stamp)
			os.Exit(0)
		}
	}
	if how == "keep" {
		f, _ := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0o600)
		fmt.Fprintln(f, "the end of the input")
		f.Close()
	}
	if how == "stay" {
		_, _ = io.Copy(io.Discard, os.Stdin)
		select {}
	}
}

func newExec(t *testing.T, how string, o upstream.ExecOptions) *upstream.Exec {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	o.Command = []string{self}
	o.Env = append(o.Env, asProgram+"="+how)
	o.Line = payload
	e, err := upstream.NewExec(o)
	must(t, err)
	must(t, e.Prepare(context.Background()))
	return e
}

func TestExecWritesLines(t *testing.T) {
	file := t.TempDir() + "/lines"
	e := newExec(t, "keep", upstream.ExecOptions{Env: []string{"EVENTMETER_TEST_FILE=" + file}})
	var wg sync.WaitGroup
	for seq := range uint32(20) {
		wg.Go(func() {
			if got := e.Fire(context.Background(), emissionOf(seq+1, true)); got != eventmeter.Accepted {
				t.Errorf("event %d: %v", seq+1, got)
			}
		})
	}
	wg.Wait()
	if err := e.Ended(); err != nil {
		t.Error(err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(file)
	must(t, err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	seen := map[uint32]bool{}
	for _, l := range lines[:len(lines)-1] {
		stamp, ok := eventmeter.FindStamp([]byte(l))
		if !ok || l != string(payload(nil, 0, stamp.Seq, stamp.String())) {
			t.Errorf("line %q", l)
		}
		seen[stamp.Seq] = true
	}
	if len(seen) != 20 || lines[len(lines)-1] != "the end of the input" {
		t.Errorf("%d lines, last %q", len(seen), lines[len(lines)-1])
	}
}

func TestExecAcknowledged(t *testing.T) {
	e := newExec(t, "ack", upstream.ExecOptions{Ack: true, Timeout: time.Minute})
	want := []eventmeter.Outcome{eventmeter.Accepted, eventmeter.Refused, eventmeter.Accepted}
	for i := range 9 {
		if got := e.Fire(context.Background(), emissionOf(uint32(i+1), true)); got != want[i%3] {
			t.Errorf("event %d: %v, want %v", i+1, got, want[i%3])
		}
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

func TestExecWithoutAnswer(t *testing.T) {
	e := newExec(t, "silent", upstream.ExecOptions{Ack: true, Timeout: 50 * time.Millisecond})
	if got := e.Fire(context.Background(), emissionOf(1, true)); got != eventmeter.Uncertain {
		t.Errorf("no acknowledgement: %v", got)
	}
	_ = e.Close()
}

func TestExecThatEnds(t *testing.T) {
	e := newExec(t, "die", upstream.ExecOptions{Ack: true, Timeout: time.Minute})
	if got := e.Fire(context.Background(), emissionOf(1, true)); got != eventmeter.Uncertain {
		t.Errorf("the event at which it ended: %v", got)
	}
	if got := e.Fire(context.Background(), emissionOf(2, true)); got != eventmeter.Refused {
		t.Errorf("after its end: %v", got)
	}
	if err := e.Ended(); err == nil || !strings.Contains(err.Error(), "exit status 3: something came up") {
		t.Errorf("ended: %v", err)
	}
	_ = e.Close()

	e = newExec(t, "last words", upstream.ExecOptions{Ack: true, Timeout: time.Minute})
	if got := e.Fire(context.Background(), emissionOf(1, true)); got != eventmeter.Accepted {
		t.Errorf("acknowledged with its last words: %v", got)
	}
	_ = e.Close()
}

func TestExecThatCannotStart(t *testing.T) {
	e, err := upstream.NewExec(upstream.ExecOptions{Command: []string{"/nonexistent/program"}, Line: payload})
	must(t, err)
	if err := e.Prepare(context.Background()); err == nil || !strings.Contains(err.Error(), "is upstream.exec.command right?") {
		t.Error(err)
	}
	if got := e.Fire(context.Background(), emission); got != eventmeter.Refused {
		t.Errorf("%v", got)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	for _, o := range []upstream.ExecOptions{{}, {Command: []string{""}, Line: payload}, {Command: []string{"x"}}} {
		if _, err := upstream.NewExec(o); err == nil {
			t.Errorf("%+v", o)
		}
	}
}
