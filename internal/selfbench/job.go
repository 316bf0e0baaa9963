package selfbench

import (
	"github.com/eventmeter/eventmeter/internal/cputime"

	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/process"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/sinks"
)

// plan is one measurement: pairs of a client and a target, each in a process
// of its own, that go through their phases together.
type plan struct {
	Name   string // of the client, in tables
	Target string // a role
	Client spec   // URL and Inject are filled in
	Pairs  int    // 0 = 1; each has Client.Streams
	// TargetCPUs is how many processors the target may use at once; 0 = all.
	TargetCPUs int
	// Profiles is what the names of CPU profiles begin with; "" = none.
	Profiles string
}

// figures are what came of one measurement.
type figures struct {
	Outcomes []outcome `json:"outcomes"`
	Targets  []served  `json:"targets"`
	// Others is how many processors were used by processes that are no part of
	// the measurement, -1 = not known.
	Others float64       `json:"others"`
	Took   time.Duration `json:"took"`
	// TargetOpening is the target's CPU time while streams were opened.
	TargetOpening time.Duration `json:"targetOpening"`
	Micro         *micro        `json:"micro,omitempty"`
}

// pair is a client and its target.
type pair struct {
	target, client *child
	out            *outcome
	served         *served
	opening        time.Duration
	profile        string
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
	for _, step := range []string{"opened", "idle", "paced", "done"} {
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
		f.TargetOpening += t.opening
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	if now := busyTime(); now > 0 {
		f.Others = max(0, (now-busy-used).Seconds()/time.Since(began).Seconds())
	}
	return f, nil
}

// together does something with all pairs at once.
func together(pairs []*pair, do func(*pair) error) error {
	errs := make([]error, len(pairs))
	var work sync.WaitGroup
	for i, t := range pairs {
		work.Go(func() { errs[i] = do(t) })
	}
	work.Wait()
	return errors.Join(errs...)
}

// begin starts the target and, when it serves, the client.
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
	s := p.Client
	s.URL, s.Inject = m.Serves.HTTP1, m.Serves.Inject
	if s.HTTP == "h2c" {
		s.URL = m.Serves.HTTP2
	}
	s.Profile = t.profile
	t.client, err = start(ctx, self, s)
	return err
}

// step waits until the client has come to a step, and lets it go on when the
// others have, too: that is, with the next step.
func (t *pair) step(name string) error {
	if name != "opened" {
		if err := t.client.release(); err != nil {
			return err
		}
	}
	before := processCPU(t.target.cmd.Process.Pid)
	m, err := t.client.await(name)
	if err != nil {
		return err
	}
	if name == "opened" {
		t.opening = processCPU(t.target.cmd.Process.Pid) - before
	}
	t.out = m.Outcome
	return nil
}

// finish has the target report.
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
	return &figures{Micro: m.Micro, Others: -1, Took: time.Since(began)}, nil
}

// busyTime is the CPU time that all processes of the machine have used, and
// what a hypervisor took away; 0 = not known.
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

// sum adds something up over a measurement's processes.
func (f *figures) sum(of func(*outcome) float64) (n float64) {
	for i := range f.Outcomes {
		n += of(&f.Outcomes[i])
	}
	return n
}

func (f *figures) streams() float64 {
	return f.sum(func(o *outcome) float64 { return float64(o.Streams) })
}

func (f *figures) delivered() float64 {
	return f.sum(func(o *outcome) float64 { return float64(o.Delivered) })
}

func (f *figures) expected() float64 {
	return f.sum(func(o *outcome) float64 { return float64(o.Expected) })
}

// lost says whether anything was missing, came too often, was not fired, or
// did not add up; or was never sent by the target.
func (f *figures) lost() bool {
	for i := range f.Outcomes {
		o := &f.Outcomes[i]
		if o.Delivered != o.Expected || o.Expected == 0 || o.Other > 0 || o.Dropped > 0 || !o.Balanced {
			return true
		}
	}
	return false
}

// memory is KiB of resident memory per stream: growth from before the client
// existed until everything is open and one event was delivered.
func (f *figures) memory() float64 {
	return f.grown(func(o *outcome) (a, b int64) { return o.Before.RSS, o.Full.RSS })
}

// settled is the same after garbage was collected and given back.
func (f *figures) settled() float64 {
	return f.grown(func(o *outcome) (a, b int64) { return o.Before.RSS, o.Settled.RSS })
}

// heap and stack are the runtime's own account of that, in KiB.
func (f *figures) heap() float64 {
	return f.grown(func(o *outcome) (a, b int64) { return o.Before.Heap, o.Settled.Heap })
}

func (f *figures) stack() float64 {
	return f.grown(func(o *outcome) (a, b int64) { return o.Before.Stack, o.Settled.Stack })
}

func (f *figures) grown(of func(*outcome) (a, b int64)) float64 {
	return ratio(f.sum(func(o *outcome) float64 {
		a, b := of(o)
		return float64(b - a)
	}), 1024*f.streams())
}

// perDelivery is µs of CPU for each delivery of the paced phase, without what
// the client uses anyhow.
func (f *figures) perDelivery() float64 {
	return ratio(f.sum(func(o *outcome) float64 {
		return float64(o.PacedCPU) - float64(o.IdleCPU)*ratio(float64(o.PacedTook), float64(o.IdleTook))
	})/1e3, f.delivered())
}

