package eventmeter

// Observation is one copy of one event, as it came.
type Observation struct {
	Sub Sub
	At  Instant
	// EventID is a hash of the target's event id, 0 when it gave none.
	EventID uint64
	// Timestamp is the event's own, as the target spelled it; empty when it
	// gave none.
	Timestamp []byte
	// Message is the event's JSON object, or the JSON-RPC notification whose
	// params it is. It and Timestamp are only valid during the call.
	Message []byte
}

// Observer is the ability of a [Recorder] to look at events themselves. A
// driver tells it of every copy, right after [Recorder.Delivered].
type Observer interface {
	Observed(Observation)
}

// ObserverOf returns r as an Observer, or nil when nobody behind r is one, so
// that a driver has nothing to prepare for nobody.
func ObserverOf(r Recorder) Observer {
	if t, ok := r.(tee); ok {
		var found observers
		for _, one := range t {
			if o := ObserverOf(one); o != nil {
				found = append(found, o)
			}
		}
		switch len(found) {
		case 0:
			return nil
		case 1:
			return found[0]
		}
		return found
	}
	o, _ := r.(Observer)
	return o
}

type observers []Observer

func (s observers) Observed(o Observation) {
	for _, one := range s {
		one.Observed(o)
	}
}
