package eventmeter

// Recorder is told everything that happens in a run, by many goroutines at
// once. Implementations must not block, must not keep the arguments' strings
// alive longer than they need, and must not allocate in Delivered.
type Recorder interface {
	// Fired is called before the first byte of an emission leaves, in the
	// order of sequence numbers of each source.
	Fired(Emission)
	// Resolved closes an emission that was fired.
	Resolved(Stamp, Outcome, Instant)
	// Dropped counts an emission that was never fired.
	Dropped(Drop)
	// Delivered reports one copy of an event.
	Delivered(Delivery)
	// Noticed reports what a subscription was told besides events.
	Noticed(Notice)
	// Changed reports a subscription's state.
	Changed(Transition)
	// Called reports traffic.
	Called(Call)
}

// Tee returns a Recorder that tells every one of rs, in order.
func Tee(rs ...Recorder) Recorder {
	if len(rs) == 1 {
		return rs[0]
	}
	return tee(append([]Recorder(nil), rs...))
}

type tee []Recorder

func (t tee) Fired(e Emission) {
	for _, r := range t {
		r.Fired(e)
	}
}

func (t tee) Resolved(s Stamp, o Outcome, at Instant) {
	for _, r := range t {
		r.Resolved(s, o, at)
	}
}

func (t tee) Dropped(d Drop) {
	for _, r := range t {
		r.Dropped(d)
	}
}

func (t tee) Delivered(d Delivery) {
	for _, r := range t {
		r.Delivered(d)
	}
}

func (t tee) Noticed(n Notice) {
	for _, r := range t {
		r.Noticed(n)
	}
}

func (t tee) Changed(c Transition) {
	for _, r := range t {
		r.Changed(c)
	}
}

func (t tee) Called(c Call) {
	for _, r := range t {
		r.Called(c)
	}
}
