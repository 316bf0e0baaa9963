// Package shard splits a run among processes, and merges the archives of its shards.
package shard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/embedded"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/metrics"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/internal/stderrtail"
	"github.com/eventmeter/eventmeter/results"
)

// Processes splits a run among processes of this machine, to avoid the limits of a
// single process: open files, the ports of a source address, and contention between
// processors.
type Processes struct {
	run.Options
	// Count is the number of processes, at least 2.
	Count int
	// Dir holds the archives of the shards, each in a directory named by its index.
	Dir string
	// Command returns the command that starts this program as a shard, which must
	// call [Serve]. index only identifies the process to people.
	Command func(index int) *exec.Cmd
}

// leadTime is how long before the common start the shards receive the order.
const leadTime = 400 * time.Millisecond

// endTime is how long shards may take to write their archives and end after the order
// to end.
const endTime = 20 * time.Second

// Run starts the processes, makes them begin together, waits for them, and merges
// their archives. If a process dies, only its measurements are lost: the outcome of
// the others is then partial, and the error says why. Errors are those of [run.Run].
func (p Processes) Run(ctx context.Context) (*run.Outcome, error) {
	secrets := run.SecretsOf(p.Profile)
	out, err := p.doRun(ctx, secrets)
	return out, secrets.ScrubError(err)
}

func (p Processes) doRun(ctx context.Context, secrets *errtext.Secrets) (*run.Outcome, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	c := &parent{Processes: p, news: make(chan news), run: run.NewID(), live: make([]*run.Progress, p.Count)}
	c.follow()
	defer c.close()
	if err := c.start(); err != nil {
		c.shown.finish(nil)
		return nil, err
	}
	err := c.conduct(ctx)
	var dirs []string
	for i := range c.children {
		dir := p.dir(i)
		_, partErr := os.Stat(filepath.Join(dir, results.PartFile))
		_, resultErr := os.Stat(filepath.Join(dir, results.File))
		if partErr == nil && resultErr == nil {
			dirs = append(dirs, dir)
		}
	}
	if len(dirs) == 0 {
		c.shown.finish(nil)
		return nil, err
	}
	m, mergeErr := mergeDirs(dirs)
	if mergeErr != nil {
		c.shown.finish(nil)
		return nil, errors.Join(err, mergeErr)
	}
	if err != nil && !m.Result.Partial {
		// Every shard was complete on its own; only the parent knows of this failure.
		m.Result.Partial, m.Result.Reason = true, err.Error()
	}
	secrets.ScrubAll(m.Result) // the reason may say what a shard wrote on standard error
	c.shown.finish(m)
	return m.outcome(), err
}

func (p *Processes) dir(index int) string {
	return filepath.Join(p.Dir, fmt.Sprintf("shard-%d", index))
}

// check refuses in this process, before any starts, what every shard would refuse.
func (p *Processes) check() error {
	o := p.Options
	o.Shard = &run.Shard{
		Count:   p.Count,
		Barrier: run.StartAt(time.Time{}),
		Target:  func(context.Context, []byte) (run.Shared, error) { return run.Shared{}, nil },
	}
	return run.Check(context.Background(), o)
}

// start starts all children and sends each its job.
func (c *parent) start() error {
	profile, err := c.Profile.YAML()
	if err != nil {
		return fmt.Errorf("hand the profile to the shards: %w", err)
	}
	for i := range c.Count {
		s := &shardProcess{index: i, cmd: c.Command(i), log: &stderrtail.Writer{}}
		s.cmd.Stderr = s.log
		embedded.Detach(s.cmd)
		out, err := s.cmd.StdoutPipe()
		if err == nil {
			s.in, err = s.cmd.StdinPipe()
		}
		if err == nil {
			err = s.cmd.Start()
		}
		if err != nil {
			return fmt.Errorf("start shard %d: %w", i, err)
		}
		c.children = append(c.children, s)
		c.readers.Go(func() {
			defer crash.Guard()
			c.receive(s, out)
		})
		s.send(order{Job: &job{
			Profile: string(
				profile,
			),
			AllowHosts: c.AllowHosts,
			Version:    c.Version,
			Name:       c.Name,
			Index:      i,
			Count:      c.Count,
			Run:        c.run,
			Dir:        c.Processes.dir(i),
			Looks:      c.shown != nil,
		}})
	}
	return nil
}

// receive passes on the messages of a child until the child has ended.
func (c *parent) receive(s *shardProcess, out io.Reader) {
	dec := json.NewDecoder(out)
	for {
		var line reply
		if dec.Decode(&line) != nil {
			break
		}
		c.news <- news{from: s, line: line}
	}
	_, _ = io.Copy(io.Discard, out)
	err := s.cmd.Wait()
	c.news <- news{from: s, ended: true, err: err}
}

