package eventmeter_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/eventmeter/eventmeter"

// nevers are the imports between our packages that would undo the architecture. A prefix is a folder and all below it,
// with a slash at its end only what is below, and "" every package of the main module. A package may import itself and
// those above it. Tests may import anything, because they join the two ends.
var nevers = []struct{ from, to, why string }{
	{".", "", "every package may import the root"},
	{"profiles", "loadgen", "a profile is read without what runs it; drivers bring their settings"},
	{"sinks", "loadgen", "receivers and the ledger know no protocol"},
	{"sinks", "results", "the account comes before the result that is made from it"},
	{"results", "loadgen", "a stored result is read without what measured it"},
	{"results", "internal/run", "a stored result is read without what measured it"},
	{"internal/report", "loadgen", "reports are made from stored results"},
	{"internal/report", "internal/run", "reports are made from stored results"},
	{"internal/stats", "internal/run", "statistics compare stored results"},
	{"internal/refserver", "loadgen", "a bug that client and server share would cancel out"},
	{"internal/refserver", "sinks", "a bug that client and server share would cancel out"},
	{"loadgen", "internal/refserver", "a bug that client and server share would cancel out"},
	{"loadgen", "internal/run", "a run is built on the parts, not the parts on it"},
	{"loadgen/mcpclient", "loadgen/driver", "the client is below all systems"},
	{"loadgen/driver/", "loadgen/driver/", "a system can be removed without the others"},
	{"loadgen/driver", "loadgen/systems", "the table of systems is above them"},
	{"cmd", "loadgen/driver/", "commands know systems by their table"},
	{"internal/summary", "loadgen", "results are added up without a protocol"},
	{"", "cmd", "a command is not a library"},
	{"", "tools", "what measures eventmeter is not released"},
	{"", "dashboards", "it is a module of its own"},
	{"", "xk6-mcpevents", "it is under another licence"},
}

// forbidden says why a package must not import another; "" = it may. Both are folders of the main module.
func forbidden(from, to string) (why string) {
	within := func(name, prefix string) bool {
		below, only := strings.CutSuffix(prefix, "/")
		return prefix == "" || !only && name == prefix || strings.HasPrefix(name, below+"/")
	}
	for _, n := range nevers {
		if within(from, n.from) && within(to, n.to) && !within(from, to) {
			return n.why
		}
	}
	return ""
}

func TestForbidden(t *testing.T) {
	for _, tt := range []struct {
		from, to string
		want     bool
	}{
		{".", "internal/errtext", true},
		{"loadgen", ".", false},
		{"internal/refserver/faults", "loadgen/driver", true},
		{"loadgen/driver/events", "loadgen/driver/sep975", true},
		{"loadgen/driver/events/parts", "loadgen/driver/events", false},
		{"loadgen/driver/events", "loadgen/driver", false},
		{"loadgen/systems", "loadgen/driver/events", false},
		{"profilesx", "loadgen", false},
		{"sinks/ledger", "results", true},
		{"cmd/eventmeter", "tools/trust", true},
	} {
		if why := forbidden(tt.from, tt.to); (why != "") != tt.want {
			t.Errorf("%s imports %s: %q, want %v", tt.from, tt.to, why, tt.want)
		}
	}
}

func TestImports(t *testing.T) {
	seen := 0
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" ||
			d.Name() == "systemstest" || isNestedModule(name)) {
			return fs.SkipDir
		}
		if !isSource(name) {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			p, _ := strconv.Unquote(spec.Path.Value)
			to, ours := strings.CutPrefix(p+"/", module+"/")
			if !ours {
				continue
			}
			seen++
			if why := forbidden(path.Dir(filepath.ToSlash(name)), path.Clean(to)); why != "" {
				t.Errorf("%s must not import %s: %s", name, p, why)
			}
		}
		return nil
	})
	if err != nil || seen < 100 {
		t.Fatalf("%d imports were found: %v", seen, err)
	}
}

func isSource(name string) bool {
	return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
}

// isNestedModule reports whether a folder below the root is a module.
func isNestedModule(dir string) bool {
	matches, err := filepath.Glob(filepath.Join(dir, "go.mod"))
	return dir != "." && err == nil && len(matches) > 0
}
