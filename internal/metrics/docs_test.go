package metrics

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/loadgen/systems"
)

var update = flag.Bool("update", false, "write the tables of docs/metrics.md again")

// all are the metrics of a lane, those of all systems included.
var all = newMetricsOfLanes(systems.FigureTables)

const page = "../../docs/metrics.md"

// TestDocs holds the tables of the page to the code. Run it with -update to
// write them again.
func TestDocs(t *testing.T) {
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want := string(got)
	for name, table := range tables() {
		begin, end := "<!-- metrics: "+name+" -->\n", "<!-- end -->\n"
		before, rest, found := strings.Cut(want, begin)
		_, after, closed := strings.Cut(rest, end)
		if !found || !closed {
			t.Fatalf("%s has no place for the table %s", page, name)
		}
		want = before + begin + table + end + after
	}
	if want == string(got) {
		return
	}
	if !*update {
		t.Errorf("%s does not say what the code has; run go test ./internal/metrics -run TestDocs -update", page)
		return
	}
	if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// tables are one for each set of labels.
func tables() map[string]string {
	return map[string]string{
		"lane":     table(LaneLabels, appendAbout(nil, all.families, all.histograms)),
		"run":      table(RunLabels, appendAbout(nil, runFamilies, runHistograms)),
		"shard":    table(ShardLabels, appendAbout(nil, shardFamilies, nil)),
		"capacity": table(SearchLabels, appendAbout(nil, searchFamilies, nil)),
	}
}

func table(base []string, all []about) string {
	var b strings.Builder
	b.WriteString("| metric | type | labels beside | |\n|---|---|---|---|\n")
	for _, a := range all {
		var own []string
		for _, l := range a.labels[len(base):] {
			own = append(own, "`"+l+"`")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", a.name, a.kindName, strings.Join(own, ", "), a.help)
	}
	return b.String()
}

// TestDocsNameNothingElse looks for metrics in the text of all pages that do not
// exist.
func TestDocsNameNothingElse(t *testing.T) {
	var known []string
	for _, a := range all.described() {
		known = append(known, a.name)
		if a.kindName == "histogram" {
			known = append(known, a.name+"_bucket", a.name+"_sum", a.name+"_count")
		}
	}
	for _, file := range []string{page, "../../README.md", "../../CHANGELOG.md", "../../CONTRIBUTING.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`\beventmeter_[a-z_]*[a-z]`).FindAllString(string(text), -1) {
			if !slices.Contains(known, name) {
				t.Errorf("%s names %s, which does not exist", file, name)
			}
		}
	}
}
