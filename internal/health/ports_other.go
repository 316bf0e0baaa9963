//go:build !linux

package health

// EphemeralPorts returns 0: the port range of this system is not known.
func EphemeralPorts() int { return 0 }
