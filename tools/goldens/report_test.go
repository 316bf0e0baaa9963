package goldens

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/report"
)

// brief are the forms of the report of a run that are short, long all others.
var (
	brief = []string{"text", "markdown", "junit", "github"}
	long  = []string{"html", "json", "gitlab", "azure", "teamcity"}
)

// reports pins forms of the report of an archive in dir.
func reports(t *testing.T, dir, archive string, forms ...string) {
	t.Helper()
	for _, form := range forms {
		golden(t, archive+"/"+fileOf(form), readable(run(t, dir, "report", archive, "--format", form)))
	}
	series, err := os.ReadFile(filepath.Join(dir, archive, "timeline.csv"))
	must(t, err)
	golden(t, archive+"/timeline.csv", string(series))
}

// A run in every form: from its archive all figures, and from its result the summary
// that ends a run.
func TestReports(t *testing.T) {
	t.Parallel()
	for _, c := range []*madeUp{clean(), faulty(), partial(), one(), systemsRun()} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			m := c.measure(t)
			m.archive(t, dir, c.name)
			reports(t, dir, c.name, brief...)
			if c.name == "faulty" || c.name == "one" {
				reports(t, dir, c.name, long...)
			}
			var short strings.Builder
			must(t, report.Summary(&short, m.result, report.SummaryOptions{Width: 100, Page: "report.html"}))
			golden(t, c.name+"/summary.txt", short.String())
		})
	}
}

// Two shards, merged. The command prints the summary of the whole.
func TestMerge(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i, c := range shards() {
		m := c.measure(t)
		m.archive(t, dir, []string{"shard-0", "shard-1"}[i])
	}
	golden(t, "merged/summary.txt", run(t, dir, "merge", "shard-0", "shard-1", "--out", "merged"))
	reports(t, dir, "merged", append(brief, "html", "json")...)
	golden(t, "merged/shard.txt", run(t, dir, "report", "shard-0"))
	golden(t, "merged/missing.txt", run(t, dir, "merge", "shard-0", "--out", "half"))
}

// Groups of trials, compared in every form, and single runs, which are compared by
// resampling. A gate fails.
func TestCompare(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for trial := range 4 {
		for i, c := range pair(uint64(10 * (trial + 1))) {
			m := c.measure(t)
			m.archive(t, dir, []string{"a", "b"}[i], fmt.Sprint(trial))
		}
	}
	for _, form := range []string{"text", "markdown", "json", "html"} {
		golden(t, "compare/"+fileOf(form), readable(run(t, dir, "compare", "a", "b", "--gate", "push.p99 <= +5%", "--format", form)))
	}
	golden(t, "compare/single.txt", run(t, dir, "compare", "a/0", "b/0"))
}

// The help of every command.
func TestHelp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	golden(t, "help/eventmeter.txt", run(t, dir, "--help"))
	verbs := []string{
		"run", "capacity", "merge", "shard", "plan", "record", "compare", "report", "serve", "discover", "check", "doctor", "profiles",
		"version", "completion",
	}
	for _, verb := range verbs {
		golden(t, "help/"+verb+".txt", run(t, dir, verb, "--help"))
	}
}
