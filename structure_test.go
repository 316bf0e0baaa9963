package eventmeter_test

import (
	"bytes"
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// maxFiles is how many files, tests aside, a package may have.
const maxFiles = 30

// maxUpward is the share of the references between the files of a package that
// may run against the order in which the package is best read.
const maxUpward = 0.10

// TestStructure holds every package to its size, and its files to an order: a
// file uses what stands below it. A pair of files counts once, in each
// direction in which one names a declaration of the other.
func TestStructure(t *testing.T) {
	for _, dir := range packageDirs(t) {
		files, refs := fileReferences(t, dir)
		if len(files) > maxFiles {
			t.Errorf("%s has %d files; want at most %d", dir, len(files), maxFiles)
		}
		order := readingOrder(len(files), refs)
		place := make([]int, len(files))
		for i, f := range order {
			place[f] = i
		}
		var pairs, upward int
		var against []string
		for from := range refs {
			for to, names := range refs[from] {
				pairs++
				if place[from] > place[to] {
					upward++
					against = append(against, files[from]+" -> "+files[to]+" ("+strings.Join(names, ", ")+")")
				}
			}
		}
		t.Logf("%-32s %3d files %4d references %3d upward", dir, len(files), pairs, upward)
		if upward > 2 && float64(upward) > maxUpward*float64(pairs) {
			slices.Sort(against)
			t.Errorf(
				"%s: %d of %d references between its files run upward; want at most one in ten:\n\t%s",
				dir,
				upward,
				pairs,
				strings.Join(against, "\n\t"),
			)
		}
	}
}

// TestProgramsOfTests: tests start programs by way of exectest, so that none is left behind.
func TestProgramsOfTests(t *testing.T) {
	err := filepath.WalkDir(".", func(name string, d os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, "_test.go") || filepath.Base(name) == "structure_test.go" {
			return err
		}
		text, err := os.ReadFile(name)
		if bytes.Contains(text, []byte("exec.Command")) {
			t.Errorf("%s uses exec.Command; want exectest.Command", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// packageDirs are the folders with Go files that are not tests.
func packageDirs(t *testing.T) []string {
	t.Helper()
	var dirs []string
	err := filepath.WalkDir(".", func(name string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if dir := filepath.Dir(name); isSource(name) && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}

func isSource(name string) bool {
	return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
}

// fileReferences returns the files of a package, and for each the names that it
// uses of each other one. A method belongs to its file; it refers to the file
// of its receiver's type.
func fileReferences(t *testing.T, dir string) ([]string, []map[int][]string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	var parsed []*ast.File
	for _, e := range entries {
		if !isSource(e.Name()) {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, e.Name()), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files, parsed = append(files, e.Name()), append(parsed, f)
	}
	declared := map[string][]int{} // variants for several systems declare the same name
	for i, f := range parsed {
		for _, d := range f.Decls {
			for _, name := range declaredBy(d) {
				declared[name] = append(declared[name], i)
			}
		}
	}
	refs := make([]map[int][]string, len(files))
	for i, f := range parsed {
		refs[i] = map[int][]string{}
		for _, d := range f.Decls {
			for name := range namesUsed(d) {
				if homes := declared[name]; !slices.Contains(homes, i) {
					for _, home := range homes {
						if !slices.Contains(refs[i][home], name) {
							refs[i][home] = append(refs[i][home], name)
						}
					}
				}
			}
		}
	}
	return files, refs
}

// declaredBy are the names that a declaration adds to its package.
func declaredBy(d ast.Decl) []string {
	var names []string
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil && d.Name.Name != "init" {
			names = append(names, d.Name.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				names = append(names, s.Name.Name)
			case *ast.ValueSpec:
				for _, n := range s.Names {
					if n.Name != "_" {
						names = append(names, n.Name)
					}
				}
			}
		}
	}
	return names
}

// namesUsed are the identifiers in a declaration that may name something of the
// package: no fields or methods, and nothing that the declaration names itself.
func namesUsed(d ast.Decl) map[string]bool {
	used, local := map[string]bool{}, map[string]bool{}
	define := func(exprs ...ast.Expr) {
		for _, e := range exprs {
			if id, ok := e.(*ast.Ident); ok {
				local[id.Name] = true
			}
		}
	}
	var visit func(ast.Node) bool
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			ast.Inspect(n.X, visit)
			return false
		case *ast.KeyValueExpr:
			// An identifier before the colon is a field more often than not.
			if _, ok := n.Key.(*ast.Ident); !ok {
				ast.Inspect(n.Key, visit)
			}
			ast.Inspect(n.Value, visit)
			return false
		case *ast.Field:
			for _, name := range n.Names {
				local[name.Name] = true
			}
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				define(n.Lhs...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				define(n.Key, n.Value)
			}
		case *ast.ValueSpec:
			if _, top := d.(*ast.GenDecl); !top {
				for _, name := range n.Names {
					local[name.Name] = true
				}
			}
		case *ast.Ident:
			used[n.Name] = true
		}
		return true
	}
	ast.Inspect(d, visit)
	for name := range local {
		delete(used, name)
	}
	return used
}

// readingOrder returns an order of n files in which few references run from a
// later file to an earlier one: those that use the most and are used the least
// come first, and then each file is moved to where it is best until none is
// better elsewhere.
func readingOrder(n int, refs []map[int][]string) []int {
	uses := func(from, to int) int {
		if len(refs[from][to]) > 0 {
			return 1
		}
		return 0
	}
	degree := make([]int, n)
	order := make([]int, n)
	for i := range n {
		order[i] = i
		for j := range n {
			degree[i] += uses(i, j) - uses(j, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(degree[b], degree[a]) })
	for moved := true; moved; {
		moved = false
		for _, f := range slices.Clone(order) {
			at := slices.Index(order, f)
			rest := slices.Delete(slices.Clone(order), at, at+1)
			// upward is how many references run upward with f at the place.
			upward := 0
			for _, other := range rest {
				upward += uses(other, f) // f is first: whoever uses it does so upward
			}
			best, place, here := upward, 0, upward
			for i, other := range rest {
				upward += uses(f, other) - uses(other, f)
				if upward < best {
					best, place = upward, i+1
				}
				if i+1 == at {
					here = upward
				}
			}
			if best < here {
				order, moved = slices.Insert(rest, place, f), true
			}
		}
	}
	return order
}
