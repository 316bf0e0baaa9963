package capacity

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Sample is one point of a curve: the offered load and the achieved rate.
type Sample struct{ Load, Achieved float64 }

// USL is Gunther's Universal Scalability Law,
//
//	X(N) = Lambda·N / (1 + Sigma·(N−1) + Kappa·N·(N−1)),
//
// with N the load in units of Unit, the lowest sampled load, so that Lambda is about
// the rate achieved there.
type USL struct {
	// Unit is the load that counts as N = 1.
	Unit float64
	// Lambda is the achieved rate at N = 1, Sigma the cost of contention, Kappa the cost of
	// coherency. All are 0 or more.
	Lambda, Sigma, Kappa float64
}

// At returns the rate that the law predicts for a load.
func (u USL) At(load float64) float64 {
	n := load / u.Unit
	return u.Lambda * n / (1 + u.Sigma*(n-1) + u.Kappa*n*(n-1))
}

// Peak returns the load at which the law has its maximum. ok is false if there is
// none, because Kappa is 0 or the maximum lies below Unit.
func (u USL) Peak() (load float64, ok bool) {
	if !(u.Kappa > 0) || u.Sigma >= 1 {
		return 0, false
	}
	return u.Unit * math.Sqrt((1-u.Sigma)/u.Kappa), true
}

// Range is a 95 % interval.
type Range struct{ Low, High float64 }

// Fit is a USL fitted to a curve, with measures of its quality.
type Fit struct {
	USL
	// Points is the number of samples, Loads the number of different loads among
	// them.
	Points, Loads int
	// Low and High are the lowest and the highest sampled load.
	Low, High float64
	// Residual is the root mean square deviation of the law, and Worst the largest, both as shares
	// of the achieved rate.
	Residual, Worst float64
	// R2 is the share of the variance that is explained.
	R2 float64
	// The ranges are 95 % intervals, from resampling the samples.
	LambdaRange, SigmaRange, KappaRange Range
	// PeakRange covers the resamples that have a peak; PeakShare is their share.
	PeakRange Range
	PeakShare float64
	// Doubts are reasons to read the fit with care.
	Doubts []string
}

// ErrDegenerate is wrapped by the error of [FitUSL] for a curve that allows no fit.
var ErrDegenerate = errors.New("no fit")

const (
	minLoads   = 5   // three parameters need more than three points
	fewLoads   = 6   // below it a fit is doubted
	minSpan    = 4.0 // between the highest and the lowest load
	resamples  = 500
	maxOff     = 0.10 // root mean square residual above which a fit is doubted
	refuseOff  = 0.25 // and above which it is refused
	minRetries = 0.9  // share of the resamples that must allow a fit
)

// FitUSL fits the law by least squares on the achieved rate, and resamples the samples, from seed,
// for the intervals. If the fit would be a guess, the error wraps [ErrDegenerate].
func FitUSL(samples []Sample, seed uint64) (Fit, error) {
	var good []Sample
	for _, s := range samples {
		if s.Load > 0 && s.Achieved > 0 && !math.IsInf(s.Load+s.Achieved, 0) {
			good = append(good, s)
		}
	}
	loads := distinct(good)
	f := Fit{Points: len(good), Loads: len(loads)}
	if len(loads) < minLoads {
		return f, fmt.Errorf("%w: %d different loads, at least %d are needed for three parameters", ErrDegenerate, len(loads), minLoads)
	}
	f.Low, f.High = loads[0], loads[len(loads)-1]
	if f.High < minSpan*f.Low {
		return f, fmt.Errorf(
			"%w: loads from %.4g to %.4g span a factor of %.1f, at least %.0f is needed to see a bend",
			ErrDegenerate,
			f.Low,
			f.High,
			f.High/f.Low,
			minSpan,
		)
	}
	var ok bool
	if f.USL, ok = solve(good, f.Low); !ok {
		return f, fmt.Errorf("%w: the equations have no solution", ErrDegenerate)
	}
	f.quality(good)
	if f.Residual > refuseOff {
		return f, fmt.Errorf(
			"%w: the best law is off by %.0f %% (root mean square), so it does not describe this curve",
			ErrDegenerate,
			100*f.Residual,
		)
	}
	if !f.resample(good, rand.New(rand.NewPCG(seed, 0x05ca1ab1e))) {
		return f, fmt.Errorf("%w: too many resamples of these points allow no fit", ErrDegenerate)
	}
	f.doubt()
	return f, nil
}

func distinct(samples []Sample) []float64 {
	var loads []float64
	for _, s := range samples {
		loads = append(loads, s.Load)
	}
	slices.Sort(loads)
	return slices.Compact(loads)
}

// solve fits the law. N/X is linear in 1/Lambda, Sigma/Lambda and Kappa/Lambda, so
// each round is a linear fit, weighted so that it approaches the least squares on X.
// A parameter that would be negative is 0 instead.
func solve(samples []Sample, unit float64) (USL, bool) {
	weights := make([]float64, len(samples))
	for i, s := range samples {
		weights[i] = square(s.Achieved * s.Achieved * unit / s.Load)
	}
	var best USL
	found := false
	for range 20 {
		next, ok := linear(samples, weights, unit)
		if !ok {
			return best, found
		}
		done := found && math.Abs(next.Lambda-best.Lambda) <= 1e-8*best.Lambda
		best, found = next, true
		if done {
			break
		}
		for i, s := range samples {
			weights[i] = square(s.Achieved * best.At(s.Load) * unit / s.Load)
		}
	}
	return best, found
}

func square(x float64) float64 { return x * x }

// subsets are the parameters that are not 0.
var subsets = [][]int{{0, 1, 2}, {0, 1}, {0, 2}, {0}}

