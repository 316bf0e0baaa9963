// Package action_test runs what the GitHub Action runs: .github/action/run, on two commits of a server.
package action_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/exectest"
)

// repository makes a repository with two commits of a server, of which the second
// loses events, and returns its folder and the first commit.
func repository(t *testing.T) (dir, first string) {
	t.Helper()
	dir = t.TempDir()
	git := func(args ...string) string {
		c := exectest.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
		c.Dir = dir
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q")
	for i, faults := range []string{"drop(every=1000000)", "drop(every=3)"} {
		if err := os.WriteFile(filepath.Join(dir, "faults"), []byte(faults), 0o600); err != nil {
			t.Fatal(err)
		}
		git("add", ".")
		git("commit", "-q", "-m", "server")
		if i == 0 {
			first = git("rev-parse", "HEAD")
		}
	}
	return dir, first
}

// TestAction measures a server whose second commit loses events: alone, beside the
// commit before, over HTTP and over standard input and output, and with mistakes.
func TestAction(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the action is a script for a shell")
	}
	script, err := filepath.Abs("../../.github/action/run")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := exectest.Build(filepath.Join(bin, "eventmeter"), "github.com/eventmeter/eventmeter/cmd/eventmeter"); err != nil {
		t.Fatal(err)
	}
	http := []string{
		`SERVE=eventmeter serve --addr 127.0.0.1:$PORT --admin 127.0.0.1:$ADMIN_PORT --token any-token --faults "$(cat built)"`,
		"BUILD=cp faults built", "UPSTREAM_URL=http://127.0.0.1:{admin-port}", "TOKEN=any-token",
	}
	stdio := []string{"BUILD=cp faults built", `COMMAND=bash -c 'exec eventmeter serve --stdio --faults "$(cat {dir}/built)"'`}
	for _, c := range []struct {
		name    string
		env     []string
		code    int
		says    []string
		outputs []string // files of the artefact
	}{
		{"alone", append(http, "AGAINST=none"), 99, []string{"threshold *.lostSilent == 0"}, []string{"result.json", "report.html"}},
		{"http", append(http, "AGAINST=FIRST", "GATES=push.lostSilent <= +0"), 1,
			[]string{"gate push.lostSilent <= +0, push: it got worse, from 0 % to 25 %"},
			[]string{"base/result.json", "against/result.json", "report.html"}},
		{"stdio", append(stdio, "AGAINST=FIRST", "GATES=push.lostSilent <= +0"), 1,
			[]string{"gate push.lostSilent <= +0, push: it got worse"},
			[]string{"base/result.json", "against/result.json"}},
		{"too few events", append(stdio, "AGAINST=FIRST", "GATES=push.p99 <= +5%"), 2,
			[]string{"gate push.p99 <= +5%: lane push needs 1000 independent events, and 40 are published in 2s: ", "--duration 55s"}, nil},
		{"neither", nil, 2, []string{"::error::give serve"}, nil},
		{"both", append(http, "COMMAND=x"), 2, []string{"::error::there are serve and command"}, nil},
		{"ends", []string{"SERVE=echo no license >&2; exit 3"}, 2, []string{"no license", "ended before it listened on port"}, nil},
		{"no build", append(http, "BUILD=false"), 1, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir, first := repository(t)
			out := filepath.Join(t.TempDir(), "out")
			summary, output := filepath.Join(t.TempDir(), "summary.md"), filepath.Join(t.TempDir(), "output")
			cmd := exectest.CommandContext(t.Context(), script)
			cmd.Dir = dir
			cmd.Env = append(
				os.Environ(),
				"PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"),
				"SET=phases.warmup=0s\nphases.measure=2s\nlanes.push.subscriptions=100",
				"OUT="+out,
				"GITHUB_STEP_SUMMARY="+summary,
				"GITHUB_OUTPUT="+output,
			)
			for _, v := range c.env {
				cmd.Env = append(cmd.Env, strings.Replace(v, "AGAINST=FIRST", "AGAINST="+first, 1))
			}
			said, _ := cmd.CombinedOutput()
			code := cmd.ProcessState.ExitCode()
			if c.code == 99 && code == 4 { // a busy machine
				c.code = code
			}
			if want := fmt.Sprintf("exit-code=%d\n", c.code); c.outputs != nil {
				if got, err := os.ReadFile(output); err != nil || string(got) != want {
					t.Errorf("output %q, want %q (%v)", got, want, err)
				}
				if text, err := os.ReadFile(summary); err != nil || len(text) == 0 {
					t.Errorf("summary: %v", err)
				}
				if !strings.Contains(string(said), "::error title=eventmeter") {
					t.Error("no annotation")
				}
			}
			for _, text := range c.says {
				if !strings.Contains(string(said), text) {
					t.Errorf("it does not say %q", text)
				}
			}
			for _, name := range c.outputs {
				if _, err := os.Stat(filepath.Join(out, name)); err != nil {
					t.Error(err)
				}
			}
			if got := strings.TrimSpace(string(said)); code != c.code || t.Failed() {
				t.Errorf("exit code %d, want %d\n%s", code, c.code, got)
			}
			// Nothing of the run is left.
			list := exectest.Command("git", "worktree", "list")
			list.Dir = dir
			if left, err := list.Output(); err != nil || strings.Count(string(left), "\n") != 1 {
				t.Errorf("%v: %s", err, left)
			}
		})
	}
}

// TestActionCanJudge: with a base, the default profile publishes the events that a gate on p99 needs, unless the
// workflow sets the length.
func TestActionCanJudge(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the action is a script for a shell")
	}
	script, err := filepath.Abs("../../.github/action/run")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "eventmeter"), []byte("#!/bin/sh\necho \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	dir, first := repository(t)
	for _, c := range []struct {
		env  string
		want string
	}{
		{"AGAINST=" + first, "--set phases.measure=60s --set phases.warmup=1s --command"},
		{"AGAINST=none", "--out out --set phases.warmup=1s --command"},
		{"AGAINST=" + first + "\x00PROFILE=mine.yaml", "--out out --set phases.warmup=1s --command"},
	} {
		cmd := exectest.CommandContext(t.Context(), script)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"), "GITHUB_STEP_SUMMARY=", "GITHUB_OUTPUT=",
			"COMMAND=true", "OUT=out", "SET=phases.warmup=1s")
		cmd.Env = append(cmd.Env, strings.Split(c.env, "\x00")...)
		if said, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(said), c.want) {
			t.Errorf("%v: want %q in\n%s", err, c.want, said)
		}
	}
}
