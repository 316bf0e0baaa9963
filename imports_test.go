package eventmeter_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/eventmeter/eventmeter"

// aDriver is what the driver of a system may import.
var aDriver = []string{
	".",
	"sinks",
	"sinks/ledger",
	"internal/conform",
	"internal/figure",
	"internal/budget",
	"internal/crash",
	"internal/errtext",
	"internal/settings",
	"internal/streamclient",
	"internal/wire",
	"loadgen/driver",
	"loadgen/mcpclient",
}

// mayImport is the import table: which of our own packages each package may
// import. A package must be named here; "*" is any package. Tests may import
// anything, because they join the two ends.
var mayImport = map[string][]string{
	".":                {},
	"profiles":         {"internal/settings"},
	"loadgen":          {".", "internal/crash", "internal/settings"},
	"loadgen/upstream": {".", "loadgen", "internal/figure", "internal/errtext", "internal/stderrtail", "internal/crash"},

	"loadgen/mcpclient": {
		".",
		"internal/budget",
		"internal/crash",
		"internal/dialguard",
		"internal/errtext",
		"internal/settings",
		"internal/streamclient",
		"internal/stderrtail",
		"internal/wire",
	},
	"loadgen/driver": {
		".",
		"sinks",
		"sinks/ledger",
		"internal/conform",
		"internal/figure",
		"internal/budget",
		"internal/crash",
		"internal/errtext",
		"internal/settings",
		"internal/streamclient",
		"internal/wire",
		"loadgen/mcpclient",
	},
	"loadgen/driver/events":   aDriver,
	"loadgen/driver/sep1803":  aDriver,
	"loadgen/driver/sep2549":  aDriver,
	"loadgen/driver/sep975":   aDriver,
	"loadgen/driver/requests": aDriver,
	"loadgen/driver/updates":  aDriver,
	"loadgen/systems": {
		".",
		"internal/figure",
		"internal/settings",
		"loadgen/driver",
		"loadgen/driver/events",
		"loadgen/driver/requests",
		"loadgen/driver/sep1803",
		"loadgen/driver/sep2549",
		"loadgen/driver/sep975",
		"loadgen/driver/updates",
		"loadgen/mcpclient",
	},
	// For tests only: where a driver and the reference server meet.
	"loadgen/systems/systemstest": {"*"},

	"sinks":        {".", "internal/figure", "internal/budget", "internal/crash", "sinks/ledger"},
	"sinks/ledger": {".", "internal/figure", "internal/budget", "internal/crash"},
	"results": {
		".",
		"profiles",
		"sinks",
		"sinks/ledger",
		"internal/conform",
		"internal/errtext",
		"internal/stats/interval",
	},
	"internal/budget":         {},
	"internal/capacity":       {},
	"internal/conform":        {".", "internal/errtext"},
	"internal/cpuquota":       {},
	"internal/cputime":        {},
	"internal/crash":          {},
	"internal/dialguard":      {},
	"internal/errtext":        {},
	"internal/figure":         {},
	"internal/lockfile":       {},
	"internal/settings":       {"internal/defaults"},
	"internal/stats":          {"results", "sinks", "sinks/ledger", "internal/stats/dist", "internal/stats/interval"},
	"internal/stats/dist":     {},
	"internal/stats/interval": {"internal/stats/dist"},
	"internal/stats/leak":     {"internal/stats/dist"},
	"internal/stderrtail":     {"internal/errtext"},
	"internal/wire":           {"internal/budget"},
	"internal/witness":        {},
	"internal/streamclient":   {"internal/budget", "internal/crash", "internal/dialguard"},
	"internal/refserver":      {".", "internal/cputime", "internal/wire", "internal/crash", "internal/dialguard", "internal/lockfile"},
	"internal/hostile":        {},
	"internal/interop":        {},
	"internal/report":         {".", "results", "internal/conform", "internal/plan", "internal/stats", "internal/errtext"},
	"internal/metrics": {
		".",
		"sinks",
		"sinks/ledger",
		"results",
		"internal/conform",
		"internal/figure",
		"internal/crash",
		"internal/dialguard",
		"internal/errtext",
	},
	"internal/plan":       {"results", "internal/stats/dist"},
	"internal/exectest":   {},
	"internal/promtest":   {"internal/exectest"},
	"cmd/eventmeter":      {"*"},
	"scripts/screenshots": {"*"},
	"scripts/trust":       {"*"},
	"scripts/proxy":       {},
	"scripts/soak":        {"internal/crash"},

	// A run and what is built on it.
	"internal/calibrate": {
		".",
		"internal/conform",
		"internal/refserver/breach",
		"loadgen/driver/events",
		"loadgen/driver/sep1803",
		"loadgen/driver/sep2549",
		"loadgen/driver/sep975",
		"profiles",
		"results",
		"sinks",
		"sinks/ledger",
		"internal/run",
		"internal/settings",
		"internal/crash",
		"internal/errtext",
		"internal/refserver/faults",
	},
	"internal/duet": {".", "loadgen", "profiles", "internal/crash", "internal/run", "internal/stats"},
	"internal/capacity/trials": {
		"profiles",
		"results",
		"internal/run",
		"internal/capacity",
		"internal/dialguard",
		"internal/embedded",
		"internal/errtext",
		"internal/health",
		"internal/metrics",
	},
	"internal/check": {
		".",
		"loadgen/driver",
		"loadgen/mcpclient",
		"profiles",
		"results",
		"sinks",
		"internal/conform",
		"internal/crash",
		"internal/errtext",
		"internal/run",
		"internal/wire",
	},
	"internal/embedded": {
		"profiles",
		"sinks",
		"sinks/ledger",
		"internal/refserver",
		"internal/refserver/faults",
		"internal/crash",
		"internal/lockfile",
		"internal/stderrtail",
	},
	"internal/health": {
		"results",
		"sinks",
		"sinks/ledger",
		"internal/cputime",
		"internal/crash",
		"internal/dialguard",
		"internal/errtext",
		"internal/metrics",
		"internal/stats/leak",
		"internal/streamclient",
	},
	"internal/run": {
		".",
		"loadgen",
		"loadgen/driver",
		"loadgen/driver/events",
		"loadgen/mcpclient",
		"loadgen/systems",
		"loadgen/upstream",
		"profiles",
		"results",
		"sinks",
		"sinks/ledger",
		"internal/settings",
		"internal/budget",
		"internal/capacity",
		"internal/conform",
		"internal/crash",
		"internal/dialguard",
		"internal/embedded",
		"internal/errtext",
		"internal/figure",
		"internal/health",
		"internal/metrics",
		"internal/refserver/faults",
		"internal/shard/split",
		"internal/streamclient",
		"internal/summary",
	},
	"internal/shard": {
		"loadgen/systems",
		"profiles",
		"results",
		"sinks",
		"sinks/ledger",
		"internal/crash",
		"internal/embedded",
		"internal/errtext",
		"internal/health",
		"internal/metrics",
		"internal/run",
		"internal/stderrtail",
		"internal/summary",
	},
	"internal/shard/split": {"loadgen"},
	"internal/runtest":     {"internal/embedded", "internal/refserver", "internal/refserver/faults"},
	"internal/summary":     {"profiles", "results", "sinks", "sinks/ledger", "internal/conform", "internal/health", "internal/metrics"},
}

