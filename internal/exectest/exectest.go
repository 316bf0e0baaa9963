// Package exectest starts the programs of tests. On Linux a program ends with the test binary that
// started it, also when that is killed; elsewhere only what the test itself does ends it.
package exectest

import (
	"context"
	"os/exec"
)

// Command is [exec.Command] for tests.
func Command(name string, args ...string) *exec.Cmd { return bind(exec.Command(name, args...)) }

// CommandContext is [exec.CommandContext] for tests.
func CommandContext(ctx context.Context, name string, args ...string) *exec.Cmd {
	return bind(exec.CommandContext(ctx, name, args...))
}
