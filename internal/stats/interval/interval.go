// Package interval says how exactly the quantiles of one run are known.
//
// The samples of a run are not independent: an event that was slow was slow for every subscriber,
// and a busy second makes all of its events slow. A run is therefore cut into blocks of consecutive
// time, and what differs between blocks says how many independent samples the run is worth. The
// method is the interval of a proportion in a clustered sample (E. L. Korn and B. I. Graubard, 1998),
// turned into one of a quantile (R. S. Woodruff, 1952).
package interval

import (
	"math"
	"slices"

	"github.com/eventmeter/eventmeter/internal/stats/dist"
)

const (
	// Confidence is the level of every interval.
	Confidence = 0.95
	// LeastBlocks is how many blocks with samples an interval needs.
	LeastBlocks = 8
	// LeastBeyond is how many independent samples must lie above a quantile. With fewer the
	// largest samples decide, and how large the next would be is not known.
	LeastBeyond = 10
	// wantBlocks is how many blocks a run is cut into: enough to estimate a variance, and long
	// enough to be nearly independent.
	wantBlocks = 30
	// mostMemory bounds the correlation of neighbouring blocks. What is left of a trend that is no
	// straight line looks like memory, so a test for trends accounts for less.
	mostMemory, mostMemoryOfTrend = 0.9, 0.5
)

// Block counts the samples of one block: all of them, those below the value of a quantile, and those
// at most as large.
type Block struct{ All, Below, AtMost int64 }

// Group groups the spans of a run, in order of time, so that there are about 30 groups of
// neighbours: each is a block. Spans without samples must be left out before.
func Group[T any](spans []T) [][]T {
	wide := max(1, (len(spans)+wantBlocks/2)/wantBlocks)
	out := make([][]T, len(spans)/wide)
	for i := range out {
		out[i] = spans[i*len(spans)/len(out) : (i+1)*len(spans)/len(out)]
	}
	return out
}

// Estimate is how exactly a quantile is known.
type Estimate struct {
	// Low and High are proportions of all samples: the true quantile lies, with the confidence,
	// between the values of the samples at these proportions.
	Low, High float64
	// Draws is how many independent samples the sample is worth.
	Draws float64
	// Open reports whether the sample cannot carry the quantile. High is then no bound.
	Open bool
}

// Of returns how exactly quantile p is known, from counts around the value that estimates it.
func Of(p float64, blocks []Block) Estimate {
	m := float64(len(blocks))
	if m < 2 {
		return Estimate{High: 1, Open: true}
	}
	// Samples of the same value lie on one side or the other: the side that says less counts.
	effect := max(
		designEffect(blocks, func(b Block) int64 { return b.AtMost }),
		designEffect(blocks, func(b Block) int64 { return b.Below }),
	)
	var n float64
	for _, b := range blocks {
		n += float64(b.All)
	}
	// A variance that is itself an estimate takes a wider interval.
	few := dist.NormalQuantile((1+Confidence)/2) / dist.StudentQuantile((1+Confidence)/2, m-1)
	draws := n
	if effect > 0 {
		draws = min(n, n/effect*few*few)
	}
	e := Independent(p, draws)
	e.Open = e.Open || len(blocks) < LeastBlocks
	return e
}

// Independent returns how exactly quantile p is known from so many independent samples.
func Independent(p, draws float64) Estimate {
	tail, below := (1-Confidence)/2, p*draws
	return Estimate{
		Low:   dist.BetaQuantile(tail, below, draws-below+1),
		High:  dist.BetaQuantile(1-tail, below+1, draws-below),
		Draws: draws,
		Open:  draws*(1-p) < LeastBeyond,
	}
}

// designEffect is how many times as large the variance of the proportion of counted samples is as it
// were if all samples were independent; 0 if none or all are counted.
func designEffect(blocks []Block, counted func(Block) int64) float64 {
	var all, hits float64
	for _, b := range blocks {
		all += float64(b.All)
		hits += float64(counted(b))
	}
	share := hits / all
	if hits == 0 || hits == all {
		return 0
	}
	// The residuals of the ratio estimator add up to 0.
	rest := make([]float64, len(blocks))
	var same float64
	for i, b := range blocks {
		rest[i] = float64(counted(b)) - share*float64(b.All)
		same += rest[i] * rest[i]
	}
	m := float64(len(blocks))
	variance := same * m / (m - 1) / (all * all) * inflation(rest, mostMemory)
	return variance / (share * (1 - share) / all)
}

// inflation is by how much the variance of a sum of values with mean 0 grows because each follows
// its predecessor, with a correlation of at most most; at least 1.
func inflation(rest []float64, most float64) float64 {
	var same, next float64
	for i, x := range rest {
		same += x * x
		if i > 0 {
			next += x * rest[i-1]
		}
	}
	if same == 0 {
		return 1
	}
	memory := next / same
	memory += (1 + 3*memory) / float64(len(rest)) // Kendall's correction of its bias in a short series
	memory = min(max(memory, 0), most)
	return (1 + memory) / (1 - memory)
}

// Trend returns how likely values in order of time rise or fall together as much as these do if
// nothing changes: the test of Mann and Kendall, corrected for values that follow their
// predecessors.
func Trend(values []float64) float64 {
	n := float64(len(values))
	if n < LeastBlocks {
		return 1
	}
	var s float64
	var slopes []float64
	for i := range values {
		for k := range i {
			d := values[i] - values[k]
			slopes = append(slopes, d/float64(i-k))
			switch {
			case d > 0:
				s++
			case d < 0:
				s--
			}
		}
	}
	slices.Sort(slopes)
	// The median change from one value to the next, of Theil and Sen.
	slope := (slopes[(len(slopes)-1)/2] + slopes[len(slopes)/2]) / 2
	rest := make([]float64, len(values))
	mean := 0.0
	for i, v := range values {
		rest[i] = v - slope*float64(i)
		mean += rest[i]
	}
	for i := range rest {
		rest[i] -= mean / n
	}
	sd := math.Sqrt(n * (n - 1) * (2*n + 5) / 18 * inflation(rest, mostMemoryOfTrend))
	return math.Erfc(max(0, math.Abs(s)-1) / sd / math.Sqrt2)
}