// conduct follows the run to its end, and returns why it was not complete.
func (c *parent) conduct(ctx context.Context) error {
	stop := c.Stop
	ends := ctx.Done()
	var gone <-chan struct{}
	var patience <-chan time.Time
	alive := len(c.children)
	for alive > 0 {
		select {
		case <-stop:
			stop = nil
			c.fail(run.ErrStopped)
			c.sendAll(order{Stop: true})
		case <-ends:
			ends = nil
			c.fail(context.Cause(ctx))
			c.sendAll(order{Cancel: true})
			patience = time.After(endTime)
		case <-gone:
			gone = nil
			c.fail(fmt.Errorf("%w: the embedded target ended: %w", run.ErrTarget, c.target.Err()))
			c.sendAll(order{Stop: true})
		case <-patience:
			for _, s := range c.children {
				_ = s.cmd.Process.Kill() // it may have ended just now
			}
		case n := <-c.news:
			if n.ended {
				alive--
				c.ended(n)
			} else if err := c.act(ctx, n); err != nil {
				c.fail(err)
				c.sendAll(order{Stop: true})
			}
			if c.target != nil && gone == nil && c.failed == nil {
				gone = c.target.Exited()
			}
		}
	}
	return c.failed
}

// fail keeps the first error.
func (c *parent) fail(err error) {
	if c.failed == nil {
		c.failed = err
	}
}

func (c *parent) sendAll(o order) {
	for _, s := range c.children {
		s.send(o)
	}
}

// act handles a message.
func (c *parent) act(ctx context.Context, n news) error {
	s := n.from
	switch {
	case n.line.Hello != nil:
		s.hello, s.callers = true, n.line.Hello.Callbacks
		if c.all(func(s *shardProcess) bool { return s.hello }) {
			opening, opened, release := run.UntilStop(ctx, c.Stop)
			defer release()
			err := c.share(opening)
			if stopped := opened(); stopped && err != nil {
				return run.ErrStopped
			}
			return err
		}
	case n.line.Ready != nil:
		s.ready = *n.line.Ready + 1
		c.begin()
	case n.line.Progress != nil:
		c.live[s.index] = n.line.Progress
		if c.Progress != nil {
			c.Progress(seenTogether(c.live))
		}
	case n.line.Looks != nil:
		c.shown.add(s.index, n.line.Looks)
	case n.line.Done != nil:
		s.done = true
		if err := n.line.Done.err(); err != nil {
			if errors.Is(err, run.ErrStopped) && c.failed != nil {
				return nil // as ordered
			}
			if c.begun > 0 {
				c.fail(fmt.Errorf("shard %d: %w", s.index, err))
				c.begin()
				return nil // the others go on
			}
			return fmt.Errorf("shard %d: %w", s.index, err)
		}
	}
	return nil
}

func (c *parent) all(ok func(*shardProcess) bool) bool {
	return !slices.ContainsFunc(c.children, func(s *shardProcess) bool { return !ok(s) })
}

// ended handles the end of a child. A child that ends before it reported that it was
// done has died, and its measurements are lost. If nothing was published yet the run
// ends, else the others continue.
func (c *parent) ended(n news) {
	s := n.from
	_ = s.in.Close()
	c.shown.down(s.index)
	if s.done {
		return
	}
	c.fail(fmt.Errorf("shard %d died: %s", s.index, s.log.How(n.err)))
	s.done = true
	if c.begun == 0 {
		c.sendAll(order{Stop: true})
		return
	}
	c.begin()
}

// begin starts a pass in all shards, once every remaining shard is ready for it.
func (c *parent) begin() {
	left := 0
	for _, s := range c.children {
		if s.done {
			continue
		}
		if left++; s.ready <= c.begun {
			return
		}
	}
	if left == 0 || c.failed != nil && c.begun == 0 {
		return
	}
	c.begun++
	at := time.Now().Add(leadTime)
	c.sendAll(order{Begin: &at})
}

// close ends the remaining processes.
func (c *parent) close() {
	for _, s := range c.children {
		_ = s.in.Close() // ends a shard at once
	}
	done := make(chan struct{})
	go func() {
		defer crash.Guard()
		defer close(done)
		c.readers.Wait()
	}()
	kill := time.NewTimer(endTime)
	defer kill.Stop()
	for waiting := true; waiting; {
		select {
		case <-c.news:
		case <-kill.C:
			for _, s := range c.children {
				_ = s.cmd.Process.Kill()
			}
		case <-done:
			waiting = false
		}
	}
	if c.target != nil {
		c.target.Stop()
	}
	c.dir.Remove()
}

// seenTogether merges the snapshots of shards: counts are added, and latencies are
// those of the shard with the highest.
func seenTogether(parts []*run.Progress) run.Progress {
	var out run.Progress
	for _, p := range parts {
		if p == nil {
			continue
		}
		if out.Phase == "" {
			out = *p
			out.Live.Lanes = slices.Clone(p.Live.Lanes)
			continue
		}
		out.Live.Add(&p.Live)
		out.Trouble = cmp.Or(out.Trouble, p.Trouble)
	}
	return out
}

// follow shows the run's metrics if there is a collector.
func (c *parent) follow() {
	name := run.Name(c.run, nil)
	followed := c.Collector.Begin(metrics.Run{
		ID:       name,
		Name:     c.Name,
		Profile:  c.Profile.Name,
		Version:  c.Version,
		Upstream: c.Profile.Upstream.Kind,
		Schedule: c.Profile.Schedule.Kind,
		Fleet:    name,
		Started:  time.Now(),
	})
	if followed == nil {
		return
	}
	t := &shownTogether{followed: followed, looks: make([][]metrics.Look, c.Count), up: make([]bool, c.Count)}
	c.shown = t
	followed.Shards(t.shards)
}
