package main

import (
	"math"
	"testing"
)

func racesData(lateDual float64) *races {
	run := func(dual, retries bool, rate, late float64) raceRun {
		r := raceRun{Dual: dual, Retries: retries, Rate: rate, Changes: []secretChange{
			{Receiver: "both", Changes: 1000, Expected: 9000},
			{Receiver: "early", Changes: 1000, Refused: rate, Expected: 9000}, // a width of 1 ms
			{Receiver: "late", Changes: 1000, Refused: late, Expected: 9000},
		}, Client: registration{Opened: 400}, Server: registration{Opened: 400, Raced: 4, Window: 0.001}}
		if !retries {
			r.Changes[1].Lost = int64(rate)
		}
		return r
	}
	return &races{Runs: []raceRun{run(true, true, 20, lateDual), run(true, true, 80, 4*lateDual), run(false, true, 20, 20), run(false, true, 80, 80), run(true, false, 20, lateDual)}}
}

func TestRaceExpectations(t *testing.T) {
	near(t, "raced", racedExpected(100, 0.01), 1-math.Exp(-1), 1e-9)
	s := racesData(2)
	g := s.group("early", true)
	near(t, "width", g.width, 0.001, 1e-9) // (20 + 80 + 20) refused of 1,000 × (20 + 80 + 20)
	if !g.held || g.changes != 3000 {
		t.Errorf("%+v", g)
	}
	s.Runs[0].Changes[1].Refused = 60 // three times as many as the others' width gives
	if s.group("early", true).held {
		t.Error("one width for all rates is said to hold")
	}
	for _, c := range []struct {
		a, b raceGroup
		want bool
	}{
		{raceGroup{refused: 10, exposure: 1}, raceGroup{refused: 12, exposure: 1}, false},
		{raceGroup{refused: 10, exposure: 1}, raceGroup{refused: 50, exposure: 1}, true},
		{raceGroup{refused: 10, exposure: 1}, raceGroup{refused: 50, exposure: 5}, false}, // the same width
		{raceGroup{exposure: 1}, raceGroup{exposure: 1}, false},
		{raceGroup{refused: 10, exposure: 1, runs: 2, chi: 20}, raceGroup{refused: 50, exposure: 1, runs: 2, chi: 40}, false}, // runs differ, too
	} {
		if got := differs(c.a, c.b); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestRacesPage(t *testing.T) {
	s := racesData(2)
	has(t, pageOf(t, s), "**A receiver that keeps both secrets refused nothing and lost nothing, however the target signs.", "1.00 ms wide for a receiver that drops the old secret early; for one that switches late, 100 µs where the target signs with both",
		"Early: 120 refusals in 3\u202f000 changes where the target signs with both, 100 in 2\u202f000 where it signs with the new one. No difference beyond that of the runs.",
		"Signing with both helps.", "With retries, 0 deliveries to the early and late receivers were lost; without, 20.", "20 of 2\u202f000 subscriptions had a delivery before their secret",
		"no: groups of runs only")
	s = racesData(60)
	s.Runs[0].Changes[0].Refused = 3
	s.Runs[0].Server.Raced, s.Runs[0].Changes[2].Lost = 200, 5
	has(t, pageOf(t, s), "A receiver that keeps both secrets refused 3 deliveries and lost 0", "Signing with both does not help; it is worse.", "**That held in 4 of 5 runs only.**", "**That did not hold.** With retries, 5 deliveries")
}
