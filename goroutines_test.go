package eventmeter_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// notOfTheCommand are folders whose code the command eventmeter does not hold, or
// that a run of it does not start.
var notOfTheCommand = []string{"internal/promtest", "internal/witness"}

// TestEveryGoroutineIsGuarded: a panic in any goroutine of the command ends it
// with exit code 1, so that each begins with a guard. Functions that are started
// with go and have a name must begin with it themselves; those of AfterFunc may
// be methods of others.
func TestEveryGoroutineIsGuarded(t *testing.T) {
	started := 0
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		slashed := filepath.ToSlash(name)
		if d.IsDir() &&
			(name != "." && strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || isNestedModule(name) ||
				slices.Contains(notOfTheCommand, slashed)) {
			return fs.SkipDir
		}
		if filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			started += unguarded(file, n, func(at ast.Node) {
				t.Errorf("%s: a goroutine begins without defer crash.Guard()", set.Position(at.Pos()))
			})
			return true
		})
		return nil
	})
	must(t, err)
	if started < 50 {
		t.Errorf("only %d goroutines were found: the walk is broken", started)
	}
}

// unguarded reports a goroutine that n starts without a guard, and returns how
// many it starts.
func unguarded(file *ast.File, n ast.Node, report func(ast.Node)) int {
	var f ast.Expr
	switch n := n.(type) {
	case *ast.GoStmt:
		f = n.Call.Fun
	case *ast.CallExpr:
		s, ok := n.Fun.(*ast.SelectorExpr)
		if !ok || len(n.Args) == 0 || s.Sel.Name != "Go" && s.Sel.Name != "AfterFunc" {
			return 0
		}
		f = n.Args[len(n.Args)-1]
		if _, literal := f.(*ast.FuncLit); s.Sel.Name == "AfterFunc" && !literal {
			return 0
		}
	default:
		return 0
	}
	switch f := f.(type) {
	case *ast.FuncLit:
		if !beginsGuarded(f.Body) {
			report(n)
		}
	case *ast.CallExpr:
		if !isGuard(f.Fun, "Guarded") {
			report(n)
		}
	default: // of a method, by name, in the same file
		name := ""
		if s, ok := f.(*ast.SelectorExpr); ok {
			name = s.Sel.Name
		} else if i, ok := f.(*ast.Ident); ok {
			name = i.Name
		}
		found := false
		for _, d := range file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name == name && fn.Body != nil && beginsGuarded(fn.Body) {
				found = true
			}
		}
		if !found {
			report(n)
		}
	}
	return 1
}

func beginsGuarded(body *ast.BlockStmt) bool {
	if len(body.List) == 0 {
		return false
	}
	first, ok := body.List[0].(*ast.DeferStmt)
	return ok && isGuard(first.Call.Fun, "Guard")
}

func isGuard(f ast.Expr, name string) bool {
	s, ok := f.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == "crash"
}
