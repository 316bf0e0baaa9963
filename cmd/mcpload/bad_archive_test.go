package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcpload/mcpload/internal/bench"
	"github.com/mcpload/mcpload/internal/report"
	"github.com/mcpload/mcpload/results"
)

// smallProfile is a run of two seconds with two lanes.
const smallProfile = `name: small
lanes:
  - {name: push, mode: push, subscriptions: 2, event: tick}
  - {name: poll, mode: poll, subscriptions: 2, event: tick, poll: {floor: 50ms}}
upstream: {sources: 2, payload: {text: "{{.Probe}}"}}
schedule: {rate: 20/s}
phases: {ready: 10s, warmup: 0, measure: 1s, drain: 1s, late: 1s}
`

// smallArchive is the archive of such a run, split between two processes: the
// merged one, with shard-0 and shard-1 in it.
func smallArchive(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	profile := filepath.Join(dir, "small.yaml")
	if err := os.WriteFile(profile, []byte(smallProfile), 0o644); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	if _, stderr, code := execute(t, "run", "--quiet", "--profile", profile, "--processes", "2", "--out", out); code != exitOK && code != exitBottleneck {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	return out
}

// evil are JSON values that stand nowhere in an archive.
var evil = []string{
	`null`, `-1`, `0`, `1`, `9007199254740993`, `9223372036854775807`, `-9223372036854775808`, `1e308`, `-1e308`, `0.5`, `true`, `""`, `"x"`, `"../../evil"`,
	`"0001-01-01T00:00:00Z"`, `"9999-12-31T23:59:59Z"`, `[]`, `[null]`, `{}`, `{"a":1}`, `"\u001b]0;x\u0007"`, `"HISTFAAAAEV42pNpmSzMwMDAxAABzFCaEUoz2X+AMIKZAEARAtM="`,
}

// places are the paths of all values in a JSON document, at any depth.
func places(v any, at []any, visit func(at []any)) {
	visit(at)
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			places(v[key], append(slices.Clone(at), key), visit)
		}
	case []any:
		for i := range v {
			places(v[i], append(slices.Clone(at), i), visit)
		}
	}
}

// with is the document with another value at a place.
func with(v any, at []any, value any) any {
	if len(at) == 0 {
		return value
	}
	switch v := v.(type) {
	case map[string]any:
		out := maps.Clone(v)
		out[at[0].(string)] = with(v[at[0].(string)], at[1:], value)
		return out
	case []any:
		out := slices.Clone(v)
		out[at[0].(int)] = with(v[at[0].(int)], at[1:], value)
		return out
	}
	return v
}

func decoded(t *testing.T, name string) any {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// copied is a copy of an archive.
func copied(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "archive")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

// survives calls f, and reports a panic of it.
func survives(t *testing.T, what string, f func() error) (err error) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("%s: panic: %v (%s)", what, p, origin())
		}
	}()
	return f()
}

// TestEveryValueOfAnArchiveChanged puts values that cannot be into each place of
// result.json and shard.json: what reads them must not panic, and its error is
// one line that names a file.
func TestEveryValueOfAnArchiveChanged(t *testing.T) {
	archive := copied(t, smallArchive(t))
	shard := filepath.Join(archive, "shard-0")
	tried, refused := 0, 0
	for _, c := range []struct {
		file string
		read func() error
	}{
		{filepath.Join(shard, results.PartFile), func() error { return mergeAndPrint(archive) }},
		{filepath.Join(shard, results.File), func() error { return mergeAndPrint(archive) }},
		{filepath.Join(archive, results.File), func() error { return rebuildAndPrint(archive) }},
	} {
		good, err := os.ReadFile(c.file)
		if err != nil {
			t.Fatal(err)
		}
		doc := decoded(t, c.file)
		n := 0
		places(doc, nil, func(at []any) {
			for range 3 {
				value := evil[n%len(evil)]
				n++
				tried++
				text, err := json.Marshal(with(doc, at, json.RawMessage(value)))
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(c.file, text, 0o644); err != nil {
					t.Fatal(err)
				}
				what := fmt.Sprintf("%s %v = %s", filepath.Base(c.file), at, value)
				if err := survives(t, what, c.read); err != nil {
					refused++
					if text := errorText(err); strings.Contains(text, "\n") || !strings.Contains(text, archive) {
						t.Errorf("%s: %q does not name a file on one line", what, text)
					}
				}
			}
		})
		if err := os.WriteFile(c.file, good, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := c.read(); err != nil {
			t.Fatalf("as it was: %v", err)
		}
	}
	t.Logf("%d changes, %d refused", tried, refused)
	if refused < tried/2 {
		t.Errorf("of %d changes %d were refused: the test does not reach what it changes", tried, refused)
	}
}

func mergeAndPrint(archive string) error {
	o, err := bench.Merge([]string{filepath.Join(archive, "shard-0"), filepath.Join(archive, "shard-1")})
	if err != nil {
		return err
	}
	if err := o.Result.Check(); err != nil {
		return fmt.Errorf("%s: merged: %w", archive, err)
	}
	return printAll(o.Result)
}

func rebuildAndPrint(archive string) error {
	r, err := results.Rebuild(archive)
	if err != nil {
		return err
	}
	p, err := loadPage(archive, r)
	if err != nil {
		return err
	}
	if err := report.HTML(io.Discard, []report.Page{p}); err != nil {
		return err
	}
	return printAll(r)
}

func printAll(r *results.Result) error {
	for _, f := range []string{"text", "markdown", "junit", "json", "github"} {
		if err := write(io.Discard, r, f); err != nil && f != "junit" {
			return err
		}
	}
	return nil
}
