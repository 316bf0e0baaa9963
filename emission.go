package eventmeter

// Emission is one event that an upstream publishes. It is recorded with
// [Recorder.Fired] before its first byte is sent and closed with
// [Recorder.Resolved].
type Emission struct {
	Stamp
	// Number is the place of the emission in the schedule, from 0. Dropped emissions
	// have a number but no Seq, so the two differ once an emission was dropped.
	Number uint64
	// Intended is the scheduled time of the emission; Fired is when the upstream
	// began to send it.
	Intended, Fired Instant
	// Measured is false for emissions of the warm-up. They are tracked, so that
	// their deliveries are not unexpected, but count in no figure.
	Measured bool
}

// Outcome is the outcome of publishing an emission.
type Outcome uint8

const (
	// Pending: the upstream has not answered yet.
	Pending Outcome = iota
	// Accepted: the target accepted it. Only accepted emissions are expected.
	Accepted
	// Uncertain: it failed, but the target may have accepted it (a timeout, a
	// connection that broke after the first byte, a 5xx). It is not expected; a
	// delivery counts as recovered.
	Uncertain
	// Refused: the target refused it or was not reached. It is not expected; a
	// delivery counts as recovered.
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
// never published late.
type Drop struct {
	Emission uint64
	Source   uint16
	Intended Instant
	Measured bool
}
