package main

import (
	"fmt"
	"path/filepath"

	"github.com/eventmeter/eventmeter/profiles"
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
// for is taken as a whole, and refused if it holds a result already. The caller
// must call release, also with an error.
func (f *runFlags) directories(all []*profiles.Profile) (dirs []string, release func(), err error) {
	var taken []*outDir
	release = func() {
		for _, d := range taken {
			d.release()
		}
	}
	if f.out != "" {
		d, err := takeOut(f.out)
		if err != nil {
			return nil, release, err
		}
		taken = append(taken, d)
	}
	for _, p := range all {
		dir := f.out
		switch {
		case len(p.Cases) > 0: // it leaves no archive
		case f.out == "":
			d, err := newOut(defaultOut(p.Name))
			if err != nil {
				return nil, release, err
			}
			taken = append(taken, d)
			dir = d.path
		default:
			if len(all) > 1 {
				dir = filepath.Join(f.out, p.Name)
			}
			if err := checkOut(dir); err != nil {
				return nil, release, err
			}
		}
		dirs = append(dirs, dir)
	}
	return dirs, release, nil
}

// dir is where one run is written: trials of one profile stand side by side in
// a directory of their own, which eventmeter compare takes as one side.
func (f *runFlags) dir(dir string, trial int) string {
	if f.trials > 1 {
		dir = filepath.Join(dir, fmt.Sprintf("trial-%03d", trial+1))
	}
	return dir
}
