package eventmeter_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// readYAML reads a file as far as v has its keys.
func readYAML(t *testing.T, name string, v any) (text string) {
	t.Helper()
	raw, err := os.ReadFile(name)
	must(t, err)
	if err := yaml.Unmarshal(raw, v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return string(raw)
}

// isVariable reports whether package main of cmd/eventmeter has a variable of type
// string, without a value, that the linker can set.
func isVariable(t *testing.T, name string) bool {
	t.Helper()
	files, err := filepath.Glob("cmd/eventmeter/*.go")
	must(t, err)
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		must(t, err)
		for _, d := range parsed.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, s := range g.Specs {
				v := s.(*ast.ValueSpec)
				of, ok := v.Type.(*ast.Ident)
				if ok && of.Name == "string" && v.Values == nil &&
					slices.ContainsFunc(v.Names, func(n *ast.Ident) bool { return n.Name == name }) {
					return true
				}
			}
		}
	}
	return false
}

// TestReleaseVersion: the linker is silent about a variable that there is not.
func TestReleaseVersion(t *testing.T) {
	for _, name := range []string{".goreleaser.yaml", "dashboards/deploy/rootfs", "action.yml"} {
		text, err := os.ReadFile(name)
		must(t, err)
		m := regexp.MustCompile(`-X main\.(\w+)=`).FindStringSubmatch(string(text))
		if m == nil || !isVariable(t, m[1]) {
			t.Errorf("%s sets the version in %q, which is no variable of cmd/eventmeter", name, m)
		}
	}
}

// TestGoreleaser: what the release is made of exists, for every system and processor.
func TestGoreleaser(t *testing.T) {
	var c struct {
		Builds []struct {
			Main         string
			Goos, Goarch []string
		}
		Archives []struct{ Files []string }
		Checksum struct {
			Name string `yaml:"name_template"`
		}
		Sboms []struct {
			Artifacts, Cmd string
			Documents      []string
		}
	}
	readYAML(t, ".goreleaser.yaml", &c)
	if len(c.Builds) != 1 || len(c.Archives) != 1 || len(c.Sboms) != 1 {
		t.Fatalf("%d builds, %d archives, %d bills of materials", len(c.Builds), len(c.Archives), len(c.Sboms))
	}
	b := c.Builds[0]
	if !slices.Equal(b.Goos, []string{"linux", "darwin", "windows"}) || !slices.Equal(b.Goarch, []string{"amd64", "arm64"}) {
		t.Errorf("built for %v, %v", b.Goos, b.Goarch)
	}
	for _, name := range append(slices.Clone(c.Archives[0].Files), b.Main) {
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
	if c.Checksum.Name == "" || c.Sboms[0].Artifacts != "binary" || len(c.Sboms[0].Documents) != 1 {
		t.Errorf("checksums %q, bills of materials %+v", c.Checksum.Name, c.Sboms[0])
	}
	// The tool that makes them is installed where the release is made.
	var w struct {
		On   struct{ Push struct{ Tags []string } }
		Jobs map[string]struct {
			Steps []struct {
				Run  string
				With map[string]any
			}
		}
	}
	text := readYAML(t, ".github/workflows/release.yml", &w)
	if !strings.Contains(text, "/cmd/"+c.Sboms[0].Cmd+"@v") {
		t.Errorf("the workflow does not install %s", c.Sboms[0].Cmd)
	}
	for _, s := range w.Jobs["image"].Steps {
		if file, ok := s.With["file"].(string); ok {
			if _, err := os.Stat(file); err != nil {
				t.Error(err)
			}
			return
		}
	}
	t.Error("the workflow builds no image")
}

// TestAction: action.yml passes every input on to the script, which reads no others.
func TestAction(t *testing.T) {
	type step struct {
		Run  string
		Env  map[string]string
		With map[string]string
	}
	var a struct {
		Inputs map[string]struct{ Description string }
		Runs   struct{ Steps []step }
	}
	text := readYAML(t, "action.yml", &a)
	for name, in := range a.Inputs {
		if in.Description == "" || !strings.Contains(text, "inputs."+name) {
			t.Errorf("input %s: %q, and it must be used", name, in.Description)
		}
	}
	for _, m := range regexp.MustCompile(`inputs\.([\w-]+)`).FindAllStringSubmatch(text, -1) {
		if _, ok := a.Inputs[m[1]]; !ok {
			t.Errorf("there is no input %s", m[1])
		}
	}
	script, err := os.ReadFile(".github/action/run")
	must(t, err)
	said := map[string]bool{}
	for _, m := range regexp.MustCompile(`\$\{([A-Z_]+)(:-|//)`).FindAllStringSubmatch(string(script), -1) {
		said[m[1]] = true
	}
	for _, ours := range []string{"GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"} { // given to every step
		delete(said, ours)
	}
	var ran *step
	for i := range a.Runs.Steps {
		if strings.Contains(a.Runs.Steps[i].Run, ".github/action/run") {
			ran = &a.Runs.Steps[i]
		}
	}
	if ran == nil {
		t.Fatal("action.yml does not run the script")
	}
	for name := range said {
		if ran.Env[name] == "" {
			t.Errorf("the script reads %s, which action.yml does not pass", name)
		}
	}
	for name := range ran.Env {
		if !said[name] {
			t.Errorf("action.yml passes %s, which the script does not read", name)
		}
	}
}

// TestIssueTemplates: each has what GitHub requires of it.
func TestIssueTemplates(t *testing.T) {
	files, err := filepath.Glob(".github/ISSUE_TEMPLATE/*.yml")
	if err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		if filepath.Base(name) == "config.yml" {
			var c struct {
				Links []struct{ Name, URL, About string } `yaml:"contact_links"`
			}
			readYAML(t, name, &c)
			for _, l := range c.Links {
				if l.Name == "" || l.URL == "" || l.About == "" {
					t.Errorf("%s: %+v", name, l)
				}
			}
			continue
		}
		var form struct {
			Name, Description string
			Body              []struct {
				Type, ID   string
				Attributes struct{ Label, Value string }
			}
		}
		readYAML(t, name, &form)
		if form.Name == "" || form.Description == "" || len(form.Body) == 0 {
			t.Errorf("%s: name, description and body must be given", name)
		}
		for _, b := range form.Body {
			if !slices.Contains([]string{"markdown", "textarea", "input", "dropdown", "checkboxes"}, b.Type) ||
				b.Attributes.Label == "" && b.Attributes.Value == "" {
				t.Errorf("%s: %+v", name, b)
			}
		}
	}
}
