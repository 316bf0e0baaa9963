package mcpevents_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/eventmeter/eventmeter/internal/exectest"
)

// workflow is what ci/github-actions.yml uses of GitHub's syntax.
type workflow struct {
	Name        string
	On          map[string]any
	Permissions map[string]string
	Jobs        map[string]struct {
		RunsOn         string `yaml:"runs-on"`
		TimeoutMinutes int    `yaml:"timeout-minutes"`
		Env            map[string]string
		Steps          []struct {
			Name, Uses, Run, If string
			WorkingDirectory    string `yaml:"working-directory"`
			With                map[string]string
		}
	}
}

// pipeline is what ci/gitlab-ci.yml uses of GitLab's syntax.
type pipeline map[string]struct {
	Image, Timeout string
	Variables      map[string]string
	BeforeScript   []string `yaml:"before_script"`
	Script         []string
	Artifacts      struct {
		When    string
		Paths   []string
		Reports struct{ JUnit string }
	}
}

// job is what both come to.
type job struct {
	env            map[string]string
	build          string
	serve, test    string
	keeps, keepsOn string
}

// readYAML reads strictly: a key that the type does not have is an error.
func readYAML(t *testing.T, name string, to any) {
	t.Helper()
	text := readFile(t, name)
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(to); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func githubJob(t *testing.T) job {
	t.Helper()
	var w workflow
	readYAML(t, "ci/github-actions.yml", &w)
	events, ok := w.Jobs["events"]
	if !ok || len(w.Jobs) != 1 || events.RunsOn == "" || events.TimeoutMinutes == 0 || w.Permissions["contents"] != "read" ||
		len(w.On) == 0 {
		t.Fatalf("%+v", w)
	}
	out := job{env: events.Env}
	action := regexp.MustCompile(`^actions/(checkout|setup-go|upload-artifact)@v\d+$`)
	for _, s := range events.Steps {
		switch {
		case (s.Uses == "") == (s.Run == ""):
			t.Errorf("step %q has to have either uses or run", s.Name)
		case s.Uses != "" && !action.MatchString(s.Uses):
			t.Errorf("step uses %s", s.Uses)
		case strings.HasPrefix(s.Uses, "actions/upload-artifact@"):
			out.keeps, out.keepsOn = s.With["path"], s.If
		case strings.HasPrefix(s.Uses, "actions/setup-go@"):
			if file := s.With["go-version-file"]; file != "eventmeter/go.mod" {
				t.Errorf("go-version-file %q", file)
			}
		case s.Name == "build":
			if s.WorkingDirectory != "eventmeter" {
				t.Errorf("the build is in %q", s.WorkingDirectory)
			}
			out.build = s.Run
		case s.Name == "serve":
			out.serve = s.Run
		case s.Name == "test":
			out.test = s.Run
		}
	}
	return out
}

func gitlabJob(t *testing.T) job {
	t.Helper()
	var p pipeline
	readYAML(t, "ci/gitlab-ci.yml", &p)
	events, ok := p["events"]
	if !ok || len(p) != 1 || events.Image == "" || len(events.Script) < 2 {
		t.Fatalf("%+v", p)
	}
	if !slices.Equal(events.Artifacts.Paths, []string{events.Artifacts.Reports.JUnit}) {
		t.Errorf("artifacts %+v", events.Artifacts)
	}
	last := len(events.Script) - 1
	return job{
		env: events.Variables, build: strings.Join(events.BeforeScript, "\n"), serve: strings.Join(events.Script[:last], "\n"),
		test: events.Script[last], keeps: events.Artifacts.Reports.JUnit, keepsOn: events.Artifacts.When + "()",
	}
}

// TestCI: what the files name exists, and what they run tests a server.
func TestCI(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	for name, read := range map[string]func(*testing.T) job{"github": githubJob, "gitlab": gitlabJob} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := read(t)
			checkBuild(t, j.build)
			checkServe(t, j)
			if j.keeps != "junit.xml" || j.keepsOn != "always()" || !strings.Contains(j.test, "JUNIT="+j.keeps+" ") {
				t.Errorf("kept: %s if %s, of %s", j.keeps, j.keepsOn, j.test)
			}
			for fault, want := range map[string]int{"": 0, "drop(every=4)": 99} {
				var args []string
				examples := "examples"
				if fault != "" {
					args, examples = []string{"--faults", fault}, hasty(t)
				}
				dir := checkout(t, examples)
				url, admin := serve(t, args...)
				c := exectest.Command(bash, "-e", "-c", j.test)
				c.Dir, c.Env = dir, append(os.Environ(), "TARGET="+url, "ADMIN="+admin)
				out, err := c.CombinedOutput()
				var exit *exec.ExitError
				if err != nil && !errors.As(err, &exit) {
					t.Fatal(err)
				}
				if code := c.ProcessState.ExitCode(); code != want {
					t.Errorf("exit code %d, want %d\n%s", code, want, out)
				}
				if got := readJUnit(t, filepath.Join(dir, j.keeps)); (got.Failures > 0) != (want != 0) {
					t.Errorf("%d failures, and exit code %d", got.Failures, want)
				}
			}
		})
	}
}

// checkout lays out what the files expect to be there after the build.
func checkout(t *testing.T, examples string) string {
	t.Helper()
	dir := t.TempDir()
	examples, err := filepath.Abs(examples)
	must(t, err)
	for _, place := range []string{"bin", "eventmeter/xk6-mcpevents"} {
		must(t, os.MkdirAll(filepath.Join(dir, place), 0o700))
	}
	for place, to := range map[string]string{"eventmeter/xk6-mcpevents/examples": examples, "bin/k6": k6Bin, "bin/eventmeter": eventmeterBin} {
		if err := os.Symlink(to, filepath.Join(dir, place)); err != nil {
			t.Skipf("no symbolic links: %v", err)
		}
	}
	return dir
}

// checkBuild requires that what is built are programs of this repository, and
// the programs that are used.
func checkBuild(t *testing.T, script string) {
	t.Helper()
	built := regexp.MustCompile(`go build -o \.\./bin/(\S+) (\./[\w/-]+)`).FindAllStringSubmatch(script, -1)
	var names []string
	for _, m := range built {
		names = append(names, m[1])
		if _, err := os.Stat(filepath.Join("..", m[2], "main.go")); err != nil {
			t.Errorf("%s: %v", m[0], err)
		}
	}
	if !slices.Equal(names, []string{"k6", "eventmeter"}) {
		t.Errorf("built: %v", names)
	}
}

// checkServe requires that eventmeter serve has the flags that are given, and
// serves where the script looks.
func checkServe(t *testing.T, j job) {
	t.Helper()
	help, err := exectest.Command(eventmeterBin, "serve", "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, help)
	}
	flags := regexp.MustCompile(`--[a-z-]+`).FindAllString(j.serve, -1)
	if len(flags) == 0 {
		t.Errorf("nothing is served by %q", j.serve)
	}
	for _, f := range flags {
		if !bytes.Contains(help, []byte(f+" ")) {
			t.Errorf("eventmeter serve has no flag %s", f)
		}
	}
	if j.env["TARGET"] != "http://127.0.0.1:8080/mcp" || j.env["ADMIN"] != "http://127.0.0.1:8081" ||
		!strings.Contains(j.serve, "--addr 127.0.0.1:8080 --admin 127.0.0.1:8081") {
		t.Errorf("%s with %v", j.serve, j.env)
	}
}
