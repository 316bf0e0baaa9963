//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package lockfile

import (
	"errors"
	"os"
)

// GivenBack reports whether the system releases the lock of a killed process. Here it does not: the
// file must be removed by hand.
const GivenBack = false

func open(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil, ErrHeld
	}
	return f, err
}

// remove closes the file first, because some systems cannot remove an open file.
func remove(f *os.File) {
	_ = f.Close()
	_ = os.Remove(f.Name())
}
