package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/eventmeter/eventmeter/internal/lockfile"
)

// TempDir is a folder for temporary files. It is locked while its process lives,
// which distinguishes it from folders of killed processes.
type TempDir struct {
	Path string
	lock *lockfile.Lock
}

const (
	tempPattern = "eventmeter-*"
	tempLock    = "in-use"
)

// NewTempDir makes a folder, and removes the folders of killed processes.
func NewTempDir() (*TempDir, error) {
	sweepTemp(os.TempDir())
	const tries = 5
	var err error
	for range tries {
		var path string
		if path, err = os.MkdirTemp("", tempPattern); err != nil {
			break
		}
		var lock *lockfile.Lock
		if lock, err = lockfile.Take(filepath.Join(path, tempLock)); err == nil {
			return &TempDir{path, lock}, nil
		}
		_ = os.Remove(path)
		if !errors.Is(err, lockfile.ErrHeld) && !errors.Is(err, os.ErrNotExist) {
			break
		}
		// Another process removed the folder before it was locked.
	}
	return nil, fmt.Errorf("make a folder for temporary files: %w", err)
}

// Remove removes the folder. It does nothing on nil.
func (d *TempDir) Remove() {
	if d == nil {
		return
	}
	_ = os.RemoveAll(d.Path) // what cannot be removed is swept some day
	d.lock.Release()
}

// sweepTemp removes folders of this user whose lock nobody holds. A folder without a
// lock may not be a run's, and is left alone.
func sweepTemp(dir string) {
	if !lockfile.GivenBack {
		return
	}
	found, err := filepath.Glob(filepath.Join(dir, tempPattern))
	if err != nil {
		return
	}
	for _, path := range found {
		if info, err := os.Lstat(path); err != nil || !info.IsDir() || !owned(info) {
			continue
		}
		name := filepath.Join(path, tempLock)
		if info, err := os.Lstat(name); err != nil || !info.Mode().IsRegular() {
			continue
		}
		lock, err := lockfile.Take(name)
		if err != nil {
			continue
		}
		_ = os.RemoveAll(path)
		lock.Release()
	}
}
