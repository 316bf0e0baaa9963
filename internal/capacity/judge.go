package capacity

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter/results"
)

// Measured holds the figures of a step that decide its verdict.
type Measured struct {
	// Latency is scheduled → received, each quantile that of the worst lane.
	Latency results.Quantiles
	// Expected deliveries, and those missing at the end of the drain.
	Expected, Lost int64
	// Published events, and those of them that the upstream did not confirm.
	Fired, Failed int64
	// Dropped is the share of events that were never published.
	Dropped float64
	// Offered is the number of deliveries due per second. Growth is the growth of the
	// backlog in deliveries per second, GrowthError its standard error.
	Offered, Growth, GrowthError float64
	// Bottleneck lists why the generator's figures cannot be trusted; empty if they
	// can.
	Bottleneck []string
	// Broken lists bounds that the caller judged and that were not met.
	Broken []string
	// Unjudged lists lanes without evidence, and why.
	Unjudged []string
}

// maxDropped is the share of events that may be dropped from a load that still counts as applied.
const maxDropped = 0.01

// Judge compares a step with the SLO. A load that was applied and met the SLO has passed, whatever
// the generator's health: an unhealthy generator makes figures worse, not better. A load that did
// not meet it has failed only if the generator was healthy. A load without evidence on some lane
// has not passed. The reasons name what was not met.
func Judge(l *results.CapacitySLO, m *Measured) (Verdict, []string) {
	reasons := append(broken(l, m), m.Broken...)
	if m.Dropped > maxDropped {
		return Unclear, append(
			reasons,
			fmt.Sprintf("%.1f %% of the events were never published, so the load was not applied", 100*m.Dropped),
		)
	}
	if m.Expected == 0 && len(reasons) == 0 {
		return Unclear, []string{"nothing was owed to any lane, so there is no evidence"}
	}
	reasons = append(reasons, m.Unjudged...)
	switch {
	case len(reasons) == 0:
		return Passed, nil
	case len(reasons) == len(m.Unjudged):
		return Unclear, reasons
	case len(m.Bottleneck) > 0:
		return Unclear, append(reasons, "the generator may be the cause: "+strings.Join(m.Bottleneck, "; "))
	}
	return Failed, reasons
}

// digits formats x with n significant digits, and with all digits before the point: %.2g of a
// hundred would be 1e+02.
func digits(x float64, n int) string {
	if math.Abs(x) >= math.Pow10(n-1) {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', n, 64)
}

// broken lists the violations of the SLO.
func broken(l *results.CapacitySLO, m *Measured) []string {
	var out []string
	for i, is := range m.Latency.All() {
		if limit := l.Bounds()[i].Value; limit > 0 && is.Value >= limit {
			out = append(out, fmt.Sprintf("%s %s, limit %s", is.Label(), short(is.Value.Duration()), short(limit.Duration())))
		}
	}
	missing := func(lost, of int64, what string) {
		if loss := results.ShareOf(lost, of); loss > l.Loss {
			out = append(out, fmt.Sprintf("%d of %d %s (%s %%, limit %s %%)", lost, of, what, digits(100*loss, 2), digits(100*l.Loss, 2)))
		}
	}
	missing(m.Lost, m.Expected, "deliveries missing after the drain")
	missing(m.Failed, m.Fired, "events not confirmed")
	if m.Offered > 0 && m.Growth > l.Backlog*m.Offered && m.Growth > 2*m.GrowthError {
		out = append(
			out,
			fmt.Sprintf(
				"backlog grows by %s deliveries/s, %.1f %% of the offered rate (limit %.1f %%)",
				digits(m.Growth, 3),
				100*m.Growth/m.Offered,
				100*l.Backlog,
			),
		)
	}
	return out
}

func short(d time.Duration) string {
	if d >= 10*time.Millisecond {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(10 * time.Microsecond).String()
}

// Reading is how much was owed and not yet delivered at one moment.
type Reading struct {
	At          time.Duration
	Outstanding float64
}

const (
	minBins = 4
	maxBins = 12
)

// Growth is the slope of a backlog per second, with its standard error. The backlog of a burst
// rises and falls with the schedule, so the readings are divided into bins of at least one period,
// and the minimum of each bin counts. ok is false when there are too few readings.
func Growth(readings []Reading, period time.Duration) (perSecond, stderr float64, ok bool) {
	if len(readings) < minBins {
		return 0, 0, false
	}
	first, last := readings[0].At, readings[len(readings)-1].At
	window := last - first
	bins := min(maxBins, len(readings)/3)
	if period > 0 {
		bins = min(bins, int(window/period))
	}
	if bins < minBins {
		return slope(readings)
	}
	least := make([]Reading, 0, bins)
	in := -1
	for _, r := range readings {
		b := min(bins-1, int(int64(r.At-first)*int64(bins)/int64(window)))
		if b != in {
			least, in = append(least, r), b
		} else if p := &least[len(least)-1]; r.Outstanding < p.Outstanding {
			*p = r
		}
	}
	return slope(least)
}

// slope is the least squares line through the readings.
func slope(readings []Reading) (perSecond, stderr float64, ok bool) {
	n := float64(len(readings))
	var mt, mo float64
	for _, r := range readings {
		mt += r.At.Seconds() / n
		mo += r.Outstanding / n
	}
	var tt, to float64
	for _, r := range readings {
		t := r.At.Seconds() - mt
		tt += t * t
		to += t * (r.Outstanding - mo)
	}
	if n < 3 || tt == 0 {
		return 0, 0, false
	}
	b := to / tt
	var off float64
	for _, r := range readings {
		d := r.Outstanding - mo - b*(r.At.Seconds()-mt)
		off += d * d
	}
	return b, math.Sqrt(off / (n - 2) / tt), true
}
