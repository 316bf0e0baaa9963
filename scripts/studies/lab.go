package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/load"

	"github.com/eventmeter/eventmeter/results"
)

// lab makes the runs of a study. Several goroutines may use it, for runs side by side.
type lab struct {
	binary string
	temp   string // archives of runs
	dir    string // of the study
	scale  float64

	mu   sync.Mutex // of what follows
	log  io.Writer
	runs []runRecord // in the order in which they ended
}

// runRecord is one run of a study.
type runRecord struct {
	Name       string   `json:"name"`             // runs/NAME.json.gz is its result
	Args       []string `json:"args"`             // of the program
	Server     string   `json:"server,omitempty"` // options of the server, where the study started it
	ExitCode   int      `json:"exitCode"`
	Seconds    float64  `json:"seconds"`
	Load       float64  `json:"load"`                 // load average of the last minute when it ended
	Bottleneck []string `json:"bottleneck,omitempty"` // why the generator was the bottleneck
}

// machine is where a study was made.
type machine struct {
	OS     string `json:"os"`
	Arch   string `json:"arch"`
	Kernel string `json:"kernel"`
	CPUs   int    `json:"cpus"`
	Go     string `json:"go"`
}

// runLimit is longer than any run of a study takes.
const runLimit = 40 * time.Minute

// measuredCodes are the exit codes of runs that have a result: all was well, the generator was the
// bottleneck, a threshold was not evaluated, or one failed.
var measuredCodes = []int{0, 4, 5, 99}

// newLab builds the program.
func newLab(ctx context.Context, dir string, scale float64, log io.Writer) (*lab, error) {
	temp, err := os.MkdirTemp("", "eventmeter-study-")
	if err != nil {
		return nil, err
	}
	l := &lab{binary: filepath.Join(temp, "eventmeter"), temp: temp, dir: dir, scale: scale, log: log}
	if runtime.GOOS == "windows" {
		l.binary += ".exe"
	}
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", l.binary, "github.com/eventmeter/eventmeter/cmd/eventmeter")
	if text, err := build.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("build eventmeter: %w\n%s", err, text), l.close())
	}
	return l, os.MkdirAll(filepath.Join(dir, "runs"), 0o755)
}

func (l *lab) close() error { return os.RemoveAll(l.temp) }

// subscriptions returns n at the scale of the study, and least at least.
func (l *lab) subscriptions(n, least int) int { return max(least, int(float64(n)*l.scale)) }

// duration returns d at the scale of the study, and least at least.
func (l *lab) duration(d, least time.Duration) time.Duration {
	return max(least, time.Duration(float64(d)*l.scale)).Round(time.Millisecond)
}

// run makes one run, of the arguments after "eventmeter run", and returns its result. The name is its
// own within the study. A run that has no result is an error; one whose thresholds failed is not.
func (l *lab) run(ctx context.Context, name string, args ...string) (*results.Result, error) {
	at := filepath.Join(l.temp, name)
	if err := l.command(ctx, name, measuredCodes, append([]string{"run", "--quiet", "--out", at}, args...)); err != nil {
		return nil, err
	}
	r, err := results.Load(at)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if r.Generator.Bottleneck {
		l.blame(name, r.Generator.Reasons)
	}
	return r, errors.Join(l.keep(name, filepath.Join(at, results.File)), os.RemoveAll(at))
}

// blame keeps why the generator was the bottleneck of a run.
func (l *lab) blame(name string, reasons []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.runs, func(r runRecord) bool { return r.Name == name })
	l.runs[i].Bottleneck = reasons
	fmt.Fprintf(l.log, "%s: the generator was the bottleneck: %s\n", name, strings.Join(reasons, "; "))
}

// logf writes a line for people.
func (l *lab) logf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.log, format+"\n", args...)
}

// command starts the program and waits for it. An exit code that is not one of codes is an error.
func (l *lab) command(ctx context.Context, name string, codes []int, args []string) error {
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	var text bytes.Buffer
	c := exec.CommandContext(ctx, l.binary, args...)
	c.Stdout, c.Stderr = &text, &text
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) } // killed, it would not end its target
	c.WaitDelay = 30 * time.Second
	began := time.Now()
	l.logf("%s: eventmeter %s", name, strings.Join(args, " "))
	err := c.Run()
	rec := runRecord{Name: name, Args: l.shown(args), ExitCode: c.ProcessState.ExitCode(), Seconds: time.Since(began).Round(time.Millisecond).Seconds(), Load: loadAverage()}
	if !slices.Contains(codes, rec.ExitCode) {
		return fmt.Errorf("%s: %w\n%s", name, err, strings.TrimSpace(text.String()))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.ContainsFunc(l.runs, func(r runRecord) bool { return r.Name == name }) {
		return fmt.Errorf("the study has two runs %q", name)
	}
	l.runs = append(l.runs, rec)
	return nil
}

// shown returns arguments without the directories of this machine.
func (l *lab) shown(args []string) []string {
	shown := slices.Clone(args)
	for i, a := range shown {
		shown[i] = strings.ReplaceAll(strings.ReplaceAll(a, l.temp, "TEMP"), l.dir, "STUDY")
	}
	return shown
}

// keep compresses a result of a run into the directory of the study.
func (l *lab) keep(name, from string) (err error) {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	to, err := os.Create(filepath.Join(l.dir, "runs", name+".json.gz"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	w, err := gzip.NewWriterLevel(to, gzip.BestCompression)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return errors.Join(err, w.Close())
}

func loadAverage() float64 {
	avg, err := load.Avg()
	if err != nil {
		return -1 // not known on this system
	}
	return avg.Load1
}

func (l *lab) machine() machine {
	m := machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version()}
	m.Kernel, _ = host.KernelVersion() // "" where it is not known
	return m
}

// moduleRoot is the directory of go.mod.
func moduleRoot() (string, error) {
	text, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/eventmeter/eventmeter").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}
