package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
)

// calibratesWatched runs a part of the matrix with the race detector, in
// eventmeter and in its target: each kind of fault, each family of rows that
// is broken, each lane, and each block of settings that is overridden. What cases repeat
// with other numbers, seeds, keys or pairs of these is left to the whole matrix.
func calibratesWatched(t *testing.T) {
	t.Helper()
	p, err := profiles.Load("calibrate", nil, systems.Table)
	if err != nil {
		t.Fatal(err)
	}
	some := distinctCases(t, p.Cases)
	rows := 0
	for _, c := range some {
		rows += len(c.Lanes)
	}
	text, err := json.Marshal(some)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d cases", len(some), len(p.Cases))
	out, err := calibrated(func() *exec.Cmd { return watched(t, "run", "--profile", "calibrate", "--set", "cases="+string(text)) })
	if err != nil || !strings.Contains(out, fmt.Sprintf("%d of %d rows equal", rows, rows)) {
		t.Errorf("%v\n%s", err, failedRows(out))
	}
}

// distinctCases are few cases that have among them each kind of fault, each family of
// rows that is broken, each lane, and each block of settings that is overridden.
func distinctCases(t *testing.T, cases []profiles.Case) []profiles.Case {
	t.Helper()
	has, missing := make([][]string, len(cases)), map[string]bool{}
	for i, c := range cases {
		spec, err := faults.Parse(c.Faults)
		if err != nil {
			t.Fatal(err)
		}
		has[i] = slices.Clone(c.Lanes)
		for _, f := range spec {
			family, _, _ := strings.Cut(string(f.Row), "-")
			has[i] = append(has[i], string(f.Kind)+" "+family)
		}
		for _, set := range c.Set {
			has[i] = append(has[i], block(set))
		}
		for _, what := range has[i] {
			missing[what] = true
		}
	}
	var out []profiles.Case
	for len(missing) > 0 {
		best, most := 0, 0
		for i := range cases {
			news := map[string]bool{}
			for _, what := range has[i] {
				if missing[what] {
					news[what] = true
				}
			}
			if len(news) > most {
				best, most = i, len(news)
			}
		}
		for _, what := range has[best] {
			delete(missing, what)
		}
		out = append(out, cases[best])
	}
	return out
}

// block is what a setting belongs to, in any lane: that of
// lanes.push.webhook.answer=... is "lanes webhook".
func block(set string) string {
	key, _, _ := strings.Cut(set, "=")
	parts := strings.Split(key, ".")
	if parts[0] == "lanes" {
		parts = slices.Delete(parts, 1, 2)
	}
	return strings.Join(parts[:max(1, len(parts)-1)], " ")
}
