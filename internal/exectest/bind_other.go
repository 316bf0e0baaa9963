//go:build !linux

package exectest

import "os/exec"

// bind does nothing: no other system can tie a program to the process that started it.
func bind(cmd *exec.Cmd) *exec.Cmd { return cmd }
