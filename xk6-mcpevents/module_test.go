package mcpevents_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/exectest"
)

const (
	parentPath    = "github.com/eventmeter/eventmeter"
	extensionPath = parentPath + "/xk6-mcpevents"
)

// TestOutsideTheWorkspace: go.mod and go.sum list all that the module takes beside
// this checkout, for builds that know no go.work.
func TestOutsideTheWorkspace(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("..")
	must(t, err)
	dir := t.TempDir()
	mod := filepath.Join(dir, "x.mod")
	for from, to := range map[string]string{"go.mod": mod, "go.sum": filepath.Join(dir, "x.sum")} {
		text := readFile(t, from)
		must(t, os.WriteFile(to, text, 0o600))
	}
	for _, args := range [][]string{
		{"mod", "edit", "-replace=" + parentPath + "=" + root, mod},
		{"list", "-mod=readonly", "-modfile=" + mod, "-deps", "./..."},
	} {
		c := exectest.Command("go", args...)
		c.Env = append(os.Environ(), "GOWORK=off")
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// TestReleased: once both modules have the version that go.mod names, others can
// build the extension and its tests. The modules come from a proxy, as a release
// would put them on the real one.
func TestReleased(t *testing.T) {
	t.Parallel()
	text := readFile(t, "go.mod")
	if strings.Contains(string(text), "replace ") {
		t.Error("go.mod has a replace, which others' builds do not see")
	}
	m := regexp.MustCompile(`(?m)^\t` + regexp.QuoteMeta(parentPath) + ` (v\d+\.\d+\.\d+)$`).FindStringSubmatch(string(text))
	if m == nil {
		t.Fatalf("go.mod requires no released version of %s", parentPath)
	}
	version := m[1]
	root, err := filepath.Abs("..")
	must(t, err)
	released, cache := t.TempDir(), t.TempDir()
	pack(t, released, parentPath, root, version)
	pack(t, released, extensionPath, ".", version)
	have, err := exectest.Command("go", "env", "GOMODCACHE", "GOPROXY").Output()
	must(t, err)
	machine := strings.Fields(string(have))
	linkOthers(t, machine[0], cache)
	// Another module that takes the extension as xk6 does. With the sums of these
	// modules no network is needed for what this machine has.
	dir := t.TempDir()
	sums := readFile(t, "go.sum")
	for name, text := range map[string]string{
		"go.mod":  "module other\n\ngo 1.26.0\n\nrequire " + extensionPath + " " + version + "\n",
		"go.sum":  string(sums),
		"main.go": "package main\n\nimport _ \"" + extensionPath + "\"\n\nfunc main() {}\n",
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	// In a module cache of its own, so that the version does not stay on this machine.
	c := exectest.Command("go", "list", "-mod=mod", "-modcacherw", "-deps", "-test",
		"-f", "{{.ImportPath}} {{with .Module}}{{.Version}} {{with .Replace}}replaced{{end}}{{end}}", ".", extensionPath)
	c.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "GOMODCACHE="+cache, "GONOSUMDB="+parentPath+","+extensionPath,
		"GOPROXY="+strings.Join([]string{fileURL(released), fileURL(filepath.Join(machine[0], "cache", "download")), machine[1]}, ","))
	c.Dir = dir
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{extensionPath + " " + version, parentPath + "/sinks/ledger " + version,
		parentPath + "/internal/errtext " + version} {
		if !strings.Contains(string(out), "\n"+want+" \n") {
			t.Errorf("%q is not among the packages:\n%s", want, out)
		}
	}
	if _, err := os.Stat("LICENSE"); err != nil {
		t.Error(err)
	}
}

// linkOthers links in a module cache what another has of others' modules, so that none is
// unpacked again. Where links are not allowed, they are.
func linkOthers(t *testing.T, from, to string) {
	t.Helper()
	for _, dir := range []string{"", "github.com", "cache/download", "cache/download/github.com"} {
		entries, err := os.ReadDir(filepath.Join(from, dir))
		if err = errors.Join(err, os.MkdirAll(filepath.Join(to, dir), 0o755)); err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if name := e.Name(); name != "cache" && name != "github.com" && name != "eventmeter" {
				_ = os.Symlink(filepath.Join(from, dir, name), filepath.Join(to, dir, name))
			}
		}
	}
}

func fileURL(dir string) string { return "file://" + filepath.ToSlash(dir) }

// pack writes what a module proxy serves of a version: its time, its go.mod, and a zip with the files that git knows or
// would add, without those of modules within.
func pack(t *testing.T, proxy, module, folder, version string) {
	t.Helper()
	mod := readFile(t, filepath.Join(folder, "go.mod"))
	c := exectest.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
	c.Dir = folder
	list, err := c.Output()
	must(t, err)
	var packed bytes.Buffer
	w := zip.NewWriter(&packed)
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if errors.Is(err, fs.ErrNotExist) || inNestedModule(folder, name) {
			continue // removed, or of another module
		}
		f, err2 := w.Create(module + "@" + version + "/" + name)
		must(t, errors.Join(err, err2))
		if _, err := f.Write(text); err != nil {
			t.Fatal(err)
		}
	}
	must(t, w.Close())
	to := filepath.Join(proxy, filepath.FromSlash(module), "@v")
	must(t, os.MkdirAll(to, 0o755))
	info := `{"Version": "` + version + `", "Time": "2026-01-01T00:00:00Z"}`
	for ext, text := range map[string][]byte{".info": []byte(info), ".mod": mod, ".zip": packed.Bytes()} {
		must(t, os.WriteFile(filepath.Join(to, version+ext), text, 0o644))
	}
}

// inNestedModule reports whether a folder above a file, but below the module's own, has a go.mod.
func inNestedModule(folder, name string) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, err := os.Stat(filepath.Join(folder, dir, "go.mod")); err == nil {
			return true
		}
	}
	return false
}

// must ends the test if a step of it has failed.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	must(t, err)
	return text
}
