package main

import (
	"fmt"
	"math"
	"slices"
)

// slope fits CPU seconds per second to refreshes per second in the runs of a repeat, by least squares.
func (s *ttlStudy) slope(repeat int) (perRefresh, base float64) {
	var n, sx, sy, sxx, sxy float64
	for _, c := range s.Costs {
		if c.Repeat == repeat {
			x, y := c.Refreshes/c.Seconds, c.CPU/c.Seconds
			n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
		}
	}
	d := n*sxx - sx*sx
	if d == 0 {
		return math.NaN(), math.NaN()
	}
	perRefresh = (n*sxy - sx*sy) / d
	return perRefresh, (sy - perRefresh*sx) / n
}

// refreshesPer1000 is the closed form of refreshes per 1,000 subscription-hours; 0 without expiry.
func refreshesPer1000(ttl, refreshAt, jitter float64) float64 {
	if ttl == 0 {
		return 0
	}
	return 1000 * 3600 / (ttl * meanInterval(refreshAt, jitter))
}

// ttlFigures are what the page says of the costs.
type ttlFigures struct {
	cpu   spread  // seconds for a refresh, of the repeats
	base  float64 // CPU seconds per second without refreshes
	bytes float64 // of a refresh
	most  float64 // largest share by which refreshes miss the closed form, where a window has two intervals
	off   float64 // largest share by which CPU misses the fit, of the largest CPU
}

func (s *ttlStudy) figures() (f ttlFigures) {
	var slopes, bases, bytes []float64
	for repeat := 1; ; repeat++ {
		if !slices.ContainsFunc(s.Costs, func(c ttlCost) bool { return c.Repeat == repeat }) {
			break
		}
		per, base := s.slope(repeat)
		slopes, bases = append(slopes, per), append(bases, base)
	}
	f.cpu, f.base = spreadOf(slopes), spreadOf(bases).Median
	var largest float64
	for _, c := range s.Costs {
		largest = max(largest, c.CPU/c.Seconds)
		if c.RefreshBytes > 0 {
			bytes = append(bytes, c.RefreshBytes)
		}
		interval := c.TTL * meanInterval(s.RefreshAt, defaultJitter)
		if c.TTL > 0 && c.Seconds >= 2*interval {
			want := float64(c.Subscriptions) * c.Seconds / interval
			f.most = max(f.most, math.Abs(c.Refreshes/want-1))
		}
	}
	for _, c := range s.Costs {
		f.off = max(f.off, math.Abs(c.CPU/c.Seconds-f.base-f.cpu.Median*c.Refreshes/c.Seconds)/largest)
	}
	if len(bytes) > 0 {
		f.bytes = spreadOf(bytes).Median
	}
	return f
}

// smallest returns the smallest jitter in the sweep whose peak is below twice the mean; NaN if none is.
func (s *ttlStudy) smallest(of func(*ttlHerd) float64) float64 {
	least := math.NaN()
	for i := range s.Herds {
		if h := &s.Herds[i]; of(h) < 2*h.mean(s.RefreshAt) && !(least <= h.Jitter) {
			least = h.Jitter
		}
	}
	return least
}

// simulations is the number of simulations of a run.
func (s *ttlStudy) simulations() int {
	if len(s.Herds) == 0 {
		return 0
	}
	return s.Herds[0].Peak.N
}

func measuredPeak(h *ttlHerd) float64 { return peak(h.PerSecond) }
func expectedPeak(h *ttlHerd) float64 { return h.Peak.Median }

func inPercent(v float64) string {
	if math.IsNaN(v) {
		return "no share that was tried"
	}
	return number(v*100) + " %"
}

func (s *ttlStudy) write(p *page) {
	f := s.figures()
	p.answer("**A refresh costs the server %s ms of CPU and %s bytes on the wire, so 1,000 subscriptions cost %s CPU-seconds an hour with a TTL of 5 minutes and %s with a TTL of 10 seconds.** "+
		"After a common start, a jitter of %s of the grant was the smallest tried that keeps the peak of refreshes below twice the mean.",
		number(f.cpu.Median*1e3), number(f.bytes), number(f.cpu.Median*refreshesPer1000(300, s.RefreshAt, defaultJitter)), number(f.cpu.Median*refreshesPer1000(10, s.RefreshAt, defaultJitter)), inPercent(s.smallest(measuredPeak)))
	p.text("Clients refresh at %s of the grant, less a jitter that is uniform for each refresh. The draft of MCP Events asks for no jitter.", inPercent(s.RefreshAt))
	s.writeCosts(p, f)
	s.writeHerd(p)
	s.writeAbandoned(p)
	p.changesIt("A server that stores subscriptions in a database pays for a write at each refresh; the reference server keeps them in memory.")
	p.changesIt("Clients that refresh at another share of the grant: the smallest jitter is 0.4 of that share, whatever the TTL.")
	p.changesIt("Refreshes that must prove the callback again cost a delivery more; the reference server asks for the proof once.")
}

