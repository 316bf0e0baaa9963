package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventmeter/eventmeter/internal/lockfile"
	"github.com/eventmeter/eventmeter/results"
)

// output is a standard output whose reader may stop reading, as head does. Later
// writes are discarded without an error.
type output struct {
	w      io.Writer
	closed atomic.Bool
}

func (o *output) Write(p []byte) (int, error) {
	if o.closed.Load() {
		return len(p), nil
	}
	n, err := o.w.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		o.closed.Store(true)
		return len(p), nil
	}
	return n, err
}

// outLock is the lock file in the directory of a run.
const outLock = ".in-use"

// outDir is a directory that one run writes to.
type outDir struct {
	path string
	made bool // by this run
	lock *lockfile.Lock
}

// takeOut locks the directory that --out names, so that no other run writes to it at
// the same time. The caller must release it.
func takeOut(path string) (*outDir, error) {
	d := &outDir{path: path}
	_, err := os.Stat(path)
	d.made = errors.Is(err, os.ErrNotExist)
	if err := makeOut(path); err != nil {
		return nil, err
	}
	name := filepath.Join(path, outLock)
	d.lock, err = lockfile.Take(name)
	switch {
	case errors.Is(err, lockfile.ErrHeld) && lockfile.GivenBack:
		return nil, usagef("--out %s: it is %w, which is running; choose another directory", path, err)
	case errors.Is(err, lockfile.ErrHeld):
		return nil, usagef("--out %s: it is %w; choose another directory, or remove %s if that process has ended", path, err, name)
	case err != nil:
		d.release()
		return nil, fmt.Errorf("take the directory for the result: %w; choose another with --out", err)
	}
	// Remove the partial files of a killed run.
	if found, err := filepath.Glob(filepath.Join(globQuote(path), results.Unfinished)); err == nil {
		for _, name := range found {
			_ = os.Remove(name) // a file that stays does no harm
		}
	}
	return d, nil
}

// newOut makes the directory for a run without --out: name, or, if another run that
// began in the same second has taken it, name with a number.
func newOut(name string) (*outDir, error) {
	err := os.MkdirAll(filepath.Dir(name), 0o755)
	for n := 2; err == nil; n++ {
		path := name
		if n > 2 {
			path = fmt.Sprintf("%s-%d", name, n-1)
		}
		if err = os.Mkdir(path, 0o750); err == nil {
			return &outDir{path: path, made: true}, nil
		}
		if errors.Is(err, os.ErrExist) && n < 1000 {
			err = nil
		}
	}
	return nil, cannotMake(err)
}

// makeOut makes a directory for a result.
func makeOut(path string) error {
	if err := os.MkdirAll(path, 0o750); err != nil {
		return cannotMake(err)
	}
	return nil
}

func cannotMake(err error) error {
	return fmt.Errorf("make the directory for the result: %w; choose another with --out", err)
}

// defaultOut returns the name of the directory for a run without --out.
func defaultOut(what string) string {
	return filepath.Join("results", "runs", time.Now().UTC().Format("20060102T150405Z")+"-"+what)
}

// release unlocks the directory, and removes it if this run made it and wrote
// nothing. It does nothing on nil.
func (d *outDir) release() {
	if d == nil {
		return
	}
	d.lock.Release()
	if d.made {
		_ = os.Remove(d.path) // only if it is still empty
	}
}

// checkOut refuses a directory that already holds a result: a measurement cannot be
// repeated, and a half overwritten archive belongs to neither run. dir may be
// missing, be empty or hold other files.
func checkOut(dir string) error {
	for _, pattern := range []string{results.File, results.CapacityFile, filepath.Join("*", results.File)} {
		// Glob fails only on a malformed pattern, which the name of a directory may
		// be.
		found, err := filepath.Glob(filepath.Join(globQuote(dir), pattern))
		if err == nil && len(found) > 0 {
			return usagef("--out %s: there is a result already, %s; choose another directory, or remove it", dir, found[0])
		}
	}
	return nil
}

// globQuote escapes a path so that a pattern matches it literally.
func globQuote(dir string) string {
	var out []rune
	for _, r := range dir {
		if r == '*' || r == '?' || r == '[' {
			out = append(out, '[', r, ']')
			continue
		}
		out = append(out, r)
	}
	return string(out)
}

// streams are the input, the outputs and the interrupts of the command.
type streams struct {
	in         io.Reader
	out, err   io.Writer
	interrupts <-chan os.Signal
	variables  map[string]string // of the environment, which set flags
}

// A release build sets these with -ldflags "-X main.release=v0.1.0 -X main.commit=…".
// Without them, the information that Go puts into binaries is used.
var release, commit string

// build says what this program was built from.
type build struct {
	Version  string `json:"version"`          // of the module; "devel" = not a release
	Commit   string `json:"commit,omitempty"` // empty = not known
	Modified bool   `json:"modified"`         // the working tree had changes
	Go       string `json:"go"`
	System   string `json:"system"`
}

func buildOf(info *debug.BuildInfo) build {
	b := build{Version: release, Commit: commit, Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH}
	if info != nil {
		if v := info.Main.Version; b.Version == "" && v != "(devel)" {
			b.Version = v
		}
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = cmp.Or(b.Commit, s.Value)
			case "vcs.modified":
				b.Modified = s.Value == "true" && commit == ""
			}
		}
	}
	b.Version = cmp.Or(b.Version, "devel")
	return b
}

func thisBuild() build {
	info, _ := debug.ReadBuildInfo()
	return buildOf(info)
}

// version returns the version of this program, as results have it.
func version() string { return thisBuild().Version }

// String returns one line for people.
func (b build) String() string {
	from := "commit not known"
	if b.Commit != "" {
		from = "commit " + b.Commit[:min(12, len(b.Commit))]
	}
	if b.Modified {
		from += ", modified"
	}
	return fmt.Sprintf("%s (%s), %s, %s", b.Version, from, b.Go, b.System)
}

func newVersionCommand(s streams) *cobra.Command {
	var f formatFlags
	c := &cobra.Command{
		Use: "version", Short: "Print the version and the commit of this program", Args: cobra.NoArgs,
		Example: "  eventmeter version --format json",
		RunE: func(*cobra.Command, []string) error {
			if err := f.check(); err != nil {
				return err
			}
			b := thisBuild()
			return f.all(s, rendering{
				formatText: func(w io.Writer) error { _, err := fmt.Fprintf(w, "eventmeter %s\n", b); return err },
				formatJSON: indented(b),
			})
		},
	}
	f.add(c, formatText, formatJSON)
	return c
}
