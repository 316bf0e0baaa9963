package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/exectest"
	"github.com/eventmeter/eventmeter/results"
)

// listed are the rows that docs/interop.md lists as broken by a package, and whether it
// lists the package.
func listed(t *testing.T, name string) (rows []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/interop.md")
	must(t, err)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "| `"+name+"` | "); ok {
			for _, m := range regexp.MustCompile("`([a-z0-9-]+)`").FindAllStringSubmatch(rest, -1) {
				rows = append(rows, m[1])
			}
			slices.Sort(rows)
			return rows
		}
	}
	t.Fatalf("docs/interop.md does not list what a check finds of %s", name)
	return nil
}

// checkFinds compares what a check finds broken with docs/interop.md.
func checkFinds(t *testing.T, name string, args ...string) *results.Check {
	t.Helper()
	path, err := program()
	must(t, err)
	cmd := exectest.CommandContext(
		t.Context(),
		path,
		append([]string{"check", "--format=json", "--quiet", "--duration", "1s", "--subscriptions", "30"}, args...)...)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	runErr := cmd.Run()
	var c results.Check
	if err := json.Unmarshal(out.Bytes(), &c); err != nil {
		t.Fatalf("%v, %v\n%s", err, runErr, stderr.String())
	}
	var broken []string
	for _, row := range c.Rows {
		for _, of := range []*results.ConformanceRow{row.AtRest, row.UnderLoad} {
			if of != nil && of.Verdict == results.RowBroken {
				t.Logf("%s: %+v", of.Row, of.First)
				broken = append(broken, of.Row)
			}
		}
	}
	slices.Sort(broken)
	if broken, want := slices.Compact(broken), listed(t, name); !slices.Equal(broken, want) {
		t.Errorf("broken are %v, want %v", broken, want)
	}
	for _, s := range c.Stages {
		if s.Ended != "" {
			t.Errorf("%s ended early: %s", s.Name, s.Ended)
		}
	}
	return &c
}

// TestCheckHandler checks a server made with mcp-handler.
func TestCheckHandler(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t)
	// A step waits for a copy that comes 4 s after the first, which is the fourth then.
	s := start(t, "handler.mjs", "--ca", cert, "--until-eof", "--retry", "1500")
	file := filepath.Join(t.TempDir(), "interop.yaml")
	must(t, os.WriteFile(file, fmt.Appendf(nil, handlerProfile, s.URL, cert, key, "ttl: default", s.Control), 0o600))
	c := checkFinds(t, "mcp-handler", "--profile", file)
	if c.Held < 20 || len(c.Stages) != 2 {
		t.Errorf("%d rows held in %d parts", c.Held, len(c.Stages))
	}
}

// TestCheckWithoutEvents checks servers without events.
func TestCheckWithoutEvents(t *testing.T) {
	t.Parallel()
	for script, name := range map[string]string{"sdk1.mjs": "@modelcontextprotocol/sdk", "sdk2.mjs": "@modelcontextprotocol/server"} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			s := start(t, script, "--until-eof", "--resources", "3")
			if c := checkFinds(t, name, "--target", s.URL); c.Held != 1 {
				t.Errorf("%d rows held, want 1", c.Held)
			}
		})
	}
}
