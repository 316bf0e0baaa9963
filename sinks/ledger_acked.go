package sinks

import "github.com/eventmeter/eventmeter"

// AckedAt returns when an accepted emission of this run was acknowledged to the
// upstream, and 0 for one that is not known, or not, or not yet. It takes no
// lock and does not allocate.
func (l *Ledger) AckedAt(s eventmeter.Stamp) eventmeter.Instant {
	if s.Run != l.opt.Run || int(s.Source) >= len(l.sources) {
		return 0
	}
	e := l.sources[s.Source].at(s.Seq)
	if e == nil || e.result() != eventmeter.Accepted {
		return 0
	}
	return eventmeter.Instant(e.acked.Load())
}
