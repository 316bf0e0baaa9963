//go:build windows

package upstream

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps Ctrl-C away from the program: the run drains first, and then
// ends it in order.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
