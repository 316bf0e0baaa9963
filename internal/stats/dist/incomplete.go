package dist

import "math"

// The incomplete beta and gamma functions are those of mathx, which gives up with a
// panic after 200 terms. A run of a million independent deliveries needs more: near the
// middle of such a distribution as many terms count as its standard deviation says.

// converged is the relative change of a term that ends a sum.
const converged = 3e-14

// tiny replaces a denominator of 0 in a continued fraction.
const tiny = 1e-300

// BetaInc is the regularized incomplete beta function Iₓ(a, b), the distribution
// function of the beta distribution. a and b are above 0, and x is in [0, 1].
func BetaInc(x, a, b float64) float64 {
	switch {
	case x <= 0:
		return 0
	case x >= 1:
		return 1
	case x > (a+1)/(a+b+2): // where the fraction converges slowly
		return 1 - betaBelow(1-x, x, b, a)
	}
	return betaBelow(x, 1-x, a, b)
}

// betaBelow is Iₓ(a, b) for an x not far above the mean; y is 1 − x.
func betaBelow(x, y, a, b float64) float64 {
	front := math.Exp(lgamma(a+b) - lgamma(a) - lgamma(b) + a*math.Log(x) + b*math.Log(y))
	return front / a * fraction(math.Max(a, b), func(n int) float64 {
		m := float64(n / 2)
		if n%2 == 0 {
			return m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m))
		}
		return -(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1))
	})
}

// GammaInc is the regularized incomplete gamma function P(a, x), the distribution
// function of the gamma distribution. a is above 0, and x is 0 or more.
func GammaInc(a, x float64) float64 {
	if x <= 0 {
		return 0
	}
	front := math.Exp(a*math.Log(x) - x - lgamma(a))
	if x < a+1 {
		term := 1 / a
		sum := term
		for n := 1.0; n < most(a); n++ {
			term *= x / (a + n)
			sum += term
			if term < sum*converged {
				break
			}
		}
		return front * sum
	}
	// Γ(a, x) = e⁻ˣ xᵃ / (x + 1−a + 1·(a−1) / (x + 3−a + 2·(a−2) / (x + 5−a + …)))
	b := x + 1 - a
	c, d := 1/tiny, 1/b
	h := d
	for n := 1.0; n < most(x); n++ {
		an := n * (a - n)
		b += 2
		d = 1 / nonzero(an*d+b)
		c = nonzero(b + an/c)
		h *= d * c
		if near(d*c, 1, converged) {
			break
		}
	}
	return 1 - front*h
}

// fraction is 1/(1 + t(1)/(1 + t(2)/(1 + …))) by Lentz's method, for a distribution whose
// larger parameter is size.
func fraction(size float64, t func(n int) float64) float64 {
	c, d := 1.0, 1/nonzero(1+t(1))
	h := d
	for n := 2; float64(n) < most(size); n++ {
		term := t(n)
		d = 1 / nonzero(1+term*d)
		c = nonzero(1 + term/c)
		h *= d * c
		if near(d*c, 1, converged) {
			break
		}
	}
	return h
}

// most is more terms than a distribution with a parameter of this size needs.
func most(size float64) float64 { return 1000 + 100*math.Sqrt(size) }

func nonzero(v float64) float64 {
	if near(v, 0, tiny) {
		return tiny
	}
	return v
}

// near is faster than math.Abs under the race detector.
func near(v, to, within float64) bool { return v-to < within && to-v < within }

func lgamma(x float64) float64 {
	v, _ := math.Lgamma(x)
	return v
}
