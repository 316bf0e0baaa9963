// Package interval says how exactly the quantiles of one run are known.
//
// The samples of a run are not independent: an event that was slow was slow for every subscriber,
// and a busy second makes all of its events slow. A run is therefore cut into blocks of consecutive
// time, and what differs between blocks says how many independent samples the run is worth. The
// method is the interval of a proportion in a clustered sample (E. L. Korn and B. I. Graubard, 1998),
// turned into one of a quantile (R. S. Woodruff, 1952).
package interval

import (
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
	// mostMemory bounds the correlation of neighbouring blocks.
	mostMemory = 0.9
)

// Block counts the samples of one stretch of time: all of them, those below the value of a
// quantile, and those at most as large.
type Block struct{ All, Below, AtMost int64 }

// Blocks merges neighbours of spans, which are in order of time, until there are about 30 blocks.
// Spans without samples are left out.
func Blocks(spans []Block) []Block {
	var some []Block
	for _, s := range spans {
		if s.All > 0 {
			some = append(some, s)
		}
	}
	wide := max(1, (len(some)+wantBlocks/2)/wantBlocks)
	out := make([]Block, len(some)/wide)
	for i := range out {
		for _, s := range some[i*len(some)/len(out) : (i+1)*len(some)/len(out)] {
			out[i].All += s.All
			out[i].Below += s.Below
			out[i].AtMost += s.AtMost
		}
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
	effect := max(designEffect(blocks, func(b Block) int64 { return b.AtMost }), designEffect(blocks, func(b Block) int64 { return b.Below }))
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
	m := float64(len(blocks))
	var same, next, last float64
	for i, b := range blocks {
		rest := float64(counted(b)) - share*float64(b.All)
		same += rest * rest
		if i > 0 {
			next += rest * last
		}
		last = rest
	}
	variance := same * m / (m - 1) / (all * all)
	if same > 0 {
		memory := next / same
		memory += (1 + 3*memory) / m // Kendall's correction of its bias in a short series
		memory = min(max(memory, 0), mostMemory)
		variance *= (1 + memory) / (1 - memory)
	}
	return variance / (share * (1 - share) / all)
}
