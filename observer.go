package eventmeter

// Observation is one copy of one event as received.
type Observation struct {
	Sub Sub
	At  Instant
	// EventID is a hash of the target's event id, 0 when it gave none.
	EventID uint64
	// Timestamp is the event's timestamp as the target spelled it, empty if there
	// is none.
	Timestamp []byte
	// Message is the event's JSON object, or the JSON-RPC notification whose
	// params it is. It and Timestamp are only valid during the call.
	Message []byte
}

// Observer is the optional ability of a [Recorder] to read the content of events.
// A driver calls it for every copy, right after [Recorder.Delivered].
type Observer interface {
	Observed(Observation)
}

// ObserverOf returns r as an Observer, or nil if neither r nor a Recorder behind
// it is one, so that a driver need not prepare observations.
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

// Publisher is the optional ability of a [Recorder] to say when an emission was published.
type Publisher interface {
	// PublishedAt returns when an emission was published; false if it was not.
	PublishedAt(Stamp) (Instant, bool)
}

// PublisherOf returns the first Publisher among r and the Recorders behind it, nil if there
// is none.
func PublisherOf(r Recorder) Publisher {
	if t, ok := r.(tee); ok {
		for _, one := range t {
			if p := PublisherOf(one); p != nil {
				return p
			}
		}
		return nil
	}
	p, _ := r.(Publisher)
	return p
}
