//go:build windows

package embedded

import (
	"os"
	"os/exec"
	"syscall"
)

// Detach puts the child into a process group of its own, so that Ctrl-C reaches the
// generator alone and the target lives until the drain is over.
func Detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// owned is false: temporary folders are not swept on this system.
func owned(os.FileInfo) bool { return false }
