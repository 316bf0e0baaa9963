//go:build !linux || !(amd64 || arm64)

package streamclient

// New returns a client that suits the options. On this platform it is always the
// portable one.
func New(o Options) (Client, error) { return NewPortable(o) }

// Stamps tells whether a client of these options can have the kernel's receive
// times. On this platform none can.
func Stamps(Options) bool { return false }
