package sinks

import "github.com/mcpload/mcpload"

// Emission returns what is known of one emission: when it was intended and
// fired, whether it is measured, and its outcome so far. The number of its shot
// is not kept and is 0. It returns false for an emission that this run has not
// fired.
//
// It takes no lock, so a system whose clients learn of several emissions at
// once may ask on the path of each.
func (l *Ledger) Emission(s mcpload.Stamp) (mcpload.Emission, mcpload.Outcome, bool) {
	if s.Run != l.opt.Run || int(s.Source) >= len(l.sources) {
		return mcpload.Emission{}, mcpload.Pending, false
	}
	e := l.sources[s.Source].at(s.Seq)
	if e == nil {
		return mcpload.Emission{}, mcpload.Pending, false
	}
	return mcpload.Emission{Stamp: s, Intended: e.intended, Fired: e.fired, Measured: e.measured}, e.result(), true
}

// Run returns the run number that every probe id of this run carries.
func (l *Ledger) Run() uint32 { return l.opt.Run }

// Sources returns the number of sources.
func (l *Ledger) Sources() int { return len(l.sources) }