func (s *ttlStudy) writeCosts(p *page, f ttlFigures) {
	p.heading("The cost of refreshes")
	p.text("Expected before the measurement: the cost is that of the refreshes, 3,600 / (TTL × %s) for each subscription and hour, so it is proportional to 1/TTL.", number(meanInterval(s.RefreshAt, defaultJitter)))
	if f.most < 0.1 && f.off < 0.1 {
		p.text("That held: the refreshes were within %s of the closed form where the window has two intervals, and the server's CPU within %s of the largest from a line over the refreshes.", inPercent(f.most), inPercent(f.off))
	} else {
		p.text("That did not hold well: the refreshes were up to %s off the closed form where the window has two intervals, and the server's CPU was up to %s of the largest off a line over the refreshes; 10 %% was allowed for each.", inPercent(f.most), inPercent(f.off))
	}
	measured := series{name: "measured: CPU for each refresh of the run × refreshes an hour"}
	fit := series{name: "expected: cost of a refresh × 3,600 / mean interval (computed beyond the measured TTLs)", expected: true}
	var rows [][]string
	for _, c := range s.Costs {
		hours := float64(c.Subscriptions) * c.Seconds / 3600 / 1000
		text := "none"
		if c.TTL > 0 {
			text = number(c.TTL) + " s"
			if c.Refreshes > 0 { // a long TTL may have none in the window
				measured.points = append(measured.points, point{x: c.TTL, y: (c.CPU - f.base*c.Seconds) / c.Refreshes * refreshesPer1000(c.TTL, s.RefreshAt, defaultJitter)})
			}
		}
		rows = append(rows, []string{text, count(c.Subscriptions), number(c.Seconds), number(c.Refreshes), number(c.CPU), number(c.CPU / hours), number(c.Stored)})
	}
	for _, ttl := range []float64{10, 20, 40, 60, 120, 300, 600, 1800, 3600, 10000} {
		fit.points = append(fit.points, point{x: ttl, y: f.cpu.Median * refreshesPer1000(ttl, s.RefreshAt, defaultJitter)})
	}
	measured.points = byX(measured.points)
	p.chart("cost", "CPU-seconds of the server for 1,000 subscription-hours over the TTL: measured points and the expected line", chart{
		title: "What a TTL costs the server", x: axis{title: "TTL, seconds", log: true}, y: axis{title: "CPU-seconds per 1,000 subscription-hours", log: true}, series: []series{measured, fit},
	})
	p.table([]string{"TTL", "subscriptions", "seconds", "refreshes", "CPU-seconds", "per 1,000 subscription-hours, all", "stored at the end"}, rows)
	p.text("The CPU of a refresh is the slope over all TTLs, %s ms (median and range of the repeats). Without refreshes the server used %s of a core, for the deliveries of one event a second among others. **Computed from it, not measured:**", spread{f.cpu.Median * 1e3, f.cpu.Low * 1e3, f.cpu.High * 1e3, f.cpu.N}, number(f.base))
	rows = nil
	for _, ttl := range []float64{10, 60, 300, 1800, 3600, 86400, 0} {
		n := refreshesPer1000(ttl, s.RefreshAt, defaultJitter)
		text := "none"
		if ttl > 0 {
			text = number(ttl) + " s"
		}
		rows = append(rows, []string{text, number(n), number(n * f.cpu.Median), number(n * f.bytes / (1 << 20))})
	}
	p.table([]string{"TTL", "refreshes per 1,000 subscription-hours", "CPU-seconds", "MiB"}, rows)
}

