package stats

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter/results"
)

// Side is one side of a comparison: one run or several trials of the same. It
// is read-only once loaded, and may be used in several comparisons at a time.
type Side struct {
	// Runs are in order of their start.
	Runs []Run
}

// Run is one archived run.
type Run struct {
	Path   string
	Result *results.Result
	// Logs are the interval histograms by lane; a lane without a log in the
	// archive is not in it.
	Logs map[string]*results.Log
}

// LoadSide reads the runs at paths. A path is the directory of a run (with a result.json), or a
// directory of such directories, which are the trials of one side. A run that is given twice is an
// error, because it would simulate more data. So is a run whose histograms or timelines do not give
// the figures of its result; see [results.Result.CheckSeries].
func LoadSide(paths []string) (*Side, error) {
	s := &Side{}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%w: a side has no paths; name the directory of a run", ErrCompare)
	}
	for _, path := range paths {
		dirs, err := runDirs(path)
		if err != nil {
			return nil, err
		}
		for _, dir := range dirs {
			run, err := loadRun(dir)
			if err != nil {
				return nil, err
			}
			s.Runs = append(s.Runs, run)
		}
	}
	slices.SortStableFunc(s.Runs, func(x, y Run) int {
		if c := x.Result.Started.Compare(y.Result.Started); c != 0 {
			return c
		}
		return strings.Compare(x.Result.Run, y.Result.Run)
	})
	for i := range s.Runs[1:] {
		x, y := &s.Runs[i], &s.Runs[i+1]
		if x.Result.Run == y.Result.Run && x.Result.Started.Equal(y.Result.Started) {
			return nil, fmt.Errorf("%w: %s and %s are the same run %s; name it once", ErrCompare, x.Path, y.Path, x.Result.Run)
		}
	}
	return s, nil
}

// runDirs returns path, or the runs in it by name.
func runDirs(path string) ([]string, error) {
	if _, err := os.Stat(filepath.Join(path, results.File)); err == nil {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w; name the directory of a run, or one of several runs", ErrCompare, err)
	}
	var dirs []string
	for _, e := range entries {
		dir := filepath.Join(path, e.Name())
		if _, err := os.Stat(filepath.Join(dir, results.File)); err == nil {
			dirs = append(dirs, dir)
		}
	}
	if dirs == nil {
		return nil, fmt.Errorf(
			"%w: there is no %s in %s or in a directory of it; name the directory that a run wrote",
			ErrCompare,
			results.File,
			path,
		)
	}
	return dirs, nil
}

func loadRun(dir string) (Run, error) {
	r, err := results.Load(dir)
	if err != nil {
		return Run{}, fmt.Errorf("%w: %w", ErrCompare, err)
	}
	run := Run{Path: dir, Result: r, Logs: map[string]*results.Log{}}
	if r.Checkpoint {
		return run, nil // logs beside a checkpoint are from a run that was killed while it wrote them
	}
	if run.Logs, err = r.Series(dir); err != nil {
		return Run{}, fmt.Errorf("%w: %w", ErrCompare, err)
	}
	return run, nil
}

func (r *Run) lane(name string) *results.Lane {
	for i := range r.Result.Lanes {
		if r.Result.Lanes[i].Name == name {
			return &r.Result.Lanes[i]
		}
	}
	return nil
}

// lanes returns the names of the lanes that every run has, in the first run's
// order.
func (s *Side) lanes() []string {
	var names []string
	for _, l := range s.Runs[0].Result.Lanes {
		everywhere := true
		for i := range s.Runs {
			everywhere = everywhere && s.Runs[i].lane(l.Name) != nil
		}
		if everywhere {
			names = append(names, l.Name)
		}
	}
	return names
}

func (s *Side) info() SideInfo {
	var out SideInfo
	for _, r := range s.Runs {
		out.Runs = append(out.Runs, r.info())
	}
	return out
}

func (r *Run) info() RunInfo {
	return RunInfo{
		Run:     r.Result.Run,
		Path:    r.Path,
		Version: r.Result.Version,
		Started: r.Result.Started,
		Commit:  commitOf(r.Result.Profile),
	}
}

// ErrCompare is wrapped by every error about two sides that cannot be compared.
var ErrCompare = errors.New("cannot compare")

// RunInfo names a run.
type RunInfo struct {
	Run     string    `json:"run"`
	Path    string    `json:"path"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	// Commit is target.commit of its profile.
	Commit string `json:"commit,omitempty"`
}

// SideInfo names the runs of a side.
type SideInfo struct {
	Runs []RunInfo `json:"runs"`
}
