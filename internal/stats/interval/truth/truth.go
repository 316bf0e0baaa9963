// Package truth simulates runs whose true quantiles are known, to measure how often an interval
// covers them.
package truth

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/eventmeter/eventmeter/internal/stats/dist"
	"github.com/eventmeter/eventmeter/internal/stats/interval"
)

// spans is how many intervals a simulated run has, as a run of two minutes or more.
const spans = 120

// A Model is a way in which latencies come about.
type Model struct {
	Name  string
	About string
	// draw returns the latencies of a run, in order of time, by interval, of which there are spans.
	draw func(rng *rand.Rand, spans int) [][]float64
	// cdf is the true share of latencies that are at most x.
	cdf func(x float64) float64
}

// Models are the truths of the study. Latencies are log-normal around 1.
var Models = []Model{
	{"iid", "24,000 independent events", events(200, 1, 0, 0), normal},
	{"clustered", "6,000 events, each to 5 subscribers: 90 % of the variance is between events", events(50, 5, 0.9, 0), normal},
	{"clustered-wide", "1,200 events, each to 30 subscribers: 90 % of the variance is between events", events(10, 30, 0.9, 0), normal},
	{"ar1-0.5", "6,000 events, each with a correlation of 0.5 to the one before", events(50, 1, 0, 0.5), normal},
	{"ar1-0.8", "6,000 events, each with a correlation of 0.8 to the one before", events(50, 1, 0, 0.8), normal},
	{"slow", "6,000 events; 30 % of the variance is between intervals, each with a correlation of 0.8 to the one before", waves, normal},
	{"bursty", "30 events in a quiet interval, 150 in a burst, in which they take twice as long", bursts, bursty},
}

// sigma is the standard deviation of the logarithms.
const sigma = 0.5

func normal(x float64) float64 { return math.Erfc(-math.Log(x)/sigma/math.Sqrt2) / 2 }

// events simulates a run with so many events in an interval, each delivered to fanOut subscribers.
// shared is the part of the variance that an event's deliveries share, memory the correlation of
// an event with the one before.
func events(each, fanOut int, shared, memory float64) func(*rand.Rand, int) [][]float64 {
	return func(rng *rand.Rand, spans int) [][]float64 {
		out := make([][]float64, spans)
		last := rng.NormFloat64()
		for i := range out {
			out[i] = make([]float64, 0, each*fanOut)
			for range each {
				last = memory*last + math.Sqrt(1-memory*memory)*rng.NormFloat64()
				for range fanOut {
					z := last
					if shared > 0 {
						z = math.Sqrt(shared)*last + math.Sqrt(1-shared)*rng.NormFloat64()
					}
					out[i] = append(out[i], math.Exp(sigma*z))
				}
			}
		}
		return out
	}
}

// waves simulates a machine whose load changes slowly.
func waves(rng *rand.Rand, spans int) [][]float64 {
	const each, shared, memory = 50, 0.3, 0.8
	out := make([][]float64, spans)
	wave := rng.NormFloat64()
	for i := range out {
		wave = memory*wave + math.Sqrt(1-memory*memory)*rng.NormFloat64()
		for range each {
			out[i] = append(out[i], math.Exp(sigma*(math.Sqrt(shared)*wave+math.Sqrt(1-shared)*rng.NormFloat64())))
		}
	}
	return out
}

// The bursts of the model bursty: an interval is in a burst with this chance, and stays in it.
const (
	burstStarts, burstEnds   = 0.1, 0.5
	quietEvents, burstEvents = 30, 150
	burstSlower              = 2
)

func bursts(rng *rand.Rand, spans int) [][]float64 {
	out := make([][]float64, spans)
	burst := rng.Float64() < burstStarts/(burstStarts+burstEnds)
	for i := range out {
		n, slower := quietEvents, 1.0
		if burst {
			n, slower = burstEvents, burstSlower
		}
		for range n {
			out[i] = append(out[i], slower*math.Exp(sigma*rng.NormFloat64()))
		}
		if burst {
			burst = rng.Float64() >= burstEnds
		} else {
			burst = rng.Float64() < burstStarts
		}
	}
	return out
}

// bursty weighs quiet and burst by their events.
func bursty(x float64) float64 {
	share := burstStarts * burstEvents / (burstStarts*burstEvents + burstEnds*quietEvents)
	return share*normal(x/burstSlower) + (1-share)*normal(x)
}

// Quantile is the true quantile p of a model.
func (m Model) Quantile(p float64) float64 {
	return dist.Bisect(1e-3, 1e3, func(x float64) float64 { return m.cdf(x) - p })
}

// Coverage is how intervals fared in simulated runs.
type Coverage struct {
	Runs    int
	Covered int // runs whose interval covers the truth
	Open    int // runs whose sample was said not to carry the quantile
	// Width is the median of high/low of the intervals that are not open.
	Width float64
	// Naive counts the runs whose truth was covered by the interval that takes every delivery for
	// independent.
	Naive int
	// Trends counts the runs whose blocks seem to rise or fall, at one in 1,000.
	Trends int
}

