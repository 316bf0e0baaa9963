//go:build unix

package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// unmasked is a command whose files have the modes that the program asks for.
func unmasked(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := command(t, args...)
	cmd.Args = append([]string{"sh", "-c", `umask 0; exec "$0" "$@"`, cmd.Path}, args...)
	sh, err := exec.LookPath("sh")
	must(t, err)
	cmd.Path = sh
	return cmd
}

// private reports every file below dir that others than its user and its group may read,
// and returns how many files there are by name.
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
		want := fs.FileMode(0o640)
		if d.IsDir() {
			want = 0o750
		} else {
			found[d.Name()]++
		}
		if name != dir && info.Mode().Perm() != want {
			t.Errorf("%s: %s has mode %o, want %o", what, name, info.Mode().Perm(), want)
		}
		return nil
	})
	must(t, err)
	return found
}

// TestFilesArePrivate: what a run and a search write, the user's group may read if the umask
// lets it, and others may not.
func TestFilesArePrivate(t *testing.T) {
	t.Parallel()
	small := writeProfile(t, smallProfile)
	for name, tt := range map[string]struct {
		args []string // OUT stands for the directory
		want []string
	}{
		"trials": {[]string{"run", "--quiet", "--profile", small, "--trials", "2", "--out", "OUT/trials"}, []string{
			"result.json", "push.hlog", "poll.hlog", "timeline.csv", "report.html", "report.txt", "profile.yaml"}},
		"processes": {[]string{"run", "--quiet", "--profile", small, "--processes", "2", "--out", "OUT/split"},
			[]string{"result.json", "shard.json", "push.hlog"}},
	} {
		t.Run(name, func(t *testing.T) {
			out := t.TempDir()
			args := make([]string, len(tt.args))
			for i := range args {
				args[i] = strings.ReplaceAll(tt.args[i], "OUT", out)
			}
			text, err := unmasked(t, args...).CombinedOutput()
			if code := codeOf(t, err); code == exitUsage || code == exitTarget {
				t.Fatalf("exit code %d: %s", code, text)
			}
			found := private(t, name, out)
			for _, file := range tt.want {
				if found[file] == 0 {
					t.Errorf("there is no %s: %v\n%s", file, found, text)
				}
			}
		})
	}
}
