package mcpevents_test

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"os"
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
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	mod := filepath.Join(dir, "x.mod")
	for from, to := range map[string]string{"go.mod": mod, "go.sum": filepath.Join(dir, "x.sum")} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, text, 0o600); err != nil {
			t.Fatal(err)
		}
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
	text, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "replace ") {
		t.Error("go.mod has a replace, which others' builds do not see")
	}
	m := regexp.MustCompile(`(?m)^\t` + regexp.QuoteMeta(parentPath) + ` (v\d+\.\d+\.\d+)$`).FindStringSubmatch(string(text))
	if m == nil {
		t.Fatalf("go.mod requires no released version of %s", parentPath)
	}
	version := m[1]
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	proxy := filepath.Join(bin, "proxy")
	if out, err := exectest.Command("go", "build", "-o", proxy, "../scripts/proxy").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// Another module that takes the extension as xk6 does. With the sums of these
	// modules no network is needed for what this machine has.
	dir := t.TempDir()
	sums, err := os.ReadFile("go.sum")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"go.mod":  "module other\n\ngo 1.26.0\n\nrequire " + extensionPath + " " + version + "\n",
		"go.sum":  string(sums),
		"main.go": "package main\n\nimport _ \"" + extensionPath + "\"\n\nfunc main() {}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := exectest.Command(
		proxy,
		"-root",
		root,
		"-version",
		version,
		"go",
		"list",
		"-mod=mod",
		"-deps",
		"-test",
		"-f",
		"{{.ImportPath}} {{with .Module}}{{.Version}} {{with .Replace}}replaced{{end}}{{end}}",
		".",
		extensionPath,
	)
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
	// xk6 takes GOPROXY for one address, at which it reads which k6 the extension needs.
	c = exectest.Command(proxy, "-root", root, "-version", version, "sh", "-c", `echo "$GOPROXY"; cat`)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	address, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		t.Error(err)
	}
	for url, want := range map[string]string{
		extensionPath + "/@v/" + version + ".mod": "\tgo.k6.io/k6/v2 v",
		extensionPath + "/@v/v0.0.1.mod":          "",
	} {
		resp, err := http.Get(strings.TrimSpace(address) + "/" + url)
		if err != nil {
			t.Error(err)
			continue
		}
		body, err := io.ReadAll(resp.Body)
		if found := resp.StatusCode == http.StatusOK; err != nil || found != (want != "") || !strings.Contains(string(body), want) {
			t.Errorf("%s: %v %s\n%s", url, err, resp.Status, body)
		}
		resp.Body.Close()
	}
	if err := errors.Join(in.Close(), c.Wait()); err != nil {
		t.Error(err)
	}
}
