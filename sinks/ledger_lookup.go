package sinks

import "github.com/eventmeter/eventmeter"

// Emission returns what is known of one emission: when it was intended and
// fired, whether it is measured, and its outcome so far. The number of its emission
// is not kept and is 0. It returns false for an emission that this run has not
// fired.
//
// It takes no lock, so a system whose clients learn of several emissions at
// once may ask on the path of each.
func (l *Ledger) Emission(s eventmeter.Stamp) (eventmeter.Emission, eventmeter.Outcome, bool) {
	if s.Run != l.opt.Run || int(s.Source) >= len(l.sources) {
		return eventmeter.Emission{}, eventmeter.Pending, false
	}
	e := l.sources[s.Source].at(s.Seq)
	if e == nil {
		return eventmeter.Emission{}, eventmeter.Pending, false
	}
	return eventmeter.Emission{Stamp: s, Intended: e.intended, Fired: e.fired, Measured: e.measured}, e.result(), true
}

// Run returns the run number that every probe id of this run carries.
func (l *Ledger) Run() uint32 { return l.opt.Run }

// Sources returns the number of sources.
func (l *Ledger) Sources() int { return len(l.sources) }
