package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
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
	"golang.org/x/sync/errgroup"

	"github.com/eventmeter/eventmeter/tools/proc"
)

// lab makes the runs of a study.
type lab struct {
	binary string
	study  *study
	from   string // where study.yaml is
	dir    string // of the results
	temp   string // archives of runs
	root   string // of the module
	log    io.Writer

	mu   sync.Mutex // of data and log: runs may be made side by side
	data *data
}

// options are what a measurement is made of.
type options struct {
	from, out, binary string
	scale             float64
}

// runLimit is longer than any run of a study takes.
const runLimit = 40 * time.Minute

// targetDown is the exit code where the target fell over, which is a result without figures.
const targetDown = 3

// measure makes the runs of the study in from, and writes their directory. Where it ends early, what was
// measured is kept, without tables: those of half a study would mislead.
func measure(ctx context.Context, o *options, log io.Writer) (err error) {
	s, err := loadStudy(o.from)
	if err != nil {
		return err
	}
	runs, err := s.expand(o.scale)
	if err != nil {
		return err
	}
	l := &lab{binary: o.binary, study: s, from: o.from, dir: o.out, log: log}
	if err := l.open(ctx); err != nil {
		return errors.Join(err, os.RemoveAll(l.temp))
	}
	defer func() { err = errors.Join(err, os.RemoveAll(l.temp)) }()
	l.data = &data{
		Schema: schema, Study: name(o.from), Scale: o.scale, Started: now(), Machine: thisMachine(),
	}
	failed := l.all(ctx, runs)
	l.data.Finished, l.data.Partial = now(), failed != nil
	if err := l.data.save(l.dir); err != nil || failed != nil {
		return errors.Join(failed, err)
	}
	return render(l.dir)
}

func now() time.Time { return time.Now().UTC().Truncate(time.Second) }

// open makes the directories, and builds the program where none was given.
func (l *lab) open(ctx context.Context) (err error) {
	if l.temp, err = os.MkdirTemp("", "eventmeter-study-"); err != nil {
		return err
	}
	if l.root, err = moduleRoot(); err != nil {
		return err
	}
	if l.binary == "" {
		if l.binary, err = proc.Build(ctx, l.temp); err != nil {
			return err
		}
	}
	for _, file := range []string{studyFile, "profile.yaml"} {
		text, err := os.ReadFile(filepath.Join(l.from, file))
		if errors.Is(err, os.ErrNotExist) && file != studyFile {
			continue
		}
		if err = errors.Join(err, os.WriteFile(filepath.Join(l.dir, file), text, 0o644)); err != nil {
			return err
		}
	}
	return os.Mkdir(filepath.Join(l.dir, "runs"), 0o755)
}

// all makes runs, one group after the other.
func (l *lab) all(ctx context.Context, runs []*run) error {
	for i := range l.study.Runs {
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(max(l.study.Runs[i].AtOnce, 1))
		for _, r := range runs {
			if r.of != &l.study.Runs[i] {
				continue
			}
			g.Go(func() error {
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := l.run(ctx, r); err != nil {
					return fmt.Errorf("%s: %w", r.Name, err)
				}
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
	}
	return nil
}

// run makes one run and adds it to the data.
func (l *lab) run(ctx context.Context, r *run) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	env := maps.Clone(r.env)
	l.mu.Lock()
	env["rows"] = l.data.rows()
	l.mu.Unlock()
	env["study"], env["temp"], env["root"], env["self"], env["eventmeter"] = l.dir, l.temp, l.root, self, l.binary
	args, err := r.arguments(env)
	if err != nil {
		return err
	}
	var f *follower
	if r.of.Options != "" || r.of.Server != nil {
		s, err := l.serve(ctx, r, env)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.end()) }()
		if s.URL != "" {
			args = append(args, "--target", s.URL)
		}
		if s.Admin != "" {
			args = append(args, "--upstream-url", s.Admin, "--token", "any")
			f = follow(ctx, s.Admin)
			defer f.stop()
		}
	}
	out := filepath.Join(l.temp, r.Name)
	if !r.of.Prints {
		args = append(args, "--quiet", "--out", out)
	}
	text, err := l.command(ctx, r, args)
	if err != nil {
		return err
	}
	result := map[string]any{}
	if !r.of.Prints {
		text, err = readResult(out)
	}
	if errors.Is(err, os.ErrNotExist) && r.ExitCode == targetDown {
		l.add(r)
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, &result)
	}
	if err != nil {
		return err
	}
	var samples []any
	if f != nil {
		started, err := time.Parse(time.RFC3339Nano, fmt.Sprint(result["started"]))
		if err != nil {
			return err
		}
		samples = f.samples(started)
	}
	if r.Rows, err = r.figures(result, samples); err != nil {
		return err
	}
	r.Bottleneck = bottleneck(result)
	l.add(r)
	return l.keep(r.Name, text)
}

