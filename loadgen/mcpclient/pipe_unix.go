//go:build unix

package mcpclient

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps an interrupt from the terminal away from the server, which
// must live until the drain is over, and makes whatever it starts reachable.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// signalGroup asks the server and whatever it started to terminate, or kills
// them. Those that are gone make no difference.
func signalGroup(cmd *exec.Cmd, kill bool) {
	signal := syscall.SIGTERM
	if kill {
		signal = syscall.SIGKILL
	}
	_ = syscall.Kill(-cmd.Process.Pid, signal)
}
