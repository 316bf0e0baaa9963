package mutants

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/exectest"
)

var (
	mutate = flag.Bool("mutants", false, "change code and run its tests; without it, only what takes seconds")
	places = flag.Int("places", 200, "places to change")
	only   = flag.String("only", "", "the package to change; empty = all")
	at     = flag.String("at", "", "the files, or lines as file:line, to change, with commas between them; empty = all")
	seed   = flag.String("seed", "", "what the places are drawn with (default: the id of the commit)")
)

// root is the folder of the module.
const root = "../.."

// patience bounds the tests of one package; those that do not end in time have noticed the mutant.
const patience = 3 * time.Minute

// packages are the packages whose code counts, with the packages whose tests must notice.
var packages = map[string][]string{
	"sinks/ledger":           {"./sinks/ledger", "./internal/metrics"},
	"results":                {"./results"},
	"internal/stats":         {"./internal/stats"},
	"internal/metrics":       {"./internal/metrics"},
	"loadgen/driver":         {"./loadgen/driver", "./loadgen/driver/events", "./loadgen/driver/sep1803", "./loadgen/systems"},
	"loadgen/driver/events":  {"./loadgen/driver/events", "./loadgen/systems"},
	"loadgen/driver/sep1803": {"./loadgen/driver/sep1803", "./loadgen/systems"},
	"loadgen/driver/sep2549": {"./loadgen/driver/sep2549", "./loadgen/systems"},
	"loadgen/driver/updates": {"./loadgen/driver/updates", "./loadgen/systems"},
}

// mutant is a change of one place: the bytes from offset from to offset to become text.
type mutant struct {
	file     string // below root
	line     int
	from, to int
	old      string
	text     string
	operator string
	within   string // the line
}

// String is also the line of equivalent.txt, without the number of the line, which changes.
func (m mutant) String() string {
	return fmt.Sprintf("%s: %s: %s → %s in: %s", m.file, m.operator, oneLine(m.old), oneLine(cmp.Or(m.text, "nothing")), m.within)
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

var (
	comparisons = map[token.Token]string{
		token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">", token.EQL: "!=", token.NEQ: "==",
	}
	signs = map[token.Token]string{
		token.ADD: "-", token.SUB: "+", token.ADD_ASSIGN: "-=", token.SUB_ASSIGN: "+=", token.INC: "--", token.DEC: "++",
	}
)

// mutantsOf are all changes of a file.
func mutantsOf(file string, source []byte) (all []mutant, err error) {
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, file, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	at := func(p token.Pos) int { return fset.Position(p).Offset }
	lines := strings.Split(string(source), "\n")
	add := func(operator string, from, to token.Pos, text string) {
		all = append(all, mutant{
			within: strings.TrimSpace(lines[fset.Position(from).Line-1]),
			file:   file, line: fset.Position(from).Line, from: at(from), to: at(to), old: string(source[at(from):at(to)]),
			text: text, operator: operator,
		})
	}
	operators := func(pos token.Pos, op token.Token) {
		end := pos + token.Pos(len(op.String()))
		if text, ok := comparisons[op]; ok {
			add("comparison", pos, end, text)
		}
		if text, ok := signs[op]; ok {
			add("sign", pos, end, text)
		}
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GenDecl:
			return n.Tok != token.IMPORT && n.Tok != token.CONST
		case *ast.FuncDecl:
			return !isDriver(file) || counts(n)
		case *ast.BinaryExpr:
			operators(n.OpPos, n.Op)
		case *ast.AssignStmt:
			operators(n.TokPos, n.Tok)
			if n.Tok != token.DEFINE {
				add("dropped", n.Pos(), n.End(), "")
			}
		case *ast.IncDecStmt:
			operators(n.TokPos, n.Tok)
			add("dropped", n.Pos(), n.End(), "")
		case *ast.ExprStmt:
			if !locks(n) { // what only the race detector notices, without which mutants run
				add("dropped", n.Pos(), n.End(), "")
			}
		case *ast.BasicLit:
			if v, err := strconv.Atoi(n.Value); err == nil && n.Kind == token.INT {
				add("bound", n.Pos(), n.End(), strconv.Itoa(v+1))
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok && (f.Name == "min" || f.Name == "max") {
				break // whose arguments have no order
			}
			for i := 1; i < len(n.Args); i++ {
				a, b := n.Args[i-1], n.Args[i]
				text := string(source[at(b.Pos()):at(b.End())]) + ", " + string(source[at(a.Pos()):at(a.End())])
				add("swapped", a.Pos(), b.End(), text)
			}
		}
		return true
	})
	return all, nil
}

