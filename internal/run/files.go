package run

import (
	"fmt"

	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/sinks"
)

// spareFiles is the number of files that a run needs besides one per stream: for the
// binary, listeners, the upstream and poll connections.
const spareFiles = 256

// checkFiles refuses a run that would run out of files on the way, because every
// failure would then look like the target's.
func checkFiles(p *profiles.Profile, limit int64) error {
	if limit == 0 {
		return nil
	}
	need := filesNeeded(p)
	if need > limit {
		return fmt.Errorf(
			"%w: it needs about %d open files and this process may have %d; raise the limit (ulimit -n), use http: \"2\" or h2c, "+
				"split it with --processes, or have fewer subscriptions",
			ErrProfile,
			need,
			limit,
		)
	}
	return nil
}

// filesNeeded estimates the largest number of files that a run has open.
func filesNeeded(p *profiles.Profile) int64 {
	need, widest := int64(spareFiles), int64(0)
	for _, l := range p.Lanes {
		n := FilesOf(l)
		if p.Target.OverStdio() && l.Mode != "webhook" {
			n = 0 // all lanes share two pipes
		}
		widest = max(widest, n)
		need += n
	}
	if p.Phases.Order == "turns" {
		return spareFiles + widest
	}
	return need
}

// callbackConnections returns how many connections the target may have open to each
// webhook listener: as many as the memory budget allows, but few enough to leave
// files for the rest of the run. limit is the limit of open files, 0 = none.
func callbackConnections(p *profiles.Profile, limit, memory int64) int {
	lanes, reserved := int64(0), int64(0)
	for _, l := range p.Lanes {
		if l.Mode == "webhook" {
			lanes++
			reserved += FilesOf(l)
		}
	}
	if lanes == 0 {
		return 0
	}
	most := memory / sinks.ConnectionMemory
	if limit > 0 {
		rest := max(filesNeeded(p)-reserved, spareFiles)
		most = min(most, limit-rest)
	}
	return int(max(most/lanes, leastCallbacks))
}

// leastCallbacks is the least number of connections that a webhook listener accepts.
const leastCallbacks = 16

// h2Streams is how many streams servers usually allow on an HTTP/2 connection.
const h2Streams = 100

// FilesOf estimates the sockets of a lane at this end.
func FilesOf(l profiles.Lane) int64 {
	n := int64(l.Subscriptions)
	switch {
	case l.Mode == "webhook":
		// Callbacks arrive over the target's own pool of connections.
		return min(n, 2048)
	case l.HTTP != "1.1":
		per := int64(h2Streams)
		if set := int64(l.Push.StreamsPerConnection); set > 0 {
			per = min(per, set)
		}
		return 1 + n/per
	}
	if of, err := systems.Find(l.System); err == nil && of.Connections != nil {
		o := LaneSettings(&l)
		n *= int64(of.Connections(&o))
	}
	return n
}