func (s *ttlStudy) writeHerd(p *page) {
	p.heading("After a common start")
	want, got := s.smallest(expectedPeak), s.smallest(measuredPeak)
	p.text("Expected: opened at one instant, the first refreshes are spread evenly over the jitter, so the peak is (%s − j/2)/j times the mean, which falls to 2 at j = %s of the grant. An opening that itself takes time helps; the simulation has the opening of each run.", number(s.RefreshAt), number(smallestJitter(s.RefreshAt)))
	n := 0
	for i := range s.Herds {
		if h := &s.Herds[i]; measuredPeak(h) >= 0.95*h.Peak.Low && measuredPeak(h) <= 1.05*h.Peak.High {
			n++
		}
	}
	p.text("Expected: the largest second of each run is within the range of %d simulations, or at most 5 %% beyond it. %s The smallest jitter of the sweep with a peak below twice the mean is %s as measured, and %s in the simulation, where chance adds to the peak.", s.simulations(), verdict(n, len(s.Herds), "runs"), inPercent(got), inPercent(want))
	measured, simulated := series{name: "measured"}, series{name: "simulated, with the opening of the run", expected: true}
	closed, limit := series{name: "closed form, all at one instant: (refreshAt − j/2)/j", expected: true}, series{name: "twice the mean", expected: true}
	over := chart{title: "Refreshes after a common start", x: axis{title: "seconds since all were open"}, y: axis{title: "refreshes per second, over their mean"}}
	var rows [][]string
	for i := range s.Herds {
		h := &s.Herds[i]
		m := h.mean(s.RefreshAt)
		measured.points = append(measured.points, point{x: h.Jitter, y: measuredPeak(h) / m})
		simulated.points = append(simulated.points, point{x: h.Jitter, y: expectedPeak(h) / m})
		limit.points = append(limit.points, point{x: h.Jitter, y: 2})
		if h.Jitter >= 0.1 {
			closed.points = append(closed.points, point{x: h.Jitter, y: peakOverMean(s.RefreshAt, h.Jitter)})
		}
		rows = append(rows, []string{inPercent(h.Jitter), count(h.Subscriptions), number(h.Opening), number(m), number(measuredPeak(h)), number(measuredPeak(h) / m), number(expectedPeak(h) / m), fmt.Sprintf("%+.0f %%", 100*(meanInterval(s.RefreshAt, 0)/meanInterval(s.RefreshAt, h.Jitter)-1))})
		if h.Jitter == 0 || h.Jitter == 0.1 || h.Jitter == 0.4 {
			line := series{name: "jitter " + inPercent(h.Jitter)}
			dashed := series{name: "simulated, jitter " + inPercent(h.Jitter), expected: true}
			for k, n := range h.PerSecond {
				line.points = append(line.points, point{x: float64(k) + 0.5, y: n / m})
				dashed.points = append(dashed.points, point{x: float64(k) + 0.5, y: h.Expected[k] / m})
			}
			over.series = append(over.series, line, dashed)
		}
	}
	p.chart("herd", "refreshes in each second after a common start, for three jitters, measured and simulated", over)
	p.chart("jitter", "peak over mean against the jitter: measured, simulated, closed form, and the limit of 2", chart{
		title: "The peak against the jitter", x: axis{title: "jitter, share of the grant"}, y: axis{title: "largest second over the mean"}, series: []series{measured, simulated, closed, limit},
	})
	p.table([]string{"jitter", "subscriptions", "opening, s", "mean per s", "largest second", "over the mean", "simulated", "more refreshes for it"}, rows)
	p.text("Jitter is not free: a refresh that comes earlier comes more often. The last column is that cost, by the closed form.")
}

func (s *ttlStudy) writeAbandoned(p *page) {
	p.heading("Abandoned subscriptions")
	p.text("A fifth of the subscriptions that end do so without unsubscribing. Expected: stored = live + abandoned per second × what is left of a grant, which is the TTL less half of the mean interval. Without an expiry no subscription is ever removed, and the number grows for as long as the server runs.")
	measured, expected, upper := series{name: "measured"}, series{name: "expected: rate × (TTL − half of the interval)", expected: true}, series{name: "upper bound: rate × TTL", expected: true}
	worst := 0.0
	var rows [][]string
	for _, a := range s.Abandoned {
		want := storedExpected(a.Live, a.Rate, a.TTL, s.RefreshAt, defaultJitter)
		extra := want - float64(a.Live)
		// Abandoned ones come and go at random: two standard deviations of a Poisson number are chance.
		if off := math.Abs(a.Stored - want); extra > 0 {
			worst = max(worst, off/(2*math.Sqrt(extra)+0.1*extra))
		}
		measured.points = append(measured.points, point{x: a.TTL, y: a.Stored - float64(a.Live)})
		expected.points = append(expected.points, point{x: a.TTL, y: extra})
		upper.points = append(upper.points, point{x: a.TTL, y: a.Rate * a.TTL})
		rows = append(rows, []string{number(a.TTL) + " s", count(a.Live), number(a.Rate), number(a.Stored), number(want), number(a.Failed)})
	}
	if worst <= 1 {
		p.text("That held: every run was within a tenth and two standard deviations of it.")
	} else {
		p.text("That did not hold: one run was %s times as far off as a tenth and two standard deviations allow.", number(worst))
	}
	p.chart("stored", "stored subscriptions beyond the live ones over the TTL, measured and expected", chart{
		title: "Abandoned subscriptions that are stored", x: axis{title: "TTL, seconds"}, y: axis{title: "stored beyond the live ones"}, series: []series{measured, expected, upper},
	})
	p.table([]string{"TTL", "live", "abandoned per s", "stored", "expected", "failed attempts per s"}, rows)
}
