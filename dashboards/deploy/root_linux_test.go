package deploy

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/eventmeter/eventmeter/internal/exectest"
)

// TestRootFS makes the files of the image and runs the program among them, as the
// image's user and with nothing else: it gives its version, and measures a target.
func TestRootFS(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can change the root folder")
	}
	if testing.Short() {
		t.Skip("it compiles the program")
	}
	dir := filepath.Join(t.TempDir(), "root")
	c := exectest.Command("dashboards/deploy/rootfs", dir)
	path, given := withoutTrimpath(t)
	c.Dir, c.Env = "../..", append(os.Environ(), "VERSION=v1.2.3-test", "PATH="+path)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if args, err := os.ReadFile(given); err != nil || !strings.Contains(string(args), "\n-trimpath\n") {
		t.Errorf("%v: the program of the image is compiled with paths of the building machine: %q", err, args)
	}
	run := func(args ...string) (out string, code int) {
		c := inRoot(dir, args...)
		text, err := c.CombinedOutput()
		if err != nil && c.ProcessState == nil {
			t.Fatalf("%q: %v", args, err)
		}
		return string(text), c.ProcessState.ExitCode()
	}
	if out, code := run("/eventmeter", "--version"); code != 0 || !strings.Contains(out, "v1.2.3-test") {
		t.Errorf("exit code %d: %s", code, out)
	}
	out, code := run(
		"/eventmeter",
		"run",
		"--profile",
		"push",
		"--command",
		"/eventmeter serve --stdio",
		"--set",
		"lanes.push.subscriptions=2",
		"--set",
		"phases.warmup=0s",
		"--set",
		"phases.measure=1s",
		"--quiet",
		"--out",
		"/results/run",
	)
	if code != 0 && code != 4 && code != 5 { // a busy machine, a doubtful latency
		t.Errorf("exit code %d\n%s", code, out)
	}
	result, err := os.ReadFile(filepath.Join(dir, "results", "run", "result.json"))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !bytes.Contains(result, []byte(`"v1.2.3-test"`)) {
		t.Error("the result does not have the version")
	}
	if _, code := run(
		"/eventmeter",
		"run",
		"--profile",
		"push",
		"--command",
		"/eventmeter serve --stdio",
		"--quiet",
		"--out",
		"/etc/run",
	); code != 2 &&
		code != 1 {
		t.Errorf("a run whose result goes to /etc, as another user than root: exit code %d", code)
	}
}

// withoutTrimpath is a PATH on which go leaves out -trimpath, because the flag compiles every package
// once more, and the file to which that go writes its arguments.
func withoutTrimpath(t *testing.T) (path, given string) {
	t.Helper()
	program, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	given = filepath.Join(dir, "arguments")
	script := fmt.Sprintf(`#!/bin/sh
printf '%%s\n' "$@" >'%s'
for arg; do
	shift
	[ "$arg" = -trimpath ] || set -- "$@" "$arg"
done
exec '%s' "$@"
`, given, program)
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir + string(filepath.ListSeparator) + os.Getenv("PATH"), given
}

// inRoot is a command among the files of the image, as its user.
func inRoot(dir string, args ...string) *exec.Cmd {
	return &exec.Cmd{
		Path: args[0], Args: args, Dir: "/results", Env: []string{},
		SysProcAttr: &syscall.SysProcAttr{
			Chroot: dir, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}, Pdeathsig: syscall.SIGKILL,
		},
	}
}
