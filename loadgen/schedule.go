package loadgen

import (
	"math"
	"math/bits"
	"time"
)

// Schedule determines when emissions are due. At returns the time of emission n
// (from 0) since the schedule began; ok is false if the schedule ends before
// emission n. At is a pure function, does not decrease with n, and
// may be called by many goroutines at once and in any order.
type Schedule interface {
	At(n uint64) (offset time.Duration, ok bool)
}

// Constant publishes emission n at n/Rate, the first one at once. A Rate that
// is not a positive, finite number has no emissions.
type Constant struct {
	Rate float64 // per second
}

// At implements [Schedule]. Unlike vegeta's ConstantPacer it does not round the
// interval to whole nanoseconds, so it does not drift: 300/s is still 300/s after
// a day.
func (c Constant) At(n uint64) (time.Duration, bool) {
	if !positive(c.Rate) {
		return 0, false
	}
	return nanoseconds(float64(n) * 1e9 / c.Rate)
}

// Burst publishes Size emissions every Every. The emissions of a burst are spaced
// evenly over Spread, at most Every; with Spread 0 they are all due at once. Size
// or Every below 1 has no emissions.
type Burst struct {
	Size   int
	Every  time.Duration
	Spread time.Duration
}

// At implements [Schedule].
func (b Burst) At(n uint64) (time.Duration, bool) {
	if b.Size < 1 || b.Every < 1 {
		return 0, false
	}
	size := uint64(b.Size)
	hi, start := bits.Mul64(n/size, uint64(b.Every))
	spread := uint64(min(max(b.Spread, 0), b.Every))
	// (n mod size) is below size, so the quotient is below spread: Div64 is safe.
	h, l := bits.Mul64(n%size, spread)
	within, _ := bits.Div64(h, l, size)
	if hi != 0 || start > math.MaxInt64-within {
		return 0, false
	}
	return time.Duration(start + within), true
}

// Ramp changes its rate linearly from From to To during Over, and then stays at To.
// A ramp down to 0 ends. Rates are per second. If a rate is negative or not finite,
// or both are 0, there are no emissions.
type Ramp struct {
	From, To float64
	Over     time.Duration
}

// At implements [Schedule]. It is the exact inverse of the integral of the rate;
// vegeta's LinearPacer steps by the current rate and falls behind.
func (r Ramp) At(n uint64) (time.Duration, bool) {
	if !r.valid() {
		return 0, false
	}
	over, x := r.Over.Seconds(), float64(n)
	area := (r.From + r.To) / 2 * over
	if over > 0 && x <= area {
		if n == 0 {
			return 0, true
		}
		// x = From·t + a·t²/2, solved in the form without cancellation.
		a := (r.To - r.From) / over
		root := math.Sqrt(max(0, r.From*r.From+2*a*x))
		t, ok := seconds(2 * x / (r.From + root))
		return min(t, r.Over), ok
	}
	if r.To <= 0 {
		return 0, false
	}
	return seconds(max(over, 0) + (x-area)/r.To)
}

func (r Ramp) valid() bool {
	return r.From >= 0 && r.To >= 0 && r.From+r.To > 0 && !math.IsInf(r.From+r.To, 0) && r.Over >= 0
}

// Sine varies its rate around Mean by Amplitude, once a Period, rising first.
// Rates are per second. Amplitude must lie between 0 and Mean and Period be
// positive; anything else has no emissions.
type Sine struct {
	Mean, Amplitude float64
	Period          time.Duration
}

// At implements [Schedule]: it returns the first nanosecond at which the integral of
// the rate has reached n. Vegeta's SinePacer approximates this time in a few steps
// from the current one.
func (s Sine) At(n uint64) (time.Duration, bool) {
	if !s.valid() {
		return 0, false
	}
	// The integral lies between Mean·t and Mean·t + Amplitude·Period/π.
	x := float64(n)
	latest, ok := seconds(x / s.Mean)
	if !ok || latest == math.MaxInt64 {
		return 0, false
	}
	earliest, _ := seconds(max(0, (x-s.Amplitude*s.Period.Seconds()/math.Pi)/s.Mean))
	lo, hi := earliest, latest+1
	for lo < hi {
		mid := lo + (hi-lo)/2
		if s.integral(mid) >= x {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo, true
}

// integral is the number of emissions due before t.
func (s Sine) integral(t time.Duration) float64 {
	phase := 2 * math.Pi * float64(t%s.Period) / float64(s.Period)
	return s.Mean*t.Seconds() + s.Amplitude*s.Period.Seconds()/(2*math.Pi)*(1-math.Cos(phase))
}

func (s Sine) valid() bool {
	return positive(s.Mean) && s.Amplitude >= 0 && s.Amplitude <= s.Mean && s.Period > 0
}

func positive(rate float64) bool { return rate > 0 && !math.IsInf(rate, 0) }

// seconds converts seconds to a Duration; false if it does not fit.
func seconds(s float64) (time.Duration, bool) { return nanoseconds(s * 1e9) }

func nanoseconds(ns float64) (time.Duration, bool) {
	if !(ns >= 0 && ns < math.MaxInt64) {
		return 0, false
	}
	return time.Duration(ns), true
}

// Count returns the number of emissions of s that are due before t. It takes
// O(log) calls of At. A schedule that never reaches t counts as
// math.MaxUint64.
func Count(s Schedule, t time.Duration) uint64 {
	due := func(n uint64) bool {
		at, ok := s.At(n)
		return ok && at < t
	}
	if !due(0) {
		return 0
	}
	lo, hi := uint64(0), uint64(1) // lo is due; hi becomes the first that is not
	for due(hi) {
		if hi > math.MaxUint64/2 {
			return math.MaxUint64
		}
		lo, hi = hi, hi*2
	}
	for hi-lo > 1 {
		if mid := lo + (hi-lo)/2; due(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}
