package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/mcpload/mcpload/profiles"
)

// loadAll reads the profiles that are run in turn.
func (f *runFlags) loadAll() ([]*profiles.Profile, error) {
	var all []*profiles.Profile
	for _, name := range f.profiles {
		p, err := loadProfile(*f, name)
		if err != nil {
			return nil, err
		}
		if len(p.Cases) > 0 {
			if err := f.checkCalibration(); err != nil {
				return nil, err
			}
		}
		all = append(all, p)
	}
	return all, distinct(all)
}

// named says which of several runs an error is of.
func (f *runFlags) named(err error, profile string, trial int) error {
	switch {
	case err == nil, f.trials == 1 && len(f.profiles) == 1:
		return err
	case f.trials == 1:
		return fmt.Errorf("%s: %w", profile, err)
	}
	return fmt.Errorf("%s, trial %d: %w", profile, trial+1, err)
}

// distinct refuses two profiles of one name: their results would be mixed up.
func distinct(all []*profiles.Profile) error {
	seen := map[string]bool{}
	for _, p := range all {
		if seen[p.Name] {
			return usageError{fmt.Errorf("--profile: two profiles are named %s; rename one", p.Name)}
		}
		seen[p.Name] = true
	}
	return nil
}

// directories are where the runs of each profile are written. One that was asked
// for, and holds a result already, is refused.
func (f *runFlags) directories(all []*profiles.Profile) ([]string, error) {
	started := time.Now().UTC().Format("20060102T150405Z")
	dirs := make([]string, len(all))
	for i, p := range all {
		switch {
		case f.out == "":
			dirs[i] = unused(filepath.Join("results", "runs", started+"-"+p.Name))
			continue
		case len(all) > 1:
			dirs[i] = filepath.Join(f.out, p.Name)
		default:
			dirs[i] = f.out
		}
		if err := checkOut(dirs[i]); err != nil {
			return nil, err
		}
	}
	return dirs, nil
}

// dir is where one run is written: trials of one profile stand side by side in
// a directory of their own, which mcpload compare takes as one side.
func (f *runFlags) dir(dir string, trial int) string {
	if f.trials > 1 {
		dir = filepath.Join(dir, fmt.Sprintf("trial-%03d", trial+1))
	}
	return dir
}
