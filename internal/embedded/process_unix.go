//go:build unix

package embedded

import (
	"os"
	"os/exec"
	"syscall"
)

// Detach puts the child into a process group of its own: Ctrl-C in
// a terminal goes to the whole group, and the target must live until the drain
// is over.
func Detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// owned reports whether a file belongs to the user of this process.
func owned(info os.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Getuid()
}