// Measure simulates runs of the model and counts, for each quantile, how often its interval covers
// the truth. An interval that is open covers everything above its lower end.
func (m Model) Measure(runs int, quantiles []float64, seed uint64) []Coverage {
	out := make([]Coverage, len(quantiles))
	widths := make([][]float64, len(quantiles))
	truths := make([]float64, len(quantiles))
	for k, p := range quantiles {
		truths[k] = m.Quantile(p)
	}
	for run := range runs {
		var blocks [][]float64
		for _, group := range interval.Group(m.draw(rand.New(rand.NewPCG(seed, uint64(run))), spans)) {
			block := slices.Concat(group...)
			slices.Sort(block)
			blocks = append(blocks, block)
		}
		all := slices.Concat(blocks...)
		slices.Sort(all)
		for k, p := range quantiles {
			e := interval.Of(p, countsAround(blocks, at(all, p)))
			low, high := at(all, e.Low), at(all, e.High)
			c := &out[k]
			c.Runs++
			open := e.Open
			if low <= truths[k] && (open || truths[k] <= high) {
				c.Covered++
			}
			if e = interval.Independent(p, float64(len(all))); at(all, e.Low) <= truths[k] && truths[k] <= at(all, e.High) {
				c.Naive++
			}
			if trend(blocks, p) < 0.001 {
				c.Trends++
			}
			if open {
				c.Open++
			} else {
				widths[k] = append(widths[k], high/low)
			}
		}
	}
	for k, w := range widths {
		if slices.Sort(w); len(w) > 0 {
			out[k].Width = w[len(w)/2]
		}
	}
	return out
}

// MostSpans is the length of a run with phases.until at the bound, leastSpans that at the least, in intervals of time, as with
// the default bound of ten times the least length.
const leastSpans, MostSpans = 36, 360

// Stopped is how runs fared that went on until an interval was narrow.
type Stopped struct {
	Runs    int
	Reached int // runs in which it became narrow before the bound
	Covered int // runs whose last interval covers the truth
	// Within counts those that reached it and whose quantile is as near to the truth as was asked.
	Within int
	Spans  int // median length
}

// Until simulates runs that go on until half of the width of the interval of quantile p is at most
// within of the quantile at all looks while the run became so many times as long, as phases.until
// does. With growth 1 a single look is enough.
func (m Model) Until(runs int, growth, p, within float64, seed uint64) Stopped {
	out, truth := Stopped{Runs: runs}, m.Quantile(p)
	var lengths []int
	for run := range runs {
		var sorted [][]float64
		var all []float64
		draws := m.draw(rand.New(rand.NewPCG(seed, uint64(run))), MostSpans)
		since := 0 // length at the first of the looks in a row that found it narrow; 0 = none did
		for n := int(leastSpans / growth); ; n = min(n+max(n/20, 3), MostSpans) {
			fresh := draws[len(sorted):n]
			for _, span := range fresh {
				slices.Sort(span)
			}
			sorted = append(sorted, fresh...)
			all = merged(all, slices.Concat(fresh...))
			value := at(all, p)
			e := interval.Of(p, grouped(countsAround(sorted, value)))
			low, high := at(all, e.Low), at(all, e.High)
			if e.Open || (high-low)/2 > within*value {
				since = 0
			} else if since == 0 {
				since = n
			}
			known := since > 0 && n >= leastSpans && float64(n) >= growth*float64(since)
			if !known && n < MostSpans {
				continue
			}
			if low <= truth && (e.Open || truth <= high) {
				out.Covered++
			}
			if known {
				out.Reached++
				if math.Abs(value-truth) <= within*value {
					out.Within++
				}
			}
			lengths = append(lengths, n)
			break
		}
	}
	slices.Sort(lengths)
	out.Spans = lengths[len(lengths)/2]
	return out
}

// merged adds values to sorted ones.
func merged(sorted, more []float64) []float64 {
	slices.Sort(more)
	out := make([]float64, 0, len(sorted)+len(more))
	for _, x := range sorted {
		for len(more) > 0 && more[0] < x {
			out, more = append(out, more[0]), more[1:]
		}
		out = append(out, x)
	}
	return append(out, more...)
}

// grouped adds up the counts of the intervals of time of each block.
func grouped(counts []interval.Block) []interval.Block {
	var out []interval.Block
	for _, group := range interval.Group(counts) {
		var b interval.Block
		for _, c := range group {
			b.All, b.Below, b.AtMost = b.All+c.All, b.Below+c.Below, b.AtMost+c.AtMost
		}
		out = append(out, b)
	}
	return out
}

// at is the value at a proportion of sorted samples.
func at(sorted []float64, p float64) float64 {
	return sorted[min(max(int(p*float64(len(sorted))+0.5), 1), len(sorted))-1]
}

// trend returns how likely the quantiles of sorted blocks rise or fall as much by chance.
func trend(blocks [][]float64, p float64) float64 {
	var values []float64
	for _, block := range blocks {
		values = append(values, math.Log(at(block, p)))
	}
	chance := interval.Trend(values)
	return chance
}

// countsAround counts the samples of sorted blocks around a value.
func countsAround(blocks [][]float64, x float64) []interval.Block {
	var out []interval.Block
	for _, block := range blocks {
		below, _ := slices.BinarySearch(block, x)
		atMost, _ := slices.BinarySearch(block, math.Nextafter(x, math.Inf(1)))
		out = append(out, interval.Block{All: int64(len(block)), Below: int64(below), AtMost: int64(atMost)})
	}
	return out
}
