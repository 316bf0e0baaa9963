package exectest

import (
	"os/exec"
	"syscall"
)

// bind has the kernel kill the program when the thread that started it ends. Go keeps its threads
// until the process ends, except those of goroutines that end while locked to one; no test has any.
func bind(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}
