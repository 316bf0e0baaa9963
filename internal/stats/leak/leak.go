// Package leak judges whether a gauge of a server, such as its memory, rises under constant load and
// stays up when the load is over.
//
// Garbage collection makes a sawtooth of a gauge. So the measured phase is cut into windows, of which
// only the lowest value counts. The mean of a third of the windows is a level, and a rise is the
// difference of two levels. The scatter of the windows about a fit that never falls (M. Ayer and
// others, 1955) is their noise: whatever the shape of a rise, it is no noise, and a fall is.
package leak

import (
	"cmp"
	"math"
	"slices"

	"github.com/eventmeter/eventmeter/internal/stats/dist"
)

const (
	// Windows is into how many windows the measured phase is cut; a level has a third of them.
	Windows = 24
	third   = Windows / 3
	// leastPoints are needed in each window, so that its lowest value is lower than a typical one.
	leastPoints = 2
	// goesOn is the share of the rise that the last third must have above the middle one. A gauge
	// that comes to rest, with a time constant of half the phase, has less.
	goesOn = 0.35
	// leastShare of the gauge's level is the smallest rise that is called one.
	leastShare = 0.01
	// step is the largest share of the rise that may come at once.
	step = 0.5
	// stays is the share of the rise that must be left after the cool-down, and gone the largest
	// share that may be left where it came back.
	stays, gone = 0.5, 0.1
	// confidence is the level of all intervals.
	confidence = 0.99
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
	// After, no rise is called a leak; without both, none is called gone.
	Before, After []Point
	// Least is the smallest rise that is called one, in the unit of the gauge.
	Least float64
}

// Verdict is what can be said with confidence.
type Verdict int

// The verdicts. Only Flat and Back say that there is no leak, and only Leak that there is one.
const (
	Unsure  Verdict = iota // whether it rises
	Flat                   // it does not rise by what counts as a rise
	Back                   // it rises, and is back at its level before the load
	Stopped                // it rises, but not evenly: a buffer that fills, a single step
	Rises                  // it rises until the end; whether it stays is not known
	Leak                   // it rises until the end, and stays above its level after the warm-up
)

// Finding is what was found out about a gauge.
type Finding struct {
	Verdict Verdict
	// Slope is the rate of the rise per minute, with the bounds of its 99 % interval.
	Slope, Low, High float64
	// Rise is what the gauge rose in the measured phase, by the slope.
	Rise float64
	// Start is its level in the first third of the measured phase. Before is the lowest value before
	// the load, or Start where there is none, and After that after the cool-down.
	Start, Before, After float64
}

// Judge judges a gauge. It returns false if there are too few points.
func Judge(g Gauge) (Finding, bool) {
	low := lowest(g.Measured)
	if low == nil {
		return Finding{}, false
	}
	start, middle, end := mean(low[:third]), mean(low[third:2*third]), mean(low[2*third:])
	f := Finding{Start: start, Before: start, After: start}
	one, level := noise(low, start <= end)
	z := dist.NormalQuantile((1 + confidence) / 2)
	width := z * level * math.Sqrt2
	length := g.Measured[len(g.Measured)-1].Seconds - g.Measured[0].Seconds
	rise := end - start
	perMinute := 60 * 1.5 / length // the middles of two levels are two thirds of the phase apart
	f.Slope, f.Low, f.High = rise*perMinute, (rise-width)*perMinute, (rise+width)*perMinute
	f.Rise = 1.5 * rise
	smallest := max(g.Least, leastShare*start)
	if len(g.Before) > 0 {
		f.Before = least(g.Before)
	}
	if len(g.After) > 0 {
		f.After = least(g.After)
	}
	left := z * math.Hypot(one, level)
	switch {
	case 1.5*(rise+width) < smallest:
		f.Verdict = Flat
	// Subscriptions need memory and files, too: below its level with them, a gauge need not be back.
	case len(g.After) > 0 && len(g.Before) > 0 && f.After-f.Before+z*math.Sqrt2*one < max(smallest, gone*f.Rise):
		f.Verdict = Back
	case 1.5*(rise-width) < smallest:
	case middle-start <= width || end-middle <= max(width, goesOn*rise) || jump(low) > step*rise:
		f.Verdict = Stopped
	case len(g.After) > 0 && f.After-f.Start > max(left, smallest, stays*f.Rise):
		f.Verdict = Leak
	default:
		f.Verdict = Rises
	}
	return f, true
}

// mean is the mean value of points.
func mean(points []Point) (sum float64) {
	for _, p := range points {
		sum += p.Value
	}
	return sum / float64(len(points))
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

// jump is the largest rise from a window to the next.
func jump(points []Point) (most float64) {
	for i, p := range points[1:] {
		most = max(most, p.Value-points[i].Value)
	}
	return most
}

// noise returns the standard deviations of one window and of a level, which is the mean of a third of
// them, about a fit that never falls, or never rises where the gauge is not rising.
func noise(points []Point, rising bool) (one, level float64) {
	var blocks [][]Point // of which each has one value in the fit
	for i := range points {
		blocks = append(blocks, points[i:i+1])
		for n := len(blocks); n > 1 && (mean(blocks[n-2]) >= mean(blocks[n-1])) == rising; n-- {
			whole := len(blocks[n-2]) + len(blocks[n-1])
			blocks = append(blocks[:n-2], points[i+1-whole:i+1])
		}
	}
	var own, next, last float64
	for _, block := range blocks {
		fit := mean(block)
		for _, p := range block {
			left := p.Value - fit
			own += left * left
			next += left * last
			last = left
		}
	}
	r := 0.0
	if own > 0 {
		// Each value of the fit takes one from the windows that are left to show noise.
		one = math.Sqrt(own / float64(max(1, len(points)-len(blocks))))
		r = min(max(next/own, 0), 0.9)
	}
	// A steep rise hides noise from such a fit. How much each window differs from the middle of its
	// neighbours shows it.
	var bends float64
	for i := range len(points) - 2 {
		bend := points[i].Value - 2*points[i+1].Value + points[i+2].Value
		bends += bend * bend / 6 // the variance of a bend is six times that of a window
	}
	one = max(one, math.Sqrt(bends/float64(len(points)-2)))
	// A mean of n values that follow each other with correlation r has this variance, by that of
	// independent ones. It cannot be larger than that of one value.
	return one, one * math.Sqrt(min(1, (1+r)/(1-r)/third))
}
