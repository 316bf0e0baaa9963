// Package lockfile uses files as locks between processes. A lock ends with its process, however the
// process ends.
package lockfile

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ErrHeld is wrapped by the error for a lock held by another process.
var ErrHeld = errors.New("locked by")

// Lock is a lock that was taken. The caller must release it.
type Lock struct{ file *os.File }

// Take locks the file of that name, and creates it if needed; its directory must exist. If the file
// is locked, the error wraps [ErrHeld] and names the holder's process.
func Take(name string) (*Lock, error) {
	f, err := open(name)
	if errors.Is(err, ErrHeld) {
		return nil, fmt.Errorf("%w %s", ErrHeld, holder(name))
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	// For people and for messages: the lock itself does not depend on it.
	if err := errors.Join(f.Truncate(0), written(f)); err != nil {
		_ = os.Remove(name)
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return &Lock{f}, nil
}

func written(f *os.File) error {
	_, err := f.WriteAt(strconv.AppendInt(nil, int64(os.Getpid()), 10), 0)
	return err
}

// Release releases the lock and removes its file. It does nothing on nil.
func (l *Lock) Release() {
	if l == nil {
		return
	}
	remove(l.file)
}

// holder names the process that wrote itself into a lock file.
func holder(name string) string {
	text, err := os.ReadFile(name)
	if pid := strings.TrimSpace(string(text)); err == nil && pid != "" && len(pid) < 20 {
		if _, err := strconv.ParseUint(pid, 10, 64); err == nil {
			return "process " + pid
		}
	}
	return "another process"
}
