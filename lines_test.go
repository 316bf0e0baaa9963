package eventmeter_test

import (
	"bufio"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxColumns is how wide a line of Go may be; a tab is one column.
const maxColumns = 140

// TestLineWidth holds all modules to maxColumns, tests included. A struct tag cannot be split.
func TestLineWidth(t *testing.T) {
	structTag := regexp.MustCompile("`[a-z]+:\".*`\\s*(//.*)?$")
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules" || d.Name() == ".git") {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(name) != ".go" {
			return nil
		}
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 1<<20)
		for n := 1; lines.Scan(); n++ {
			line := strings.TrimRight(lines.Text(), "\r")
			if columns := utf8.RuneCountInString(line); columns > maxColumns && !structTag.MatchString(line) {
				t.Errorf("%s:%d has %d columns; want at most %d", name, n, columns, maxColumns)
			}
		}
		return lines.Err()
	})
	must(t, err)
}
