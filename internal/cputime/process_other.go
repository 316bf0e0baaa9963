//go:build !linux

package cputime

import (
	"errors"
	"time"
)

// Step is the resolution of [Of].
const Step = time.Microsecond

// Of returns an error that wraps [errors.ErrUnsupported]: this system has no CPU clock
// of another process.
func Of(int) (time.Duration, error) { return 0, errors.ErrUnsupported }
