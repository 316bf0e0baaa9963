package breach

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestRowsAreAskedFor: the server asks for each row that no edit breaks, and for no other name.
func TestRowsAreAskedFor(t *testing.T) {
	asked := map[string]bool{}
	files, err := filepath.Glob("../*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if text, is := n.(*ast.BasicLit); is && text.Kind == token.STRING {
				value, _ := strconv.Unquote(text.Value)
				asked[value] = true
			}
			call, is := n.(*ast.CallExpr)
			if !is || len(call.Args) == 0 {
				return true
			}
			of, method := call.Fun.(*ast.SelectorExpr)
			text, literal := call.Args[0].(*ast.BasicLit)
			if method && literal && of.Sel.Name == "Breaks" {
				if row, _ := strconv.Unquote(text.Value); !Has(row) {
					t.Errorf("%s asks for %q, which is no row", name, row)
				}
			}
			return true
		})
	}
	for row, b := range Table {
		if b.edits == nil && !asked[row] {
			t.Errorf("nothing breaks %s", row)
		}
	}
}
