package interval

import (
	"math"
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
		{"trend", 0.5, spans(30, Block{1000, 899, 900}, map[int]Block{0: {1000, 99, 100}, 1: {1000, 99, 100}, 2: {1000, 99, 100}, 3: {1000, 99, 100}, 4: {1000, 99, 100}}), [2]float64{1, 40}, true},
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

func TestBlocks(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 1, 29: 29, 44: 44, 45: 22, 120: 30, 1000: 30} {
		in := spans(n, Block{3, 1, 2}, nil)
		got := Blocks(append(in, Block{}, Block{}))
		var sum Block
		for _, b := range got {
			sum.All, sum.Below, sum.AtMost = sum.All+b.All, sum.Below+b.Below, sum.AtMost+b.AtMost
		}
		if len(got) != want || sum != (Block{3 * int64(n), int64(n), 2 * int64(n)}) {
			t.Errorf("%d spans give %d blocks of %+v, want %d", n, len(got), sum, want)
		}
	}
}
