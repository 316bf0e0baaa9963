//go:build unix

package upstream

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps an interrupt from the terminal away from the program: the run
// drains first, and then ends it in order.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
