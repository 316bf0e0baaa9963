// Soak runs the built-in profile soak, an hour with 10,000 subscriptions that come
// and go, and follows the memory of the generator and of the reference server.
// Run it from anywhere in the module:
//
//	go run ./scripts/soak -out soak
//
// It writes the result of the run, memory.csv with a sample every five seconds,
// and two heap profiles of the generator, after the warm-up and at the end, to
// the directory. It exits with 1 when the run failed, or when the generator's
// memory after the warm-up was not flat within 10 %.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/shirou/gopsutil/v4/process"
	"golang.org/x/sync/errgroup"

	"github.com/eventmeter/eventmeter/internal/crash"
)

// windows is into how many equal parts the run is cut. The first is the warm-up.
const windows = 10

// tolerance is how far the highest memory of a window may be from that of the
// first window after the warm-up.
const tolerance = 0.10

// exitBottleneck is the program's exit code where it was the bottleneck itself.
const exitBottleneck = 4

type options struct {
	length time.Duration
	every  time.Duration
	out    string
	set    []string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, log io.Writer) error {
	var o options
	fl := flag.NewFlagSet("soak", flag.ContinueOnError)
	fl.SetOutput(log)
	fl.DurationVar(&o.length, "for", time.Hour, "length of the measured window, 10s or more")
	fl.DurationVar(&o.every, "every", 5*time.Second, "time between samples of memory")
	fl.StringVar(&o.out, "out", "", "directory for the figures; it must not exist")
	fl.Func("set", "override a value of the profile, path=value (repeatable)", func(s string) error {
		o.set = append(o.set, s)
		return nil
	})
	if err := fl.Parse(args); err != nil {
		return err
	}
	if o.length < 10*time.Second || o.every <= 0 || o.length/windows < 2*o.every || o.out == "" || fl.NArg() > 0 {
		return errors.New("want -out DIR, -for 10s or more, at least 20 samples in that time, and no arguments")
	}
	if err := os.Mkdir(o.out, 0o755); err != nil {
		return err
	}
	samples, err := soak(ctx, o, log)
	err = errors.Join(err, writeSamples(filepath.Join(o.out, "memory.csv"), samples))
	if len(samples) == 0 {
		return err
	}
	// A target that leaks fails the run, and says nothing against the generator.
	return errors.Join(judge(out, samples, o.length), err)
}

// sample is the memory of both processes at one moment of the measured window.
type sample struct {
	at        time.Duration
	generator uint64 // resident bytes
	server    uint64
}

// soak runs the program and samples it until it ends.
func soak(ctx context.Context, o options, log io.Writer) (_ []sample, err error) {
	dir, err := os.MkdirTemp("", "eventmeter-soak-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	bin := filepath.Join(dir, "eventmeter")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", bin, "github.com/eventmeter/eventmeter/cmd/eventmeter")
	build.Stderr = log
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("build the program: %w", err)
	}
	warmup, cooldown := (o.length / 5).String(), (o.length / 12).String() // as in the profile
	args := []string{"run", "--profile", "soak", "--plain", "--full", "--out", filepath.Join(o.out, "run"),
		"--metrics", "127.0.0.1:0", "--metrics-linger", "0s", "--pprof",
		"--set", "phases.measure=" + o.length.String(), "--set", "phases.warmup=" + warmup, "--set", "phases.cooldown=" + cooldown}
	for _, s := range o.set {
		args = append(args, "--set", s)
	}
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it drains and writes
	table, err := os.Create(filepath.Join(o.out, "output.txt"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, table.Close()) }()
	cmd.Stdout = table
	progress, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}

	var samples []sample
	var watch errgroup.Group
	measuring, over := make(chan string, 1), make(chan struct{})
	watch.Go(func() error {
		defer crash.Guard()
		var err error
		samples, err = follow(o, cmd.Process.Pid, measuring, over)
		return err
	})
	relay(progress, log, measuring)
	err = cmd.Wait()
	close(over)
	if cmd.ProcessState.ExitCode() == exitBottleneck {
		// Memory is judged all the same. The run's own output says what was too busy.
		fmt.Fprintln(log, "soak: the run says that the machine was too busy for its latencies")
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("the run: %w", err)
	}
	return samples, errors.Join(err, watch.Wait())
}