// serve starts the server of a run.
func (l *lab) serve(ctx context.Context, r *run, env map[string]any) (*server, error) {
	if r.of.Options == "" {
		command, err := fillAll(r.of.Server, env)
		if err != nil || len(command) == 0 {
			return new(server), err // the profile has one
		}
		r.Server = strings.Join(l.shown(command), " ")
		return startServer(ctx, command, "")
	}
	var err error
	if r.Server, err = fill(r.of.Options, env); err != nil {
		return nil, err
	}
	return startServer(ctx, []string{l.binary, "serve", "--options", "-"}, strings.ReplaceAll(r.Server, "\n", " "))
}

// command starts eventmeter, waits for it, and returns what it printed. Exit codes of runs that may
// have a result are no errors.
func (l *lab) command(ctx context.Context, r *run, args []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	var out, log bytes.Buffer
	c := exec.CommandContext(ctx, l.binary, args...)
	c.Stdout, c.Stderr = &out, &log
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) } // killed, it would not end its target
	c.WaitDelay = 30 * time.Second
	l.logf("%s: eventmeter %s", r.Name, strings.Join(args, " "))
	began := time.Now()
	err := c.Run()
	r.Args, r.ExitCode = l.shown(args), c.ProcessState.ExitCode()
	r.Seconds, r.Load = time.Since(began).Round(time.Millisecond).Seconds(), loadAverage()
	codes := []int{0, targetDown, 4, 5, 99}
	if args[0] == "capacity" {
		codes = append(codes, 1) // no maximum load was found, and there is a cost sheet
	}
	if !slices.Contains(codes, r.ExitCode) || err != nil && r.of.Prints {
		return nil, fmt.Errorf("%w\n%s%s", err, out.Bytes(), log.Bytes())
	}
	return out.Bytes(), nil
}

// readResult reads the result of a run or of a search.
func readResult(dir string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(dir, "result.json"))
	if errors.Is(err, os.ErrNotExist) {
		return os.ReadFile(filepath.Join(dir, "capacity.json"))
	}
	return text, err
}

// bottleneck says why the generator was the bottleneck of a run.
func bottleneck(result map[string]any) (reasons []string) {
	g, _ := result["generator"].(map[string]any)
	if g["bottleneck"] != true {
		return nil
	}
	all, _ := g["reasons"].([]any)
	for _, r := range all {
		reasons = append(reasons, fmt.Sprint(r))
	}
	return reasons
}

func (l *lab) add(r *run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.data.Runs = append(l.data.Runs, *r)
}

func (l *lab) logf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.log, format+"\n", args...)
}

// shown returns arguments without the directories of this machine.
func (l *lab) shown(args []string) []string {
	shown := slices.Clone(args)
	for i, a := range shown {
		shown[i] = strings.NewReplacer(l.temp, "TEMP", l.dir, "STUDY", l.root, "ROOT").Replace(a)
	}
	return shown
}

// keep compresses a result into the directory of the study.
func (l *lab) keep(name string, text []byte) error {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err = w.Write(text); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(resultFile(l.dir, name), b.Bytes(), 0o644)
}

func resultFile(dir, name string) string { return filepath.Join(dir, "runs", name+".json.gz") }

// kept reads a result that was kept.
func kept(dir, name string) (result map[string]any, err error) {
	f, err := os.Open(resultFile(dir, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	return result, json.NewDecoder(z).Decode(&result)
}

// extract reads the figures of a directory's runs from their kept results. Figures that only samples of
// a server showed stay as they were measured.
func extract(dir string, s *study, d *data) error {
	planned, err := s.expand(d.Scale)
	if err != nil {
		return err
	}
	for i := range d.Runs {
		r := &d.Runs[i]
		at := slices.IndexFunc(planned, func(p *run) bool { return p.Name == r.Name })
		if at < 0 {
			return fmt.Errorf("%s: %s has no run of this name", r.Name, studyFile)
		}
		p := planned[at]
		r.Group, r.Repeat, r.Cell = p.Group, p.Repeat, p.Cell
		result, err := kept(dir, r.Name)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", r.Name, err)
		}
		rows, err := p.figures(result, nil)
		if err != nil {
			return fmt.Errorf("%s: %w", r.Name, err)
		}
		for k, row := range rows[:min(len(rows), len(r.Rows))] {
			maps.Copy(r.Rows[k], row)
			rows[k] = r.Rows[k]
		}
		r.Rows = rows
	}
	return nil
}

func loadAverage() float64 {
	avg, err := load.Avg()
	if err != nil {
		return -1
	}
	return avg.Load1
}

func thisMachine() machine {
	m := machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version()}
	m.Kernel, _ = host.KernelVersion() // "" where it is not known
	return m
}

// moduleRoot is the directory of eventmeter's go.mod.
func moduleRoot() (string, error) {
	text, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/eventmeter/eventmeter").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}
