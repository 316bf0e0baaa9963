package bench

import (
	"maps"
	"math"
	"slices"

	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks"
)

// Figures of systems and upstreams are counts, which are added, but for these.
var (
	// quotients are computed again from their parts.
	quotients = map[string]struct{ of, per string }{
		"avoidedShare":          {"fetchesAvoided", "pageReads"},
		"statusBytesPerRequest": {"statusBytes", "requestsBegun"},
	}
	// means are weighted by another figure.
	means = map[string]string{"bytesPerClientHour": "clientHours"}
	// largest and least are the same everywhere, or the extremes of something.
	largest = map[string]bool{"ttlMs": true, "observedMost": true}
	least   = map[string]bool{"observedLeast": true}
	// peaks are of one moment, which no two shards need have shared: the merged
	// one lies between the largest and the sum.
	peaks = map[string]bool{"detachedMax": true, "herdExpired": true, "herdChanged": true, "fetchRatePeak": true}
)

// mergeFigures adds up the figures of shards. It also returns the names of
// those that cannot be added, and are of the shard that had most.
func mergeFigures(parts []results.PartFigures) (results.PartFigures, []string) {
	out := results.PartFigures{Values: map[string]float64{}, Timings: map[string]sinks.Timing{}}
	weights := map[string]float64{}
	for _, p := range parts {
		for name, v := range p.Values {
			old, had := out.Values[name]
			switch {
			case quotients[name].of != "":
				out.Values[name] = 0
			case means[name] != "":
				w := p.Values[means[name]]
				out.Values[name] = old + v*w
				weights[name] += w
			case largest[name] || peaks[name]:
				if !had {
					old = math.Inf(-1)
				}
				out.Values[name] = max(old, v)
			case least[name]:
				if !had {
					old = math.Inf(1)
				}
				out.Values[name] = min(old, v)
			default:
				out.Values[name] = old + v
			}
		}
		for name, t := range p.Timings {
			out.Timings[name] = out.Timings[name].Plus(t)
		}
	}
	var atMost []string
	for _, name := range slices.Sorted(maps.Keys(out.Values)) {
		if w := weights[name]; w > 0 {
			out.Values[name] /= w
		}
		if q := quotients[name]; q.of != "" && out.Values[q.per] > 0 {
			out.Values[name] = out.Values[q.of] / out.Values[q.per]
		}
		if peaks[name] && len(parts) > 1 {
			atMost = append(atMost, name)
		}
	}
	return out, atMost
}