// relay copies the program's progress, and sends the address of its metrics when
// the measured window begins.
func relay(progress io.Reader, log io.Writer, measuring chan<- string) {
	var base string
	lines := bufio.NewScanner(progress)
	for lines.Scan() {
		line := lines.Text()
		fmt.Fprintln(log, line)
		if url, ok := strings.CutPrefix(line, "metrics at "); ok {
			base = strings.TrimSuffix(url, "/metrics")
		}
		if strings.Contains(line, "measur") && base != "" {
			measuring <- base
			base = ""
		}
	}
	_, _ = io.Copy(io.Discard, progress) // a line too long to read must not hold up the run
}

// follow samples the memory of a process and of its child from when the window
// begins until its length is over, and takes the heap profiles.
func follow(o options, pid int, measuring <-chan string, over <-chan struct{}) ([]sample, error) {
	var base string
	select {
	case base = <-measuring:
	case <-over:
		return nil, errors.New("the run ended before its measured window")
	}
	generator, err := process.NewProcess(int32(pid))
	if err != nil {
		return nil, err
	}
	children, err := generator.Children()
	if err != nil {
		return nil, fmt.Errorf("find the reference server: %w", err)
	}
	var samples []sample
	begin := time.Now()
	// The second profile is taken a little before the end: the window's own end
	// closes the subscriptions.
	marks := []struct {
		file string
		at   time.Duration
	}{{"heap-warm.pb.gz", o.length / windows}, {"heap-end.pb.gz", o.length - 2*o.every}}
	tick := time.NewTicker(o.every)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return samples, errors.New("the run ended before its time")
		case <-tick.C:
		}
		at := time.Since(begin)
		if at > o.length {
			return samples, nil
		}
		s := sample{at: at}
		if s.generator, err = resident(generator); err != nil {
			return samples, err
		}
		for _, c := range children {
			n, err := resident(c)
			if err != nil {
				return samples, err
			}
			s.server += n
		}
		samples = append(samples, s)
		if len(marks) > 0 && at >= marks[0].at {
			if err := fetch(base+"/debug/pprof/heap?gc=1", filepath.Join(o.out, marks[0].file)); err != nil {
				return samples, err
			}
			marks = marks[1:]
		}
	}
}

func resident(p *process.Process) (uint64, error) {
	m, err := p.MemoryInfo()
	if err != nil {
		return 0, fmt.Errorf("read the memory of process %d: %w", p.Pid, err)
	}
	return m.RSS, nil
}

func fetch(url, file string) error {
	client := http.Client{Timeout: 30 * time.Second}
	resp, err := client.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	return os.WriteFile(file, b, 0o644)
}

func writeSamples(file string, samples []sample) error {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	_ = w.Write([]string{"seconds", "generator_bytes", "server_bytes"}) // a Buffer takes everything
	for _, s := range samples {
		_ = w.Write([]string{strconv.FormatFloat(s.at.Seconds(), 'f', 1, 64), strconv.FormatUint(s.generator, 10), strconv.FormatUint(s.server, 10)})
	}
	w.Flush()
	return os.WriteFile(file, b.Bytes(), 0o644)
}

// judge prints the highest memory of each window and says whether the
// generator's was flat. The server's is shown and not judged.
func judge(out io.Writer, samples []sample, length time.Duration) error {
	var generator, server [windows]uint64
	for _, s := range samples {
		if i := int(s.at * windows / length); i < windows {
			generator[i], server[i] = max(generator[i], s.generator), max(server[i], s.server)
		}
	}
	fmt.Fprintln(out, "until     generator  reference server  (highest resident memory, MiB)")
	var errs []error
	for i := range windows {
		until := length * time.Duration(i+1) / windows
		if generator[i] == 0 {
			errs = append(errs, fmt.Errorf("no sample of the time until %v", until))
			continue
		}
		fmt.Fprintf(out, "%-9v %9.1f  %16.1f\n", until, float64(generator[i])/(1<<20), float64(server[i])/(1<<20))
		if change := float64(generator[i])/float64(generator[1]) - 1; i > 1 && (change > tolerance || change < -tolerance) {
			errs = append(errs, fmt.Errorf("the generator's memory until %v is %+.0f %% of what it was after the warm-up; want 10 %% at most", until, change*100))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Fprintln(out, "The generator's memory was flat within 10 % after the warm-up.")
	return nil
}
