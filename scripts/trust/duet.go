package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/embedded"
	"github.com/eventmeter/eventmeter/internal/stats"
)

// leastDuet is the share of the pairs in which a duet has to find +10 % in p99, on a
// machine that does other work besides.
const leastDuet = 0.90

// duetSides are the directories of a pair in mode duet.
var duetSides = map[bool]string{false: "equal", true: "slow"}

// slowBy is what the second target of a slow pair adds to the base's p99, as a share of it. A
// busy machine raises p99 far above the target's own delay, so the base is measured.
const slowBy = 0.10

// duetTable is the table of mode duet, and what was measured meanwhile.
type duetTable struct {
	mu     sync.Mutex
	*table                 // whole pairs
	bases  []time.Duration // p99 of the first target, of each duet
	whole  map[int]func()  // by pair: what its first duet showed
}

// base is the p99 of late: that of a duet varies.
func (t *duetTable) base() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := slices.Clone(t.bases[max(0, len(t.bases)-9):])
	slices.Sort(last)
	return last[len(last)/2]
}

// add adds a duet. A pair counts when both of its duets are over.
func (t *duetTable) add(o options, pair int, slow bool, c *stats.Comparison, log io.Writer) error {
	p99, err := baseOf(c)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bases, t.loads = append(t.bases, p99), append(t.loads, loadAverage())
	count := func() { t.countEqual(changed(c, stats.Better, stats.Worse)) }
	if slow {
		count = func() { t.count(changed(c, stats.Worse)) }
	}
	first := t.whole[pair]
	if first == nil {
		t.whole[pair] = count
		return nil
	}
	first()
	count()
	t.pairs++
	fmt.Fprintf(
		log,
		"pair %d of %d: %d called different, %v found; base p99 %v, load average %s\n",
		t.pairs,
		o.pairs,
		t.different,
		t.found,
		p99.Round(time.Millisecond),
		t.loads[len(t.loads)-1],
	)
	return nil
}

// baseOf is the p99 of the first target.
func baseOf(c *stats.Comparison) (time.Duration, error) {
	for _, l := range c.Lanes {
		for _, f := range l.Figures {
			if f.Figure == "latency.fromIntended.p99" && f.A != nil {
				return time.Duration(*f.A), nil
			}
		}
	}
	return 0, errors.New("the comparison has no p99")
}

