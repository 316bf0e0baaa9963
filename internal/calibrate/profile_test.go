package calibrate

import (
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/internal/runtest"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
)

// TestProfileInOneProcess runs a part of the built-in profile with the target in
// this process, so that the race detector sees both sides: each kind of fault in
// each lane that it is for, in each era, and each override. What a case repeats
// with other numbers or seeds is left to the test of the command, which runs the
// whole profile.
func TestProfileInOneProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	p, err := profiles.Load("calibrate", nil, systems.Table)
	if err != nil {
		t.Fatal(err)
	}
	all := len(p.Cases)
	p.Cases = distinct(t, p.Cases)
	t.Logf("%d of %d cases", len(p.Cases), all)
	rows, want := 0, 0
	for _, c := range p.Cases {
		want += len(c.Lanes)
	}
	err = Run(t.Context(), run.Options{Profile: p, Embedded: runtest.InProcess}, func(done []Row) {
		for _, r := range done {
			rows++
			if !r.Passed {
				t.Errorf("%s: %s: %+v", r.Case, r.Lane, r.Checks)
			}
		}
	})
	if err != nil || rows != want {
		t.Errorf("%d rows of %d: %v", rows, want, err)
	}
}

// distinct are the cases that have something which those before them do not.
func distinct(t *testing.T, cases []profiles.Case) []profiles.Case {
	t.Helper()
	had := map[string]bool{}
	var out []profiles.Case
	for _, c := range cases {
		spec, err := faults.Parse(c.Faults)
		if err != nil {
			t.Fatal(err)
		}
		kinds := []string{"none"}
		for _, f := range spec {
			kinds = append(kinds, string(f.Kind))
		}
		overrides := strings.Join(c.Set, " ")
		has := []string{overrides}
		for _, lane := range c.Lanes {
			for _, kind := range kinds {
				has = append(has, kind+" "+lane+" "+overrides)
			}
		}
		news := false
		for _, one := range has {
			news = news || !had[one]
			had[one] = true
		}
		if news {
			out = append(out, c)
		}
	}
	return out
}
