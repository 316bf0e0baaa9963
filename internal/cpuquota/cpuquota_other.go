//go:build !linux

package cpuquota

// Group is a group of processes with a CPU quota, which this system does not have.
type Group struct{}

// New returns an error that wraps [ErrUnavailable].
func New() (*Group, error) { return nil, ErrUnavailable }

// Set bounds the CPU time of the group.
func (g *Group) Set(float64) error { return ErrUnavailable }

// Add moves a process into the group.
func (g *Group) Add(int) error { return ErrUnavailable }

// Remove removes the group.
func (g *Group) Remove() error { return nil }
