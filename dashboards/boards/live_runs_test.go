package boards

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/exectest"
)

// command is one eventmeter that runs while Prometheus looks on.
type command struct {
	name string
	args []string
	dir  string // of its result

	cmd    *exec.Cmd
	began  time.Time
	took   time.Duration
	ended  chan error
	output output
	front  *front

	scraping sync.WaitGroup
}

// output keeps what a command says.
type output struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.String()
}

// build builds eventmeter.
func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "eventmeter")
	if err := exectest.Build(program, "github.com/eventmeter/eventmeter/cmd/eventmeter"); err != nil {
		t.Fatal(err)
	}
	return program
}

// start starts the command, whose front follows its metrics from then on.
func (c *command) start(t *testing.T, program string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	args := append(append([]string(nil), c.args...), "--metrics", "127.0.0.1:0", "--metrics-linger", "60s", "--out", c.dir, "--quiet")
	c.cmd = exectest.CommandContext(ctx, program, args...)
	c.cmd.Dir = filepath.Dir(c.dir)
	c.cmd.Stdout = &c.output
	said, err := c.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.began = time.Now()
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	address := make(chan string, 1)
	c.ended = make(chan error, 1)
	go func() {
		defer cancel()
		for s := bufio.NewScanner(said); s.Scan(); {
			_, _ = io.WriteString(&c.output, s.Text()+"\n")
			if at, ok := strings.CutPrefix(s.Text(), "metrics at "); ok {
				address <- at
			}
		}
		c.ended <- c.cmd.Wait()
		close(c.ended)
	}()
	t.Cleanup(func() {
		cancel()
		for range c.ended {
		}
		c.scraping.Wait()
	})
	select {
	case at := <-address:
		c.scraping.Go(func() { c.front.follow(t.Context(), at) })
	case err := <-c.ended:
		t.Fatalf("%s ended: %v\n%s", c.name, err, &c.output)
	}
}

// wait waits for the command's end. It may end with a verdict that this test
// does not care for: a machine that is busy with other tests is a bottleneck.
func (c *command) wait(t *testing.T) {
	t.Helper()
	err := <-c.ended
	c.took = time.Since(c.began).Round(time.Millisecond)
	t.Logf("%s took %v", c.name, c.took)
	c.scraping.Wait()
	var exit *exec.ExitError
	if err == nil || errors.As(err, &exit) && (exit.ExitCode() == exitBottleneck || exit.ExitCode() == exitThreshold) {
		return
	}
	t.Fatalf("%s: %v\n%s", c.name, err, &c.output)
}

// The exit codes of eventmeter that are verdicts.
const (
	exitBottleneck = 4
	exitThreshold  = 99
)
