// Package cpuquota bounds the CPU time of processes with a control group, as
// container runtimes do.
package cpuquota

import "errors"

// ErrUnavailable is wrapped by the error of [New] where no group can be made.
var ErrUnavailable = errors.New(
	"a CPU quota needs Linux and the right to make a control group with the controller cpu: run as root, or in a service with Delegate=cpu",
)
