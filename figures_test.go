package eventmeter_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/run"
)

// figureName is what a figure of a system or an upstream may be called.
var figureName = regexp.MustCompile(`^[a-z]+[A-Za-z0-9]*$`)

// TestFiguresAreDeclared reads the packages that count figures of their own:
// what is counted is declared in a table, and what is declared is counted.
func TestFiguresAreDeclared(t *testing.T) {
	must(t, run.FigureTables.Check())
	declared := map[string]bool{}
	for _, table := range run.FigureTables {
		for _, f := range table.Figures {
			declared[f.Name] = false
		}
	}
	counted := 0
	for _, dir := range []string{"loadgen/driver", "loadgen/upstream", "internal/run"} {
		err := filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
				return err
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, name, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				for _, lit := range countedIn(n) {
					text, err := strconv.Unquote(lit.Value)
					if err != nil || !figureName.MatchString(text) {
						continue
					}
					if _, ok := declared[text]; !ok {
						t.Errorf("%s: %s is counted, and no table declares it", set.Position(lit.Pos()), text)
					}
					counted++
				}
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && !strings.HasSuffix(name, "figures.go") {
					if text, err := strconv.Unquote(lit.Value); err == nil {
						if _, ok := declared[text]; ok {
							declared[text] = true
						}
					}
				}
				return true
			})
			return nil
		})
		must(t, err)
	}
	for name, used := range declared {
		if !used {
			t.Errorf("a table declares %s, and nothing counts it", name)
		}
	}
	if counted < 100 {
		t.Errorf("only %d places count a figure: does this test look in the right ones?", counted)
	}
}

// tallies are the methods that count a figure by its name.
var tallies = []string{"count", "took", "declare", "declaretiming"}

// countedIn returns the names of figures that a node counts: arguments of a
// tally's methods, and keys of the values that Figures returns.
func countedIn(n ast.Node) []*ast.BasicLit {
	var out []*ast.BasicLit
	add := func(e ast.Expr) {
		if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			out = append(out, lit)
		}
	}
	switch n := n.(type) {
	case *ast.CallExpr:
		method, ok := n.Fun.(*ast.SelectorExpr)
		if !ok {
			return nil
		}
		on := ast.Expr(method.X)
		if s, ok := on.(*ast.SelectorExpr); ok {
			on = s.Sel
		}
		name := strings.ToLower(method.Sel.Name)
		tally, ok := on.(*ast.Ident)
		if ok && (slices.Contains(tallies, name) || strings.EqualFold(tally.Name, "tally") && (name == "add" || name == "sample")) {
			for _, a := range n.Args {
				add(a)
			}
		}
	case *ast.IndexExpr:
		if of, ok := n.X.(*ast.SelectorExpr); ok && (of.Sel.Name == "Values" || of.Sel.Name == "counts") {
			add(n.Index)
		}
	case *ast.CompositeLit:
		of, ok := n.Type.(*ast.MapType)
		if !ok {
			return nil
		}
		if value, ok := of.Value.(*ast.Ident); ok && value.Name == "float64" {
			for _, e := range n.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok {
					add(kv.Key)
				}
			}
		}
	}
	return out
}
