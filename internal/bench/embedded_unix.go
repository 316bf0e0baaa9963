//go:build unix

package bench

import (
	"os/exec"
	"syscall"
)

// detachFromTerminal puts the child into a process group of its own: Ctrl-C in
// a terminal goes to the whole group, and the target must live until the drain
// is over.
func detachFromTerminal(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}
