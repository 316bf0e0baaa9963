//go:build windows

package mcpclient

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps Ctrl-C away from the server, which must live until the drain
// is over.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// signalGroup kills the server. Without kill it does nothing: Windows has no request
// to terminate that works with every program.
func signalGroup(cmd *exec.Cmd, kill bool) {
	if kill {
		_ = cmd.Process.Kill() // it may be gone
	}
}
