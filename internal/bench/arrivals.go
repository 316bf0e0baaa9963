package bench

import (
	"strings"

	"github.com/mcpload/mcpload/internal/wire/pump"
	"github.com/mcpload/mcpload/results"
	"github.com/mcpload/mcpload/sinks"
)

// stamped tells whether any of the lanes takes times from the kernel.
func (r *run) stamped(lanes []*lane) bool {
	for _, l := range lanes {
		if r.stampedLane(l) {
			return true
		}
	}
	return false
}

func (r *run) stampedLane(l *lane) bool {
	// What the connections of a lane could do is known by the pump; that it
	// has one, by the dialect.
	return r.profile.Instrument.KernelTimestamps != "off" && pump.Stamps(pump.Options{}) &&
		l.System == "events" && l.Mode == "push" && l.HTTP != "2" &&
		r.target.plain != nil && strings.HasPrefix(r.target.plain.URL(), "http:")
}

// arrived adds up how well the times of deliveries are known.
func (r *run) arrived() {
	var waited sinks.Timing
	a := &r.result.Instrument.Arrivals
	for i := range r.accounts {
		for j := range r.accounts[i].Lanes {
			l := &r.accounts[i].Lanes[j]
			a.Counted += l.EventMessages
			a.Kernel += l.Arrivals.Kernel
			a.Shared += l.Arrivals.Shared
			waited = merged(waited, l.Arrivals.Waited)
		}
	}
	a.Waited = results.Summarise(waited)
}

// warnStamps names the lanes that cannot have what was asked for. A run that was
// put together of shards has no target, and those have warned.
func (r *run) warnStamps() {
	if r.profile.Instrument.KernelTimestamps != "on" || r.target.plain == nil {
		return
	}
	for _, l := range r.lanes {
		if !r.stampedLane(l) {
			r.warning("kernel-timestamps", l.Name, "the times of its deliveries are not the kernel's: that takes Linux, the system events, mode push and no TLS")
		}
	}
}
