package interval

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// spans makes n equal spans of which the given ones have other counts.
func spans(n int, b Block, others map[int]Block) []Block {
	out := make([]Block, n)
	for i := range out {
		out[i] = b
		if o, there := others[i]; there {
			out[i] = o
		}
	}
	return out
}

// inTurns makes n blocks of 100 samples, of which 60 and 40 count, each so many times in a row.
func inTurns(n, times int) []Block {
	out := make([]Block, n)
	for i := range out {
		hits := int64(60 - 20*(i/times%2))
		out[i] = Block{All: 100, Below: hits, AtMost: hits}
	}
	return out
}

func TestOf(t *testing.T) {
	even := Block{All: 100, Below: 98, AtMost: 99}
	for _, c := range []struct {
		name   string
		p      float64
		blocks []Block
		draws  [2]float64 // between
		open   bool
	}{
		{"no samples", 0.99, nil, [2]float64{0, 0}, true},
		{"one block", 0.99, spans(1, even, nil), [2]float64{0, 0}, true},
		{"too few blocks", 0.5, spans(7, Block{All: 100, Below: 49, AtMost: 50}, nil), [2]float64{700, 700}, true},
		{"no more than there are", 0.99, spans(30, even, nil), [2]float64{3000, 3000}, false},
		{"few beyond", 0.999, spans(30, Block{All: 100, Below: 99, AtMost: 100}, map[int]Block{3: {100, 98, 99}}), [2]float64{1, 3000}, true},
		// All deliveries of one event of 30 are slow: 30 draws, not 9,000.
		{"one slow event", 0.99, spans(30, Block{300, 300, 300}, map[int]Block{7: {300, 0, 300}}), [2]float64{20, 30}, true},
		{"one slow event, apart", 0.99, spans(30, Block{300, 300, 300}, map[int]Block{7: {300, 209, 210}}), [2]float64{20, 100}, true},
		// The first half is slow.
		{"trend", 0.5, spans(30, Block{1000, 899, 900}, map[int]Block{
			0: {1000, 99, 100}, 1: {1000, 99, 100}, 2: {1000, 99, 100}, 3: {1000, 99, 100}, 4: {1000, 99, 100},
		}), [2]float64{1, 40}, true},
		// Neighbours that take turns: by hand, 1,000 samples, a design effect of 10²·10·10/9 / 250, and the
		// square of 1.95996 / 2.26216, which is Student's quantile with 9 degrees of freedom.
		{"no memory", 0.5, inTurns(10, 1), [2]float64{168.89, 168.92}, false},
		// Pairs that take turns have a memory of 1/12, corrected to 3/16: the variance grows by 19/13.
		{"memory", 0.5, inTurns(12, 2), [2]float64{149.19, 149.22}, false},
		{"all of one value", 0.99, spans(30, Block{100, 0, 100}, nil), [2]float64{3000, 3000}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := Of(c.p, c.blocks)
			if e.Open != c.open || !(e.Draws >= c.draws[0] && e.Draws <= c.draws[1]) {
				t.Errorf("%+v; want %v to %v draws, open %v", e, c.draws[0], c.draws[1], c.open)
			}
			if !(e.Low >= 0 && e.Low <= c.p && e.High >= c.p && e.High <= 1) {
				t.Errorf("%+v is not around %v", e, c.p)
			}
		})
	}
}

// The bounds of 1,000 independent samples around the 99th percentile, from tables of the exact
// interval of 10 of 1,000.
func TestIndependent(t *testing.T) {
	e := Independent(0.99, 1000)
	if math.Abs(e.Low-0.98169) > 1e-5 || math.Abs(e.High-0.99519) > 1e-5 || e.Open {
		t.Errorf("%+v", e)
	}
	if e := Independent(0.99, 999); !e.Open {
		t.Errorf("%+v: fewer than %d samples lie beyond", e, LeastBeyond)
	}
}

func TestGroup(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 1, 29: 29, 44: 44, 45: 22, 120: 30, 1000: 30} {
		in := make([]int, n)
		for i := range in {
			in[i] = i
		}
		got := Group(in)
		if all := slices.Concat(got...); len(got) != want || !slices.Equal(all, in) {
			t.Errorf("%d spans give %d groups of %v, want %d", n, len(got), all, want)
		}
	}
}

func TestTrend(t *testing.T) {
	if p := Trend([]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}); !(p < 1e-3) {
		t.Errorf("a straight line has p %v", p)
	}
	if p := Trend([]float64{1, 2, 3, 4, 5, 6, 7}); p != 1 {
		t.Errorf("seven values have p %v", p)
	}
	if p := Trend(make([]float64, 30)); p != 1 {
		t.Errorf("constant values have p %v", p)
	}
	// Few series without a trend are said to have one, even if their values follow their
	// predecessors; a rise by three standard deviations is found.
	for _, c := range []struct {
		memory              float64
		mostAlarms, leastOf int
	}{{0, 8, 1000}, {0.5, 20, 250}} {
		memory := c.memory
		alarms, found := 0, 0
		for seed := range uint64(2000) {
			rng := rand.New(rand.NewPCG(seed, 3))
			still, rising, last := make([]float64, 30), make([]float64, 30), rng.NormFloat64()
			for i := range still {
				last = memory*last + math.Sqrt(1-memory*memory)*rng.NormFloat64()
				still[i], rising[i] = last, last+3*float64(i)/30
			}
			if p := Trend(still); p < 1e-3 {
				alarms++
			}
			if p := Trend(rising); p < 1e-3 {
				found++
			}
		}
		t.Logf("memory %v: %d alarms, %d found of 2000", memory, alarms, found)
		if alarms > c.mostAlarms || found < c.leastOf {
			t.Errorf("memory %v: %d alarms, %d found of 2000", memory, alarms, found)
		}
	}
}
