package selfbench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/process"

	"github.com/eventmeter/eventmeter/internal/cputime"
)

// plan is one measurement: pairs of a client and a target, each in a process of
// its own, that run through their phases together.
type plan struct {
	Name   string // of the client, in tables
	Target string // a role
	Client spec   // without URL and Inject
	Pairs  int    // 0 = 1; each has Client.Streams
	// TargetCPUs is the number of processors that the target may use; 0 = all.
	TargetCPUs int
	// Profiles is the prefix of the names of CPU profiles; "" = none.
	Profiles string
}

// pair is a client and its target.
type pair struct {
	target, client *child
	out            *outcome
	served         *served
	used           targetUse
	profile        string
}

// targetUse is what targets use themselves.
type targetUse struct {
	Opening time.Duration // CPU time while streams are opened
	Paced   time.Duration // CPU time of the paced phase
	Memory  int64         // growth of resident bytes until every stream got one event
	began   int64
}

func (u *targetUse) add(v targetUse) {
	u.Opening += v.Opening
	u.Paced += v.Paced
	u.Memory += v.Memory
}

// measurePlan runs one measurement.
func measurePlan(ctx context.Context, self []string, p plan) (*figures, error) {
	began, busy := time.Now(), busyTime()
	own := cputime.Used()
	pairs := make([]*pair, max(p.Pairs, 1))
	for i := range pairs {
		pairs[i] = &pair{}
		if p.Profiles != "" {
			pairs[i].profile = fmt.Sprintf("%s-%d.pprof", p.Profiles, i)
		}
	}
	err := together(pairs, func(t *pair) error { return t.begin(ctx, self, p) })
	for _, step := range []string{"opened", "idle", "paced", "delivered", "done"} {
		if err != nil {
			break
		}
		err = together(pairs, func(t *pair) error { return t.step(step) })
	}
	if err == nil {
		err = together(pairs, (*pair).finish)
	}
	used := cputime.Used() - own
	f := &figures{Others: -1, Took: time.Since(began)}
	for _, t := range pairs {
		used += t.end()
		if t.out != nil && t.served != nil {
			f.Outcomes, f.Targets = append(f.Outcomes, *t.out), append(f.Targets, *t.served)
		}
		f.Target.add(t.used)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	if now := busyTime(); now > 0 {
		f.Others = max(0, (now-busy-used).Seconds()/time.Since(began).Seconds())
	}
	return f, nil
}

// together calls do for all pairs at once.
func together(pairs []*pair, do func(*pair) error) error {
	errs := make([]error, len(pairs))
	var work sync.WaitGroup
	for i, t := range pairs {
		work.Go(func() { errs[i] = do(t) })
	}
	work.Wait()
	return errors.Join(errs...)
}

// begin starts the target, waits until it serves and starts the client.
func (t *pair) begin(ctx context.Context, self []string, p plan) error {
	about := p.Client
	about.Role = p.Target
	var err error
	var env []string
	if p.TargetCPUs > 0 {
		env = []string{fmt.Sprintf("GOMAXPROCS=%d", p.TargetCPUs)}
	}
	if t.target, err = start(ctx, self, about, env...); err != nil {
		return err
	}
	m, err := t.target.await("ready")
	if err != nil {
		return err
	}
	t.used.began = processMemory(t.target.cmd.Process.Pid)
	s := p.Client
	s.URL, s.Inject = m.Serves.HTTP1, m.Serves.Inject
	if s.HTTP == "h2c" {
		s.URL = m.Serves.HTTP2
	}
	s.Profile = t.profile
	t.client, err = start(ctx, self, s)
	return err
}

// step waits until the client has completed a step. The client pauses until the
// next call, so that all pairs complete the step first.
func (t *pair) step(name string) error {
	if name != "opened" {
		if err := t.client.release(); err != nil {
			return err
		}
	}
	pid := t.target.cmd.Process.Pid
	before := processCPU(pid)
	m, err := t.client.await(name)
	if err != nil {
		return err
	}
	switch name {
	case "opened":
		t.used.Opening = processCPU(pid) - before
	case "idle": // every stream got one event
		t.used.Memory = processMemory(pid) - t.used.began
	case "delivered":
		t.used.Paced = processCPU(pid) - before
	}
	t.out = m.Outcome
	return nil
}

// finish gets the report of the target.
func (t *pair) finish() error {
	if err := t.target.release(); err != nil {
		return err
	}
	m, err := t.target.await("done")
	t.served = m.Served
	return err
}

// end ends both processes and returns their CPU time.
func (t *pair) end() (used time.Duration) {
	for _, c := range []*child{t.client, t.target} {
		if c != nil {
			used += c.end()
		}
	}
	return used
}

// measureMicro measures single operations in a process of their own.
func measureMicro(ctx context.Context, self []string, s spec) (*figures, error) {
	began := time.Now()
	c, err := start(ctx, self, s)
	if err != nil {
		return nil, err
	}
	defer c.end()
	m, err := c.await("done")
	if err != nil {
		return nil, err
	}
	return &figures{Micro: *m.Micro, Others: -1, Took: time.Since(began)}, nil
}

// busyTime is the CPU time of all processes of the machine and of its
// hypervisor; 0 = not known.
func busyTime() time.Duration {
	ts, err := cpu.Times(false)
	if err != nil || len(ts) == 0 {
		return 0
	}
	t := ts[0]
	return time.Duration((t.User + t.System + t.Nice + t.Irq + t.Softirq + t.Steal) * float64(time.Second))
}

// processCPU is the CPU time of another process, 0 = not known.
func processCPU(pid int) time.Duration {
	p, err := process.NewProcess(int32(pid))
	if err != nil {
		return 0
	}
	t, err := p.Times()
	if err != nil {
		return 0
	}
	return time.Duration((t.User + t.System) * float64(time.Second))
}

// processMemory is the resident memory of another process in bytes, 0 = not known.
func processMemory(pid int) int64 {
	p, err := process.NewProcess(int32(pid))
	if err != nil {
		return 0
	}
	m, err := p.MemoryInfo()
	if err != nil {
		return 0
	}
	return int64(m.RSS)
}