// linear tries every choice of parameters that may be 0 and returns the best fit.
func linear(samples []Sample, weights []float64, unit float64) (USL, bool) {
	var best USL
	least, found := math.Inf(1), false
	for _, use := range subsets {
		x, ok := weighted(samples, weights, unit, use)
		if !ok || !(x[0] > 0) || x[1] < 0 || x[2] < 0 {
			continue
		}
		u := USL{Unit: unit, Lambda: 1 / x[0], Sigma: x[1] / x[0], Kappa: x[2] / x[0]}
		var off float64
		for _, s := range samples {
			d := s.Achieved - u.At(s.Load)
			off += d * d
		}
		if off < least && !math.IsNaN(off) {
			best, least, found = u, off, true
		}
	}
	return best, found
}

// weighted solves the normal equations for the columns in use of
// [1, N−1, N·(N−1)] against N/X, by elimination with pivots.
func weighted(samples []Sample, weights []float64, unit float64, use []int) ([3]float64, bool) {
	var out [3]float64
	k := len(use)
	var m matrix
	for s, sample := range samples {
		n := sample.Load / unit
		row := [3]float64{1, n - 1, n * (n - 1)}
		for i := range k {
			for j := range k {
				m[i][j] += weights[s] * row[use[i]] * row[use[j]]
			}
			m[i][k] += weights[s] * row[use[i]] * n / sample.Achieved
		}
	}
	// Columns differ by orders of magnitude; scaled, a small pivot means a
	// singular matrix.
	var scale [3]float64
	for i := range k {
		scale[i] = math.Sqrt(m[i][i])
		if !(scale[i] > 0) {
			return out, false
		}
	}
	for i := range k {
		for j := range k {
			m[i][j] /= scale[i] * scale[j]
		}
		m[i][k] /= scale[i]
	}
	if !eliminate(&m, k) {
		return out, false
	}
	for i := range k {
		out[use[i]] = m[i][k] / scale[i]
	}
	return out, true
}

// matrix holds up to three equations, the right side in the column after the
// last one in use.
type matrix [3][4]float64

// eliminate solves the first k equations in place.
func eliminate(m *matrix, k int) bool {
	for c := range k {
		pivot := c
		for r := c + 1; r < k; r++ {
			if math.Abs(m[r][c]) > math.Abs(m[pivot][c]) {
				pivot = r
			}
		}
		if math.Abs(m[pivot][c]) < 1e-10 {
			return false
		}
		m[c], m[pivot] = m[pivot], m[c]
		for r := range k {
			if r == c {
				continue
			}
			by := m[r][c] / m[c][c]
			for j := c; j <= k; j++ {
				m[r][j] -= by * m[c][j]
			}
		}
	}
	for r := range k {
		m[r][k] /= m[r][r]
	}
	return true
}

func (f *Fit) quality(samples []Sample) {
	var mean, off, total, relative float64
	for _, s := range samples {
		mean += s.Achieved / float64(len(samples))
	}
	for _, s := range samples {
		d := s.Achieved - f.At(s.Load)
		off += d * d
		total += (s.Achieved - mean) * (s.Achieved - mean)
		relative += d * d / (s.Achieved * s.Achieved)
		f.Worst = max(f.Worst, math.Abs(d)/s.Achieved)
	}
	f.Residual = math.Sqrt(relative / float64(len(samples)))
	if total > 0 {
		f.R2 = 1 - off/total
	}
}

// resample repeatedly draws as many samples as there are, with replacement, and takes
// the middle 95 % of the fitted values.
func (f *Fit) resample(samples []Sample, random *rand.Rand) bool {
	var lambda, sigma, kappa, peak []float64
	drawn := make([]Sample, len(samples))
	for range resamples {
		for i := range drawn {
			drawn[i] = samples[random.IntN(len(samples))]
		}
		if len(distinct(drawn)) < 3 {
			continue
		}
		u, ok := solve(drawn, f.Unit)
		if !ok {
			continue
		}
		lambda, sigma, kappa = append(lambda, u.Lambda), append(sigma, u.Sigma), append(kappa, u.Kappa)
		if at, ok := u.Peak(); ok {
			peak = append(peak, at)
		}
	}
	if float64(len(lambda)) < minRetries*resamples {
		return false
	}
	f.LambdaRange, f.SigmaRange, f.KappaRange = middle(lambda), middle(sigma), middle(kappa)
	f.PeakShare = float64(len(peak)) / float64(len(lambda))
	if len(peak) > 0 {
		f.PeakRange = middle(peak)
	}
	return true
}

// middle is the range of the middle 95 %.
func middle(values []float64) Range {
	slices.Sort(values)
	at := func(q float64) float64 { return values[int(math.Round(q*float64(len(values)-1)))] }
	return Range{at(0.025), at(0.975)}
}

// doubt adds reasons to read the fit with care.
func (f *Fit) doubt() {
	add := func(format string, args ...any) { f.Doubts = append(f.Doubts, fmt.Sprintf(format, args...)) }
	if f.Residual > maxOff {
		add(
			"it is off by %.0f %% (root mean square): this law does not describe a limit that is reached abruptly, such as a quota",
			100*f.Residual,
		)
	}
	at, ok := f.Peak()
	switch {
	case !ok || f.PeakShare < 0.95:
		add("no peak is certain: %.0f %% of the resamples have one", 100*f.PeakShare)
	case at > f.High:
		add("its peak lies beyond the highest load that was tried, so it is a guess")
	}
	if f.Loads < fewLoads {
		add("%d different loads are few for three parameters", f.Loads)
	}
}
