package eventmeter_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// maxNaming is how many files outside a system's own may name it. It must only fall:
// what is special about a system is a field of its line in loadgen/systems.
var maxNaming = []struct {
	system string // as an identifier or a text has it, without hyphens and in lower case
	own    []string
	most   int
}{
	{"smithery", []string{"loadgen/driver/events/", "internal/calibrate/smithery.go"}, 9},
	{"sep1803", []string{"loadgen/driver/sep1803/", "internal/calibrate/sep1803.go", "internal/refserver/resources"}, 3},
	{"sep975", []string{"loadgen/driver/sep975/", "internal/calibrate/sep975.go", "internal/refserver/resume"}, 4},
	{
		"sep2549",
		[]string{"loadgen/driver/sep2549/", "internal/calibrate/sep2549.go", "internal/refserver/lists"},
		5,
	},
}

// TestSystemsAreNamedInFewPlaces counts the files with an identifier or a text that
// names a system. Comments and tests do not count.
func TestSystemsAreNamedInFewPlaces(t *testing.T) {
	named := map[string][]string{}
	err := filepath.WalkDir(".", func(name string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "systemstest") {
			return filepath.SkipDir
		}
		if !isSource(name) {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		words := namesAndTexts(file)
		name = filepath.ToSlash(name)
		for _, s := range maxNaming {
			own := slices.ContainsFunc(s.own, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
			if !own && slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, s.system) }) {
				named[s.system] = append(named[s.system], name)
			}
		}
		return nil
	})
	must(t, err)
	for _, s := range maxNaming {
		files := named[s.system]
		if !slices.Contains(files, "loadgen/systems/systems.go") {
			t.Errorf("%s is not named in the table of systems: the walk is broken", s.system)
		}
		switch list := strings.Join(files, "\n\t"); {
		case len(files) > s.most:
			t.Errorf("%d files name %s; want at most %d:\n\t%s", len(files), s.system, s.most, list)
		case len(files) < s.most:
			t.Errorf("only %d files name %s: lower the number in maxNaming from %d:\n\t%s", len(files), s.system, s.most, list)
		}
	}
}

// namesAndTexts are the identifiers and the texts of a file, without hyphens and in
// lower case.
func namesAndTexts(file *ast.File) (words []string) {
	plain := func(s string) { words = append(words, strings.ReplaceAll(strings.ToLower(s), "-", "")) }
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			plain(n.Name)
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				plain(n.Value)
			}
		}
		return true
	})
	return words
}
