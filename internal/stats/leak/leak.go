// Package leak judges whether a gauge of a server, such as its memory, rises under constant load and
// stays up when the load is over.
//
// A gauge is noisy in a way of its own: garbage collection makes a sawtooth of it, and a server that
// warms up rises and then stops. So the measured phase is cut into windows, of which only the lowest
// value counts, and a rise must be steady: it is a straight line through the windows (P. K. Sen,
// 1968), it must be certain (H. B. Mann, 1945, with the variance of S. Yue and C. Wang, 2004, for
// values that resemble their neighbours), and the second half must rise at a similar rate as the
// whole.
package leak

import (
	"cmp"
	"math"
	"slices"

	"github.com/eventmeter/eventmeter/internal/stats/dist"
)

const (
	// Windows is into how many windows the measured phase is cut.
	Windows = 24
	// leastPoints are needed in each window, so that its lowest value is lower than a typical one.
	leastPoints = 2
	// mostChance is the probability with which a gauge that does not rise may seem to. A run has
	// several gauges, and one wrong accusation is worse than a leak that a longer run finds.
	mostChance = 0.001
	// goesOn is how fast the second half must rise, as a share of the rate of the whole phase. A gauge
	// that comes to rest, with a time constant of half the phase, rises there at half that rate.
	goesOn = 0.7
	// leastShare of the gauge's level is the smallest rise that is called one.
	leastShare = 0.01
	// stays is the share of the rise that must be left after the cool-down.
	stays = 0.5
	// confidence is the level of the interval of the slope.
	confidence = 0.95
)

// Point is a value of a gauge at a time.
type Point struct {
	Seconds float64
	Value   float64
}

// Gauge is what is known of a gauge.
type Gauge struct {
	// Measured are the points of the phase with constant load, in order of time.
	Measured []Point
	// Before are points before there was any load; After those at the end of the cool-down. Without
	// After, a rise cannot be judged.
	Before, After []Point
	// Least is the smallest rise that is called one, in the unit of the gauge.
	Least float64
}

// Finding is what was found out about a gauge.
type Finding struct {
	// Rises reports whether the gauge rises steadily.
	Rises bool
	// Stayed reports whether at least half of the rise was left after the cool-down.
	Stayed bool
	// Slope is the rate of the rise per minute, with the bounds of its 95 % interval.
	Slope, Low, High float64
	// Chance is how probable such a trend is where there is none.
	Chance float64
	// Rise is what the gauge rose in the measured phase, by the slope.
	Rise float64
	// Start is its level at the beginning of the measured phase, Before that before the load, or
	// Start where it is not known, and After that after the cool-down.
	Start, Before, After float64
}

// Judge judges a gauge. It returns false if there are too few points.
func Judge(g Gauge) (Finding, bool) {
	low := lowest(g.Measured)
	if low == nil {
		return Finding{}, false
	}
	f := trend(low)
	length := (g.Measured[len(g.Measured)-1].Seconds - g.Measured[0].Seconds) / 60
	f.Rise = f.Slope * length
	f.Start = low[0].Value
	half, whole := trend(low[Windows/2:]), f.Slope
	f.Rises = f.Chance < mostChance && f.Low > 0 && half.Slope >= goesOn*whole && f.Rise >= max(g.Least, leastShare*f.Start)
	f.Before, f.After = f.Start, f.Start
	if len(g.Before) > 0 {
		f.Before = least(g.Before)
	}
	if len(g.After) > 0 {
		f.After = least(g.After)
		f.Stayed = f.After-f.Before >= stays*f.Rise
	}
	return f, true
}

// least is the lowest value.
func least(points []Point) float64 {
	return slices.MinFunc(points, func(a, b Point) int { return cmp.Compare(a.Value, b.Value) }).Value
}

// lowest returns the lowest point of each window, or nil if a window has too few points.
func lowest(points []Point) []Point {
	if len(points) < Windows*leastPoints {
		return nil
	}
	from := points[0].Seconds
	width := (points[len(points)-1].Seconds - from) / Windows
	if width <= 0 {
		return nil
	}
	counts := make([]int, Windows)
	out := make([]Point, Windows)
	for _, p := range points {
		i := min(int((p.Seconds-from)/width), Windows-1)
		if counts[i] == 0 || p.Value < out[i].Value {
			// The middle of the window stands for its time, so that chance does not move it.
			out[i] = Point{Seconds: from + (float64(i)+0.5)*width, Value: p.Value}
		}
		counts[i]++
	}
	if slices.Min(counts) < leastPoints {
		return nil
	}
	return out
}

// trend fits a line to points: the median of the slopes of all pairs.
func trend(points []Point) Finding {
	n := len(points)
	slopes := make([]float64, 0, n*(n-1)/2)
	score, ties := 0, map[float64]int{}
	for i, a := range points {
		ties[a.Value]++
		for _, b := range points[i+1:] {
			slopes = append(slopes, (b.Value-a.Value)/(b.Seconds-a.Seconds)*60)
			score += cmp.Compare(b.Value, a.Value)
		}
	}
	slices.Sort(slopes)
	f := Finding{Slope: quantile(slopes, 0.5)}
	// The variance of Mann and Kendall's score, less what equal values take away.
	m := float64(n)
	variance := m * (m - 1) * (2*m + 5)
	for _, k := range ties {
		t := float64(k)
		variance -= t * (t - 1) * (2*t + 5)
	}
	variance = variance / 18 * memory(points, f.Slope)
	if variance <= 0 {
		f.Chance = 1
		f.Low, f.High = f.Slope, f.Slope
		return f
	}
	s := float64(score)
	z := (math.Abs(s) - 1) / math.Sqrt(variance) // less the usual correction of a whole number
	f.Chance = min(1, math.Erfc(z/math.Sqrt2))
	c := dist.NormalQuantile((1+confidence)/2) * math.Sqrt(variance) / float64(len(slopes)) / 2
	f.Low, f.High = quantile(slopes, 0.5-c), quantile(slopes, 0.5+c)
	return f
}

// quantile returns quantile p of sorted values; p may be beyond 0 and 1.
func quantile(sorted []float64, p float64) float64 {
	at := p * float64(len(sorted)-1)
	i := int(math.Floor(at))
	switch {
	case i < 0:
		return sorted[0]
	case i >= len(sorted)-1:
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// memory is by how much the variance of a trend is larger because a window resembles the one before:
// what is left of the values without their trend says so.
func memory(points []Point, perMinute float64) float64 {
	n := float64(len(points))
	left := make([]float64, len(points))
	var mean float64
	for i, p := range points {
		left[i] = p.Value - perMinute*p.Seconds/60
		mean += left[i] / n
	}
	var own, next float64
	for i := range left {
		left[i] -= mean
		own += left[i] * left[i]
		if i > 0 {
			next += left[i] * left[i-1]
		}
	}
	if own == 0 {
		return 1
	}
	// A sum of n values that follow each other with correlation r has this variance, by that of
	// independent ones.
	r := min(max(next/own, 0), 0.9)
	return (1 + r) / (1 - r)
}
