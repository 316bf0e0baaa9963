//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package lockfile

import (
	"errors"
	"os"
)

// GivenBack tells whether a lock of a process that was killed is given back by
// the system. Here it is not: its file has to be removed by hand.
const GivenBack = false

func open(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil, ErrHeld
	}
	return f, err
}

// remove closes the file first: some systems remove no file that is open.
func remove(f *os.File) {
	_ = f.Close()
	_ = os.Remove(f.Name())
}
