package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/eventmeter/eventmeter/internal/embedded"
)

// parsed is the command of args after flags and variables are read.
func parsed(t *testing.T, variables map[string]string, args ...string) (*cobra.Command, error) {
	t.Helper()
	root := newRoot(streams{})
	c, rest, err := root.Find(args)
	must(t, err)
	must(t, c.ParseFlags(rest))
	if err := applyEnvironment(c, variables, c.Flags().Args()); err != nil {
		return c, err
	}
	return c, checkFlags(c)
}

func TestVariablesSetFlags(t *testing.T) {
	for _, tt := range []struct {
		variables map[string]string
		args      string
		flag      string
		want      string
	}{
		{map[string]string{"EVENTMETER_TRIALS": "3"}, "run", "trials", "3"},
		{map[string]string{"EVENTMETER_TRIALS": "3"}, "run --trials 2", "trials", "2"},
		{map[string]string{"EVENTMETER_UPSTREAM_URL": "http://127.0.0.1:1"}, "run", "upstream-url", "http://127.0.0.1:1"},
		{map[string]string{"EVENTMETER_TOKEN": "a\nb\r\n"}, "run", "token", "[a,b]"},
		{map[string]string{"EVENTMETER_TOKEN": "a"}, "run --token b", "token", "[b]"},
		{map[string]string{"EVENTMETER_SET": "a=[1, 2]\nb=3"}, "run", "set", `["a=[1, 2]",b=3]`},
		{map[string]string{"EVENTMETER_QUIET": "true"}, "check", "quiet", "true"},
		{map[string]string{"EVENTMETER_PROFILE": "push"}, "run", "profile", "[push]"},
		{map[string]string{"EVENTMETER_PROFILE": "push"}, "run smoke", "profile", "[compare]"},
		// Of two ways to say the same, the flag takes precedence.
		{map[string]string{"EVENTMETER_TARGET": "http://127.0.0.1:1"}, "run --command x", "target", ""},
		{map[string]string{"EVENTMETER_TOKEN_FILE": "f"}, "run --token x", "token-file", ""},
		{map[string]string{"EVENTMETER_PLAIN": "true"}, "run --quiet", "plain", "false"},
		// A variable is for all commands, so one that has no effect on this one is no error.
		{map[string]string{"EVENTMETER_METRICS_LINGER": "1s"}, "run", "metrics-linger", "1s"},
	} {
		c, err := parsed(t, tt.variables, strings.Fields(tt.args)...)
		if err != nil {
			t.Errorf("%v, %s: %v", tt.variables, tt.args, err)
			continue
		}
		if got := c.Flags().Lookup(tt.flag).Value.String(); got != tt.want {
			t.Errorf("%v, %s: --%s is %s, want %s", tt.variables, tt.args, tt.flag, got, tt.want)
		}
	}
	if _, err := parsed(
		t,
		map[string]string{"EVENTMETER_TRIALS": "sec-ret"},
		"run",
	); err == nil || !strings.Contains(err.Error(), "EVENTMETER_TRIALS cannot be a value of --trials") ||
		strings.Contains(err.Error(), "sec-ret") {
		t.Errorf("%v", err)
	}
	if _, err := parsed(t, map[string]string{"EVENTMETER_FORMAT": "pdf"}, "run"); err != nil {
		t.Errorf("the command itself checks its values: %v", err)
	}
}

// TestTakeEnvironment: variables of flags are removed, and others stay.
func TestTakeEnvironment(t *testing.T) {
	for name, value := range map[string]string{"EVENTMETER_TOKEN": "secret", "EVENTMETER_RATE": "",
		"EVENTMETER_SECRET": "of oauth", "EVENTMETER_HELP": "x"} {
		t.Setenv(name, value)
	}
	root := newRoot(streams{})
	got := takeEnvironment(root, os.Environ())
	if len(got) != 1 || got["EVENTMETER_TOKEN"] != "secret" {
		t.Errorf("%v", got)
	}
	for name, want := range map[string]bool{"EVENTMETER_TOKEN": false, "EVENTMETER_RATE": false,
		"EVENTMETER_SECRET": true, "EVENTMETER_HELP": true} {
		if _, there := os.LookupEnv(name); there != want {
			t.Errorf("%s: there %v, want %v", name, there, want)
		}
	}
	var said bytes.Buffer
	warnOfVariables(&said, root, []string{"EVENTMETER_TOKENS=secret", "EVENTMETER_OAUTH_KEY=x", "EVENTMETER_TOKEN=y", "PATH=/"})
	if got := said.String(); got != "warning: the variable EVENTMETER_TOKENS sets no flag; did you mean EVENTMETER_TOKEN?\n" {
		t.Errorf("%q", got)
	}
}

// TestSecretsOfVariables runs shards, and a target over standard input and output that
// writes down its environment: neither the target nor the archive knows the tokens of
// variables.
func TestSecretsOfVariables(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	const secret = "s3cret-of-the-environment"
	ready, _ := serveTargetWith(t, embedded.Options{Tokens: []string{secret}})
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	cmd := command(
		t,
		"run",
		"smoke",
		"--verbose",
		"--processes",
		"2",
		"--target",
		ready.URL,
		"--upstream-url",
		ready.Admin,
		"--set",
		"thresholds=[]",
		"--set",
		"lanes=[{name: push, mode: push, subscriptions: 4, event: chat.message}]",
		"--duration",
		"1s",
		"--out",
		out,
		"--format",
		"json="+filepath.Join(dir, "result.json"),
	)
	cmd.Env = append(cmd.Env, "EVENTMETER_TOKEN="+secret, "EVENTMETER_HEADER=X-Secret: "+secret)
	stdout, stderr, code := toItsEnd(t, cmd)
	if code != 0 && code != exitBottleneck {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	if strings.Contains(stdout+stderr, secret) || !strings.Contains(stderr, "set by EVENTMETER_TOKEN: --token") {
		t.Errorf("%s\n%s", stdout, stderr)
	}
	files := 0
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(secret)) {
			t.Errorf("%s holds the token", path)
		}
		return err
	})
	if err != nil || files < 5 {
		t.Fatalf("%d files, %v", files, err)
	}
	seen := filepath.Join(dir, "environment")
	cmd = command(
		t,
		"run",
		"smoke",
		"--quiet",
		"--out",
		filepath.Join(dir, "other"),
		"--set",
		"thresholds=[]",
		"--set",
		"lanes=[{name: push, mode: push, subscriptions: 1, event: chat.message}]",
		"--duration",
		"1s",
		"--command",
		`sh -c 'env > "$0"; exec "$1" serve --stdio' `+seen+" "+program(t),
	)
	cmd.Env = append(cmd.Env, "EVENTMETER_UPSTREAM=inject", "EVENTMETER_ADMIN=127.0.0.1:1", "EVENTMETER_REVISION=sep-3415")
	if _, stderr, code := toItsEnd(t, cmd); code != 0 && code != exitBottleneck {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	data, err := os.ReadFile(seen)
	if err != nil || bytes.Contains(data, []byte("EVENTMETER_UPSTREAM")) || bytes.Contains(data, []byte("EVENTMETER_ADMIN")) ||
		bytes.Contains(data, []byte("EVENTMETER_REVISION")) ||
		!bytes.Contains(data, []byte("PATH=")) {
		t.Errorf("%v: the target was told\n%s", err, data)
	}
}
