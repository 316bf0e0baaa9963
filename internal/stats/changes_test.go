package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// noisy makes a series around 100 with noise of 2 %, which follows its predecessor by
// memory and in one of ten runs is five times as large where heavy is set.
func noisy(rng *rand.Rand, n int, memory float64, heavy bool, level func(i int) float64) []float64 {
	xs := make([]float64, n)
	e := 0.0
	for i := range xs {
		fresh := rng.NormFloat64()
		if heavy && rng.IntN(10) == 0 {
			fresh *= 5
		}
		e = memory*e + math.Sqrt(1-memory*memory)*fresh
		xs[i] = 100 * (1 + 0.02*e) * level(i)
	}
	return xs
}

func flat(int) float64 { return 1 }

func from(at int, level float64) func(int) float64 {
	return func(i int) float64 {
		if i >= at {
			return level
		}
		return 1
	}
}

// TestLevelChanges is the quick form of the proof in scripts/trust.
func TestLevelChanges(t *testing.T) {
	const alpha = 0.0005
	series := 100
	if underRace {
		series = 20
	}
	count := func(of func(seed uint64) bool) (n int) {
		for seed := range uint64(series) {
			if of(seed) {
				n++
			}
		}
		return n
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, tt := range []struct {
		name   string
		memory float64
		heavy  bool
		most   int
	}{{"independent", 0, false, 0}, {"heavy tails", 0, true, 0}, {"memory of 0.3", 0.3, false, series / 20}} {
		if n := count(func(seed uint64) bool {
			return len(levelChanges(noisy(rng, 40, tt.memory, tt.heavy, flat), alpha, seed)) > 0
		}); n > tt.most {
			t.Errorf("%s: %d of %d series without a change have one", tt.name, n, series)
		}
	}
	placed, inside := 0, 0
	for seed := range uint64(series) {
		at := levelChanges(noisy(rng, 40, 0, false, from(20, 1.05)), alpha, seed)
		if len(at) == 1 && at[0].at >= 19 && at[0].at <= 21 {
			placed++
		}
		if len(at) == 1 && at[0].earliest <= 20 && at[0].latest >= 20 {
			inside++
		}
	}
	// Who knows both levels places 93 of 100.
	if placed < series*8/10 || inside < series*85/100 {
		t.Errorf("of %d steps of 5 %%, %d were placed within one run and %d within the interval", series, placed, inside)
	}
	if n := count(func(seed uint64) bool {
		at := levelChanges(noisy(rng, 40, 0, false, func(i int) float64 { return from(15, 1.1)(i) / from(22, 1.1)(i) }), alpha, seed)
		return len(at) == 2 && at[0].at == 15 && at[1].at == 22
	}); n < series*9/10 {
		t.Errorf("a rise of 10 %% that was taken back after seven runs was found in %d of %d series", n, series)
	}
}

func TestLevelChangesOfCounts(t *testing.T) {
	zeros := make([]float64, 30)
	if at := levelChanges(zeros, 0.0005, 1); at != nil {
		t.Errorf("zeros: %v", at)
	}
	rise := slices.Clone(zeros)
	for i := 20; i < 30; i++ {
		rise[i] = float64(3 + i%3)
	}
	if at := levelChanges(rise, 0.0005, 1); len(at) != 1 || at[0].at != 20 {
		t.Errorf("a loss that begins with run 20: %v", at)
	}
	once := slices.Clone(zeros)
	once[12] = 1000
	if at := levelChanges(once, 0.0005, 1); at != nil {
		t.Errorf("one bad run: %v", at)
	}
	exact := make([]float64, 12)
	for i := range exact {
		exact[i] = from(6, 2)(i)
	}
	if at := levelChanges(exact, 0.005, 1); !slices.Equal(at, []shift{{6, 6, 6}}) {
		t.Errorf("without noise: %v", at)
	}
	if at := levelChanges(exact[:7], 0.005, 1); at != nil {
		t.Errorf("seven runs: %v", at)
	}
}

// FuzzLevelChanges holds what is always so: levels of four runs or more, in order,
// with their intervals around them, and the same answer again.
func FuzzLevelChanges(f *testing.F) {
	f.Add([]byte{1, 1, 1, 1, 1, 9, 9, 9, 9, 9, 9, 1, 1, 1, 1, 1}, uint64(1))
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 200, 200, 200, 200, 200, 200, 200}, uint64(2))
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		values := make([]float64, min(len(data), 64))
		for i := range values {
			values[i] = float64(data[i])
		}
		at := levelChanges(values, 0.01, seed)
		if !slices.Equal(at, levelChanges(values, 0.01, seed)) {
			t.Fatal("another answer to the same question")
		}
		last := 0
		for _, s := range append(at, shift{len(values), len(values), len(values)}) {
			if s.at-last < LeastLevel && len(at) > 0 || s.earliest > s.at || s.latest < s.at || s.earliest < 0 || s.latest > len(values) {
				t.Fatalf("%v of %v", at, values)
			}
			last = s.at
		}
	})
}

func BenchmarkLevelChanges(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{40, 400} {
		xs := noisy(rng, n, 0, false, flat)
		b.Run("flat", func(b *testing.B) {
			for b.Loop() {
				levelChanges(xs, 0.0005, 1)
			}
		})
		ys := noisy(rng, n, 0, false, from(n/2, 1.05))
		b.Run("step", func(b *testing.B) {
			for b.Loop() {
				levelChanges(ys, 0.0005, 1)
			}
		})
	}
}
