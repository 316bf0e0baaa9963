package capacity

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// SLO is the SLO that a load must meet. Latencies are from
// intended, of the worst lane; 0 asks for nothing.
type SLO struct {
	P50, P90, P99, P999 time.Duration
	// Loss is the largest share of the owed deliveries that may be missing when
	// the drain is over, and of the events that may fail to be fired.
	Loss float64
	// Backlog is the largest growth of what is owed and not yet delivered, as a
	// share of what is offered.
	Backlog float64
}

// Measured is what one step found, as far as it decides.
type Measured struct {
	// The worst lane's latencies from intended.
	P50, P90, P99, P999 time.Duration
	// Expected deliveries, and those that had not come by the end of the drain.
	Expected, Lost int64
	// Fired events, and those of them that the upstream did not take for sure.
	Fired, Failed int64
	// Dropped is the share of the emissions that were never fired.
	Dropped float64
	// Offered is deliveries per second; Growth is that of the backlog, in
	// deliveries per second, with its standard error.
	Offered, Growth, GrowthError float64
	// Bottleneck is why the generator is not to be trusted; empty if it is.
	Bottleneck []string
	// Unjudged says of which lanes nothing is known, and why; empty if there are
	// none.
	Unjudged []string
}

// maxDropped is the share of the emissions that may be missing from a load that
// counts as put on.
const maxDropped = 0.01

// Judge holds a step against the SLO. A load that was put on and met the
// level has passed, however the generator fared: a bad generator makes
// figures worse, not better. One that did not meet it has failed only if the
// generator was sound. A load of which nothing is known on some lane has not
// passed. The reasons say what was not met.
func (l SLO) Judge(m Measured) (Verdict, []string) {
	reasons := l.broken(m)
	if m.Dropped > maxDropped {
		return Unclear, append(reasons, fmt.Sprintf("%.1f %% of the events were never published, so the load was not put on", 100*m.Dropped))
	}
	if m.Expected == 0 && len(reasons) == 0 {
		return Unclear, []string{"nothing was owed to anybody, so nothing is known"}
	}
	reasons = append(reasons, m.Unjudged...)
	switch {
	case len(reasons) == 0:
		return Passed, nil
	case len(reasons) == len(m.Unjudged):
		return Unclear, reasons
	case len(m.Bottleneck) > 0:
		return Unclear, append(reasons, "the generator may be why: "+strings.Join(m.Bottleneck, "; "))
	}
	return Failed, reasons
}

// broken lists what the SLO does not allow.
func (l SLO) broken(m Measured) []string {
	var out []string
	for _, q := range []struct {
		name      string
		limit, is time.Duration
	}{{"p50", l.P50, m.P50}, {"p90", l.P90, m.P90}, {"p99", l.P99, m.P99}, {"p99.9", l.P999, m.P999}} {
		if q.limit > 0 && q.is >= q.limit {
			out = append(out, fmt.Sprintf("%s %s, limit %s", q.name, short(q.is), short(q.limit)))
		}
	}
	if loss := share(m.Lost, m.Expected); loss > l.Loss {
		out = append(out, fmt.Sprintf("%d of %d deliveries missing after the drain (%.2g %%, limit %.2g %%)", m.Lost, m.Expected, 100*loss, 100*l.Loss))
	}
	if failed := share(m.Failed, m.Fired); failed > l.Loss {
		out = append(out, fmt.Sprintf("%d of %d events not taken for sure (%.2g %%, limit %.2g %%)", m.Failed, m.Fired, 100*failed, 100*l.Loss))
	}
	if m.Offered > 0 && m.Growth > l.Backlog*m.Offered && m.Growth > 2*m.GrowthError {
		out = append(out, fmt.Sprintf("backlog grows by %.3g deliveries/s, %.1f %% of what is offered (limit %.1f %%)", m.Growth, 100*m.Growth/m.Offered, 100*l.Backlog))
	}
	return out
}

func share(part, whole int64) float64 {
	if whole <= 0 {
		return 0
	}
	return float64(part) / float64(whole)
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

// Growth is the slope of a backlog per second, with its standard error. What a
// burst of events leaves behind rises and falls with the schedule, so the
// readings are cut into bins of at least one period of it and the least of
// each bin counts. ok is false when there are too few readings.
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
