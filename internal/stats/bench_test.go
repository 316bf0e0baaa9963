package stats

import (
	"math/rand/v2"
	"testing"

	"github.com/eventmeter/eventmeter/results"
)

func BenchmarkCompare(b *testing.B) {
	s := sim{intervals: 60, samples: 2000, factor: 1, wobble: 0.02}
	x, y := s.side(1), s.side(2)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Compare(x, y, CompareOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

func benchmarkPool() *pool {
	s := sim{intervals: 60, samples: 2000, factor: 1, wobble: 0.02}
	x, y := s.run(1), s.run(2)
	return newPool([][]results.LogInterval{x.Logs["push"].Of(results.TagSent)}, [][]results.LogInterval{y.Logs["push"].Of(results.TagSent)})
}

// One draw of both sides, 60 intervals each.
func BenchmarkBootstrap(b *testing.B) {
	p := benchmarkPool()
	rng := rand.New(rand.NewPCG(1, 2))
	b.ReportAllocs()
	b.ResetTimer()
	p.bootstrapped(b.N, rng)
}

func BenchmarkPermutation(b *testing.B) {
	p := benchmarkPool()
	rng := rand.New(rand.NewPCG(1, 2))
	b.ReportAllocs()
	b.ResetTimer()
	p.permuted(b.N, rng)
}