// duets measures so many pairs of duets: of equal targets, and of targets the second of which
// is slower by slowBy, o.parallel at once, with o.busy processes beside that do nothing but
// compute. Every target is a process of its own.
func duets(ctx context.Context, o options, dir string, out, log io.Writer) error {
	a, err := newReal(ctx, dir, log)
	if err != nil {
		return err
	}
	relax, err := busy(ctx, o.busy)
	if err != nil {
		return err
	}
	defer relax()
	t := &duetTable{table: &table{found: make([]int, len(figures)), least: []float64{0, 0, leastDuet}}, whole: map[int]func(){}}
	one := func(ctx context.Context, pair int, slow bool) (*stats.Comparison, error) {
		at, number, by := filepath.Join(dir, fmt.Sprintf("%05d", pair), duetSides[slow]), 2*pair, time.Duration(0)
		if slow {
			number, by = number+1, time.Duration(slowBy*float64(t.base()))
		}
		c, err := a.duet(ctx, o, at, number, by)
		if err != nil {
			return nil, fmt.Errorf("pair %d, %s: %w", pair, duetSides[slow], err)
		}
		if o.keep == "" {
			err = os.RemoveAll(at)
		}
		return c, err
	}
	// The first base, from as many duets at once as later.
	g, gctx := errgroup.WithContext(ctx)
	for n := range o.parallel {
		g.Go(func() error {
			c, err := one(gctx, o.pairs+n, false)
			if err != nil {
				return err
			}
			p99, err := baseOf(c)
			t.mu.Lock()
			defer t.mu.Unlock()
			t.bases = append(t.bases, p99)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	g, gctx = errgroup.WithContext(ctx)
	g.SetLimit(o.parallel)
	for pair := range o.pairs {
		for i := range 2 {
			slow := (i+pair)%2 == 1 // a machine that becomes busier does so for both kinds
			g.Go(func() error {
				if gctx.Err() != nil {
					return nil
				}
				c, err := one(gctx, pair, slow)
				if err != nil {
					return err
				}
				return t.add(o, pair, slow, c, log)
			})
		}
	}
	err = g.Wait()
	if ctx.Err() != nil {
		fmt.Fprintf(log, "ended early after %d of %d pairs: %v\n", t.pairs, o.pairs, context.Cause(ctx))
		err = nil
	}
	if t.pairs > 0 {
		slices.Sort(t.bases)
		fmt.Fprintf(
			out,
			"%s, %s/%s, %d processors; %v measured, %d duets and %d processes that compute at once; load average %s; p99 of the base %v to %v, median %v\n\n",
			time.Now().
				UTC().
				Format(time.DateOnly),
			runtime.GOOS,
			runtime.GOARCH,
			runtime.NumCPU(),
			o.measure,
			o.parallel,
			o.busy,
			t.loadRange(),
			t.bases[0].Round(
				time.Millisecond,
			),
			t.bases[len(t.bases)-1].Round(time.Millisecond),
			t.bases[len(t.bases)/2].Round(time.Millisecond),
		)
	}
	return errors.Join(err, t.report(out))
}

// byNumber compares load averages; "unknown" is the lowest.
func byNumber(a, b string) int {
	x, _ := strconv.ParseFloat(a, 64)
	y, _ := strconv.ParseFloat(b, 64)
	return cmp.Compare(x, y)
}

// duet measures two targets at once, the second of which is slower by so much, and returns
// their comparison.
func (a *actual) duet(ctx context.Context, o options, dir string, number int, by time.Duration) (*stats.Comparison, error) {
	ctx, cancel := context.WithTimeout(ctx, runLimit+o.measure)
	defer cancel()
	args := []string{
		"--profile",
		a.profile,
		"--set",
		"phases.measure=" + o.measure.String(),
		"--set",
		fmt.Sprintf("schedule.seed=%d", number+1),
		"--token",
		"a-token-of-trust",
	}
	for i, extra := range []time.Duration{0, by} {
		ready, end, err := a.serve(
			ctx,
			fmt.Sprintf("delay(rate=1, uniform=%v..%v, seed=%d)", 40*time.Millisecond+extra, 60*time.Millisecond+extra, 2*number+i+1),
		)
		if err != nil {
			return nil, err
		}
		defer end()
		flags := [][2]string{{"--target", "--upstream-url"}, {"--against", "--against-upstream-url"}}[i]
		args = append(args, flags[0], ready.URL, flags[1], ready.Admin)
	}
	if _, err := a.launch(ctx, dir, args...); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(dir, "comparison.json"))
	if err != nil {
		return nil, err
	}
	c := new(stats.Comparison)
	return c, json.Unmarshal(text, c)
}

// serve starts the reference server. The caller must call end.
func (a *actual) serve(ctx context.Context, fault string) (ready embedded.Ready, end func(), err error) {
	c := exec.CommandContext(ctx, a.binary, "serve", "--options", "-", "--faults", fault)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	in, err := c.StdinPipe()
	if err != nil {
		return ready, nil, err
	}
	stdout, err := c.StdoutPipe()
	if err != nil {
		return ready, nil, err
	}
	if err := c.Start(); err != nil {
		return ready, nil, err
	}
	end = func() {
		_ = in.Close() // which ends it
		_ = c.Wait()
	}
	err = embedded.WriteOptions(in, embedded.Options{})
	if err == nil {
		err = json.NewDecoder(stdout).Decode(&ready)
	}
	if err != nil {
		end()
		return ready, nil, fmt.Errorf("eventmeter serve: %w\n%s", err, strings.TrimSpace(stderr.String()))
	}
	return ready, end, nil
}

// asBusy makes the program compute until its standard input ends.
const asBusy = "EVENTMETER_TRUST_BUSY"

// compute is the program with asBusy.
func compute(in io.Reader) {
	done := make(chan struct{})
	go func() {
		defer crash.Guard()
		defer close(done)
		_, _ = io.Copy(io.Discard, in)
	}()
	for x := uint64(1); ; x = x*6364136223846793005 + 1 {
		if x>>44 == 0 {
			select {
			case <-done:
				return
			default:
			}
		}
	}
}

// busy starts n processes that compute. The caller must call the function that it
// returns; they also end when this process does, because it holds their input.
func busy(ctx context.Context, n int) (func(), error) {
	var ends []func()
	end := func() {
		for _, e := range slices.Backward(ends) {
			e()
		}
	}
	self, err := os.Executable()
	if err != nil {
		return end, err
	}
	for range n {
		c := exec.CommandContext(ctx, self)
		c.Env = append(os.Environ(), asBusy+"=1", "GOMAXPROCS=2")
		in, err := c.StdinPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			end()
			return func() {}, errors.Join(errors.New("start a process that computes"), err)
		}
		ends = append(ends, func() {
			_ = in.Close()
			_ = c.Wait()
		})
	}
	return end, nil
}

// loadAverage is that of the last minute; "unknown" where the system does not say.
func loadAverage() string {
	f, err := os.Open("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Split(bufio.ScanWords)
	if !s.Scan() {
		return "unknown"
	}
	return s.Text()
}
