//go:build unix

package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/eventmeter/eventmeter/results"
)

// unmasked is a command whose files have the modes that the program asks for.
func unmasked(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := command(t, args...)
	cmd.Args = append([]string{"sh", "-c", `umask 0; exec "$0" "$@"`, cmd.Path}, args...)
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Path = sh
	return cmd
}

// private reports every file below dir that others than its user may read, and
// returns how many files there are by name.
func private(t *testing.T, what, dir string) map[string]int {
	t.Helper()
	found := map[string]int{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil // a file that a run replaces just now
		}
		if err != nil {
			return err
		}
		info, err := d.Info()
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		} else {
			found[d.Name()]++
		}
		if name != dir && info.Mode().Perm() != want {
			t.Errorf("%s: %s has mode %o, want %o", what, name, info.Mode().Perm(), want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestFilesArePrivate: whatever is written beside an archive, others cannot read it,
// also where the umask would let them.
func TestFilesArePrivate(t *testing.T) {
	t.Parallel()
	small := writeProfile(t, smallProfile)
	for name, tt := range map[string]struct {
		args []string // OUT stands for the directory
		want []string
	}{
		"a run": {[]string{"run", "--quiet", "--profile", small, "--out", "OUT/run",
			"--record", "OUT/fired.jsonl"}, []string{"result.json", "push.hlog", "poll.hlog", "timeline.csv", "report.html",
			"report.txt", "profile.yaml", "fired.jsonl"}},
		"a run without one": {[]string{"run", "--quiet", "--profile", small}, []string{"result.json", "report.html"}},
		"trials":            {[]string{"run", "--quiet", "--profile", small, "--trials", "2", "--out", "OUT/trials"}, []string{"result.json"}},
		"processes": {[]string{"run", "--quiet", "--profile", small, "--processes", "2", "--out", "OUT/split"},
			[]string{"result.json", "shard.json", "push.hlog"}},
		"a capacity": {[]string{"capacity", "--quiet", "--profile", knownProfile(t), "--set", "capacity.from=20",
			"--set", "capacity.to=21", "--set", "capacity.confirm=1", "--out", "OUT/capacity"},
			[]string{"capacity.json", "result.json", "report.txt"}},
	} {
		t.Run(name, func(t *testing.T) {
			out := t.TempDir()
			args := make([]string, len(tt.args))
			for i := range args {
				args[i] = strings.ReplaceAll(tt.args[i], "OUT", out)
			}
			cmd := unmasked(t, args...)
			text, err := cmd.CombinedOutput()
			if code := codeOf(t, err); code == exitUsage || code == exitTarget {
				t.Fatalf("exit code %d: %s", code, text)
			}
			if name == "a run without one" {
				runs, err := filepath.Glob(filepath.Join(cmd.Dir, "results", "runs", "*"))
				if err != nil || len(runs) != 1 {
					t.Fatalf("%q, %v", runs, err)
				}
				if info, err := os.Stat(runs[0]); err != nil || info.Mode().Perm() != 0o700 {
					t.Errorf("%s: %v, %v", runs[0], info.Mode(), err)
				}
				out = runs[0]
			}
			found := private(t, name, out)
			for _, file := range tt.want {
				if found[file] == 0 {
					t.Errorf("there is no %s: %v\n%s", file, found, text)
				}
			}
			if name != "processes" {
				return
			}
			merged := t.TempDir()
			text, err = unmasked(t, "merge", filepath.Join(out, "split"), "--out", filepath.Join(merged, "merged")).CombinedOutput()
			if code := codeOf(t, err); code == exitUsage {
				t.Fatalf("merge: exit code %d: %s", code, text)
			}
			if found := private(t, "merge", merged); found["result.json"] != 1 || found["push.hlog"] != 1 {
				t.Errorf("merge: %v\n%s", found, text)
			}
		})
	}
	t.Run("a checkpoint", func(t *testing.T) {
		out := t.TempDir()
		cmd := unmasked(
			t,
			"run",
			"--quiet",
			"--profile",
			small,
			"--set",
			"phases.measure=60s",
			"--processes",
			"2",
			"--out",
			filepath.Join(out, "run"),
		)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(out, "run", "shard-0", results.PartFile)
		eventually(t, "a checkpoint", func() bool { _, err := os.Stat(file); return err == nil })
		private(t, "a checkpoint", out)
		started := children(t, cmd.Process.Pid)
		if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		for _, pid := range started {
			eventually(t, "every child ends with its parent", func() bool { return gone(pid) })
		}
		if found := private(t, "a checkpoint", out); found[results.PartFile] == 0 {
			t.Errorf("%v", found)
		}
	})
	t.Run("a recording", func(t *testing.T) {
		ready, _ := serveTarget(t)
		out := t.TempDir()
		text, err := unmasked(
			t,
			"record",
			"-t",
			ready.URL,
			"-e",
			"chat.message",
			"--duration",
			"300ms",
			"--out",
			filepath.Join(out, "trace.jsonl"),
			"--quiet",
		).CombinedOutput()
		if found := private(t, "a recording", out); found["trace.jsonl"] != 1 {
			t.Errorf("%v: %v\n%s", found, err, text)
		}
	})
}
