package mcpevents_test

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/exectest"
)

// xk6Version is the version that README.md names.
const xk6Version = "v1.4.11"

// xk6 builds the real xk6 in a module of its own and returns its folder. The
// test is skipped where the module proxy cannot serve it.
func xk6(t *testing.T) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("README.md's lines are for a POSIX shell")
	}
	dir := t.TempDir()
	for _, args := range [][]string{
		{"mod", "init", "x"},
		{"mod", "edit", "-require=go.k6.io/xk6@" + xk6Version},
		{"build", "-mod=mod", "-o", "xk6", "go.k6.io/xk6"},
	} {
		c := exectest.CommandContext(t.Context(), "go", args...)
		c.Dir, c.Env = dir, append(os.Environ(), "GOWORK=off")
		out, err := c.CombinedOutput()
		switch {
		case err == nil:
		case os.Getenv("EVENTMETER_REQUIRE_TOOLS") != "":
			t.Fatalf(
				"xk6 %s cannot be built, and EVENTMETER_REQUIRE_TOOLS is set: go %s: %v\n%s",
				xk6Version,
				strings.Join(args, " "),
				err,
				out,
			)
		default:
			t.Skipf("xk6 %s cannot be built: go %s: %v\n%s", xk6Version, strings.Join(args, " "), err, out)
		}
	}
	return dir
}

// TestXK6 runs the xk6 command of README.md with the real xk6: in the
// repository's root, where go would find go.work, and outside the repository.
func TestXK6(t *testing.T) {
	t.Parallel()
	line := regexp.MustCompile(`(?m)^.*\bxk6 build --output k6 .*$`).FindString(readme(t))
	if line == "" {
		t.Fatal("README.md has no line of xk6 that writes the file k6")
	}
	if !strings.Contains(readme(t), xk6Version) {
		t.Errorf("README.md does not name xk6 %s", xk6Version)
	}
	bin := xk6(t)
	root, err := filepath.Abs("..")
	must(t, err)
	build := func(dir, line string) (k6 string, out []byte, err error) {
		k6 = filepath.Join(t.TempDir(), "k6")
		// Written elsewhere, so that nothing is left in the repository. xk6's own
		// build flags, and another choice of cgo than that of other builds, would have
		// all of k6 compiled once more.
		c := exectest.CommandContext(t.Context(), "sh", "-c", strings.Replace(line, "--output k6 ", "--output '"+k6+"' ", 1))
		c.Dir = dir
		c.Env = append(os.Environ(), "EVENTMETER="+root, "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"),
			"CGO_ENABLED="+cmp.Or(os.Getenv("CGO_ENABLED"), "1"), "XK6_BUILD_FLAGS=-ldflags=-s -w")
		out, err = c.CombinedOutput()
		return k6, out, err
	}
	for name, dir := range map[string]string{"root": root, "outside": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k6, out, err := build(dir, line)
			if err != nil {
				t.Fatalf("%s: %v\n%s", line, err, out)
			}
			said, err := exectest.CommandContext(t.Context(), k6, "version").CombinedOutput()
			if err != nil || !strings.Contains(string(said), "k6/x/mcpevents [js]") {
				t.Errorf("k6 version: %v\n%s", err, said)
			}
			url, admin := serve(t)
			c := exectest.CommandContext(
				t.Context(),
				k6,
				"run",
				"-q",
				"--address",
				"",
				"-e",
				"TARGET="+url,
				"-e",
				"ADMIN="+admin,
				filepath.Join(root, "xk6-mcpevents", "examples", "smoke.js"),
			)
			if said, err := c.CombinedOutput(); err != nil {
				t.Errorf("smoke.js: %v\n%s", err, said)
			}
		})
	}
	// What README.md says of failures: without --replace there is no module to
	// import, and what xk6 leaves behind is an empty file.
	t.Run("without replace", func(t *testing.T) {
		t.Parallel()
		line, _, _ := strings.Cut(line, " --replace ")
		k6, out, err := build(t.TempDir(), line)
		if err == nil {
			t.Fatalf("%s: it was built", line)
		}
		if file, err := os.Stat(k6); err != nil || file.Size() != 0 {
			t.Errorf("%v, %v\n%s", file, err, out)
		}
	})
}