// isDriver reports whether a file is one of a driver, most of whose code drives and does not count.
func isDriver(file string) bool { return strings.HasPrefix(file, "loadgen/driver") }

// counts reports whether a function counts.
func counts(f *ast.FuncDecl) (found bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IncDecStmt:
			found = true
		case *ast.AssignStmt:
			found = found || n.Tok == token.ADD_ASSIGN
		case *ast.SelectorExpr:
			found = found || slices.Contains([]string{"Count", "Took", "Notice", "Judge", "held"}, n.Sel.Name)
		}
		return !found
	})
	return found
}

// locks reports whether a statement does nothing but lock or unlock.
func locks(s *ast.ExprStmt) bool {
	call, _ := s.X.(*ast.CallExpr)
	if call == nil {
		return false
	}
	of, _ := call.Fun.(*ast.SelectorExpr)
	return of != nil && slices.Contains([]string{"Lock", "Unlock", "RLock", "RUnlock"}, of.Sel.Name)
}

// candidates are the changes of a package, in the order of its files.
func candidates(t *testing.T, dir string) (all []mutant) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		of, err := mutantsOf(filepath.Join(dir, filepath.Base(name)), source)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, of...)
	}
	return all
}

// goTest runs the tests of a package with an overlay and says how they ended.
func goTest(t *testing.T, overlay, tests string, patience time.Duration) (output string, ok bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := exectest.CommandContext(ctx, "go", "test", "-short", "-failfast", "-vet=off", "-overlay", overlay, tests)
	c.Dir = root
	text, err := c.CombinedOutput()
	return string(text), err == nil
}

// unchanged runs the tests of a package as it is, which must pass, and returns how long the tests of a mutant may take.
func unchanged(t *testing.T, tests []string) map[string]time.Duration {
	t.Helper()
	list := filepath.Join(t.TempDir(), "overlay.json")
	if err := os.WriteFile(list, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	took := map[string]time.Duration{}
	for _, name := range tests {
		begun := time.Now()
		if text, ok := goTest(t, list, name, patience); !ok {
			t.Fatalf("the tests of %s fail without a change:\n%s", name, text)
		}
		took[name] = min(patience, 30*time.Second+3*time.Since(begun))
	}
	return took
}

// try runs the tests of packages against a mutant until one notices it.
func try(t *testing.T, m mutant, tests []string, patience map[string]time.Duration) (compiles, noticed bool) {
	t.Helper()
	file := filepath.Join(root, m.file)
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	changed := filepath.Join(dir, "changed.go")
	text := slices.Concat(source[:m.from], []byte(m.text), source[m.to:])
	path, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{path: changed}})
	if err == nil {
		err = os.WriteFile(changed, text, 0o600)
	}
	list := filepath.Join(dir, "overlay.json")
	if err == nil {
		err = os.WriteFile(list, overlay, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range tests {
		if text, ok := goTest(t, list, name, patience[name]); !ok {
			return !strings.Contains(text, "[build failed]"), true
		}
	}
	return true, false
}

// equivalent are the changes that change no behaviour, with the reasons.
func equivalent(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("equivalent.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if change, reason, ok := strings.Cut(strings.TrimSpace(line), "; because "); ok {
			all[change] = reason
		}
	}
	return all
}

// draw holds the mutants that were drawn, and what became of them.
type draw struct {
	known   map[string]string // the equivalent ones
	end     time.Time
	bounded bool // whether the test has an end

	mu        sync.Mutex
	all       []mutant                            // not yet drawn, in random order
	takes     map[string]map[string]time.Duration // how long tests may take, by the package that is changed
	running   int
	tried     int
	same      int
	survivors []string
}

