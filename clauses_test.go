package eventmeter_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	testFunc    = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(`)
	caseName    = regexp.MustCompile(`\bname: ("[^"]*"|[^,}\n]+)`)
	clauseCells = regexp.MustCompile("^`[^`]+`(, `[^`]+`)*$")
)

var clauseColumns = [3]string{"generator", "server", "measured"}

// TestClauses holds docs/clauses.md to the tests that it names.
func TestClauses(t *testing.T) {
	known := namedTests(t)
	text, err := os.ReadFile("docs/clauses.md")
	must(t, err)
	rows := 0
	for n, line := range strings.Split(string(text), "\n") {
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| clause ") {
			continue
		}
		rows++
		cells := strings.Split(strings.Trim(line, "|"), " | ")
		if len(cells) != 5 {
			t.Errorf("line %d has %d cells, want 5", n+1, len(cells))
			continue
		}
		for i, cell := range cells[1:4] {
			if cell = strings.TrimSpace(cell); cell == "–" {
				if !givesReason(cells[4], clauseColumns[i]) {
					t.Errorf("line %d: nothing is named in column %s, and no reason begins with it", n+1, clauseColumns[i])
				}
				continue
			}
			if !clauseCells.MatchString(cell) {
				t.Errorf("line %d: %q is neither names of tests nor –", n+1, cell)
				continue
			}
			for name := range strings.SplitSeq(cell, ", ") {
				if name = strings.Trim(name, "`"); !known[name] {
					t.Errorf("line %d: there is no test %s", n+1, name)
				}
			}
		}
	}
	if rows < 40 {
		t.Errorf("%d rows were read", rows)
	}
}

// givesReason tells whether one of the reasons, "generator, server: why; measured:
// why", is about a column.
func givesReason(cell, column string) bool {
	for reason := range strings.SplitSeq(cell, ";") {
		of, why, _ := strings.Cut(reason, ":")
		if strings.TrimSpace(why) != "" && slices.Contains(strings.Split(strings.TrimSpace(of), ", "), column) {
			return true
		}
	}
	return false
}

func TestGivesReason(t *testing.T) {
	for _, c := range []struct {
		cell, column string
		want         bool
	}{
		{"generator, server: it sends nothing; measured: no figure", "server", true},
		{"generator, server: it sends nothing; measured: no figure", "measured", true},
		{"generator: it sends nothing", "measured", false},
		{"generator: ", "generator", false},
		{"the generator sends nothing", "generator", false},
		{"", "server", false},
	} {
		if got := givesReason(c.cell, c.column); got != c.want {
			t.Errorf("%q gives a reason for %s: %t", c.cell, c.column, got)
		}
	}
}

// namedTests are the names that cells may have.
func namedTests(t *testing.T) map[string]bool {
	t.Helper()
	known := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains([]string{".git", "node_modules", "runs"}, d.Name()) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range testFunc.FindAllSubmatch(text, -1) {
			known[string(m[1])] = true
		}
		return err
	})
	must(t, err)
	for test, pattern := range map[string]string{
		"TestWire/": "internal/refserver/testdata/wire/*.txtar", "TestWireFiles/": "loadgen/driver/*/testdata/wire/*.txtar",
	} {
		scripts, err := filepath.Glob(pattern)
		must(t, err)
		for _, s := range scripts {
			known[test+strings.TrimSuffix(filepath.Base(s), ".txtar")] = true
		}
	}
	cases, err := os.ReadFile("profiles/builtin/calibrate.yaml")
	must(t, err)
	_, list, _ := strings.Cut(string(cases), "\ncases:")
	for _, m := range caseName.FindAllStringSubmatch(list, -1) {
		known["calibrate: "+strings.Trim(strings.TrimSpace(m[1]), `"`)] = true
	}
	return known
}
