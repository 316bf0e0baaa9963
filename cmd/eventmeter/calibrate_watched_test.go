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
// eventmeter and in its target: each kind of fault, in the lanes of its
// first case, and each key that is overridden. What a case repeats with other numbers,
// seeds or pairs of these is left to the whole matrix.
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

// distinctCases are the cases that have something which those before them do not: a
// kind of fault, a lane, or a key that is overridden.
func distinctCases(t *testing.T, cases []profiles.Case) []profiles.Case {
	t.Helper()
	had := map[string]bool{}
	var out []profiles.Case
	for _, c := range cases {
		spec, err := faults.Parse(c.Faults)
		if err != nil {
			t.Fatal(err)
		}
		has := slices.Clone(c.Lanes)
		for _, f := range spec {
			has = append(has, string(f.Kind))
		}
		for _, set := range c.Set {
			key, _, _ := strings.Cut(set, "=")
			has = append(has, key)
		}
		news := false
		for _, what := range has {
			news = news || !had[what]
			had[what] = true
		}
		if news {
			out = append(out, c)
		}
	}
	return out
}
