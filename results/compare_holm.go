package results

import (
	"cmp"
	"slices"
)

// testable returns which tests can pass at all when alpha is shared between
// those that can, after R. E. Tarone (1990): a test whose smallest possible
// p-value is too large only costs the others their share. least are those
// p-values; they depend on the amount of data, never on the outcome, which is
// what makes it right to leave a test out.
func testable(least []float64, alpha float64) []bool {
	out := make([]bool, len(least))
	for k := 1; k <= len(least); k++ {
		n := 0
		for i, p := range least {
			out[i] = p <= alpha/float64(k)
			if out[i] {
				n++
			}
		}
		if n <= k {
			break
		}
	}
	return out
}

// holm returns p-values adjusted for all of them together, after S. Holm
// (1979): those up to alpha are significant, and the chance that any of them
// is so by accident is at most alpha.
func holm(ps []float64) []float64 {
	order := make([]int, len(ps))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(ps[i], ps[j]) })
	out := make([]float64, len(ps))
	largest := 0.0
	for rank, i := range order {
		largest = max(largest, min(1, ps[i]*float64(len(ps)-rank)))
		out[i] = largest
	}
	return out
}
