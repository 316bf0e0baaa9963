package leak

import (
	"math"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

const (
	measured = 600 // seconds, with a reading each
	cooled   = 60
	level    = 100.0 // of the gauge before the load, in units of the readings' noise
)

// A shape returns what a gauge has risen at a share of the measured phase, by its whole rise. What is
// above 1 is the cool-down, what is below 0 the warm-up.
type shape func(rng *rand.Rand) func(share float64) float64

// grows is a rise that ends with the load and stays.
func grows(f func(x float64) float64) shape {
	return func(*rand.Rand) func(float64) float64 {
		return func(x float64) float64 { return f(min(max(x, 0), 1)) }
	}
}

// sawtooth is garbage that is collected with a cycle of from to to shares of the phase.
func sawtooth(from, to float64) shape {
	return func(rng *rand.Rand) func(float64) float64 {
		phase, cycle := rng.Float64(), from+(to-from)*rng.Float64()
		return func(x float64) float64 {
			_, at := math.Modf((x+1)/cycle + phase)
			return at
		}
	}
}

// TestVerdicts: which verdicts may be given (n: none, u: unknown, l: leak) for a rise of so many
// standard deviations of a reading; the smallest rise that counts has two. Of the runs of a cell, at
// most 2 % may have another.
func TestVerdicts(t *testing.T) {
	const runs = 200
	sizes := []float64{0, 1, 3, 10, 30, 100}
	for _, c := range []struct {
		name    string
		shape   shape
		allowed [6]string // by size
	}{
		{"linear", grows(func(x float64) float64 { return x }), [6]string{"n", "nu", "ul", "l", "l", "l"}},
		{"accelerating", grows(func(x float64) float64 { return x * x }), [6]string{"n", "nu", "ul", "ul", "l", "l"}},
		{"accelerating fast", grows(func(x float64) float64 { return x * x * x }), [6]string{"n", "nu", "nul", "ul", "ul", "ul"}},
		{"slowing", grows(math.Sqrt), [6]string{"n", "nu", "nul", "ul", "ul", "ul"}},
		{"slowing a little", grows(func(x float64) float64 { return math.Pow(x, 0.8) }), [6]string{"n", "nu", "nul", "ul", "l", "l"}},
		{"steps", grows(func(x float64) float64 { return math.Floor(6*x) / 6 }), [6]string{"n", "nu", "nul", "ul", "l", "l"}},
		{"one step", func(rng *rand.Rand) func(float64) float64 {
			at := 0.1 + 0.8*rng.Float64()
			return func(x float64) float64 {
				if x < at {
					return 0
				}
				return 1
			}
		}, [6]string{"n", "nu", "nu", "u", "u", "u"}},
		{"comes back", func(*rand.Rand) func(float64) float64 {
			return func(x float64) float64 {
				if x > 1 {
					return 0
				}
				return max(x, 0)
			}
		}, [6]string{"n", "nu", "nu", "nu", "nu", "n"}},
		{"garbage", sawtooth(0.003, 0.04), [6]string{"n", "nu", "nu", "nu", "nu", "nu"}},
		{"garbage that is seldom collected", sawtooth(0.04, 0.7), [6]string{"n", "nu", "nu", "nu", "nu", "nu"}},
		{"a buffer that is full before the phase", grows(func(float64) float64 { return 1 }), [6]string{"n", "n", "n", "n", "n", "n"}},
		{"a buffer that fills in the phase", func(rng *rand.Rand) func(float64) float64 {
			full := 0.1 + 0.5*rng.Float64()
			return func(x float64) float64 { return min(max(x, 0)/full, 1) }
		}, [6]string{"n", "nu", "nu", "nu", "u", "u"}},
		{"a heap that comes to rest", func(rng *rand.Rand) func(float64) float64 {
			tau := 0.02 + 0.4*rng.Float64()
			return func(x float64) float64 { return 1 - math.Exp(-min(max(x, 0), 1)/tau) }
		}, [6]string{"n", "nu", "nu", "nu", "nu", "nu"}},
	} {
		for i, size := range sizes {
			seen := map[string]int{}
			for run := range runs {
				rng := rand.New(rand.NewPCG(uint64(run), uint64(i)))
				f := c.shape(rng)
				seen[verdict(t, reading(func(x float64) float64 { return level + size*f(x) + rng.NormFloat64() }))]++
			}
			outside := 0
			for v, n := range seen {
				if !strings.Contains(c.allowed[i], v) {
					outside += n
				}
			}
			t.Logf("%s, %g: %v", c.name, size, seen)
			if outside > runs/50 {
				t.Errorf("%s, %g: %v, allowed %s", c.name, size, seen, c.allowed[i])
			}
		}
	}
}

// reading reads a gauge each second: before the load, in the measured phase and in the cool-down.
func reading(gauge func(share float64) float64) Gauge {
	g := Gauge{Least: 2}
	for s := -30; s < measured+cooled; s++ {
		p := Point{Seconds: float64(s), Value: gauge(float64(s) / measured)}
		switch {
		case s < 0: // a buffer that is full before the phase is filled in the warm-up
			p.Value = min(p.Value, level)
			g.Before = append(g.Before, p)
		case s < measured:
			g.Measured = append(g.Measured, p)
		case s >= measured+cooled/2:
			g.After = append(g.After, p)
		}
	}
	return g
}

// verdict is n for none, u for unknown and l for a leak.
func verdict(t *testing.T, g Gauge) string {
	f, ok := Judge(g)
	switch {
	case !ok:
		t.Fatal("not judged")
	case f.Verdict == Flat || f.Verdict == Back:
		return "n"
	case f.Verdict == Leak:
		return "l"
	}
	return "u"
}

// TestRealMemory: the heap of this process, which makes garbage and keeps a part of it, or nothing.
func TestRealMemory(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(25)) // a cycle must be shorter than a window
	for i, kept := range []int{0, 0, 0, 0, 0, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10} {
		var hold [][]byte
		g := Gauge{Least: 1 << 20}
		runtime.GC()
		for s := -10; s < 700; s++ {
			if s >= 0 && s < 600 {
				for range 6 + i/2 {
					garbage = make([]byte, 64<<10)
				}
				hold = append(hold, make([]byte, kept))
			}
			if s == 600 {
				garbage = nil
				runtime.GC()
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			p := Point{Seconds: float64(s), Value: float64(m.HeapAlloc)}
			switch {
			case s < 0:
				g.Before = append(g.Before, p)
			case s < 600:
				g.Measured = append(g.Measured, p)
			case s >= 650:
				g.After = append(g.After, p)
			}
		}
		runtime.KeepAlive(hold)
		allowed := []string{"n", "u"}
		if kept > 0 {
			allowed = []string{"l"}
		}
		if v := verdict(t, g); !slices.Contains(allowed, v) {
			f, _ := Judge(g)
			t.Errorf("%d bytes are kept of each turn: %s, %+v", kept, v, f)
		}
	}
}

var garbage []byte // so that the compiler does not leave it out

// TestConnectionsHideNoLeak: what subscriptions needed is given back when they end, and what leaked
// is still there.
func TestConnectionsHideNoLeak(t *testing.T) {
	v := verdict(t, reading(func(x float64) float64 {
		switch {
		case x < 0:
			return level
		case x >= 1:
			return level + 20
		}
		return level + 50 + 20*x
	}))
	if v != "u" {
		t.Errorf("%s, want unknown", v)
	}
}

// TestFinding: a rise by 10 in each window, without noise.
func TestFinding(t *testing.T) {
	var g Gauge
	for s := range 2 * Windows {
		g.Measured = append(g.Measured, Point{Seconds: float64(s), Value: float64(100 + 10*(s/2))})
	}
	// The levels are the means of 100 to 170, 180 to 250, and 260 to 330.
	const start, slope = 135, 160 * 1.5 * 60 / 47.
	want := Finding{Verdict: Rises, Slope: slope, Low: slope, High: slope, Rise: 240, Start: start, Before: start, After: start}
	if got, ok := Judge(g); !ok || got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	g.Before, g.After = []Point{{Value: 95}, {Value: 90}}, []Point{{Value: 380}, {Value: 400}}
	want.Verdict, want.Before, want.After = Leak, 90, 380
	if got, ok := Judge(g); !ok || got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestTheIntervalOfTheSlope: of 99 % intervals, 97 of 100 hold the slope at least.
func TestTheIntervalOfTheSlope(t *testing.T) {
	const runs, size = 1000, 30.0
	held := 0
	for run := range runs {
		rng := rand.New(rand.NewPCG(7, uint64(run)))
		f, _ := Judge(reading(func(x float64) float64 { return level + size*x + rng.NormFloat64() }))
		if want := size / (measured / 60); f.Low <= want && want <= f.High {
			held++
		}
	}
	if held < runs*97/100 {
		t.Errorf("the slope is in %d of %d intervals", held, runs)
	}
}

// TestConstantGauges: a gauge that never moves does not rise, and too few points have no verdict.
func TestConstantGauges(t *testing.T) {
	var points []Point
	for s := range 100 {
		points = append(points, Point{Seconds: float64(s), Value: 5})
	}
	if f, ok := Judge(Gauge{Measured: points, After: points[:1], Least: 1}); !ok || f.Verdict != Flat || f.Slope != 0 {
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
