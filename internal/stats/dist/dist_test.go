package dist

import (
	"math"
	"testing"

	"github.com/aclements/go-moremath/mathx"
)

// Values from tables.
func TestDistributions(t *testing.T) {
	for _, c := range []struct {
		what              string
		got, want, within float64
	}{
		{"t, 0.975, 10 df", StudentQuantile(0.975, 10), 2.2281, 1e-4},
		{"t, 0.975, 1 df", StudentQuantile(0.975, 1), 12.7062, 1e-3},
		{"tail of t 2.2281", StudentTail(2.2281, 10), 0.05, 1e-5},
		{"normal 0.975", NormalQuantile(0.975), 1.95996, 1e-5},
		{"beta(2,3) median", BetaQuantile(0.5, 2, 3), 0.38573, 1e-5},
		{"beta at 0", BetaQuantile(0.5, 0, 3), 0, 0},
		{"beta at 1", BetaQuantile(0.5, 3, 0), 1, 0},
	} {
		if !(math.Abs(c.got-c.want) <= c.within) {
			t.Errorf("%s is %v, want %v", c.what, c.got, c.want)
		}
	}
}

// Both functions are those of another library where that one converges.
func TestIncompleteFunctions(t *testing.T) {
	for _, a := range []float64{0.5, 1, 2.5, 40, 300, 2000} {
		for _, b := range []float64{0.5, 1, 3, 70, 1500} {
			mean := a / (a + b)
			for _, x := range []float64{0, 1e-9, mean / 2, mean * 0.99, mean, (1 + mean) / 2, 1 - 1e-9, 1} {
				if got, want := BetaInc(x, a, b), mathx.BetaInc(x, a, b); !(math.Abs(got-want) <= 1e-9) {
					t.Errorf("I(%v, %v, %v) = %v, want %v", x, a, b, got, want)
				}
			}
		}
		if a > 300 {
			continue // the other one gives up
		}
		for _, x := range []float64{0, 1e-9, a / 2, a * 0.99, a, a + 1, 2 * a, 10 * a} {
			if got, want := GammaInc(a, x), mathx.GammaInc(a, x); !(math.Abs(got-want) <= 1e-9) {
				t.Errorf("P(%v, %v) = %v, want %v", a, x, got, want)
			}
		}
	}
}

// An hour with a million deliveries has parameters of this size. There the distributions
// are nearly normal, and their medians nearly their means.
func TestQuantilesOfManySamples(t *testing.T) {
	for _, n := range []float64{1e5, 1e6, 1e7, 1e9} {
		for _, p := range []float64{0.5, 0.9, 0.99, 0.9999} {
			a, b := p*n, (1-p)*n+1
			sd := math.Sqrt(p * (1 - p) / n)
			low, mid, high := BetaQuantile(0.025, a, b), BetaQuantile(0.5, a, b), BetaQuantile(0.975, a, b)
			skew := 3 / math.Sqrt(n*(1-p)) // of the order of the distribution's skewness
			if !(math.Abs(mid-p) < skew*sd) || !(math.Abs((p-low)/sd-1.96) < skew+1e-3) || !(math.Abs((high-p)/sd-1.96) < skew+1e-3) {
				t.Errorf("%g samples, p = %v: %v, %v, %v, with a standard deviation of %v", n, p, low, mid, high, sd)
			}
		}
		if got := GammaInc(n, n); !(math.Abs(got-0.5) < 1/math.Sqrt(n)) {
			t.Errorf("P(%g, %g) = %v", n, n, got)
		}
		if got := GammaInc(n, n+3*math.Sqrt(n)); !(math.Abs(got-0.99865) < 0.001) {
			t.Errorf("P(%g, n + 3 sd) = %v", n, got)
		}
	}
}

// On both sides of the place where the fraction of the other side is taken, rounding
// decides which one it is.
func TestBetaIncWhereSidesChange(t *testing.T) {
	for a := 1.0; a < 3e6; a *= 1.37 {
		for b := 1.0; b < 3e6; b *= 1.71 {
			x := (a + 1) / (a + b + 2)
			below, at, above := BetaInc(math.Nextafter(x, 0), a, b), BetaInc(x, a, b), BetaInc(math.Nextafter(x, 1), a, b)
			if !(math.Abs(below-at) < 1e-6) || !(math.Abs(above-at) < 1e-6) {
				t.Errorf("I(%v ± ulp, %v, %v) = %v, %v, %v", x, a, b, below, at, above)
			}
		}
	}
}
