package main

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
	"path/filepath"
	"slices"
	"strings"

	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/embedded"
	"github.com/eventmeter/eventmeter/internal/stats"
)

// leastDuet is the share of the pairs in which a duet has to find +10 % in p99, on a
// machine that does other work besides.
const leastDuet = 0.90

// duetSides are the directories of a pair in mode duet.
var duetSides = map[bool]string{false: "equal", true: "slow"}

// duets measures so many pairs of targets at once, equal ones and ones of which the
// second is 10 % slower, with o.busy processes beside that do nothing but compute.
// Every target is a process of its own.
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
	t := &table{found: make([]int, len(figures)), least: []float64{0, 0, leastDuet}}
	for pair := range o.pairs {
		at := filepath.Join(dir, fmt.Sprintf("%05d", pair))
		for i := range 2 {
			slow := (i+pair)%2 == 1 // a machine that becomes busier does so for both kinds
			c, err := a.duet(ctx, o, filepath.Join(at, duetSides[slow]), 2*pair+i, slow)
			switch {
			case ctx.Err() != nil:
				fmt.Fprintf(log, "ended early after %d of %d pairs: %v\n", t.pairs, o.pairs, context.Cause(ctx))
				return t.report(out)
			case err != nil:
				return fmt.Errorf("pair %d, %s: %w", pair, duetSides[slow], err)
			case slow:
				t.count(changed(c, stats.Worse))
			default:
				t.countEqual(changed(c, stats.Better, stats.Worse))
			}
		}
		t.pairs++
		fmt.Fprintf(log, "pair %d of %d: %d called different, %v found; load average %s\n", t.pairs, o.pairs, t.different, t.found, loadAverage())
		if o.keep == "" {
			if err := os.RemoveAll(at); err != nil {
				return err
			}
		}
	}
	return t.report(out)
}

// duet measures two targets at once, and returns their comparison.
func (a *actual) duet(ctx context.Context, o options, dir string, number int, slow bool) (*stats.Comparison, error) {
	ctx, cancel := context.WithTimeout(ctx, runLimit+o.measure)
	defer cancel()
	second := delayEqual
	if slow {
		second = delaySlow
	}
	args := []string{"--profile", a.profile, "--set", "phases.measure=" + o.measure.String(), "--set", fmt.Sprintf("schedule.seed=%d", number+1), "--token", "a-token-of-trust"}
	for i, delay := range []string{delayEqual, second} {
		ready, end, err := a.serve(ctx, fmt.Sprintf(delay, 2*number+i+1))
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
