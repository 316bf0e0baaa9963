//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package lockfile

import (
	"errors"
	"os"
	"syscall"
)

// GivenBack reports whether the system releases the lock of a killed process.
const GivenBack = true

// open opens and locks the file. A holder removes the file on release, so the locked file may no
// longer have a name; open then tries again.
func open(name string) (*os.File, error) {
	for {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			_ = f.Close()
			if errors.Is(err, syscall.EWOULDBLOCK) {
				return nil, ErrHeld
			}
			return nil, err
		}
		locked, err := f.Stat()
		if err == nil {
			var named os.FileInfo
			if named, err = os.Stat(name); err == nil && os.SameFile(locked, named) {
				return f, nil
			}
		}
		_ = f.Close()
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
}

// remove removes the file while it is locked, so that it cannot remove another holder's file.
func remove(f *os.File) {
	_ = os.Remove(f.Name()) // the directory was removed
	_ = f.Close()
}
