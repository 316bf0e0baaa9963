package capacity

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

func curve(u USL, noise float64, random *rand.Rand, loads ...float64) []Sample {
	var out []Sample
	for _, l := range loads {
		out = append(out, Sample{l, u.At(l) * (1 + noise*random.NormFloat64())})
	}
	return out
}

var wide = []float64{10, 20, 40, 60, 80, 120, 160, 240, 320, 400}

// TestFitUSL: known laws are found again, exactly without noise, and within
// their intervals with it.
func TestFitUSL(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	near := func(got, want, off float64) bool { return math.Abs(got-want) <= off*math.Abs(want)+1e-9 }
	for _, want := range []USL{
		{Unit: 10, Lambda: 1000, Sigma: 0.05, Kappa: 0.002},
		{Unit: 10, Lambda: 1000, Sigma: 0.1, Kappa: 0},
		{Unit: 10, Lambda: 1000, Sigma: 0, Kappa: 0.001},
		{Unit: 10, Lambda: 1000, Sigma: 0, Kappa: 0},
	} {
		f, err := FitUSL(curve(want, 0, random, wide...), 1)
		if err != nil {
			t.Errorf("%+v: %v", want, err)
			continue
		}
		if !near(f.Lambda, want.Lambda, 1e-6) || !near(f.Sigma, want.Sigma, 1e-6) || !near(f.Kappa, want.Kappa, 1e-6) ||
			f.Residual > 1e-6 ||
			f.R2 < 0.999 {
			t.Errorf("fitted %+v to %+v", f, want)
		}
	}
	want := USL{Unit: 10, Lambda: 1000, Sigma: 0.05, Kappa: 0.002}
	inside := 0
	const tries = 12
	for range tries {
		f, err := FitUSL(curve(want, 0.02, random, append(wide, wide...)...), 1)
		if err != nil {
			t.Fatal(err)
		}
		if f.KappaRange.Low <= want.Kappa && want.Kappa <= f.KappaRange.High {
			inside++
		}
		at, ok := f.Peak()
		if truth, _ := want.Peak(); !ok || !near(at, truth, 0.2) || f.PeakShare < 0.95 || len(f.Doubts) > 0 {
			t.Errorf("peak at %v, want %v: %+v", at, truth, f)
		}
	}
	if inside < tries*8/10 {
		t.Errorf("the interval of kappa holds it in %d of %d", inside, tries)
	}
}

func TestFitUSLRefuses(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	u := USL{Unit: 10, Lambda: 1000, Sigma: 0.05, Kappa: 0.002}
	for name, c := range map[string]struct {
		samples []Sample
		want    string
	}{
		"nothing":   {nil, "0 different loads"},
		"one load":  {curve(u, 0.01, random, 10, 10, 10, 10, 10, 10), "1 different loads"},
		"few loads": {curve(u, 0, random, 10, 20, 40, 80), "4 different loads"},
		"narrow":    {curve(u, 0, random, 10, 11, 12, 13, 14, 15, 16), "at least 4 is needed"},
		"no law":    {[]Sample{{10, 100}, {20, 10}, {40, 400}, {80, 9}, {160, 1000}, {320, 5}}, "does not describe this curve"},
		"no rates":  {[]Sample{{10, 0}, {20, 0}, {30, math.Inf(1)}, {40, -1}, {50, math.NaN()}}, "0 different loads"},
	} {
		if _, err := FitUSL(c.samples, 1); !errors.Is(err, ErrDegenerate) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	// A hard limit is not what the law describes: it may be fitted, with doubts.
	var hard []Sample
	for _, l := range wide {
		hard = append(hard, Sample{l, min(l, 100) * 10})
	}
	if f, err := FitUSL(hard, 1); err == nil && len(f.Doubts) == 0 {
		t.Errorf("no doubt about %+v", f)
	}
	// Neither does a straight line have a peak.
	f, err := FitUSL(curve(USL{Unit: 10, Lambda: 1000}, 0.01, random, wide...), 1)
	if err != nil || len(f.Doubts) == 0 {
		t.Errorf("%+v, %v: want a doubt", f, err)
	}
}
