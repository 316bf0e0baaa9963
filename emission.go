package eventmeter

// Emission is one emission of an upstream. It is announced with [Recorder.Fired]
// before its first byte leaves and closed with [Recorder.Resolved].
type Emission struct {
	Stamp
	// Number is the place of the emission in the schedule, from 0. Dropped emissions
	// have a number too, so Number and Seq drift apart when emissions are dropped.
	Number uint64
	// Intended is when the schedule wanted the emission; Fired is when the
	// upstream began to send it.
	Intended, Fired Instant
	// Measured is false for emissions of the warm-up: they are followed, so that
	// they cannot be mistaken for something else, but enter no figure.
	Measured bool
}

// Outcome is what became of the firing of an emission.
type Outcome uint8

const (
	// Pending: the upstream has not answered yet.
	Pending Outcome = iota
	// Accepted: the upstream took it. Only such an emission is owed to anybody.
	Accepted
	// Uncertain: it failed in a way that does not say whether it was taken
	// (a timeout, a broken connection after the first byte, a 5xx). It is owed
	// to nobody, and if it comes it counts as recovered.
	Uncertain
	// Refused: the upstream said no, or was never reached. Owed to nobody; a
	// delivery counts as recovered all the same.
	Refused
)

// String returns the outcome in lower case.
func (o Outcome) String() string {
	switch o {
	case Pending:
		return "pending"
	case Accepted:
		return "accepted"
	case Uncertain:
		return "uncertain"
	case Refused:
		return "refused"
	}
	return "unknown"
}

// Drop is an emission that was due while no worker was free. It is counted and
// never fired late.
type Drop struct {
	Emission uint64
	Source   uint16
	Intended Instant
	Measured bool
}