// allocations is how many there are for each delivery, likewise.
func (f *figures) allocations() float64 {
	return ratio(f.sum(func(o *outcome) float64 {
		return float64(o.PacedMallocs) - float64(o.IdleMallocs)*ratio(float64(o.PacedTook), float64(o.IdleTook))
	}), f.delivered())
}

// perCall is µs of CPU for each call of the idle phase, in which nothing else
// happens.
func (f *figures) perCall() float64 {
	return ratio(f.sum(func(o *outcome) float64 { return float64(o.IdleCPU) })/1e3, f.sum(func(o *outcome) float64 { return float64(o.IdleCalls) }))
}

// openRate is streams opened per second, openCPU the µs of CPU for each.
func (f *figures) openRate() float64 {
	var longest time.Duration
	for i := range f.Outcomes {
		longest = max(longest, f.Outcomes[i].Opened.At-f.Outcomes[i].Before.At)
	}
	return ratio(f.streams(), longest.Seconds())
}

func (f *figures) openCPU() float64 {
	return ratio(f.sum(func(o *outcome) float64 { return float64(o.Opened.CPU - o.Before.CPU) })/1e3, f.streams())
}

// throughput is deliveries per second of the paced phase.
func (f *figures) throughput() float64 {
	var longest time.Duration
	for i := range f.Outcomes {
		longest = max(longest, f.Outcomes[i].PacedTook)
	}
	return ratio(f.delivered(), longest.Seconds())
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// micro is what single operations take, in nanoseconds.
type micro struct {
	Record          float64 `json:"record"`
	RecordAllocs    int64   `json:"recordAllocs"`
	Delivered       float64 `json:"delivered"`
	DeliveredAllocs int64   `json:"deliveredAllocs"`
	FindStamp       float64 `json:"findStamp"`
}

// runMicro is the role that measures single operations.
func runMicro(ctx context.Context, s spec, l *link) error {
	testing.Init()
	if err := flag.Set("test.benchtime", s.Paced.String()); err != nil {
		return err
	}
	var m micro
	per := func(f func(*testing.B)) (float64, int64) {
		r := testing.Benchmark(f)
		return float64(r.T.Nanoseconds()) / float64(max(r.N, 1)), r.AllocsPerOp()
	}
	m.Record, m.RecordAllocs = per(func(b *testing.B) {
		b.ReportAllocs()
		var v sinks.Values
		d := time.Duration(0)
		for b.Loop() {
			d = (d + 7919) % (100 * time.Millisecond)
			v.Add(d)
		}
	})
	m.Delivered, m.DeliveredAllocs = per(benchmarkDelivered)
	frame := []byte(`{"jsonrpc":"2.0","method":"notifications/events/event","params":{"eventId":"e-12345","name":"tick","timestamp":"2026-01-01T00:00:00.000Z","cursor":null,"data":{"note":"` +
		eventmeter.Stamp{Run: runID, Seq: 77}.String() + `","sent":"1767225600000000000"}}}`)
	m.FindStamp, _ = per(func(b *testing.B) {
		for b.Loop() {
			if _, ok := eventmeter.FindStamp(frame); !ok {
				b.Fatal("no stamp was found")
			}
		}
	})
	return l.tell(message{Step: "done", Micro: &m})
}

// benchmarkDelivered delivers in order to a thousand subscriptions.
func benchmarkDelivered(b *testing.B) {
	const subs, emissions = 1000, 1000
	b.ReportAllocs()
	var book *sinks.Ledger
	var d eventmeter.Delivery
	fresh := func() {
		var err error
		book, err = sinks.NewLedger(sinks.LedgerOptions{Run: runID, Sources: 1, Lanes: []sinks.LaneSpec{{Name: "push", Mode: eventmeter.Push, Subscriptions: subs}}})
		if err != nil {
			b.Fatal(err)
		}
		for i := range uint32(subs) {
			sub := eventmeter.Sub{Index: i}
			book.Changed(eventmeter.Transition{Sub: sub, To: eventmeter.Attaching, At: 1})
			book.Changed(eventmeter.Transition{Sub: sub, To: eventmeter.Active, At: 2})
		}
		for seq := range uint32(emissions) {
			at := eventmeter.Instant(time.Millisecond) + eventmeter.Instant(seq)*1000
			stamp := eventmeter.Stamp{Run: runID, Seq: seq + 1}
			book.Fired(eventmeter.Emission{Stamp: stamp, Intended: at, Fired: at, Measured: true})
			book.Resolved(stamp, eventmeter.Accepted, at)
		}
		d = eventmeter.Delivery{Stamp: eventmeter.Stamp{Run: runID, Seq: 1}, Probed: true, EventID: 1, At: eventmeter.Instant(50 * time.Millisecond), Bytes: frameSize}
	}
	fresh()
	for b.Loop() {
		book.Delivered(d)
		if d.Sub.Index++; d.Sub.Index == subs {
			d.Sub.Index = 0
			if d.Stamp.Seq++; d.Stamp.Seq > emissions {
				b.StopTimer()
				fresh()
				b.StartTimer()
			}
		}
	}
}

// profilesOf is what the names of a measurement's profiles begin with: the row,
// the client, its streams and rate, and the round.
func (r *runner) profilesOf(p plan, round int) string {
	if r.opts.Profiles == "" {
		return ""
	}
	name := fmt.Sprintf("%s-%s-%d-%g-%d", r.row.Name, p.Name, p.Client.Streams, p.Client.Rate, round)
	return filepath.Join(r.opts.Profiles, strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' {
			return c
		}
		return '_'
	}, name))
}