func TestImportTable(t *testing.T) {
	packages := map[string]bool{}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if d.IsDir() && isNestedModule(name) {
			return fs.SkipDir
		}
		if filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		pkg := path.Dir(filepath.ToSlash(name))
		packages[pkg] = true
		allowed, known := mayImport[ownerOf(pkg)]
		if !known {
			t.Errorf("%s: the import table has no package %q", name, pkg)
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			p, _ := strconv.Unquote(spec.Path.Value)
			if p != module && !strings.HasPrefix(p, module+"/") {
				continue
			}
			to := strings.TrimPrefix(strings.TrimPrefix(p, module), "/")
			if to == "" {
				to = "."
			}
			if ownerOf(to) == ownerOf(pkg) || slices.Contains(allowed, "*") || slices.Contains(allowed, to) {
				continue
			}
			t.Errorf("%s imports %s: package %s may import only %v", name, p, pkg, allowed)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(packages) < 5 {
		t.Errorf("only %d packages were found: the walk is broken", len(packages))
	}
}

// ownerOf is the table's entry that owns a folder: the folder itself or the
// nearest one above it.
func ownerOf(folder string) string {
	for dir := folder; dir != "."; dir = path.Dir(dir) {
		if _, ok := mayImport[dir]; ok {
			return dir
		}
	}
	if folder == "." {
		return "."
	}
	return folder
}

func isNestedModule(dir string) bool {
	if dir == "." {
		return false
	}
	matches, err := filepath.Glob(filepath.Join(dir, "go.mod"))
	return err == nil && len(matches) > 0
}
