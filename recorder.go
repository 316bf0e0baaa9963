package eventmeter

// Recorder records everything that happens in a run. Many goroutines call it at
// once. Implementations must not block, must not retain strings of the arguments
// longer than necessary, and must not allocate in Delivered.
type Recorder interface {
	// Fired is called before the first byte of an emission is sent, in the order
	// of the sequence numbers of each source.
	Fired(Emission)
	// Resolved reports the outcome of an emission.
	Resolved(Stamp, Outcome, Instant)
	// Dropped reports an emission that was not published.
	Dropped(Drop)
	// Delivered reports one copy of an event.
	Delivered(Delivery)
	// Noticed reports what a subscription received besides events.
	Noticed(Notice)
	// Changed reports a subscription's state.
	Changed(Transition)
	// Called reports traffic.
	Called(Call)
}

// Tee returns a Recorder that calls all of rs in order. Without rs it does
// nothing.
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
