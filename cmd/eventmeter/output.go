package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/eventmeter/eventmeter/internal/lockfile"
	"github.com/eventmeter/eventmeter/results"
)

// output is a standard output whose reader may leave, as head does. What is
// written after that is dropped, and no error: nobody waits for it.
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

// outLock is the file that a run locks in the directory it was given.
const outLock = ".in-use"

// outDir is a directory that one run writes to.
type outDir struct {
	path string
	made bool // by this run
	lock *lockfile.Lock
}

// takeOut takes the directory that --out names, so that no other run writes
// there at the same time. The caller must release it.
func takeOut(path string) (*outDir, error) {
	d := &outDir{path: path}
	_, err := os.Stat(path)
	d.made = errors.Is(err, os.ErrNotExist)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory for the result: %w; choose another with --out", err)
	}
	name := filepath.Join(path, outLock)
	d.lock, err = lockfile.Take(name)
	switch {
	case errors.Is(err, lockfile.ErrHeld) && lockfile.GivenBack:
		return nil, usageError{fmt.Errorf("--out %s: it is %w, which is running; choose another directory", path, err)}
	case errors.Is(err, lockfile.ErrHeld):
		return nil, usageError{fmt.Errorf("--out %s: it is %w; choose another directory, or remove %s if that process has ended", path, err, name)}
	case err != nil:
		d.release()
		return nil, fmt.Errorf("take the directory for the result: %w; choose another with --out", err)
	}
	// What a killed run had half written.
	if found, err := filepath.Glob(filepath.Join(globQuote(path), results.Unfinished)); err == nil {
		for _, name := range found {
			_ = os.Remove(name) // it does no harm
		}
	}
	return d, nil
}

// newOut makes a directory for a run that was given none: name, or where it is
// there already, from another run that began in the same second, the next like it
// that is not.
func newOut(name string) (*outDir, error) {
	err := os.MkdirAll(filepath.Dir(name), 0o755)
	for n := 2; err == nil; n++ {
		path := name
		if n > 2 {
			path = fmt.Sprintf("%s-%d", name, n-1)
		}
		if err = os.Mkdir(path, 0o700); err == nil {
			return &outDir{path: path, made: true}, nil
		}
		if errors.Is(err, os.ErrExist) && n < 1000 {
			err = nil
		}
	}
	return nil, fmt.Errorf("make the directory for the result: %w; choose another with --out", err)
}

// defaultOut is the name of the directory of a run that was given none.
func defaultOut(what string) string {
	return filepath.Join("results", "runs", time.Now().UTC().Format("20060102T150405Z")+"-"+what)
}

// release lets others write to the directory, and removes it if it is this run's
// and nothing was written. It does nothing on nil.
func (d *outDir) release() {
	if d == nil {
		return
	}
	d.lock.Release()
	if d.made {
		_ = os.Remove(d.path) // only if it is still empty
	}
}

// checkOut refuses a directory that holds a result already: a measurement cannot
// be had again, and one that is half overwritten is neither of the two. dir may
// be missing, or empty, or hold other things.
func checkOut(dir string) error {
	for _, pattern := range []string{results.File, results.CapacityFile, filepath.Join("*", results.File)} {
		// A pattern fails only if it is malformed, as a directory's name may be.
		found, err := filepath.Glob(filepath.Join(globQuote(dir), pattern))
		if err == nil && len(found) > 0 {
			return usageError{fmt.Errorf("--out %s: there is a result already, %s; choose another directory, or remove it", dir, found[0])}
		}
	}
	return nil
}

// globQuote writes a path so that a pattern means it and nothing else.
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

// streams is what the command touches of its surroundings.
type streams struct {
	in         io.Reader
	out, err   io.Writer
	interrupts <-chan os.Signal
}

// version is the module's version, where the binary was built from one.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}
