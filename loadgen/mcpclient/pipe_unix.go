//go:build unix

package mcpclient

import (
	"os/exec"
	"syscall"
)

// ownGroup puts the server into a process group of its own. An interrupt from the
// terminal must not reach the server, which has to live until the drain is over, and
// signalGroup must reach the processes that the server starts.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// signalGroup asks the server and the processes that it started to terminate, or
// kills them. It ignores processes that have ended.
func signalGroup(cmd *exec.Cmd, kill bool) {
	signal := syscall.SIGTERM
	if kill {
		signal = syscall.SIGKILL
	}
	_ = syscall.Kill(-cmd.Process.Pid, signal)
}