// next draws a mutant, until enough are tried or none is left.
func (d *draw) next(t *testing.T) (m mutant, takes map[string]time.Duration, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.all) > 0 && d.tried+d.running < *places && (!d.bounded || time.Until(d.end) > 2*patience) {
		m, d.all = d.all[0], d.all[1:]
		if reason := d.known[m.String()]; reason != "" {
			d.same++
			t.Logf("equivalent: %s (%s)", m, reason)
			continue
		}
		dir := filepath.ToSlash(filepath.Dir(m.file))
		if d.takes[dir] == nil {
			d.takes[dir] = unchanged(t, packages[dir])
		}
		d.running++
		return m, d.takes[dir], true
	}
	return mutant{}, nil, false
}

// work tries mutants until none is left. Several goroutines may do so.
func (d *draw) work(t *testing.T) {
	for {
		m, takes, ok := d.next(t)
		if !ok {
			return
		}
		compiles, noticed := try(t, m, packages[filepath.ToSlash(filepath.Dir(m.file))], takes)
		d.mu.Lock()
		d.running--
		if compiles {
			d.tried++
		}
		if compiles && !noticed {
			d.survivors = append(d.survivors, fmt.Sprintf("%s (line %d)", m, m.line))
			t.Logf("survived: %s (line %d)", m, m.line)
		}
		d.mu.Unlock()
	}
}

func TestMutants(t *testing.T) {
	if !*mutate {
		t.Skip("takes an hour; see doc.go: go test -mutants")
	}
	if *seed == "" {
		id, err := exectest.Command("git", "rev-parse", "HEAD").Output()
		if err != nil {
			t.Fatal(err)
		}
		*seed = string(bytes.TrimSpace(id))
	}
	var all []mutant
	for dir := range packages {
		if *only == "" || *only == dir {
			all = append(all, candidates(t, dir)...)
		}
	}
	if *at != "" {
		asked := strings.Split(*at, ",")
		all = slices.DeleteFunc(all, func(m mutant) bool {
			return !slices.Contains(asked, m.file) && !slices.Contains(asked, fmt.Sprintf("%s:%d", m.file, m.line))
		})
	}
	slices.SortFunc(all, func(a, b mutant) int { return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.from, b.from)) })
	h := fnv.New64a()
	h.Write([]byte(*seed))
	random := rand.New(rand.NewPCG(h.Sum64(), 0))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	d := &draw{all: all, known: equivalent(t), takes: map[string]map[string]time.Duration{}}
	d.end, d.bounded = t.Deadline()
	t.Run("mutants", func(t *testing.T) {
		for range runtime.GOMAXPROCS(0) { // which is also the default of -parallel
			t.Run("", func(t *testing.T) {
				t.Parallel()
				d.work(t)
			})
		}
	})
	tried, same, survivors := d.tried, d.same, d.survivors
	t.Logf("seed %s: %d of %d mutants were noticed, %d more change no behaviour; survivors:\n%s",
		*seed, tried-len(survivors), tried, same, strings.Join(survivors, "\n"))
	if tried == 0 || 10*len(survivors) > tried {
		t.Errorf("%d of %d mutants survived", len(survivors), tried)
	}
}

// TestOperators: each operator makes its changes, and no others.
func TestOperators(t *testing.T) {
	const source = `package p

import "fmt"

const bound = 5

func f(a, b int) int {
	n := max(7, a)
	if a < b {
		n += g(a, b)
	}
	n++
	mu.Lock()
	fmt.Println()
	return n - 1
}
`
	all, err := mutantsOf("p.go", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range all {
		change, _, _ := strings.Cut(strings.TrimPrefix(m.String(), "p.go: "), " in: ")
		got = append(got, change)
	}
	want := []string{
		"bound: 7 → 8", "comparison: < → <=", "sign: += → -=", "dropped: n += g(a, b) → nothing", "swapped: a, b → b, a",
		"sign: ++ → --", "dropped: n++ → nothing", "dropped: fmt.Println() → nothing", "sign: - → +", "bound: 1 → 2",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	const drives = `package p

func g(a int) { h(a + 1) }

func h(a int) { tally.Count("n", a-1) }
`
	all, err = mutantsOf("loadgen/driver/p.go", []byte(drives))
	if err != nil || len(all) != 4 || all[0].line != 5 {
		t.Errorf("of a driver, %v: %v", all, err)
	}
	for dir := range packages {
		if len(candidates(t, dir)) == 0 {
			t.Errorf("%s has nothing to change", dir)
		}
	}
}
