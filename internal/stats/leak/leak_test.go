package leak

import (
	"math"
	"math/rand/v2"
	"testing"
)

const mib = 1 << 20

// A model is a server's memory in the course of ten minutes under constant load, and two of rest.
type model struct {
	name string
	leak float64 // bytes a minute
	// memory returns the memory without the leak at a share of the phase; above 1 is the cool-down.
	memory func(rng *rand.Rand) func(share float64) float64
}

// noisy is independent noise of so many bytes.
func noisy(rng *rand.Rand, sd float64) float64 { return sd * rng.NormFloat64() }

var models = []model{
	{"noise", 0, func(rng *rand.Rand) func(float64) float64 {
		return func(float64) float64 { return 60*mib + noisy(rng, mib) }
	}},
	{"sawtooth", 0, func(rng *rand.Rand) func(float64) float64 {
		// Collections come every 2 to 25 seconds, and up to a third of the memory is garbage then.
		live, phase, cycle, garbage := 20*mib+280*mib*rng.Float64(), rng.Float64(), 2+23*rng.Float64(), rng.Float64()/3
		return func(x float64) float64 {
			_, at := math.Modf(600*x/cycle + phase)
			return live*(1+garbage*at) + noisy(rng, mib/2)
		}
	}},
	{"warm-up", 0, func(rng *rand.Rand) func(float64) float64 {
		live, rise, tau := 20*mib+280*mib*rng.Float64(), 0.3*rng.Float64(), 0.02+0.48*rng.Float64()
		return func(x float64) float64 {
			return live*(1+rise*(1-math.Exp(-x/tau))) + noisy(rng, mib/2)
		}
	}},
	{"slow sawtooth", 0, func(rng *rand.Rand) func(float64) float64 {
		live, phase, cycle := 20*mib+280*mib*rng.Float64(), rng.Float64(), 25+575*rng.Float64()
		return func(x float64) float64 {
			_, at := math.Modf(600*x/cycle + phase)
			return live*(1+at) + noisy(rng, mib/2)
		}
	}},
	{"step", 0, func(rng *rand.Rand) func(float64) float64 {
		live, rise, at := 20*mib+280*mib*rng.Float64(), 30*mib*rng.Float64(), rng.Float64()
		return func(x float64) float64 {
			if x < at {
				return live + noisy(rng, mib/2)
			}
			return live + rise + noisy(rng, mib/2)
		}
	}},
	{"memory of its own", 0, func(rng *rand.Rand) func(float64) float64 {
		last, r := 0.0, 0.99
		return func(float64) float64 {
			last = r*last + math.Sqrt(1-r*r)*rng.NormFloat64()
			return 60*mib + 2*mib*last
		}
	}},
	{"rises and comes back", 0, func(rng *rand.Rand) func(float64) float64 {
		return func(x float64) float64 {
			if x > 1 {
				return 60*mib + noisy(rng, mib/2)
			}
			return 60*mib + 20*mib*x + noisy(rng, mib/2)
		}
	}},
}

// simulate returns the gauge of a model, with a sample each second.
func (m *model) simulate(rng *rand.Rand) Gauge {
	memory := m.memory(rng)
	g := Gauge{Least: mib}
	for s := range 720 {
		x := float64(s) / 600
		p := Point{Seconds: float64(s), Value: memory(x) + m.leak*min(float64(s), 600)/60}
		switch {
		case s < 600:
			g.Measured = append(g.Measured, p)
		case s >= 690:
			g.After = append(g.After, p)
		}
	}
	return g
}

// accused counts the runs in which the gauge is called a leak.
func (m *model) accused(runs int, seed uint64) (n int) {
	for run := range runs {
		f, ok := Judge(m.simulate(rand.New(rand.NewPCG(seed, uint64(run)))))
		if ok && f.Rises && f.Stayed {
			n++
		}
	}
	return n
}

func TestCleanServersAreNotAccused(t *testing.T) {
	const runs = 400
	for _, m := range models {
		n := m.accused(runs, 1)
		t.Logf("%s: %d of %d accused", m.name, n, runs)
		if n > runs/100 {
			t.Errorf("%s: %d of %d accused, want at most 1 %%", m.name, n, runs)
		}
	}
}

func TestLeaksAreFound(t *testing.T) {
	const runs = 200
	for _, m := range models[:2] {
		m.leak = mib
		n := m.accused(runs, 2)
		t.Logf("%s: %d of %d found", m.name, n, runs)
		if n < runs*95/100 {
			t.Errorf("%s and 1 MiB/min: %d of %d found, want 95 %%", m.name, n, runs)
		}
	}
}

// TestTheIntervalOfTheSlope: of 95 % intervals, 95 of 100 hold the slope, also where each window
// resembles the one before. And a gauge that does not rise has a chance below 1 in 20 as often as
// the chance says.
func TestTheIntervalOfTheSlope(t *testing.T) {
	const runs = 2000
	for _, c := range []struct {
		name               string
		memory             float64 // correlation of a window with the one before
		fewest, mostChance int
	}{
		{"independent", 0, runs * 93 / 100, runs * 7 / 100},
		{"resembles the one before", 0.5, runs * 87 / 100, runs * 13 / 100},
	} {
		held, small := 0, 0
		for run := range runs {
			rng := rand.New(rand.NewPCG(7, uint64(run)))
			points, last := make([]Point, Windows), rng.NormFloat64()
			const slope = 2.0
			for i := range points {
				at := 25 * float64(i)
				points[i] = Point{Seconds: at, Value: slope*at/60 + last}
				last = c.memory*last + math.Sqrt(1-c.memory*c.memory)*rng.NormFloat64()
			}
			f := trend(points)
			if f.Low <= slope && slope <= f.High {
				held++
			}
			for i := range points {
				points[i].Value -= slope * points[i].Seconds / 60
			}
			if trend(points).Chance < 0.05 {
				small++
			}
		}
		t.Logf("%s: the slope is in %d of %d intervals, and a chance below 0.05 in %d", c.name, held, runs, small)
		if held < c.fewest || small > c.mostChance {
			t.Errorf("%s: the slope is in %d of %d intervals, a chance below 0.05 in %d", c.name, held, runs, small)
		}
	}
}

// TestConstantGauges: a gauge that never moves has no trend, and too few points have no verdict.
func TestConstantGauges(t *testing.T) {
	var points []Point
	for s := range 100 {
		points = append(points, Point{Seconds: float64(s), Value: 5})
	}
	if f, ok := Judge(Gauge{Measured: points, After: points[:1]}); !ok || f.Rises || f.Slope != 0 || f.Chance != 1 {
		t.Errorf("%+v, %v", f, ok)
	}
	for n := range Windows * leastPoints {
		if _, ok := Judge(Gauge{Measured: points[:n]}); ok {
			t.Errorf("%d points are judged", n)
		}
	}
	same := make([]Point, 100) // all at the same time
	if _, ok := Judge(Gauge{Measured: same}); ok {
		t.Error("points without time are judged")
	}
}
