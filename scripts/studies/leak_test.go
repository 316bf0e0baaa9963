package main

import (
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/results"
)

func TestLeakPage(t *testing.T) {
	none := map[string]results.Growth{"memory": {Verdict: results.LeakNone, Slope: 0, Low: -mib, High: mib}, "files": {Verdict: results.LeakNone}}
	found := map[string]results.Growth{"memory": {Verdict: results.LeakFound, Slope: 3 * mib, Low: 2 * mib, High: 4 * mib}}
	files := map[string]results.Growth{"memory": {Verdict: results.LeakNone}, "files": {Verdict: results.LeakFound}}
	for name, c := range map[string]struct {
		clean, leaking map[string]results.Growth
		want           []string
	}{
		"all right":     {none, found, []string{"called a leak in 1 of 1 runs of 10m0s, and a server that keeps nothing in 0 of 1**", "The hypothesis held", "Files and threads were called a leak in none", "3.00 times the planted leak", "| keeps 1 MiB a minute | 1 | 1 | 0 | 3.00 |"}},
		"accused":       {found, found, []string{"and a server that keeps nothing in 1 of 1**", "did not hold"}},
		"files accused": {files, found, []string{"did not hold", "Another gauge was called a leak in 1 cases"}},
		"not found":     {none, none, []string{"called a leak in 0 of 1 runs", "did not hold"}},
		"no verdict":    {none, map[string]results.Growth{"memory": {Verdict: results.LeakUnknown}}, []string{"did not hold", "| keeps 1 MiB a minute | 1 | 0 | 1 |"}},
	} {
		s := &leak{Warmup: 660, Measured: 600, AtOnce: 20, Servers: []leakServer{
			{Name: "keeps nothing", Runs: []leakRun{leakRunOf(c.clean)}},
			{Name: "keeps 1 MiB a minute", Planted: 1, Runs: []leakRun{leakRunOf(c.leaking)}},
		}}
		e, err := find("leak")
		if err != nil {
			t.Fatal(err)
		}
		p := &page{entry: e, file: file{Scale: 1}, charts: map[string]chart{}}
		s.write(p)
		text := string(p.markdown())
		for _, want := range append(c.want, "after a warm-up of 11m0s") {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", name, want, text)
			}
		}
	}
}
