//go:build !linux || !(amd64 || arm64)

package streamclient

// New returns a pump that suits the options. Here that is the portable one.
func New(o Options) (Pump, error) { return NewPortable(o) }

// Stamps tells whether a pump of these options can have the kernel's receive
// times. Here none can.
func Stamps(Options) bool { return false }
