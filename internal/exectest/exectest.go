// Package exectest starts the programs of tests. On Linux a program ends with the test binary that
// started it, also when that is killed; elsewhere only what the test itself does ends it.
package exectest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
)

// Command is [exec.Command] for tests.
func Command(name string, args ...string) *exec.Cmd { return bind(exec.Command(name, args...)) }

// CommandContext is [exec.CommandContext] for tests.
func CommandContext(ctx context.Context, name string, args ...string) *exec.Cmd {
	return bind(exec.CommandContext(ctx, name, args...))
}

// Build writes a program of this repository to the file to. The folder that the variable
// EVENTMETER_PROGRAMS names may have it ready, by the last element of its package's path: each
// program that is linked costs seconds, and many packages have tests that start one.
func Build(to, pkg string) error {
	if ready := os.Getenv("EVENTMETER_PROGRAMS"); ready != "" {
		if err := os.Link(filepath.Join(ready, path.Base(pkg)), to); err == nil {
			return nil
		}
	}
	if out, err := Command("go", "build", "-o", to, pkg).CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return nil
}
